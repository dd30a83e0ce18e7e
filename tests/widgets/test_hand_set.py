"""The hand-set heads look where the chapter and the head explorer say that they look."""

import pytest
import torch
from torch import Tensor

from mha_lib import MultiHeadTrace
from mha_lib.widgets import hand_set

LOVE = "Tôi yêu Việt Nam"
CAT = "The cat sat on the mat"
SYNTAX, MEANING, POSITION = range(3)
THE, CAT_, SAT, ON, THE_2, MAT = range(6)
TOI, YEU, VIET, NAM = range(4)


def trace(sentence: str, gains: tuple[float, ...] = hand_set.OPENING_GAINS) -> MultiHeadTrace:
    x = hand_set.features(sentence).unsqueeze(0)  # (1, N, d_model)
    with torch.no_grad():
        return hand_set.hand_set_heads(gains)(x, trace=True)


def row(sentence: str, head: int, word: int) -> list[float]:
    return trace(sentence).weights[0, head, word].tolist()


def standing_out(row: list[float]) -> set[int]:
    """The words that a reader sees get more than an even share."""
    return {place for place, weight in enumerate(row) if weight > 1 / len(row) + 0.02}


def meaning_of_output(sentence: str, word: int) -> dict[str, float]:
    values = trace(sentence).output[0, word, hand_set.MEANING_BLOCK].tolist()
    return dict(zip(hand_set.MEANINGS, values, strict=True))


@pytest.mark.parametrize(
    ("sentence", "head", "word", "looked_at"),
    [
        (LOVE, SYNTAX, TOI, {YEU}),  # a subject looks for its verb
        (LOVE, SYNTAX, YEU, {TOI, VIET, NAM}),  # a verb for its subject and its object
        (LOVE, SYNTAX, VIET, {YEU}),
        (LOVE, SYNTAX, NAM, {YEU}),
        (LOVE, MEANING, TOI, {YEU}),
        (LOVE, MEANING, YEU, {VIET, NAM}),  # a feeling looks for what it is about
        (LOVE, MEANING, VIET, {VIET, NAM}),  # the two words of the country belong together
        (LOVE, MEANING, NAM, {VIET, NAM}),
        (CAT, SYNTAX, THE, {CAT_, MAT}),
        (CAT, SYNTAX, CAT_, {SAT}),
        (CAT, SYNTAX, SAT, {CAT_, ON}),
        (CAT, SYNTAX, ON, {SAT, MAT}),
        (CAT, SYNTAX, THE_2, {CAT_, MAT}),
        (CAT, SYNTAX, MAT, {ON}),
        (CAT, MEANING, CAT_, {SAT, MAT}),  # an animal looks for where it rests
        (CAT, MEANING, SAT, {CAT_, MAT}),
        (CAT, MEANING, MAT, {CAT_}),
    ],
)
def test_each_word_looks_at_the_words_that_it_is_said_to_look_at(sentence, head, word, looked_at):
    assert standing_out(row(sentence, head, word)) == looked_at


def test_the_meaning_head_links_words_that_are_far_apart():
    assert row(LOVE, MEANING, YEU)[NAM] > 0.4
    assert row(CAT, MEANING, CAT_)[MAT] > 0.4
    assert MAT - CAT_ == 4


def test_the_meaning_head_sees_weaker_links_too():
    yeu, viet, mat = (
        row(LOVE, MEANING, YEU),
        row(LOVE, MEANING, VIET),
        row(CAT, MEANING, MAT),
    )
    assert yeu[VIET] > yeu[TOI] > yeu[YEU]
    assert viet[NAM] > viet[YEU] > viet[TOI]
    assert mat[CAT_] > mat[SAT] > mat[ON]


@pytest.mark.parametrize("word", [THE, ON, THE_2])
def test_a_word_without_a_meaning_spreads_its_attention_evenly(word):
    assert row(CAT, MEANING, word) == pytest.approx([1 / 6] * 6)


@pytest.mark.parametrize("sentence", [LOVE, CAT])
def test_the_position_head_looks_before_and_less_after(sentence):
    N = len(hand_set.SENTENCES[sentence].words)
    for word in range(N):
        weights = row(sentence, POSITION, word)
        before, after = {word - 1} & set(range(N)), {word + 1} & set(range(N))
        assert standing_out(weights) == before | after
        if before and after:
            assert weights[word - 1] > weights[word + 1]


@pytest.mark.parametrize("sentence", [LOVE, CAT])
def test_a_gain_of_zero_makes_every_weight_of_that_head_equal_and_of_no_other(sentence):
    opening = trace(sentence).weights
    N = opening.shape[-1]
    for head in range(hand_set.NUM_HEADS):
        gains = list(hand_set.OPENING_GAINS)
        gains[head] = 0.0
        weights = trace(sentence, gains).weights
        torch.testing.assert_close(weights[0, head], torch.full((N, N), 1 / N).double())
        others = [other for other in range(hand_set.NUM_HEADS) if other != head]
        assert torch.equal(weights[0, others], opening[0, others])


@pytest.mark.parametrize("sentence", [LOVE, CAT])
def test_the_output_is_the_meanings_found_summed_over_the_heads(sentence):
    steps = trace(sentence)
    meanings = hand_set.features(sentence)[:, hand_set.MEANING_BLOCK]  # (N, d_k)
    expected: Tensor = (steps.weights[0] @ meanings).sum(dim=0)  # (N, d_k)
    output = steps.output[0].clone()
    torch.testing.assert_close(output[:, hand_set.MEANING_BLOCK], expected)
    output[:, hand_set.MEANING_BLOCK] = 0
    assert (output == 0).all()


def test_the_strongest_meaning_in_the_output_of_love_is_the_country():
    found = meaning_of_output(LOVE, YEU)
    assert max(found, key=found.get) == "country"


def test_an_unknown_sentence_and_a_missing_gain_are_refused():
    with pytest.raises(ValueError, match=r"sentence='Hello' has no features .*'Tôi yêu Việt Nam'"):
        hand_set.features("Hello")
    with pytest.raises(ValueError, match=r"gains=\[1, 2\] has 2 numbers; give 3"):
        hand_set.projections([1, 2])
