"""Answers that students write, right and wrong ones: solutions/NAME.answers.toml.

They stand outside solutions/NAME, since all in there is released. :mod:`grading.trials` hands each
of them in, and sees that a right one loses nothing and a wrong one what it should.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.assignment import Assignment, AssignmentError
from grading.course import Course

SUFFIX = ".answers.toml"
KINDS = ("honest", "mistake")
MISTAKE_KEYS = ("fails", "seen", "says")


@dataclass(frozen=True)
class Answer:
    """One student's text of one answer, and what it must come to.

    ``fails`` names the hidden checks that it fails, None all of its cell's; an honest answer fails
    none. ``seen`` tells whether a visible check fails too. ``says`` is what the visible checks
    tell a student whose value is the very one that this mistake gives.
    """

    name: str
    cell: str
    source: str
    wrong: bool
    fails: tuple[str, ...] | None = ()
    seen: bool = False
    says: str = ""

    @property
    def place(self) -> str:
        """Name the answer for a person."""
        return f"answer {self.name!r} to {self.cell!r}"


def answers_file(course: Course, name: str) -> Path:
    """Return where the answers to an assignment stand."""
    return course.solutions / f"{name}{SUFFIX}"


def read_answers(course: Course, assignment: Assignment) -> tuple[Answer, ...]:
    """Read the answers to an assignment; there are none where there is no file.

    Raises:
        AssignmentError: With every flaw of the file.
    """
    path = answers_file(course, assignment.name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return ()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AssignmentError(
            assignment.name, [f"{path.name} is not valid TOML ({error}); mend it"]
        ) from None
    flaws = [f"{path.name}: {flaw}" for flaw in _flaws(table, assignment)]
    if flaws:
        raise AssignmentError(assignment.name, flaws)
    return tuple(
        Answer(
            name=one["name"],
            cell=one["cell"],
            source=one["source"].strip("\n"),
            wrong=kind == "mistake",
            fails=_fails(one) if kind == "mistake" else (),
            seen=one.get("seen", kind == "mistake"),
            says=one.get("says", ""),
        )
        for kind in KINDS
        for one in table.get(kind, [])
    )


def _fails(one: dict[str, Any]) -> tuple[str, ...] | None:
    return tuple(one["fails"]) if "fails" in one else None


def _flaws(table: dict[str, Any], assignment: Assignment) -> Iterator[str]:
    for key in table:
        if key not in KINDS or not _is_tables(table[key]):
            yield f"{key!r} is no list of answers; there are [[honest]] and [[mistake]]"
            return
    cells = {
        cell.id
        for notebook in assignment.notebooks
        for cell in notebook.cells
        if cell.role == "solution"
    }
    hidden = {
        check.name for notebook in assignment.notebooks for check in notebook.checks if check.hidden
    }
    taken: set[tuple[str, str]] = set()
    for kind in KINDS:
        for number, one in enumerate(table.get(kind, []), 1):
            where = f"[[{kind}]] number {number}"
            for key in ("name", "cell", "source"):
                if not (isinstance(one.get(key), str) and one[key].strip()):
                    yield f"{where}: {key} = {one.get(key)!r}; give a text"
                    return
            where = f"{where}, {one['name']!r}"
            allowed = {"name", "cell", "source", *(MISTAKE_KEYS if kind == "mistake" else ())}
            for key in one.keys() - allowed:
                yield f"{where}: no key {key!r}; there are {', '.join(sorted(allowed))}"
            if one["cell"] not in cells:
                yield (
                    f"{where}: there is no answer cell {one['cell']!r}; there are "
                    f"{', '.join(sorted(cells))}"
                )
            if (one["cell"], one["name"]) in taken:
                yield f"{where}: {one['cell']!r} has another answer of this name; choose another"
            taken.add((one["cell"], one["name"]))
            yield from (f"{where}: {flaw}" for flaw in _mistake_flaws(one, hidden))


def _mistake_flaws(one: dict[str, Any], hidden: set[str]) -> Iterator[str]:
    """Yield what is wrong with the keys that only a mistake has."""
    if "fails" in one:
        fails = one["fails"]
        if not (isinstance(fails, list) and fails and all(isinstance(f, str) for f in fails)):
            yield (
                f"fails = {fails!r}; name the hidden checks that fail, or leave it out where all "
                "of the cell do"
            )
        elif unknown := sorted({*fails} - hidden):
            yield (
                f"fails holds {unknown[0]!r}, which is no hidden check; there are "
                f"{', '.join(sorted(hidden))}"
            )
    if not isinstance(one.get("seen", True), bool):
        yield f"seen = {one['seen']!r}; give true or false"
    if not isinstance(one.get("says", ""), str):
        yield f"says = {one['says']!r}; give a sentence"


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)
