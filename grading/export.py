"""Marks as the CSV file that Canvas, Moodle or Gradescope knows, or as a plain one.

A file holds final marks only, and only of people that the system will know. Whoever is left out is
named, with the reason.

The layouts are those of Canvas' gradebook import, of Moodle's grade import or its offline grading
worksheet (whichever the roster is), and of the gradebook that Gradescope gives out: Gradescope
itself documents no way to take marks in.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from grading.assignment import Assignment
from grading.cells import as_text, is_harmless, number
from grading.final import Mark
from grading.roster import Person, Roster, RosterError

Rows = list[list[str]]
_BOM = "\ufeff"  # Without it Excel takes UTF-8 for something else.
_CANVAS_ID = re.compile(r"(.*) \(\d+\)")
_POINTS_POSSIBLE = "Points Possible"


@dataclass(frozen=True)
class Export:
    """A file's text, and who is not in it: students with the reason, people without a mark."""

    text: str
    count: int
    left_out: Mapping[str, str] = field(default_factory=dict)
    without_mark: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Layout:
    """How one system wants it.

    ``people`` are columns copied from the roster, with ``alone`` (the one that takes our id)
    written where there is none. ``rest`` are the further cells of a student, and their headers.
    """

    people: tuple[str, ...]
    alone: str
    rest: Callable[[Mark], list[str]]
    headers: Callable[[str], list[str]]


def _time(mark: Mark) -> str:
    return f"{mark.handed_in:%Y-%m-%d %H:%M:%S} +0000" if mark.handed_in else ""


_PLAIN = ("points", "late_penalty", "score", "max_score", "handed_in")
_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_LAYOUTS = {
    "canvas": _Layout(
        _CANVAS, "SIS Login ID", lambda mark: [number(mark.score)], lambda title: [title]
    ),
    "moodle": _Layout(
        ("First name", "Last name", "Full name", "ID number", "Username", "Email address"),
        "Username",
        lambda mark: [number(mark.score)],
        lambda title: [title],
    ),
    # Lateness stays empty: what it costs is taken off already.
    "gradescope": _Layout(
        ("Name", "First Name", "Last Name", "SID", "Email", "Sections"),
        "SID",
        lambda mark: [number(mark.score), number(mark.max_score), _time(mark), "", ""],
        lambda title: [
            *(title, f"{title} - Max Points", f"{title} - Submission Time"),
            *(f"{title} - Lateness (H:M:S)", "Total Lateness (H:M:S)"),
        ],
    ),
    "csv": _Layout(
        (),
        "student_id",
        lambda mark: [
            *(number(mark.points), number(mark.penalty), number(mark.score)),
            *(number(mark.max_score), _time(mark)),
        ],
        lambda _: [*_PLAIN],
    ),
}
FORMATS = tuple(_LAYOUTS)


def export(
    assignment: Assignment,
    marks: Sequence[Mark],
    format_name: str,
    *,
    roster: Roster | None = None,
    title: str | None = None,
) -> Export:
    """Lay out final marks, by student.

    Args:
        assignment: What the marks are for.
        marks: The final ones.
        format_name: One of ``FORMATS``.
        roster: Who is who in the system; without it our ids are taken for the system's.
        title: The column that the marks go into; else the one in the roster that is named like the
            assignment, or a new one with its title.

    Raises:
        RosterError: The roster is not one of this system, or has another maximum.
    """
    layout = _LAYOUTS[format_name]
    marks = sorted(marks, key=lambda mark: mark.student_id)
    found, left_out = roster.match(mark.student_id for mark in marks) if roster else ({}, {})
    if roster is not None and format_name == "moodle" and _is_worksheet(roster):
        return _worksheet(roster, assignment, marks, found, left_out)

    heading, places = _person_columns(layout, format_name, roster)
    column = title or assignment.title
    if roster is not None and format_name == "canvas":
        column = _canvas_column(roster, assignment, title)
        _refuse_other_maximum(roster, column, _points_possible(roster), assignment.points)
    rows: Rows = [[*heading, *layout.headers(column)]]
    if format_name == "canvas":
        # The blanks are Canvas' own.
        blank = [""] * (len(heading) - 1)
        rows.append([f"    {_POINTS_POSSIBLE}", *blank, number(assignment.points)])
    for mark in marks:
        student = mark.student_id
        if student in left_out:
            continue
        if roster is None:
            cells = [student if name in (layout.alone, "Student") else "" for name in heading]
            known = is_harmless(student)
        else:
            person = found[student]
            cells = [student if place is None else person.cells[place] for place in places]
            known = _known_by_harmless_cell(roster, person)
        if not known and format_name != "csv":
            left_out[student] = _would_compute(student)
            continue
        rows.append([*map(as_text, cells), *layout.rest(mark)])
    count = len(marks) - len(left_out)
    text = (_BOM if format_name == "csv" else "") + _csv(rows)
    return Export(text, count, left_out, _without_mark(roster, found))


def _person_columns(
    layout: _Layout, format_name: str, roster: Roster | None
) -> tuple[list[str], list[int | None]]:
    """Return the columns about a person, and where each stands in the roster (None: our id)."""
    if roster is None:
        alone = _CANVAS if format_name == "canvas" else (layout.alone,)
        return [*alone], [None] * len(alone)
    if format_name == "canvas":
        last = roster.find("Section")
        if last is None or roster.find("ID") is None:
            raise RosterError(
                f"{roster.place} is no gradebook of Canvas: it has no columns ID and Section. In "
                "Canvas: Grades, Export, Export Entire Gradebook"
            )
        return [*roster.columns[: last + 1]], [*range(last + 1)]
    if format_name == "csv":
        places = roster.identifying
        return ["student_id", *(roster.columns[index] for index in places)], [None, *places]
    wanted = [roster.find(name) for name in layout.people]
    kept = sorted({*(index for index in wanted if index is not None), *roster.identifying})
    return [roster.columns[index] for index in kept], [*kept]


def _known_by_harmless_cell(roster: Roster, person: Person) -> bool:
    """Say whether the system can still tell who it is when formulas are made text."""
    cells = (person.cells[index] for index in roster.identifying)
    return any(cell and is_harmless(cell) for cell in cells)


def _would_compute(student: str) -> str:
    return (
        f"a spreadsheet would compute the id {student!r}, and made harmless the system would not "
        "know it; enter this mark by hand"
    )


def _without_mark(roster: Roster | None, found: Mapping[str, Person]) -> tuple[str, ...]:
    """Name the people of the roster to whom no mark belongs, by their first cells."""
    if roster is None:
        return ()
    known = {person.line for person in found.values()}
    missing = [person for person in roster.people if person.line not in known]
    return tuple(
        " / ".join(filter(None, (person.cells[0], person.cells[roster.identifying[0]])))
        for person in missing
    )


# --- Canvas -------------------------------------------------------------------------------------


def _canvas_column(roster: Roster, assignment: Assignment, title: str | None) -> str:
    """Return Canvas' name of the assignment: with its number, if the roster has it."""
    wanted = (title,) if title else (assignment.title, assignment.name)
    fits = [
        column
        for column in roster.columns
        if column in wanted or ((named := _CANVAS_ID.fullmatch(column)) and named[1] in wanted)
    ]
    if len(fits) > 1:
        raise RosterError(
            f"{roster.place} has {len(fits)} columns that could be meant: "
            f"{', '.join(map(repr, fits))}. Name one: --column"
        )
    return fits[0] if fits else wanted[0]


def _points_possible(roster: Roster) -> Person | None:
    return next((row for row in roster.rows if _POINTS_POSSIBLE in row.cells[0]), None)


def _refuse_other_maximum(roster: Roster, column: str, row: Person | None, points: float) -> None:
    """Refuse marks of another scale: 80 of 100 would become 80 of 10."""
    place = roster.find(column)
    if row is None or place is None:
        return
    given = row.cells[place].replace(",", ".")
    if given and given not in (number(points), f"{points:.1f}", f"{points:.2f}"):
        raise RosterError(
            f"{roster.place} says that {column!r} has {given} points, but the assignment has "
            f"{number(points)}. Set that in the system, export from it again, and give that file"
        )


# --- Moodle -------------------------------------------------------------------------------------


def _is_worksheet(roster: Roster) -> bool:
    """Say whether it is the offline grading worksheet of a Moodle assignment."""
    return roster.find("Identifier") is not None and roster.find("Grade") is not None


def _worksheet(
    roster: Roster,
    assignment: Assignment,
    marks: Sequence[Mark],
    found: Mapping[str, Person],
    left_out: dict[str, str],
) -> Export:
    """Fill in the column Grade; Moodle wants every other one back as it gave it."""
    grade, identifier = roster.find("Grade"), roster.find("Identifier")
    assert grade is not None
    assert identifier is not None
    rows: Rows = [[*roster.columns]]
    for mark in marks:
        if mark.student_id not in found:
            continue
        person = found[mark.student_id]
        _refuse_other_maximum(roster, "Maximum grade", person, assignment.points)
        cells = [as_text(cell) for cell in person.cells]
        cells[grade] = number(mark.score)
        if not (person.cells[identifier] and is_harmless(person.cells[identifier])):
            left_out[mark.student_id] = f"line {person.line} of {roster.place} has no Identifier"
            continue
        rows.append(cells)
    return Export(_csv(rows), len(rows) - 1, left_out, _without_mark(roster, found))


def _csv(rows: Rows) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue()
