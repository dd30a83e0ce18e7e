"""Quizzes: their files hold together, and what they say about numbers is what mha_lib says."""

import copy
import subprocess
import sys
from typing import Any

import pytest
import torch
from bs4 import BeautifulSoup

from mha_lib import MultiHeadAttention
from mha_lib.widgets import assets, quiz
from mha_lib.widgets.quiz import is_right
from mha_lib.widgets.quiz_rules import problems

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
NO_MARKUP = "$.questions[0].question: "
GOOD = {"title": "Check yourself", "questions": [ONE, {**ONE, "id": "two", "kind": "many"}, NUMBER]}


def question(name: str) -> dict[str, Any]:
    questions = assets.quiz_text("multi-head", "en")["questions"]
    found: dict[str, Any] = next(each for each in questions if each["id"] == name)
    return found


def without_marks(text: str) -> str:
    return text.replace("`", "").replace("*", "")


def weights(layer: MultiHeadAttention, *names: str) -> int:
    return sum(getattr(layer, name).weight.numel() for name in names)


@pytest.mark.parametrize("language", assets.LANGUAGES)
@pytest.mark.parametrize("name", assets.quiz_names())
def test_every_quiz_file_is_in_order(name: str, language: str) -> None:
    assert problems(assets.quiz_text(name, language)) == []


def test_a_good_quiz_has_nothing_against_it() -> None:
    assert problems(GOOD) == []


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("title",), "", "$.title: '' does not match"),
        (("questions",), [], "$.questions: [] should be non-empty"),
        (("questions",), "none", "$.questions: 'none' is not of type 'array'"),
        (("questions", 0), "Which?", "$.questions[0]: 'Which?' is not of type 'object'"),
        (("questions", 1, "id"), "colour", "the id colour is used twice"),
        (("questions", 0, "id"), "Two words", "$.questions[0].id: 'Two words' does not match"),
        (("questions", 0, "kind"), "single", "'single' is not one of ['number', 'one', 'many']"),
        (("questions", 0, "hint"), " ", "$.questions[0].hint: ' ' does not match"),
        (("questions", 0, "hint"), 3, "$.questions[0].hint: 3 is not of type 'string'"),
        (("questions", 0, "tip"), "x", "('tip' was unexpected)"),
        (("questions", 0, "choices"), [], "$.questions[0].choices: [] is too short"),
        (("questions", 0, "choices"), ["x", "y"], "$.questions[0].choices[1]: 'y' is not of type"),
        (("questions", 0, "choices", 1, "right"), True, "Too many items"),
        (("questions", 0, "choices", 0), {"text": "this", "because": "No."}, "does not contain"),
        (("questions", 0, "choices", 0, "right"), False, "choices[0].right: True was expected"),
        (("questions", 0, "choices", 1, "because"), "", "choices[1].because: '' does not match"),
        (("questions", 1, "choices", 1, "right"), True, "should not be valid"),
        (("questions", 1, "choices", 0), {"text": "this", "because": "No."}, "does not contain"),
        (("questions", 2, "answer"), "2", "$.questions[2].answer: '2' is not of type 'number'"),
        (("questions", 2, "answer"), True, "$.questions[2].answer: True is not of type 'number'"),
        (("questions", 2, "wrong"), "", "$.questions[2].wrong: '' does not match"),
        (("questions", 2, "mistakes"), ["x"], "$.questions[2].mistakes[0]: 'x' is not of type"),
        (("questions", 2, "mistakes", 0, "value"), 2, "sum: 2 stands twice"),
        (("questions", 2, "mistakes", 0, "because"), "", "mistakes[0].because: '' does not match"),
        (("questions", 0, "question"), "a <b>bold</b> word", NO_MARKUP),
        (("questions", 0, "question"), "a **bold** word", NO_MARKUP),
        (("questions", 0, "question"), "[a](b)", NO_MARKUP),
        (("questions", 0, "question"), "$x$", NO_MARKUP),
        (("questions", 0, "question"), "one ` alone", NO_MARKUP),
        (("questions", 0, "question"), "2 * 3", NO_MARKUP),
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
    named = problems(bad)
    assert any(complaint in problem for problem in named), named


@pytest.mark.parametrize("missing", ["id", "kind", "question", "hint", "answer", "right", "wrong"])
def test_what_a_question_lacks_is_named(missing: str) -> None:
    question = {key: value for key, value in NUMBER.items() if key != missing}
    named = problems({**GOOD, "questions": [question]})
    assert f"$.questions[0]: {missing!r} is a required property" in named


def test_what_is_no_quiz_at_all_is_named() -> None:
    assert problems(["Check yourself"]) == ["$: ['Check yourself'] is not of type 'object'"]


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
    assert 'data-texts="quiz quiz-multi-head"' in html.pop()


def test_without_javascript_the_whole_quiz_stands_in_the_page() -> None:
    page = BeautifulSoup(quiz("multi-head").static_html(), "html.parser")
    paper = page.select_one("noscript > .mha-paper[lang=en]")
    shown = paper.select(":scope > ol > li")
    questions = assets.quiz_text("multi-head", "en")["questions"]
    assert len(shown) == len(questions)
    for item, asked in zip(shown, questions, strict=True):
        choices = asked.get("choices", [])
        right = [each["because"] for each in choices if "right" in each] or [asked["right"]]
        hint, answer = item.select("details")
        assert item.select_one("p").text == without_marks(asked["question"])
        listed = [choice.text for choice in item.select("ol > li")]
        assert listed == [without_marks(choice["text"]) for choice in choices]
        assert without_marks(asked["hint"]) in hint.text
        assert len(answer.select("p")) == len(right)
        assert all(without_marks(because) in answer.text for because in right)


def test_a_translated_quiz_stands_there_in_its_languages_and_the_others_not_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(_name: str, language: str) -> dict[str, Any]:
        return {**GOOD, "title": "Tự kiểm tra <1 & 2>"} if language == "vi" else GOOD

    monkeypatch.setattr(assets, "quiz_text", read)
    page = BeautifulSoup(quiz("multi-head").fallback(), "html.parser")
    papers = page.select(".mha-paper")
    assert [paper["lang"] for paper in papers] == ["en", "vi"]
    assert [paper.p.text for paper in papers] == ["Check yourself", "Tự kiểm tra <1 & 2>"]
    assert papers[0].select_one("code").text == "1 + 1"


def test_no_demo_loads_what_checks_the_quizzes() -> None:
    # jsonschema takes longer to load than torch, in each reader's Jupyter.
    loaded = "import sys, mha_lib.widgets; print('jsonschema' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    assert said.stdout == "False\n", said.stderr


def test_a_quiz_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"there is no quiz 'heads'; there are: .*multi-head"):
        quiz("heads")


def test_a_language_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ValueError, match="language='fr' is not one of en, vi, ms"):
        quiz("multi-head", language="fr")
