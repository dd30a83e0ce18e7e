"""Quizzes: their files hold together, and what they say about numbers is what mha_lib says."""

import copy
from typing import Any

import pytest
import torch

from mha_lib import MultiHeadAttention
from mha_lib.widgets import assets, quiz
from mha_lib.widgets.quiz import check_quiz, is_right

ONE = {
    "id": "colour",
    "kind": "one",
    "question": "Which?",
    "hint": "Look.",
    "choices": [
        {"text": "this", "right": True, "because": "Yes."},
        {"text": "that", "because": "No."},
    ],
}
NUMBER = {
    "id": "sum",
    "kind": "number",
    "question": "What is `1 + 1`?",
    "hint": "Count.",
    "answer": 2,
    "right": "Yes.",
    "wrong": "No.",
    "mistakes": [{"value": 11, "because": "That is *beside*, not *plus*."}],
}
GOOD = {"title": "Check yourself", "questions": [ONE, {**ONE, "id": "two", "kind": "many"}, NUMBER]}


def question(name: str) -> dict[str, Any]:
    questions = assets.quiz_text("multi-head", "en")["questions"]
    found: dict[str, Any] = next(each for each in questions if each["id"] == name)
    return found


def weights(layer: MultiHeadAttention, *names: str) -> int:
    return sum(getattr(layer, name).weight.numel() for name in names)


@pytest.mark.parametrize("language", assets.LANGUAGES)
@pytest.mark.parametrize("name", assets.quiz_names())
def test_every_quiz_file_is_in_order(name: str, language: str) -> None:
    assert check_quiz(assets.quiz_text(name, language)) == []


def test_a_good_quiz_has_nothing_against_it() -> None:
    assert check_quiz(GOOD) == []


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("title",), "", "the title is missing"),
        (("questions",), [], "there are no questions"),
        (("questions", 1, "id"), "colour", "the id colour is used twice"),
        (("questions", 0, "id"), "Two words", "must be of a-z"),
        (("questions", 0, "kind"), "single", "kind='single' is not one, many or number"),
        (("questions", 0, "hint"), " ", "hint is missing"),
        (("questions", 0, "tip"), "x", "unknown key 'tip'"),
        (("questions", 0, "choices"), [], "two choices or more"),
        (("questions", 0, "choices", 1, "right"), True, "exactly one choice must be right, not 2"),
        (("questions", 0, "choices", 0, "right"), False, "exactly one choice must be right, not 0"),
        (("questions", 0, "choices", 0, "right"), "yes", "right of choice A must be true"),
        (("questions", 0, "choices", 1, "because"), "", "because of choice B is missing"),
        (("questions", 1, "choices", 1, "right"), True, "some choices must be right and some"),
        (("questions", 2, "answer"), "2", "'2' is not a number"),
        (("questions", 2, "answer"), True, "True is not a number"),
        (("questions", 2, "wrong"), "", "wrong is missing"),
        (("questions", 2, "mistakes", 0, "value"), 2, "2 stands there twice"),
        (("questions", 2, "mistakes", 0, "because"), "", "because of 11 is missing"),
        (("questions", 0, "question"), "a <b>bold</b> word", "has '<b'"),
        (("questions", 0, "question"), "a **bold** word", "only `code` and *emphasis*"),
        (("questions", 0, "question"), "[a](b)", "only `code` and *emphasis*"),
        (("questions", 0, "question"), "$x$", "only `code` and *emphasis*"),
        (("questions", 0, "question"), "one ` alone", "has a ` without its partner"),
        (("questions", 0, "question"), "2 * 3", "has a * without its partner"),
    ],
)
def test_what_is_wrong_with_a_quiz_is_named(
    place: tuple[str | int, ...], value: object, complaint: str
) -> None:
    bad = copy.deepcopy(GOOD)
    where: Any = bad
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    problems = check_quiz(bad)
    assert any(complaint in problem for problem in problems), problems


def test_the_numbers_of_the_multi_head_quiz_are_mha_libs() -> None:
    wide = MultiHeadAttention(768, 12, device="meta")
    assert question("head-width-768")["answer"] == wide.head_dim
    assert question("qkv-weights-768")["answer"] == weights(wide, "q_proj", "k_proj", "v_proj")
    assert question("head-width-512")["answer"] == MultiHeadAttention(512, 8).head_dim

    right = next(
        each for each in question("parameters-when-h-changes")["choices"] if "right" in each
    )
    for h in (1, 8):
        layer = MultiHeadAttention(512, h, device="meta")
        assert f"{weights(layer, 'q_proj', 'k_proj', 'v_proj'):,}" in right["because"]
        assert f"{weights(layer, 'q_proj', 'k_proj', 'v_proj', 'out_proj'):,}" in right["because"]

    trace = MultiHeadAttention(8, 2)(torch.randn(3, 5, 8), trace=True)
    texts = [each["text"].strip("`") for each in question("shape-of-scores")["choices"]]
    assert texts[0] == str(tuple(trace.scores.shape))
    assert texts[1] == str(tuple(trace.head_out.shape))
    assert texts[2] == str(tuple(trace.scores.mean(dim=1).shape))
    assert texts[3] == str(tuple(trace.q.transpose(1, 2).shape))


def test_the_mistakes_of_the_weights_question_are_what_they_are_called() -> None:
    layer = MultiHeadAttention(768, 12, device="meta")
    three, four = ("q_proj", "k_proj", "v_proj"), ("q_proj", "k_proj", "v_proj", "out_proj")
    biases = {
        names: sum(getattr(layer, name).bias.numel() for name in names) for names in (three, four)
    }
    expected = {
        weights(layer, "q_proj"),
        weights(layer, *four),
        weights(layer, *three) + biases[three],
        weights(layer, *four) + biases[four],
        weights(layer, *three) // 12,
        weights(layer, "q_proj") // 12,
        weights(layer, *three) * 12,
        biases[three],
    }
    assert {each["value"] for each in question("qkv-weights-768")["mistakes"]} == expected


def test_what_the_reshape_question_says_is_so() -> None:
    head_out = torch.randn(3, 2, 5, 4)
    turned = head_out.transpose(1, 2)  # (B, h, N, d_k) -> (B, N, h, d_k)
    with pytest.raises(RuntimeError, match="view"):
        turned.view(3, 5, 8)
    assert torch.equal(turned.reshape(3, 5, 8), turned.contiguous().view(3, 5, 8))


def test_answers_are_marked_when_they_are_given() -> None:
    widget = quiz("multi-head")
    assert widget.result == {"given": {}, "marks": {}}
    widget.given = {"head-width-768": 64, "shape-of-scores": [1], "what-w-o-does": [0, 2]}
    assert widget.result["marks"] == {
        "head-width-768": True,
        "shape-of-scores": False,
        "what-w-o-does": True,
    }
    widget.given = {"head-width-768": 768, "no-such-question": 1}
    assert widget.result["marks"] == {"head-width-768": False}


@pytest.mark.parametrize("answer", [[0], "2", None, 2.1])
def test_an_answer_of_another_kind_is_not_right(answer: Any) -> None:
    assert not is_right(NUMBER, answer)


def test_outputs_on_the_site_are_the_same_in_every_language() -> None:
    html = {quiz("multi-head", language=language).static_html() for language in assets.LANGUAGES}
    assert len(html) == 1
    assert 'data-texts="strings quiz-multi-head"' in html.pop()


def test_a_quiz_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"there is no quiz 'heads'; there are: .*multi-head"):
        quiz("heads")


def test_a_language_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ValueError, match="language='fr' is not one of en, vi, ms"):
        quiz("multi-head", language="fr")
