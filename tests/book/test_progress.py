"""The versions by which a reader's stored answers are known."""

from pathlib import Path
from typing import Any

import pytest
from course_demos import widgets_module
from course_progress import check_quizzes, quizzes_script, version
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]

CHOICES = [{"text": "Yes", "right": True, "because": "So."}, {"text": "No", "because": "Not so."}]
ONE = {"id": "a", "kind": "one", "question": "Is it?", "hint": "Look.", "choices": CHOICES}
NUMBER = {"id": "b", "kind": "number", "question": "How many?", "hint": "Count.", "answer": 3}


@pytest.mark.parametrize(
    "change",
    [{"hint": "Think."}, {"choices": [CHOICES[0] | {"because": "For a reason."}, CHOICES[1]]}],
)
def test_an_answer_outlives_better_explanations(change: dict[str, Any]) -> None:
    assert version(ONE | change) == version(ONE)


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Is it not?"},
        {"kind": "many"},
        {"choices": CHOICES[::-1]},
        {"choices": [*CHOICES, {"text": "Perhaps", "because": "No."}]},
        {"choices": [CHOICES[0], CHOICES[1] | {"right": True}]},
    ],
)
def test_an_answer_to_what_is_asked_no_more_is_another_ones(change: dict[str, Any]) -> None:
    assert version(ONE | change) != version(ONE)


def test_a_number_that_was_corrected_makes_another_question() -> None:
    assert version(NUMBER | {"answer": 4}) != version(NUMBER)


def test_an_edition_without_words_of_its_own_speaks_english() -> None:
    assert "Clear my progress" in quizzes_script("xx")


def test_a_flawed_quiz_stops_the_build_which_names_the_file_and_each_flaw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assets = widgets_module("assets")
    read = assets.quiz_text
    flawed = {"title": "", "questions": [{name: ONE[name] for name in ONE if name != "hint"}]}

    def quiz_text(name: str, language: str) -> Any:
        return flawed if (name, language) == ("masking", "vi") else read(name, language)

    monkeypatch.setattr(assets, "quiz_text", quiz_text)
    with pytest.raises(ExtensionError, match=r"'masking' .*, vi\) has flaws") as told:
        check_quizzes(None)
    assert "$.title: ''" in str(told.value)
    assert "'hint' is a required property" in str(told.value)
