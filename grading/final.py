"""Which marks are final, and what keeps the others from being so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from grading import records
from grading.course import Course
from grading.grade import Status
from grading.gradebook import GradebookWriter
from grading.standings import Standing, less_penalty, standings
from grading.status import CHANGED, DOING, GONE, OLD_VERSION, SETTLED, WAITING, State, status
from grading.timestamps import read_timestamp

_DONE = (Status.GRADED, Status.WARNINGS, SETTLED, GONE)
_AGAIN = (CHANGED, OLD_VERSION, WAITING)


@dataclass(frozen=True)
class Mark:
    """What a student gets for an assignment, marks by hand and the late penalty included.

    ``handed_in`` is UTC, without a time zone.
    """

    student_id: str
    points: float
    penalty: float
    max_score: float
    handed_in: datetime | None = None

    @property
    def score(self) -> float:
        """The points without what being late costs."""
        return less_penalty(self.points, self.penalty)


def final_marks(
    course: Course, name: str, progress: Callable[[str], None] = print
) -> tuple[list[Mark], dict[str, str]]:
    """Return the final marks of an assignment by student, and for each other one what it waits for.

    Late penalties are reckoned first, by the due date and the marks by hand as they are now.

    Raises:
        AssignmentError: The assignment has flaws.
        GradebookError: The gradebook cannot be used.
        LateError: The settings for late work cannot be used.
    """
    failed = _renew_penalties(course, name, progress)
    stands = standings(course, name)
    marks, waiting = [], {}
    for state in status(course, name):
        student = state.student_id
        reason = failed.get(student) or _open(state, stands, name)
        if reason:
            waiting[student] = reason
            continue
        standing = stands[student]
        marks.append(
            Mark(
                student,
                standing.score,
                standing.penalty,
                standing.max_score,
                read_timestamp(course.autograded / student / name),
            )
        )
    return marks, waiting


def _renew_penalties(course: Course, name: str, progress: Callable[[str], None]) -> dict[str, str]:
    if not standings(course, name):
        return {}  # And no gradebook is made for it.
    with records.locked(course, progress), GradebookWriter(course) as gradebook:
        return gradebook.renew_penalties(name)


def _open(state: State, stands: Mapping[str, Standing], name: str) -> str:
    """Say what a mark waits for; nothing if it is final."""
    if state.state in _AGAIN:
        return f"{state.state}; run: python -m grading autograde {name}"
    if state.state == DOING:
        return "a run is at work on it; ask again when that has ended"
    if state.state not in _DONE:
        return f"{state.state}: {' '.join(state.reasons)}".removesuffix(": ")
    standing = stands.get(state.student_id)
    if standing is None:
        return f"its marks are not in the gradebook; run: python -m grading autograde {name}"
    if standing.waiting:
        unit = "point waits" if standing.waiting == 1 else "points wait"
        return f"{standing.waiting:g} {unit} for a person; give them in formgrader"
    if not standing.settled:
        return (
            "flagged, or marked for a person's look; in formgrader, lift the flag and save each "
            "cell's mark"
        )
    return ""
