"""A roster: the CSV file that a learning management system (LMS) exported, and who is who in it."""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Columns by which Canvas, Moodle and Gradescope tell people apart, in lower case.
IDENTIFYING = (
    *("id", "sis user id", "sis login id", "integration id"),
    *("identifier", "id number", "username", "email address"),
    *("sid", "email"),
)
SEPARATORS = ",;\t"


class RosterError(ValueError):
    """A roster that cannot be used; the message says why and what to do."""


@dataclass(frozen=True)
class Person:
    """One row of a roster, and the line of the file that it ends on."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Roster:
    """The rows of a roster; ``people`` are those with something to tell a person by."""

    place: str
    columns: tuple[str, ...]
    rows: tuple[Person, ...]
    identifying: tuple[int, ...]

    @property
    def people(self) -> list[Person]:
        """Return the rows that stand for a person; Canvas has others, as for points possible."""
        return [row for row in self.rows if any(row.cells[index] for index in self.identifying)]

    def find(self, name: str) -> int | None:
        """Return where a column stands, whatever its case; None if there is none."""
        names = [column.lower() for column in self.columns]
        return names.index(name.lower()) if name.lower() in names else None

    def match(self, students: Iterable[str]) -> tuple[dict[str, Person], dict[str, str]]:
        """Return whose row is whose, and why some students have none.

        An id is looked for as it is, then in any case, then before the @ of an address. Nothing is
        guessed: an id that fits two rows, or a row that fits two ids, is nobody's.
        """
        found: dict[str, Person] = {}
        failed: dict[str, str] = {}
        any_case = self._index(_any_case)
        indexes = [
            (_exact, self._index(_exact)),
            (_any_case, any_case),
            # Never two addresses by what stands before the @: they may be two people's.
            (_any_case, self._index(_local_part)),
            (_local_part, any_case),
        ]
        for student in students:
            rows = next(
                (index[key(student)] for key, index in indexes if key(student) in index), []
            )
            if len(rows) == 1:
                found[student] = rows[0]
            elif rows:
                lines = " and ".join(str(row.line) for row in rows)
                failed[student] = f"lines {lines} of {self.place} could both be meant"
            else:
                columns = ", ".join(repr(self.columns[index]) for index in self.identifying)
                failed[student] = f"no row of {self.place} has this id, looked for in {columns}"
        claimed = Counter(person.line for person in found.values())
        for student, person in [*found.items()]:
            if claimed[person.line] > 1:
                del found[student]
                failed[student] = (
                    f"line {person.line} of {self.place} fits another student's id too"
                )
        return found, failed

    def _index(self, key: Callable[[str], str]) -> dict[str, list[Person]]:
        index: dict[str, list[Person]] = defaultdict(list)
        for row in self.people:
            for name in {key(row.cells[index]) for index in self.identifying} - {""}:
                index[name].append(row)
        return dict(index)


def _exact(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def _any_case(text: str) -> str:
    return _exact(text).casefold()


def _local_part(text: str) -> str:
    return _any_case(text).partition("@")[0]


def read_roster(path: Path, identifying: str | None = None) -> Roster:
    """Read a roster; ``identifying`` names the one column that holds our students' ids.

    Raises:
        RosterError: It is no such file, or has no column that tells people apart.
    """
    text = _text(path)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=_separator(text))
    try:
        table = [Person(lines.line_num, tuple(cells)) for cells in lines if any(cells)]
    except csv.Error as error:
        raise RosterError(f"{path}, line {lines.line_num}, is no CSV ({error})") from error
    if not table:
        raise RosterError(f"{path} is empty; export it from the LMS again")
    columns = tuple(name.strip() for name in table[0].cells)
    rows = [_padded(path, row, columns) for row in table[1:]]
    names = [name.lower() for name in columns]
    wanted = IDENTIFYING if identifying is None else (identifying.strip().lower(),)
    places = tuple(index for index, name in enumerate(names) if name in wanted)
    if not places:
        told = "no column that tells people apart" if identifying is None else f"no {identifying!r}"
        raise RosterError(
            f"{path} has {told}; its columns are {', '.join(map(repr, columns))}. Name the one "
            "that holds the ids of the folders in submitted/: --id COLUMN"
        )
    return Roster(path.name, columns, tuple(rows), places)


def _text(path: Path) -> str:
    content = path.read_bytes()
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise RosterError(
            f"{path} is not in UTF-8 ({error}), so its names cannot be read. Give the file as the "
            "LMS exported it; a spreadsheet has to save it as 'CSV UTF-8'"
        ) from error


def _separator(text: str) -> str:
    """Return what stands between the names in the first line: a comma, semicolon or tab."""
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]

    def cells(separator: str) -> int:
        try:
            return len(next(csv.reader([first], delimiter=separator)))
        except csv.Error:
            return 0  # What follows says so of the line.

    return max(SEPARATORS, key=cells)


def _padded(path: Path, row: Person, columns: Sequence[str]) -> Person:
    if any(row.cells[len(columns) :]):
        raise RosterError(
            f"{path}, line {row.line}, has {len(row.cells)} cells, but the first line names "
            f"{len(columns)}; export it from the LMS again"
        )
    cells = (*row.cells, *[""] * len(columns))[: len(columns)]
    return Person(row.line, tuple(cell.strip() for cell in cells))
