"""The rules that a quiz file keeps: a JSON Schema, and what no schema can say.

The book's build and the tests use them; no demo imports this module.
"""

import re
from collections import Counter
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker

FORMATS = FormatChecker(formats=())
COURSE_TEXT = (
    "text with no markup but `code` and *emphasis*, each with its partner (2 × 3, not 2 * 3)"
)
MARKUP = re.compile(r"[`*$\\]|</?[a-zA-Z!]|\]\(|&#?\w+;")

TEXT = {"type": "string", "pattern": r"\S", "format": COURSE_TEXT}
NUMBER = {"type": "number"}


def thing(optional: dict[str, Any] | None = None, **required: Any) -> dict[str, Any]:
    """Return the schema of an object that has these keys and no others."""
    return {
        "type": "object",
        "properties": required | (optional or {}),
        "required": list(required),
        "additionalProperties": False,
    }


def choices(**how_many: Any) -> dict[str, Any]:
    """Return the schema of a list of choices; `how_many` says how many of them are right."""
    choice = thing(text=TEXT, because=TEXT, optional={"right": {"const": True}})
    right = {"required": ["right"]}
    return {"type": "array", "items": choice, "minItems": 2, "contains": right, **how_many}


MISTAKES = {"type": "array", "items": thing(value=NUMBER, because=TEXT)}
KINDS: dict[str, dict[str, Any]] = {
    "number": {
        "answer": NUMBER,
        "right": TEXT,
        "wrong": TEXT,
        "optional": {"mistakes": MISTAKES},
    },
    "one": {"choices": choices(maxContains=1)},
    "many": {"choices": choices(**{"not": {"items": {"required": ["right"]}}})},
}
ID = {"type": "string", "pattern": "^[a-z0-9-]+$"}
QUESTION = {
    "type": "object",
    "properties": {"kind": {"enum": list(KINDS)}},
    "required": ["kind"],
    "allOf": [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": thing(id=ID, kind=True, question=TEXT, hint=TEXT, **more),
        }
        for kind, more in KINDS.items()
    ],
}
QUIZ = thing(title=TEXT, questions={"type": "array", "items": QUESTION, "minItems": 1})


@FORMATS.checks(COURSE_TEXT)
def is_course_text(text: object) -> bool:
    """Return whether nothing in a text looks like markup that the course does not have."""
    if not isinstance(text, str):
        return True  # the type is another rule
    prose = re.sub(r"\*[^*`]+\*", "", re.sub(r"`[^`]+`", "", text))
    return not MARKUP.search(prose)


def problems(quiz: object) -> list[str]:
    """Return what is wrong with a quiz file's content, and where; [] if nothing."""
    schema = Draft202012Validator(QUIZ, format_checker=FORMATS)
    found = [f"{error.json_path}: {error.message}" for error in schema.iter_errors(quiz)]
    return found or list(repeated(quiz))


def repeated(quiz: Any) -> list[str]:
    """Return what stands twice and may stand once: ids, and the numbers of a question."""
    found = []
    for name, times in Counter(question["id"] for question in quiz["questions"]).items():
        if times > 1:
            found.append(f"the id {name} is used twice")
    for question in quiz["questions"]:
        mistakes = [each["value"] for each in question.get("mistakes", [])]
        for value, times in Counter([question.get("answer"), *mistakes]).items():
            if times > 1:
                found.append(f"{question['id']}: {value} stands twice, as answer or mistake")
    return found
