"""The head explorer's Python side and the hand-set heads behind it."""

import math
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from mha_lib.widgets import HeadExplorer, hand_set
from mha_lib.widgets.hand_set import Sentence, Word
from tests.widgets.refusals import assert_refused

CAT = "The cat sat on the mat"
LOVE = "Tôi yêu Việt Nam"
SYNTAX, MEANING, POSITION = range(3)


def row(sentence: str, head: int, word: int) -> dict[str, float]:
    """One row of weights, by word; of two equal words the later one is kept."""
    result = HeadExplorer(sentence=sentence).result
    return dict(zip(sentence.split(), result["weights"][head][word], strict=True))


def test_head_width_times_heads_is_the_words_width() -> None:
    assert hand_set.EMBED_DIM == hand_set.NUM_HEADS * hand_set.HEAD_DIM == 18
    assert all(len(names) == hand_set.HEAD_DIM for names in (hand_set.ROLES, hand_set.MEANINGS))
    longest = max(len(sentence.words) for sentence in hand_set.SENTENCES.values())
    assert longest <= hand_set.HEAD_DIM, "a place of its own for every word"


def test_sentences_are_their_words() -> None:
    for text, sentence in hand_set.SENTENCES.items():
        assert [word.text for word in sentence.words] == text.split()


def test_meaning_looks_from_yeu_to_viet_nam_most() -> None:
    weights = row(LOVE, MEANING, 1)
    assert weights["Việt"] + weights["Nam"] > 0.9
    assert weights["Việt"] == pytest.approx(weights["Nam"])


def test_syntax_looks_from_the_verb_to_subject_and_object() -> None:
    weights = row(LOVE, SYNTAX, 1)
    assert weights["yêu"] < 0.02
    assert weights["Tôi"] == pytest.approx(weights["Việt"]) == pytest.approx(weights["Nam"])
    assert row(LOVE, SYNTAX, 0)["yêu"] > 0.85


@pytest.mark.parametrize("sentence", hand_set.SENTENCES)
def test_position_looks_at_the_word_before_most(sentence: str) -> None:
    weights = torch.tensor(HeadExplorer(sentence=sentence).result["weights"][POSITION])
    words = range(len(weights))
    assert weights.argmax(dim=1).tolist() == [1, *words[:-1]]
    # The word after comes second, except for the last word, which has none.
    assert weights.argsort(dim=1)[1:-1, -2].tolist() == list(words[2:])


def test_meaning_links_cat_and_mat_across_four_words() -> None:
    assert row(CAT, MEANING, 1)["mat"] > 0.45
    assert max(row(CAT, MEANING, 5).items(), key=lambda item: item[1])[0] == "cat"


@pytest.mark.parametrize("word", [0, 3, 4])
def test_a_word_without_a_meaning_spreads_evenly(word: int) -> None:
    assert HeadExplorer(sentence=CAT).result["weights"][MEANING][word] == pytest.approx([1 / 6] * 6)


def test_a_gain_of_0_is_uniform() -> None:
    result = HeadExplorer(gains=[0, 0, 0]).result
    assert torch.tensor(result["weights"]).sub(1 / 4).abs().max() < 1e-7


features = st.lists(
    st.lists(st.floats(0, 1), min_size=18, max_size=18),
    min_size=4,
    max_size=4,
)
gains = st.lists(st.floats(0, 16), min_size=3, max_size=3)


@settings(deadline=None, max_examples=30)
@given(features=features, gains=gains)
def test_rows_sum_to_1_and_contributions_to_the_output(
    features: list[list[float]], gains: list[float]
) -> None:
    result = HeadExplorer(features=features, gains=gains).result
    weights = torch.tensor(result["weights"], dtype=torch.float64)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    contributions = torch.tensor(result["contributions"], dtype=torch.float64)
    output = torch.tensor(result["output"], dtype=torch.float64)
    torch.testing.assert_close(contributions.sum(0), output)
    # Each head's contribution is its weights times the words' meanings, and nothing else.
    meanings = torch.tensor(features, dtype=torch.float64)[:, hand_set.MEANING_BLOCK]
    torch.testing.assert_close(contributions[..., hand_set.MEANING_BLOCK], weights @ meanings)
    contributions[..., hand_set.MEANING_BLOCK] = 0
    assert contributions.count_nonzero() == 0


def test_the_weights_are_the_formulas() -> None:
    """softmax((X W_Q)(X W_K)^T / sqrt(d_k)), written out for every head."""
    gains = [3.0, 8.0, 0.5]
    x, matrices = hand_set.features(CAT), hand_set.projections(gains)
    weights = HeadExplorer(sentence=CAT, gains=gains).result["weights"]
    for head in range(3):
        own = slice(6 * head, 6 * head + 6)
        scores = (x @ matrices["W_Q"][:, own]) @ (x @ matrices["W_K"][:, own]).T / math.sqrt(6)
        torch.testing.assert_close(torch.tensor(weights[head]).double(), scores.softmax(-1))


def test_a_new_sentence_brings_its_own_features() -> None:
    demo = HeadExplorer(query=3)
    demo.sentence = CAT
    assert demo.features == hand_set.features(CAT).tolist()
    assert demo.query == 1
    assert len(demo.result["output"]) == 6


def test_a_sentence_and_a_query_can_be_given_together() -> None:
    assert HeadExplorer(sentence=CAT, query=5).query == 5


BAD = [
    (
        "sentence",
        "Hello",
        "'Hello' has no features set by hand; use 'Tôi yêu Việt Nam' or 'The cat",
    ),
    ("head", 3, "head=3 is outside 0 to 2; choose one of: 0 syntax, 1 meaning, 2 position"),
    ("query", 4, "query=4 is outside 0 to 3; choose one of: 0 Tôi, 1 yêu, 2 Việt, 3 Nam"),
    ("query", -1, "query=-1 is outside 0 to 3"),
    ("gains", [1, 2], "gains=[1.0, 2.0] has 2 numbers; give 3"),
    ("gains", [1, 2, 17], "gains holds 17.0; every number must be between 0 and 16"),
    ("gains", [1, 2, math.nan], "gains holds nan"),
    ("features", [[0.0] * 18] * 3, "features has 3 rows of [18] numbers, but 'Tôi yêu Việt Nam'"),
    ("features", [[0.0] * 17] * 4, "needs 4 rows of 18"),
    ("features", [[0.0] * 17 + [2.0]] * 4, "features holds 2.0; every number must be between 0"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(HeadExplorer, name, value, message)


def test_the_hand_set_heads_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="'Hello' has no features set by hand; use 'Tôi"):
        hand_set.features("Hello")
    with pytest.raises(ValueError, match="has 2 numbers; give 3"):
        hand_set.hand_set_heads([1.0, 2.0])


def test_the_fallback_shows_the_opening_row_without_words_of_ours() -> None:
    words, numbers = LOVE.split(), ["0.04", "0.02", "0.47", "0.47"]
    assert texts_between_tags(HeadExplorer().fallback()) == [*words, "yêu", *numbers]


def test_the_fallback_is_html_whatever_the_words_are(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (Word("<b>", "subject", None), Word("R&D", "verb", None))
    sentences = {**hand_set.SENTENCES, "<b> R&D": Sentence("en", words)}
    monkeypatch.setattr(hand_set, "SENTENCES", sentences)
    html = HeadExplorer(sentence="<b> R&D").fallback()
    assert texts_between_tags(html)[:3] == ["&lt;b&gt;", "R&amp;D", "R&amp;D"]
    assert html.count('lang="en"') == 3
    assert html.count("<th") == 3
    assert "<b>" not in html


def texts_between_tags(html: str) -> Sequence[str]:
    pieces = (piece.partition(">")[2] for piece in html.split("<"))
    return [piece for piece in pieces if piece]
