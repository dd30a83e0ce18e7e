"""What is graded, at work, waiting or failed, and what needs a person: read, changing nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from grading import journal, records
from grading.assignment import load
from grading.course import Course
from grading.grade import NOT_GRADED, Status
from grading.gradebook import GradebookError, refuse_id
from grading.records import Record
from grading.standings import Standing, less_penalty, standings
from grading.submission import collect

WAITING = "waiting"
DOING = "doing"
CHANGED = "changed since graded"
OLD_VERSION = "graded by an older version of the assignment"
SETTLED = "settled by a person"  # It needed attention, and somebody looked at all of it.
GONE = "handed in no more"
PUT_OFF = "It takes long, so it is graded when the others are."
CUT_OFF = "The run that was at work on it was stopped. Grade again: nothing is lost."


@dataclass(frozen=True)
class State:
    """Where one submission stands, marks by hand included; ``score`` is None before grading.

    ``waiting`` are the points that only a person can give and has not given yet, ``penalty`` those
    that being late takes off. ``since`` is when a run began what it is doing.
    """

    student_id: str
    state: str
    score: float | None
    max_score: float
    reasons: tuple[str, ...] = ()
    waiting: float = 0.0
    penalty: float = 0.0
    since: datetime | None = None

    @property
    def net(self) -> float | None:
        """The points without what being late takes off; None before grading."""
        return None if self.score is None else less_penalty(self.score, self.penalty)

    @property
    def needs_person(self) -> bool:
        """Say whether a person has something to look at, or to mend before it can be graded."""
        return self.state in (Status.ATTENTION, NOT_GRADED)


def status(course: Course, name: str) -> list[State]:
    """Return the state of each submission of an assignment, by student.

    What was graded and does not lie in submitted/ any more is among them.

    Raises:
        AssignmentError: The assignment has flaws.
        GradebookError: The gradebook cannot be read.
    """
    assignment = load(course, name)
    known, stands = records.load(course, name), standings(course, name)
    version = assignment.digest  # It takes a moment, and is the same for all.
    states = {}
    for submission in collect(course, assignment, contents=False):
        student = submission.student_id
        try:
            refuse_id(student)
        except GradebookError as error:
            states[student] = State(student, NOT_GRADED, None, assignment.points, (str(error),))
            continue
        record = known.get(student)
        if record is None or not record.written:
            states[student] = State(student, WAITING, None, assignment.points)
        elif record.digest != submission.digest:
            states[student] = _graded(record, stands, CHANGED)
        elif record.assignment != version:
            states[student] = _graded(record, stands, OLD_VERSION)
        else:
            states[student] = _graded(record, stands)
    for student in {*known, *stands} - {*states}:
        if student in known:
            states[student] = _graded(known[student], stands, GONE)
        else:
            standing = stands[student]
            states[student] = _state(student, GONE, (), standing)
    _follow_runs(course, name, states)
    return [states[student] for student in sorted(states)]


def _follow_runs(course: Course, name: str, states: dict[str, State]) -> None:
    """Say what is at work, and why what waits was not graded by the last run that tried."""
    unsettled = {
        student
        for student, state in states.items()
        if state.state in (WAITING, CHANGED, OLD_VERSION)
    }
    for run in journal.runs(course, name):
        for student, since in run.doing.items() if run.alive else ():
            if student in states:
                states[student] = replace(states[student], state=DOING, since=since, reasons=())
                unsettled.discard(student)
        for student in unsettled & run.put_off if run.alive else ():
            states[student] = replace(states[student], reasons=(PUT_OFF,))
            unsettled.discard(student)
        for student in unsettled & {*run.results, *run.doing}:
            state, result = states[student], run.results.get(student)
            if result is None:
                states[student] = replace(state, reasons=(CUT_OFF,))
            elif result.status == NOT_GRADED:
                states[student] = replace(state, state=NOT_GRADED, reasons=result.reasons)
            unsettled.discard(student)
        if not unsettled:
            return


def _graded(record: Record, stands: Mapping[str, Standing], state: str = "") -> State:
    """Return the state of something graded; without ``state``, what grading came to."""
    standing = stands.get(record.student_id, Standing(record.score, record.max_score))
    reasons = () if state else record.reasons
    state = state or record.status
    if state == Status.ATTENTION and record.student_id in stands and standing.settled:
        state = SETTLED
    return _state(record.student_id, state, reasons, standing)


def _state(student: str, state: str, reasons: tuple[str, ...], standing: Standing) -> State:
    return State(
        student,
        state,
        standing.score,
        standing.max_score,
        reasons,
        standing.waiting,
        standing.penalty,
    )


def totals(states: Iterable[str]) -> str:
    """Return how often each state occurs, as one line.

    >>> totals(["graded", "waiting", "graded"])
    '2 graded, 1 waiting'
    """
    return ", ".join(f"{count} {name}" for name, count in counts(states).items())


def counts(states: Iterable[str]) -> dict[str, int]:
    """Return how often each state occurs, in the order in which they are told."""
    order = [*Status, SETTLED, CHANGED, OLD_VERSION, DOING, WAITING, NOT_GRADED, GONE]
    found = Counter(str(state) for state in states)
    names = [str(name) for name in order if str(name) in found]
    names += sorted(set(found) - set(names))
    return {name: found[name] for name in names}
