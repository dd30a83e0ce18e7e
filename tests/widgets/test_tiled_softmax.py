"""The Python side of the tiled softmax stepper."""

import math
import re

import pytest
import torch
from traitlets import TraitError

from mha_lib.ring import merge
from mha_lib.widgets import TiledSoftmax, assets
from mha_lib.widgets.tiled_softmax import ORDERS, SCORES, TILES, VALUES

STATES = [(order, tile) for order in ORDERS for tile in TILES]


@pytest.mark.parametrize(("order", "tile"), STATES)
def test_the_result_is_what_the_running_softmax_keeps(order: str, tile: int) -> None:
    result = TiledSoftmax(order=order, tile=tile).result
    maximum, total, weighted, powers = -math.inf, 0.0, 0.0, []
    for place, start in enumerate(range(0, len(SCORES), tile)):
        keys = result["keys"][start : start + tile]
        larger = max(maximum, *(SCORES[key] for key in keys))
        factor = math.exp(maximum - larger)
        new = [math.exp(SCORES[key] - larger) for key in keys]
        total = factor * total + sum(new)
        weighted = factor * weighted + sum(
            power * VALUES[key] for power, key in zip(new, keys, strict=True)
        )
        maximum, powers = larger, powers + new
        kept = {
            "factors": factor,
            "maxima": maximum,
            "sums": total,
            "weighted": weighted,
            "outputs": weighted / total,
        }
        for name, number in kept.items():
            assert result[name][place] == pytest.approx(number, abs=1e-12), name
    assert result["powers"] == pytest.approx(powers, abs=1e-12)
    assert result["plain"]["output"] == pytest.approx(weighted / total, abs=1e-12)
    assert sorted(result["keys"]) == list(range(len(SCORES)))


@pytest.mark.parametrize(("order", "tile"), STATES)
def test_no_order_and_no_tile_size_changes_the_output(order: str, tile: int) -> None:
    weights = torch.tensor(SCORES, dtype=torch.float64).softmax(0)
    expected = (weights @ torch.tensor(VALUES, dtype=torch.float64)).item()
    outputs = TiledSoftmax(order=order, tile=tile).result["outputs"]
    assert outputs[-1] == pytest.approx(expected, abs=1e-12)


def test_two_tiles_join_as_the_ring_joins_them() -> None:
    """The library's log-sum-exp merge says the same as the running sums."""
    demo = TiledSoftmax(tile=6).result
    scores = torch.tensor(demo["scores"], dtype=torch.float64).view(2, 6)
    values = torch.tensor(demo["values"], dtype=torch.float64).view(2, 6)
    out = (scores.softmax(-1) * values).sum(-1)[:, None, None]  # (2, 1, 1)
    lse = scores.logsumexp(-1)[:, None]  # (2, 1)
    joined, total = merge(out[0], lse[0], out[1], lse[1])
    assert joined.item() == pytest.approx(demo["outputs"][1], abs=1e-12)
    assert total.exp().item() == pytest.approx(
        demo["sums"][1] * math.exp(demo["maxima"][1]), abs=1e-9
    )


def test_what_the_chapter_and_the_texts_say_of_the_opening() -> None:
    demo = TiledSoftmax()
    assert (demo.tile, demo.step) == (4, 2)
    # The second tile corrects, the third does not.
    factors = demo.result["factors"]
    assert 0 < factors[1] < 1
    assert factors[2] == 1
    rising = TiledSoftmax(order="rising").result["factors"]
    assert max(rising) < 1  # rescaled at each tile but the first, which has nothing to rescale
    falling = TiledSoftmax(order="falling").result["factors"]
    assert falling[1:] == [1.0, 1.0]
    # All the powers that a reader needs are those in the note.
    note = assets.strings("en")["tiled_softmax"]["note"]
    for power in range(4):
        shown = f"{math.exp(-power):.3f}".lstrip("0") if power else "1"
        assert f"`\u00a0=\u00a0{shown}" in note
    assert {round(-math.log(each)) for each in demo.result["powers"]} <= {0, 1, 2, 3}
    assert set(SCORES) <= {0, 1, 2, 3}


BAD = [
    ("tile", 7, "7"),
    ("order", "random", "'given', 'rising', 'falling'|'given', 'rising' or 'falling'|falling"),
    ("step", 0, "step=0 is outside 1 to 12; tiles are counted from 1"),
    ("step", 13, "step=13 is outside 1 to 12"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: object, message: str) -> None:
    demo = TiledSoftmax()
    before = getattr(demo, name)
    with pytest.raises(TraitError, match=message):
        setattr(demo, name, value)
    assert getattr(demo, name) == before


def test_the_fallback_holds_numbers_and_symbols_only() -> None:
    pieces = [piece for piece in re.split(r"<[^>]*>", TiledSoftmax().fallback()) if piece]
    assert pieces[:4] == ["m", "ℓ", "a", "a / ℓ"]
    assert pieces[-5:] == ["3", "3.000", "3.794", "17.803", "4.692"]


def test_quiz_numbers_are_those_of_the_formula() -> None:
    asked = assets.quiz_text("long-sequences", "en")["questions"]
    answers = {each["id"]: each["answer"] for each in asked if each["kind"] == "number"}
    assert answers["three-times-the-text"] == 3**2
    assert answers["running-sum"] == 1.25 * math.exp(4 - 4) + 2 * math.exp(4 - 4)
    assert answers["cache-size"] == 1024 * 8 / 32
