"""How far a head follows a relation, on weights that are made by hand."""

import pytest
import torch

from mha_lib.pretrained import LayerTrace, Reading
from mha_lib.pretrained.relations import (
    KINDS,
    labelled,
    mean_weight,
    measure,
    most_weight,
    parse,
)

SENTENCE = parse("a b c | pair: a>c, c>a")


def reading(rows: list[list[float]], special: str = "x...x") -> Reading:
    weights = torch.tensor([[rows]])  # (1, 1, N, N)
    x = torch.zeros(1, len(rows), 2)
    tokens = tuple("x" if mark == "x" else "abc"[i - 1] for i, mark in enumerate(special))
    marks = tuple(mark == "x" for mark in special)
    words = tuple(None if mark else i - 1 for i, mark in enumerate(marks))
    return Reading("toy", "a b c", tokens, tokens, marks, words, (LayerTrace(x, weights, x),))


# a looks at c, but more at [CLS] and at itself; c looks at b.
BY_HAND = reading(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.4, 0.3, 0.1, 0.2, 0.0],
        [0.0, 0.6, 0.4, 0.0, 0.0],
        [0.0, 0.0, 0.7, 0.1, 0.2],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)


def test_a_place_gets_its_mean_weight() -> None:
    scores = {
        name: mean_weight(name, [BY_HAND]) for name in ("previous", "next", "itself", "first")
    }
    found = {name: round(score.heads[0][0], 4) for name, score in scores.items()}
    assert found == {"previous": 0.65, "next": 0.05, "itself": 0.2667, "first": 0.1333}
    # Special tokens ask for nothing, and are nobody's neighbour.
    assert {name: score.places for name, score in scores.items()} == {
        "previous": 2,
        "next": 2,
        "itself": 3,
        "first": 3,
    }
    assert all(score.chance == pytest.approx(1 / 5) for score in scores.values())


def test_tokens_of_one_word_are_each_other_s_place() -> None:
    cut = Reading(
        "toy",
        "",
        *[("x", "a", "b", "c", "x")] * 2,
        BY_HAND.special,
        (None, 0, 0, 1, None),
        BY_HAND.layers,
    )
    score = mean_weight("same_word", [cut])
    assert score is not None
    assert (score.places, round(score.heads[0][0], 4)) == (2, 0.35)
    assert mean_weight("same_word", [BY_HAND]) is None


def test_a_single_special_token_is_the_first_and_not_the_last() -> None:
    rows = [[1.0, 0.0], [0.25, 0.75]]
    one = reading(rows, "x.")
    assert mean_weight("first", [one]).heads == [[0.25]]
    assert mean_weight("last", [one]) is None


def test_a_link_counts_where_it_gets_most_of_the_words() -> None:
    score = most_weight("pair", [SENTENCE], [BY_HAND])
    assert score.heads == [[0.5]]
    assert (score.places, score.chance) == (2, 0.5)
    assert score.offset == (2, 0.5)


def test_measure_puts_the_untrained_model_beside() -> None:
    even = reading([[0.2] * 5] * 5)
    found = measure([SENTENCE], lambda _: BY_HAND, lambda _: even)
    assert found["previous"]["untrained"] == pytest.approx(0.2)
    assert found["pair"]["best"] == (0, 0)
    assert "object" not in found


def test_words_that_do_not_fit_are_told() -> None:
    with pytest.raises(ValueError, match="stands there 2 times"):
        parse("a cat a dog | pair: a>dog")
    with pytest.raises(ValueError, match="'wish' is not one of"):
        parse("a cat | wish: a>cat")
    with pytest.raises(ValueError, match="has 4 words, and toy reads 3"):
        most_weight("pair", [parse("a b c d | pair: a>d")], [BY_HAND])


@pytest.mark.parametrize("language", ["en", "vi", "ms"])
def test_the_labelled_sentences_can_be_read(language: str) -> None:
    sentences = labelled(language)
    assert len(sentences) > 10
    assert {link.kind for each in sentences for link in each.links} <= set(KINDS)
