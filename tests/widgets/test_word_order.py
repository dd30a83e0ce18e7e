"""The Python side of "permute the words"."""

import ast
import itertools
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from traitlets import TraitError

from mha_lib.positions import sinusoidal
from mha_lib.widgets import WordOrder, qkv_by_hand, word_order

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "en" / "embeddings.md"
ORDERS = [list(order) for order in itertools.permutations(range(4))]
START = list(range(4))
BLACK, DOG, CHASED, CAT = START


def tensor(numbers: Any) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def given_by_black(demo: WordOrder) -> dict[int, float]:
    """How much black gives to each word."""
    row = demo.result["weights"][demo.order.index(BLACK)]
    return dict(zip(demo.order, row, strict=True))


def test_it_opens_moved_and_without_positions_where_nothing_has_changed() -> None:
    demo = WordOrder()
    assert [word_order.WORDS[word] for word in demo.order] == ["dog", "chased", "black", "cat"]
    assert not demo.positions
    assert demo.result["same"] == [True] * 4


@pytest.mark.parametrize("positions", [False, True])
def test_the_result_is_the_formula(positions: bool) -> None:
    order = [CAT, BLACK, DOG, CHASED]
    result = WordOrder(order=order, positions=positions).result
    rows = tensor(word_order.X)[order]
    if positions:
        rows = rows + sinusoidal(torch.arange(4), 4, dtype=rows.dtype)
    weights = (rows @ tensor(word_order.W_Q) @ rows.T / math.sqrt(4)).softmax(-1)
    expected = {"rows": rows, "weights": weights, "mix": weights @ rows}
    assert (result["order"], result["positions"]) == (order, positions)
    for name, numbers in expected.items():
        torch.testing.assert_close(tensor(result[name]), numbers)


def test_without_positions_every_order_only_moves_the_rows() -> None:
    demo = WordOrder(order=START)
    start = tensor(demo.result["mix"])
    for order in ORDERS:
        demo.order = order
        torch.testing.assert_close(tensor(demo.result["mix"]), start[order])
        assert demo.result["same"] == [True] * 4
        given = given_by_black(demo)
        assert given[DOG] == pytest.approx(given[CAT], abs=1e-12)


def test_with_positions_every_other_order_changes_every_row_where_readers_can_see_it() -> None:
    demo = WordOrder(order=START, positions=True)
    assert demo.result["same"] == [True] * 4
    start = tensor(demo.result["mix"]).round(decimals=2)
    for order in ORDERS[1:]:
        demo.order = order
        assert demo.result["same"] == [False] * 4
        shown = tensor(demo.result["mix"]).round(decimals=2)
        assert (shown != start[order]).any(dim=-1).all(), order


def test_with_positions_black_looks_at_the_nearer_animal() -> None:
    demo = WordOrder(positions=True)
    for order in ORDERS:
        demo.order = order
        given = given_by_black(demo)
        away = {word: abs(order.index(word) - order.index(BLACK)) for word in (DOG, CAT)}
        difference = given[CAT] - given[DOG]
        if away[DOG] == away[CAT]:
            assert 1e-6 < abs(difference) < 0.05, order
        else:
            assert difference * (away[DOG] - away[CAT]) > 0.05, order


def test_the_chapter_and_the_next_hold_the_same_four_rows() -> None:
    text = CHAPTER.read_text("utf-8")
    found = re.search(r"^rows = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    assert found
    rows = ast.literal_eval(found[1])
    assert rows == dict(zip(qkv_by_hand.WORDS, map(list, qkv_by_hand.X), strict=True))


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 2, 2], [1, 2, 3, 4], []])
def test_an_order_that_is_none_is_refused_with_the_way_out(order: list[int]) -> None:
    demo = WordOrder()
    with pytest.raises(TraitError) as refused:
        demo.order = order
    assert f"order={order} does not hold every word once" in str(refused.value)
    assert "0 black, 1 dog, 2 chased, 3 cat" in str(refused.value)
    assert demo.order == word_order.OPENING


def test_the_fallback_shows_the_opening_weights_without_words_of_ours() -> None:
    pieces = [piece for piece in re.split(r"<[^>]*>", WordOrder().fallback()) if piece]
    assert pieces[:4] == ["dog", "chased", "black", "cat"]
    assert pieces[-5:] == ["cat", "0.00", "0.88", "0.12", "0.00"]
