"""Which of the instructor's cells does a student's cell stand for?

By the mark that nbgrader gave it; where that is lost, by Jupyter's own id, by its text, by the
names it defines or by its place. What could be two cells is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grading.notebook import Cell, Notebook
from grading.remarks import Kind, Remarks
from grading.student_notebook import StudentCell, plain

DEFINITION = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*=(?!=)", re.MULTILINE)

AMBIGUOUS = Kind(
    "The cell {it} has lost the mark it is known by, and which of your cells it is cannot be told "
    "for sure: the released text stands. Copy your answer into a freshly downloaded notebook.",
    "{count} cells have lost the mark they are known by, and which of your cells they are cannot "
    "be told for sure: {them}; the released texts stand. Copy your answers into a freshly "
    "downloaded notebook.",
    grave=True,
)
LOST_MARK = Kind(
    "The cell {it} had lost the mark it is known by; your cell {number} was taken for it, by its "
    "place or the names it defines.",
    "{count} cells had lost the mark they are known by: {them}; each was found by its place or "
    "the names it defines.",
)


@dataclass(frozen=True)
class Match:
    """A student's cell stands for the instructor's cell ``id``.

    ``own`` means that it runs after the original: given code that is not locked may be edited,
    so what a student adds there, such as an import, is their own code.
    """

    id: str
    own: bool = False


def match(notebook: Notebook, student: list[StudentCell], remarks: Remarks) -> list[Match | None]:
    """Return for each student's cell what it stands for; None is a cell of the student's own."""
    by_id = {cell.id: cell for cell in notebook.cells}
    marked = {cell.id for cell in notebook.cells if is_marked(cell)}
    matches = [
        _known(by_id[cell.grade_id], cell) if cell.grade_id in marked else None for cell in student
    ]
    # Cells without a mark, be it that the instructor gave none or that an editor lost it.
    found = {match.id for match in matches if match}
    unfound = [cell for cell in notebook.cells if cell.id not in found]
    by_cell_id = {cell.notebook_cell_id: cell for cell in unfound if cell.notebook_cell_id}
    by_text: dict[tuple[str, str], Cell] = {
        (cell.type, plain(cell.released)): cell
        for cell in reversed(unfound)
        if cell.role in ("given", "test", "demo")
    }
    for index, cell in enumerate(student):
        if matches[index] is None and cell.cell_id in by_cell_id:
            matches[index] = _known(by_cell_id.pop(cell.cell_id), cell)
    for index, cell in enumerate(student):
        if matches[index] is None and cell.text and (cell.type, cell.text) in by_text:
            matches[index] = Match(by_text[cell.type, cell.text].id)
    _match_by_place(notebook, student, matches, remarks)
    _leave_prose_out_of_code(by_id, student, matches)
    return matches


def _leave_prose_out_of_code(
    by_id: Mapping[str, Cell], student: list[StudentCell], matches: list[Match | None]
) -> None:
    """Where an answer in code was split and one part made prose, only the code answers."""
    in_code = {
        match.id
        for cell, match in zip(student, matches, strict=True)
        if match and cell.type == "code"
    }
    for index, match in enumerate(matches):
        if match and student[index].type != "code" and match.id in in_code:
            mine = by_id[match.id]
            if mine.type == "code" and mine.role in ("solution", "written"):
                matches[index] = None


def _known(mine: Cell, cell: StudentCell) -> Match:
    return Match(mine.id, own=is_open_code(mine) and cell.text != plain(mine.released))


def is_marked(mine: Cell) -> bool:
    """Tell whether nbgrader gave a cell a mark of its own."""
    return isinstance(mine.metadata.get("nbgrader"), Mapping) and not mine.id.startswith("given-")


def is_open_code(mine: Cell) -> bool:
    """Tell whether students may edit a given cell: nbgrader has not locked it."""
    marks = mine.metadata.get("nbgrader")
    locked = isinstance(marks, Mapping) and marks.get("locked")
    return mine.role == "given" and mine.type == "code" and not locked


def _match_by_place(
    notebook: Notebook,
    student: list[StudentCell],
    matches: list[Match | None],
    remarks: Remarks,
) -> None:
    """Find answers that have lost their mark, by the names they define or by where they stand.

    Each gap between known cells is looked at by itself. A pair is made only where there is one
    way to make it; else a problem says that a person must look.
    """
    for missing, candidates in _gaps(notebook, student, matches):
        left = list(candidates)
        unpaired = []
        for cell in missing:
            names = _defined(cell.released)
            found = [
                index
                for index in left
                if student[index].type == cell.type and names & _defined(student[index].source)
            ]
            if names and len(found) == 1:
                left.remove(found[0])
                _pair(cell, found[0], matches, remarks)
            else:
                unpaired.append(cell)
        for cell in unpaired:
            found = [index for index in left if student[index].type == cell.type]
            rivals = [other for other in unpaired if other.type == cell.type]
            if len(found) == 1 and len(rivals) == 1:
                _pair(cell, found[0], matches, remarks)
            elif found:
                remarks.add(AMBIGUOUS, repr(cell.id))


def _pair(cell: Cell, index: int, matches: list[Match | None], remarks: Remarks) -> None:
    matches[index] = Match(cell.id)
    remarks.add(LOST_MARK, repr(cell.id), number=index + 1)


def _gaps(
    notebook: Notebook, student: list[StudentCell], matches: list[Match | None]
) -> Iterator[tuple[list[Cell], list[int]]]:
    """Yield the answers that are missing between known cells, and what stands in their place."""
    place = {match.id: index for index, match in reversed(list(enumerate(matches))) if match}
    missing: list[Cell] = []
    before = -1
    for cell in (*notebook.cells, None):
        if cell is not None and cell.id not in place:
            if cell.role in ("solution", "written"):
                missing.append(cell)
            continue
        after = len(student) if cell is None else place[cell.id]
        if missing:
            yield (
                missing,
                [
                    index
                    for index in range(before + 1, after)
                    if matches[index] is None and student[index].text
                ],
            )
            missing = []
        before = after


def _defined(source: str) -> set[str]:
    """Return the names of functions, classes and variables that a text defines at its top.

    Not by syntax tree: an answer with a syntax error is still that answer.
    """
    return {name for pair in DEFINITION.findall(source) for name in pair if name}
