"""What the gradebook says of each submission, marks by hand included. It is only read here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grading.course import Course
from grading.database import read

_GRADES = """
select submitted_assignment.student_id, notebook.name, base_cell.name,
       submitted_notebook.flagged, grade.needs_manual_grade,
       grade.auto_score, grade.manual_score, grade.extra_credit, grade_cells.max_score,
       submitted_notebook.late_submission_penalty
from assignment
join submitted_assignment on submitted_assignment.assignment_id = assignment.id
join submitted_notebook on submitted_notebook.assignment_id = submitted_assignment.id
join grade on grade.notebook_id = submitted_notebook.id
join grade_cells on grade_cells.id = grade.cell_id
join base_cell on base_cell.id = grade.cell_id
join notebook on notebook.id = submitted_notebook.notebook_id
where assignment.name = :assignment
  and (cast(:student as text) is null or submitted_assignment.student_id = :student)
"""


@dataclass(frozen=True)
class Standing:
    """The points of one submission; ``waiting`` are those that only a person can give.

    ``penalty`` is what being late takes off ``score``. ``settled`` says that nothing in it is
    flagged or waits for a person's look.
    """

    score: float = 0.0
    max_score: float = 0.0
    waiting: float = 0.0
    settled: bool = True
    penalty: float = 0.0


@dataclass(frozen=True)
class CellMark:
    """One cell's points, marks by hand included; ``points`` is None where a person must give them.

    ``auto`` are the automatic points alone. ``looked_for`` says that the cell, or its notebook,
    waits for a person's look; ``penalty`` is what being late takes off the whole notebook.
    """

    student_id: str
    notebook: str
    cell: str
    points: float | None
    auto: float | None
    extra: float
    max_points: float
    looked_for: bool
    penalty: float = 0.0


def standings(course: Course, assignment: str, student: str | None = None) -> dict[str, Standing]:
    """Return how each submission of an assignment stands, or one student's, by student.

    Raises:
        GradebookError: The gradebook is there, but cannot be read.
    """
    return standings_of(marks(course, assignment, student))


def standings_of(marks: Iterable[CellMark]) -> dict[str, Standing]:
    """Add up the marks of each student."""
    found: dict[str, Standing] = {}
    seen = set()
    for mark in marks:
        notebook = (mark.student_id, mark.notebook)
        penalty = 0.0 if notebook in seen else mark.penalty  # Once for all cells of a notebook.
        seen.add(notebook)
        before = found.get(mark.student_id, Standing())
        by_hand = mark.points is None
        found[mark.student_id] = Standing(
            score=round(before.score + (mark.points or 0.0) + mark.extra, 2),
            max_score=round(before.max_score + mark.max_points, 2),
            waiting=round(before.waiting + (mark.max_points if by_hand else 0.0), 2),
            settled=before.settled and not mark.looked_for,
            penalty=round(before.penalty + penalty, 2),
        )
    return found


def marks(course: Course, assignment: str, student: str | None = None) -> list[CellMark]:
    """Return every mark of an assignment, or one student's.

    Raises:
        GradebookError: The gradebook is there, but cannot be read.
    """
    rows = read(course.database_url, _GRADES, assignment=assignment, student=student)
    return [
        CellMark(
            student_id=student,
            notebook=notebook,
            cell=cell,
            points=auto if by_hand is None else by_hand,
            auto=auto,
            extra=extra or 0.0,
            max_points=most,
            looked_for=bool(flagged or needs_look),
            penalty=late or 0.0,
        )
        for student, notebook, cell, flagged, needs_look, auto, by_hand, extra, most, late in rows
    ]


def less_penalty(points: float, penalty: float) -> float:
    """Return what is left of points when being late has cost its share, never below 0, as nbgrader.

    >>> less_penalty(90, 20), less_penalty(5, 20)
    (70, 0.0)
    """
    return max(0.0, round(points - penalty, 2))


def points_text(score: float, max_score: float, waiting: float = 0.0, penalty: float = 0.0) -> str:
    """Say in a few words what was reached, what being late costs, and what is still open.

    >>> points_text(90, 100, 10), points_text(97, 100)
    ('90 of 100, 10 points wait for a person', '97 of 100')
    >>> points_text(90, 100, penalty=20)
    '70 of 100 (90 less 20 for being late)'
    """
    text = f"{less_penalty(score, penalty):g} of {max_score:g}"
    if penalty:
        text += f" ({score:g} less {penalty:g} for being late)"
    if waiting:
        text += f", {waiting:g} point{' waits' if waiting == 1 else 's wait'} for a person"
    return text
