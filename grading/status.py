"""What is graded, what waits, and what needs a person: read from disk, changing nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from grading import records
from grading.assignment import load
from grading.course import Course
from grading.grade import Status
from grading.gradebook import GradebookError, refuse_id
from grading.submission import collect

WAITING = "waiting"
CHANGED = "changed since graded"
OLD_VERSION = "graded by an older version of the assignment"
REFUSED = "cannot be graded"


@dataclass(frozen=True)
class State:
    """Where one submission stands; ``score`` is that of the last grading, if there was one."""

    student_id: str
    state: str
    score: float | None
    max_score: float
    reasons: tuple[str, ...] = ()

    @property
    def needs_person(self) -> bool:
        """Say whether grading again would not settle it."""
        return self.state in (Status.ATTENTION, REFUSED)


def status(course: Course, name: str) -> list[State]:
    """Return the state of each submission of an assignment, by student.

    Raises:
        AssignmentError: The assignment has flaws.
    """
    assignment = load(course, name)
    known = records.load(course, name)
    states = []
    for submission in collect(course, assignment):
        student, record = submission.student_id, known.get(submission.student_id)
        score = record.score if record is not None else None
        try:
            refuse_id(student)
        except GradebookError as error:
            states.append(State(student, REFUSED, None, assignment.points, (str(error),)))
            continue
        if record is None or not record.written:
            states.append(State(student, WAITING, None, assignment.points))
        elif record.digest != submission.digest:
            states.append(State(student, CHANGED, score, record.max_score))
        elif record.assignment != assignment.digest:
            states.append(State(student, OLD_VERSION, score, record.max_score))
        else:
            states.append(State(student, record.status, score, record.max_score, record.reasons))
    return states


def totals(states: Iterable[str]) -> str:
    """Return how often each state occurs, as one line.

    >>> totals(["graded", "waiting", "graded"])
    '2 graded, 1 waiting'
    """
    order = [*Status, CHANGED, OLD_VERSION, WAITING, REFUSED]
    counts = Counter(str(state) for state in states)
    names = [str(name) for name in order if str(name) in counts]
    names += sorted(set(counts) - set(names))
    return ", ".join(f"{counts[name]} {name}" for name in names)
