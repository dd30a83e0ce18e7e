"""Every English word that readers see is one of the course's words, which a person has read.

No dictionary is needed: a word that `words.en.txt` does not hold is new here, or misspelt.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from book.places import BOOK, ROOT

LIST = Path(__file__).with_name("words.en.txt")
WIDGETS = ROOT / "mha_lib" / "widgets"
PAPERS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
NAMES_NOT_TEXT = {"id", "kind", "name"}  # what these hold in a quiz is for programs
FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})(?:\{([\w-]+)\})?(.*)$")
DIRECTIVES_WITHOUT_TEXT = {"code-cell", "code-block", "math", "bibliography", "toctree"}
# What is no prose, in the order in which it is taken out.
NOT_PROSE = [
    r"(?m)^:[\w-]+:.*$",  # a directive's options
    r"(?s)\$\$.*?\$\$|\$[^$\n]+\$",
    r"\[[^\]]*\]\{lang=(?!en)\w+\}",  # words of another language
    r"\{[\w:-]+\}`[^`]*`",  # a role that holds a name
    r"`[^`]*`",
    r"(?s)<!--.*?-->|</?[A-Za-z][^>\n]*>",
    r"\]\([^)]*\)|\bhttps?://\S+",
    r"\{[\w, =.-]*\}",  # places to be filled in, attributes
]
ROLE_WITH_TEXT = re.compile(r"\{[\w:-]+\}`([^`<]*)<[^>`]*>`")  # {doc}`the chapter <masking>`
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
PART_OF_A_NAME = re.compile(r"[\w-]*[./@]\w[\w./@-]*|\w*[\d_]\w*")  # d_model, mha_lib, file.py


def without_code(text: str) -> str:
    """Return a Markdown text without its head, and without the fences that hold no prose."""
    lines = re.sub(r"(?s)\A---\n.*?\n---\n", "", text).splitlines()
    kept, open_fences = [], list[tuple[str, bool]]()  # the fence, and whether it holds prose
    for line in lines:
        fence = FENCE.match(line)
        in_prose = all(holds for _, holds in open_fences)
        if fence and open_fences and fence[1] == open_fences[-1][0] and not (fence[2] or fence[3]):
            open_fences.pop()
        elif fence and in_prose:
            holds = fence[2] is not None and fence[2] not in DIRECTIVES_WITHOUT_TEXT
            open_fences.append((fence[1], holds))
            kept.append(fence[3] if holds else "")  # a title stands behind the name
        elif in_prose:
            kept.append(line)
    return "\n".join(kept)


def prose(text: str) -> str:
    """Return the text without code, formulas, names of files and words of other languages."""
    text = ROLE_WITH_TEXT.sub(r"\1", without_code(text))
    for pattern in NOT_PROSE:
        text = re.sub(pattern, " ", text)
    return PART_OF_A_NAME.sub(" ", text)


def words_of(text: str) -> set[str]:
    """Return a prose text's English words in small letters; those of two letters do not count.

    >>> sorted(words_of("The model's `W_Q` isn't Việt, well-known $x$."))
    ['isn', 'known', 'model', 'the', 'well']
    """
    found = (word.lower() for word in WORD.findall(prose(text)))
    parts = (re.split(r"['’]", word)[0] for word in found)
    return {part for part in parts if part.isascii() and len(part) > 2}


def strings_in(value: Any) -> Iterator[str]:
    """Yield every text that a catalogue or a quiz holds for readers."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in NAMES_NOT_TEXT:
                yield from strings_in(each)


def texts() -> dict[str, str]:
    """Return each English text of the course by its file's name."""
    written = {path: path.read_text("utf-8") for path in [*(BOOK / "en").glob("*.md"), *PAPERS]}
    for path in [WIDGETS / "strings" / "en.json", *(WIDGETS / "quizzes").glob("*.en.json")]:
        written[path] = "\n".join(strings_in(json.loads(path.read_text("utf-8"))))
    return {str(path.relative_to(ROOT)): text for path, text in written.items()}


def test_every_word_is_known() -> None:
    known = set(LIST.read_text("utf-8").split())
    new = {word: name for name, text in sorted(texts().items()) for word in words_of(text) - known}
    assert not new, (
        f"new words: {', '.join(f'{word} ({name})' for word, name in sorted(new.items()))}. "
        f"Mend what is misspelt. Add each word that is right to {LIST.relative_to(ROOT)}, "
        "then: LC_ALL=C sort -u -o tests/book/words.en.txt tests/book/words.en.txt"
    )


def test_the_list_is_in_order_and_holds_each_word_once() -> None:
    lines = LIST.read_text("utf-8").splitlines()
    assert lines == sorted(set(lines))
    assert [line for line in lines if not re.fullmatch(r"[a-z]{3,}", line)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Teh cat", {"teh", "cat"}),
        ("[*mèo*]{lang=vi} and [sat]{lang=en}", {"and", "sat"}),
        ("`teh` {doc}`teh` $teh$ teh.py d_teh teh2", set()),
        ("{ref}`the text <teh>`", {"the", "text"}),
        ("see [the page](teh.md) https://teh.org/teh", {"see", "the", "page"}),
        ("```{code-cell} python\nteh = 1\n```\nafter\n```\nteh\n```", {"after"}),
        ("```{note}\nread this\n```\nafter", {"read", "this", "after"}),
        ("````{tip} Title\n```python\nteh\n```\nwithin\n````", {"title", "within"}),
        ("---\nteh: 1\n---\nafter", {"after"}),
        ("{word} gives {weight}", {"gives"}),
        ("isn't, the heads’ own", {"isn", "the", "heads", "own"}),
    ],
)
def test_words_are_found_where_readers_see_them(text: str, words: set[str]) -> None:
    assert words_of(text) == words


def test_a_quiz_is_read_whole() -> None:
    quiz = {"title": "one", "questions": [{"id": "two", "kind": "many", "hint": "three"}]}
    assert list(strings_in(quiz)) == ["one", "three"]
