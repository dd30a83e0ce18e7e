"""The words that the site itself says, by language: book/strings/LANGUAGE.json."""

import json
from pathlib import Path
from typing import Any, NoReturn

STRINGS = Path(__file__).resolve().parents[1] / "strings"


class Words(dict[str, Any]):
    """A section of a language's words; one that is missing is named, with the place it belongs."""

    def __init__(self, words: dict[str, Any], place: str) -> None:
        super().__init__(words)
        self.place = place

    def __missing__(self, name: str) -> NoReturn:
        # No KeyError, whose message would be shown in quotation marks.
        raise LookupError(f"{self.place} has no {name!r}; write it there")


def strings(language: str, section: str) -> Words:
    """Return one section of a language's words; in English where the language has none yet.

    Raises:
        LookupError: when the language has the section, but not all of its words.
    """
    english = _read("en")[section]
    own = _read(language).get(section)
    if own is None:
        language, own = "en", english
    words = Words(own, f"{section!r} in book/strings/{language}.json")
    for name in english:
        words[name]
    return words


def _read(language: str) -> dict[str, Any]:
    path = STRINGS / f"{language}.json"
    read: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return read
