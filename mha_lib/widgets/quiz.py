"""Quiz: questions in the page, with a hint, and an explanation for every answer.

A quiz is one JSON file per language in `quizzes/`. Its choices appear in the order in
which they are written. The book's build holds the files to `quiz_rules.py`; here they are
taken as they are, since jsonschema, which checks them, takes longer to load than torch.
"""

import math
import re
from html import escape
from typing import Any

import traitlets

from mha_lib.widgets import assets
from mha_lib.widgets.base import CourseWidget

_MARKUP = re.compile(r"`([^`]*)`|\*([^*]*)\*")


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
        super().__init__(language=language, text_names=("quiz", f"quiz-{name}"), name=name)

    def compute(self) -> dict[str, Any]:
        """Return the answers and whether each is right."""
        questions = {each["id"]: each for each in assets.quiz_text(self.name, "en")["questions"]}
        marks = {
            key: is_right(questions[key], answer)
            for key, answer in self.given.items()
            if key in questions
        }
        return {"given": self.given, "marks": marks}

    def fallback(self) -> str:
        """Return the questions on paper, once in each language that the quiz is written in.

        The stylesheet shows the page's own: what a cell puts out is the same in every edition.
        """
        written = {each: assets.quiz_text(self.name, each) for each in assets.LANGUAGES}
        return "".join(
            _on_paper(text, language)
            for language, text in written.items()
            # Where there is no translation, the text is the English one again.
            if language == "en" or text != written["en"]
        )


def quiz(name: str, *, language: str | None = None) -> Quiz:
    """Return a quiz of the course, in the reader's language.

    Raises:
        ValueError: when there is no such quiz, or no such language.

    >>> quiz("multi-head").result["marks"]
    {}
    >>> quiz("multihead")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: there is no quiz 'multihead'; there are: embeddings, ...
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


def _on_paper(text: dict[str, Any], language: str) -> str:
    """Return a quiz as HTML that needs no script: hints and answers can be unfolded."""
    words = assets.strings(language)["quiz"]
    questions = [_question_on_paper(question, words) for question in text["questions"]]
    return (
        f'<div class="mha-paper" lang="{language}">'
        f"<p>{escape(text['title'])}</p><ol>{_each('li', questions)}</ol></div>"
    )


def _question_on_paper(question: dict[str, Any], words: dict[str, str]) -> str:
    asked = [_rich(question["question"])]
    if question["kind"] == "many":
        asked.append(_rich(words["all_that_are_true"]))
    if question["kind"] == "number":
        listed, answers = "", [_rich(question["right"])]
    else:
        choices = dict(zip("ABCDEFGH", question["choices"], strict=False))
        texts = [_rich(choice["text"]) for choice in choices.values()]
        listed = f'<ol type="A">{_each("li", texts)}</ol>'
        answers = [
            f"{letter} {_rich(choice['because'])}"
            for letter, choice in choices.items()
            if choice.get("right")
        ]
    hint = _each("p", [_rich(question["hint"])])
    return (
        f"{_each('p', asked)}{listed}"
        f"<details><summary>{_rich(words['hint'])}</summary>{hint}</details>"
        f"<details><summary>{_rich(words['right'])}</summary>{_each('p', answers)}</details>"
    )


def _each(tag: str, contents: list[str]) -> str:
    return "".join(f"<{tag}>{content}</{tag}>" for content in contents)


def _rich(text: str) -> str:
    """Return a text as HTML: `code` and *emphasis* are all the markup there is."""

    def tagged(match: re.Match[str]) -> str:
        code, emphasis = match.groups()
        return f"<em>{emphasis}</em>" if code is None else f"<code>{code}</code>"

    return _MARKUP.sub(tagged, escape(text))
