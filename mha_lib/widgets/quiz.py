"""Quiz: questions in the page, with a hint, and an explanation for every answer.

A quiz is one JSON file per language in `quizzes/`, `check_quiz` says what is wrong with
one. Choices appear in the order in which they are written.
"""

import math
import re
from typing import Any

import traitlets

from mha_lib.widgets import assets
from mha_lib.widgets.base import CourseWidget

_NOT_MARKUP = re.compile(r"</?[a-zA-Z!]|\*\*|\]\(|\$|\\|&#?\w+;")


class Quiz(CourseWidget):
    """The questions of one quiz; `quiz` makes it.

    `given` holds the answers that the reader has checked: {id: [places of the chosen
    choices]} or {id: number}. `result["marks"]` says for each whether it is right.
    """

    module = "quiz.js"
    inputs = ("name", "given")

    name = traitlets.Unicode().tag(sync=True)
    given = traitlets.Dict().tag(sync=True)

    def __init__(self, name: str, *, language: str | None = None) -> None:
        super().__init__(language=language, text_names=("strings", f"quiz-{name}"), name=name)

    def compute(self) -> dict[str, Any]:
        """Return the answers and whether each is right."""
        questions = {each["id"]: each for each in assets.quiz_text(self.name, "en")["questions"]}
        marks = {
            key: is_right(questions[key], answer)
            for key, answer in self.given.items()
            if key in questions
        }
        return {"given": self.given, "marks": marks}


def quiz(name: str, *, language: str | None = None) -> Quiz:
    """Return a quiz of the course, in the reader's language.

    Raises:
        ValueError: when there is no such quiz, or no such language.

    >>> quiz("multi-head").result["marks"]
    {}
    >>> quiz("multihead")
    Traceback (most recent call last):
    ValueError: there is no quiz 'multihead'; there are: multi-head
    """
    return Quiz(name, language=language)


def is_right(question: dict[str, Any], answer: float | list[int]) -> bool:
    """Return whether an answer is right: a number, or the places of the chosen choices.

    >>> is_right({"kind": "number", "answer": 64}, 64.0)
    True
    """
    if question["kind"] == "number":
        return isinstance(answer, int | float) and math.isclose(answer, question["answer"])
    right = [place for place, each in enumerate(question["choices"]) if each.get("right")]
    return answer == right


def check_quiz(text: Any) -> list[str]:
    """Return what is wrong with a quiz file's content, one sentence for each; [] if nothing.

    >>> check_quiz({"title": "Check yourself", "questions": []})
    ['there are no questions']
    """
    if not isinstance(text, dict):
        return ["a quiz is an object with a title and questions"]
    problems = _check_keys("the quiz", text, {"title", "questions"})
    problems += _check_text("the title", text.get("title"))
    questions = text.get("questions")
    if not isinstance(questions, list) or not questions:
        return [*problems, "there are no questions"]
    seen: set[str] = set()
    for number, question in enumerate(questions, start=1):
        if not isinstance(question, dict):
            problems.append(f"question {number} is not an object")
            continue
        name = question.get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]+", name):
            problems.append(f"question {number}: id={name!r} must be of a-z, 0-9 and hyphens")
        elif name in seen:
            problems.append(f"question {number}: the id {name} is used twice")
        else:
            seen.add(name)
        problems += [f"question {number} ({name}): {each}" for each in _check_question(question)]
    return problems


def _check_question(question: dict[str, Any]) -> list[str]:
    problems = _check_text("question", question.get("question"))
    problems += _check_text("hint", question.get("hint"))
    common = {"id", "kind", "question", "hint"}
    kind = question.get("kind")
    if kind == "number":
        problems += _check_keys("it", question, common | {"answer", "right", "wrong", "mistakes"})
        return problems + _check_number(question)
    if kind in ("one", "many"):
        problems += _check_keys("it", question, common | {"choices"})
        return problems + _check_choices(kind, question.get("choices"))
    return [*problems, f"kind={kind!r} is not one, many or number"]


def _check_number(question: dict[str, Any]) -> list[str]:
    problems = _check_text("right", question.get("right"))
    problems += _check_text("wrong", question.get("wrong"))
    mistakes = question.get("mistakes", [])
    values = [question.get("answer"), *(each.get("value") for each in mistakes)]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            problems.append(f"{value!r} is not a number")
        elif values.count(value) > 1:
            problems.append(f"{value} stands there twice, as answer or mistake")
    for each in mistakes:
        problems += _check_keys("a mistake", each, {"value", "because"})
        problems += _check_text(f"because of {each.get('value')}", each.get("because"))
    return problems


def _check_choices(kind: str, choices: Any) -> list[str]:
    if not isinstance(choices, list) or len(choices) < 2:
        return ["it needs two choices or more"]
    problems = []
    for letter, choice in zip("ABCDEFGH", choices, strict=False):
        problems += _check_keys(f"choice {letter}", choice, {"text", "right", "because"})
        problems += _check_text(f"choice {letter}", choice.get("text"))
        problems += _check_text(f"because of choice {letter}", choice.get("because"))
        if choice.get("right", False) not in (True, False):
            problems.append(f"right of choice {letter} must be true or left out")
    right = sum(choice.get("right") is True for choice in choices)
    if kind == "one" and right != 1:
        problems.append(f"exactly one choice must be right, not {right}")
    if kind == "many" and not 0 < right < len(choices):
        problems.append("some choices must be right and some wrong")
    return problems


def _check_keys(what: str, thing: dict[str, Any], known: set[str]) -> list[str]:
    return [f"{what} has an unknown key {key!r}" for key in thing if key not in known]


def _check_text(what: str, text: Any) -> list[str]:
    """Say whether a text is missing, or has markup other than `code` and *emphasis*."""
    if not isinstance(text, str) or not text.strip():
        return [f"{what} is missing"]
    problems = []
    prose = re.sub(r"`[^`]+`", "", text)
    if "`" in prose:
        problems.append(f"{what} has a ` without its partner")
    if "*" in re.sub(r"\*[^*]+\*", "", prose):
        problems.append(f"{what} has a * without its partner (for times, write ×)")
    if found := _NOT_MARKUP.search(prose):
        problems.append(f"{what} has {found[0]!r}; only `code` and *emphasis* are markup")
    return problems
