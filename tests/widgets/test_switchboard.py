"""The switchboard's Python side: which sentence asks, which answers, and what is shut."""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from mha_lib import attention, causal_mask
from mha_lib.widgets import Switchboard
from mha_lib.widgets.switchboard import GAIN, KINDS, SOURCE, TARGET
from tests.widgets.refusals import assert_refused

S, N = len(SOURCE), len(TARGET)
SIZES = {"encoder": (S, S), "decoder": (N, N), "cross": (N, S)}


def weights(demo: Switchboard) -> Tensor:
    return torch.tensor(demo.result["weights"])


def looks_at(demo: Switchboard) -> dict[str, str]:
    """The word that each asking word gives most, where there is one."""
    names = {"source": [token.text for token in SOURCE], "target": [token.text for token in TARGET]}
    asks, answers = (names[demo.result[side]] for side in ("asks", "answers"))
    most = {}
    for word, row in zip(asks, weights(demo), strict=False):
        if row.max() > 0.5:
            most[word] = answers[int(row.argmax())]
    return most


@pytest.mark.parametrize("kind", KINDS)
def test_the_tables_have_a_row_for_each_that_asks_and_a_column_for_each_that_answers(
    kind: str,
) -> None:
    demo = Switchboard(kind=kind)
    assert weights(demo).shape == SIZES[kind]
    torch.testing.assert_close(weights(demo).sum(dim=-1), torch.ones(SIZES[kind][0]))
    keep = torch.tensor(demo.result["keep"])
    expected = causal_mask(N) if kind == "decoder" else torch.ones(SIZES[kind], dtype=torch.bool)
    assert torch.equal(keep, expected)
    assert not weights(demo)[~keep].any()


def test_each_word_finds_what_it_should() -> None:
    assert looks_at(Switchboard(kind="encoder")) == {
        "The": "cat",
        "black": "cat",
        "cat": "black",
        "sat": "cat",
    }
    # "Con" looks for its noun, which comes later and is shut.
    assert looks_at(Switchboard(kind="decoder")) == {
        "[start]": "[start]",
        "mèo": "Con",
        "đen": "mèo",
        "ngồi": "mèo",
    }
    # The languages order their words differently. Nothing in the source says that it is over.
    assert looks_at(Switchboard()) == {
        "[start]": "cat",
        "Con": "cat",
        "mèo": "black",
        "đen": "sat",
    }


def test_the_demos_scores_are_the_dot_products_of_what_is_wanted_and_what_is_there() -> None:
    scores = Switchboard().result["scores"]
    for token, row in zip(TARGET, scores, strict=True):
        fits = [GAIN * (token.needs == other.role) / math.sqrt(4) for other in SOURCE]
        assert row == pytest.approx(fits)


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_writing_on_changes_no_row_that_was_there(kind: str) -> None:
    all_rows = weights(Switchboard(kind=kind))
    for written in range(1, N):
        some = weights(Switchboard(kind=kind, written=written, query=0))
        torch.testing.assert_close(some, all_rows[:written, : some.shape[1]])


def test_writing_on_does_not_touch_the_encoder() -> None:
    assert Switchboard(kind="encoder", written=1).result == Switchboard(kind="encoder").result


def test_what_the_page_is_given_makes_the_same_weights() -> None:
    recipe = Switchboard().recipe
    x, memory = (
        torch.tensor(recipe["sentences"][name]["features"]) for name in ("target", "source")
    )
    w_q, w_k, w_v = (
        torch.tensor(recipe["projections"]["cross"][name]) for name in ("W_Q", "W_K", "W_V")
    )
    q, k, v = ((each[None, None]) for each in (x @ w_q, memory @ w_k, memory @ w_v))
    shown = attention(q, k, v, trace=True).weights[0, 0]
    torch.testing.assert_close(shown, weights(Switchboard()))


def test_the_query_stays_where_there_are_words() -> None:
    demo = Switchboard(query=4)
    demo.kind = "encoder"
    assert demo.query == 3
    demo.kind = "decoder"
    demo.written = 2
    assert demo.query == 1


BAD = [
    ("kind", "self", "encoder"),
    ("written", 0, "written=0 is outside 1 to 5; say how many of '[start] Con mèo đen ngồi''s"),
    ("written", 6, "written=6 is outside 1 to 5"),
    ("query", 5, "query=5 is outside 0 to 4; with kind='cross' and written=5 choose one of: 0 ["),
    ("query", -1, "query=-1 is outside 0 to 4"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(Switchboard, name, value, message)


def test_the_fallback_shows_the_weights_without_words_of_ours() -> None:
    texts = re.findall(r">([^<]+)<", Switchboard(kind="decoder", written=2, query=0).fallback())
    assert texts == ["[start]", "Con", "[start]", "1.00", "✕", "Con", "0.50", "0.50"]
