"""The mask painter's Python side: what it shows is what mha_lib does under that mask."""

import math
import re
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from mha_lib import causal_mask, from_ignore_mask, key_mask_from_lengths, window_mask
from mha_lib.widgets import MaskPainter, hand_set
from mha_lib.widgets.mask_painter import GAIN, HEAD, SENTENCE
from tests.widgets.refusals import assert_refused

N = 6
CAUSAL = causal_mask(N)

masks = st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=N, max_size=N)


def scores(length: int = N) -> Tensor:
    """The formula written out: the meaning head's scores, (N, N)."""
    x = hand_set.features(SENTENCE)
    x[length:] = 0
    own = slice(HEAD * hand_set.HEAD_DIM, (HEAD + 1) * hand_set.HEAD_DIM)
    wanted = hand_set.projections([GAIN] * 3)["W_Q"][:, own]
    return (x @ wanted) @ x[:, own].T / math.sqrt(hand_set.HEAD_DIM)


def weights(demo: MaskPainter) -> Tensor:
    return torch.tensor(demo.result["weights"], dtype=torch.float64)


@settings(deadline=None, max_examples=60)
@given(mask=masks, length=st.integers(1, N), ignore=st.booleans())
def test_before_softmax_hidden_words_take_no_part(
    mask: list[list[bool]], length: int, ignore: bool
) -> None:
    demo = MaskPainter(mask=mask, length=length, reading="ignore" if ignore else "keep")
    result = demo.result
    keep = torch.tensor(mask) ^ ignore
    assert torch.equal(torch.tensor(result["keep"]), keep)
    torch.testing.assert_close(torch.tensor(result["scores"]).double(), scores(length))
    powers = scores(length).exp() * keep
    total = powers.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(weights(demo), powers / total.where(total > 0, 1.0))
    blind = [i for i, row in enumerate(keep.tolist()) if not any(row)]
    assert result["blind"] == blind
    assert result["sums"] == pytest.approx([float(i not in blind) for i in range(N)])
    assert result["leaks"] == []


@settings(deadline=None, max_examples=60)
@given(mask=masks, length=st.integers(1, N))
def test_after_softmax_each_row_that_hides_and_keeps_leaks(
    mask: list[list[bool]], length: int
) -> None:
    demo = MaskPainter(mask=mask, length=length, when="after")
    keep = torch.tensor(mask)
    torch.testing.assert_close(weights(demo), scores(length).softmax(dim=-1) * keep)
    mixed = [i for i, row in enumerate(mask) if any(row) and not all(row)]
    assert demo.result["leaks"] == mixed
    short = [i for i, total in enumerate(demo.result["sums"]) if total < 1 - 1e-6]
    assert short == [i for i, row in enumerate(mask) if not all(row)]


def test_the_two_readings_are_each_others_converter() -> None:
    ignore = ~CAUSAL
    theirs = MaskPainter(mask=ignore.tolist(), reading="ignore")
    ours = MaskPainter(mask=from_ignore_mask(ignore).tolist())
    assert theirs.result == ours.result == MaskPainter().result


def test_a_causal_mask_read_the_wrong_way_round_is_shown_and_not_refused() -> None:
    result = MaskPainter(reading="ignore").result
    assert torch.equal(torch.tensor(result["keep"]), ~CAUSAL)
    assert result["blind"] == [5]


@pytest.mark.parametrize(
    "keep", [window_mask(N, window=1), key_mask_from_lengths([3], N).expand(N, N)]
)
def test_other_masks_of_mha_lib_can_be_given(keep: Tensor) -> None:
    demo = MaskPainter(length=3, mask=keep.tolist())
    assert weights(demo)[~keep].abs().max() == 0
    assert demo.result["sums"] == pytest.approx([1.0] * N)


BAD = [
    ("length", 0, "length=0 is outside 1 to 6; say how many of 'The cat sat on the mat''s 6"),
    ("length", 7, "length=7 is outside 1 to 6"),
    ("mask", [[True] * 6] * 5, "mask has 5 rows of [6] entries, but the sentence needs 6 rows"),
    ("mask", [[True] * 5] * 6, "of 6; start from mha_lib.causal_mask(6).tolist()"),
    ("mask", [[True] * 6] * 5 + [[True]], "mask has 6 rows of [1, 6] entries"),
    ("mask", [["yes"] * 6] * 6, "expected a boolean, not the str 'yes'"),
    ("when", "during", "before"),
    ("reading", "drop", "ignore"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(MaskPainter, name, value, message)


def test_the_fallback_shows_weights_and_sums_without_words_of_ours() -> None:
    html = MaskPainter(when="after", length=3).fallback()
    texts = [text for text in re.findall(r">([^<]+)<", html) if text]
    words = ["The", "cat", "sat", "[pad]", "[pad]", "[pad]"]
    assert texts[:7] == [*words, "Σ"]
    assert texts[7:15] == ["The", "0.17", "0.00", "0.00", "0.00", "0.00", "0.00", "0.17"]
    assert len(texts) == 7 + 6 * 8
