"""What an assignment came to for everybody: outcomes, points, hard tasks and common wrong answers.

All of it is read from what is stored; nothing is run again.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grading import records
from grading.assignment import Assignment, load
from grading.course import Course
from grading.grade import answer_place
from grading.records import Record
from grading.standings import CellMark, marks
from grading.status import GONE, State, status
from grading.tasks import tasks

BARS = 10
COMMON = 3  # wrong answers told for each check


@dataclass(frozen=True)
class Bar:
    """How many submissions have points from ``low`` up to ``high``.

    ``high`` itself belongs to the next bar, but for the last.
    """

    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Part:
    """How one marked cell, or a whole task, went.

    ``reached`` is the share of its points that was reached, None before anybody has any; it leaves
    out the ``waiting`` submissions whose points of it only a person can give.
    """

    name: str
    points: float
    reached: float | None
    waiting: int = 0


@dataclass(frozen=True)
class Task:
    """How one task went, and each marked cell of it.

    ``blank`` of ``known`` submissions left every answer of it as it was released.
    """

    whole: Part
    cells: tuple[Part, ...]
    blank: int
    known: int

    @property
    def left_blank(self) -> float | None:
        """The share of submissions that left it blank, None where none is known."""
        return self.blank / self.known if self.known else None


@dataclass(frozen=True)
class Mistakes:
    """What students gave for one check that failed, the most common first; ``rest`` is unlisted.

    ``twin_alike`` says that its hidden twin was given the very same, and so is not listed itself.
    """

    check: str
    task: str
    hidden: bool
    wrong: int
    known: int
    common: tuple[tuple[str, int], ...]
    rest: int
    twin_alike: bool = False


@dataclass(frozen=True)
class Summary:
    """One assignment's results. ``scores`` are those of submissions that are still handed in."""

    name: str
    title: str
    max_score: float
    states: tuple[State, ...]
    scores: tuple[float, ...]
    bars: tuple[Bar, ...]
    tasks: tuple[Task, ...]
    mistakes: tuple[Mistakes, ...]

    @property
    def median(self) -> float:
        """The points that half of the submissions reach."""
        return round(statistics.median(self.scores), 2)

    @property
    def mean(self) -> float:
        """The points of an average submission."""
        return round(statistics.fmean(self.scores), 2)


def summary(course: Course, name: str) -> Summary:
    """Read what is stored of an assignment.

    Raises:
        AssignmentError: The assignment has flaws.
        GradebookError: The gradebook cannot be read.
    """
    assignment = load(course, name)
    states = status(course, name)
    here = {state.student_id for state in states if state.state != GONE}
    scores = [state.net for state in states if state.net is not None and state.student_id in here]
    known = [
        record
        for student, record in records.load(course, name).items()
        if student in here and record.written
    ]
    given = [mark for mark in marks(course, name) if mark.student_id in here]
    return Summary(
        name=name,
        title=assignment.title,
        max_score=assignment.points,
        states=tuple(states),
        scores=tuple(scores),
        bars=tuple(histogram(scores, assignment.points)),
        tasks=tuple(_tasks(assignment, given, known)),
        mistakes=tuple(_mistakes(assignment, known)),
    )


def histogram(scores: Iterable[float], max_score: float) -> list[Bar]:
    """Count points in bars of equal width. What lies outside, as by extra credit, is at an end.

    >>> [bar.count for bar in histogram([0, 9.99, 10, 95, 100, 104], 100)]
    [2, 1, 0, 0, 0, 0, 0, 0, 0, 3]
    """
    width = max_score / BARS
    places = Counter(min(max(int(score / width), 0), BARS - 1) for score in scores)
    return [
        Bar(round(place * width, 2), round((place + 1) * width, 2), places[place])
        for place in range(BARS)
    ]


def _titles(assignment: Assignment) -> dict[str, str]:
    """Name the task of each cell; where there is no heading, by the cell itself."""
    several = len(assignment.notebooks) > 1
    return {
        answer_place(notebook.id, cell): (f"{notebook.id}: " if several else "") + (title or cell)
        for notebook in assignment.notebooks
        for cell, title in tasks(notebook).items()
    }


def _tasks(
    assignment: Assignment, given: Sequence[CellMark], known: Sequence[Record]
) -> Iterable[Task]:
    titles = _titles(assignment)
    worth: dict[str, dict[str, float]] = defaultdict(dict)  # by task and cell
    answers: dict[str, set[str]] = defaultdict(set)
    for notebook in assignment.notebooks:
        for cell in notebook.cells:
            place = answer_place(notebook.id, cell.id)
            if cell.role in ("test", "written") and cell.points > 0:
                worth[titles[place]][place] = cell.points
            if cell.role in ("solution", "written"):
                answers[titles[place]].add(place)
    reached: dict[str, float] = defaultdict(float)
    possible: dict[str, float] = defaultdict(float)
    waiting: dict[str, set[str]] = defaultdict(set)
    for mark in given:
        place = answer_place(mark.notebook, mark.cell)
        if mark.points is None:
            waiting[place].add(mark.student_id)
        else:
            reached[place] += mark.points
            possible[place] += mark.max_points

    def part(name: str, cells: Mapping[str, float]) -> Part:
        most = sum(possible[place] for place in cells)
        share = sum(reached[place] for place in cells) / most if most else None
        who = set().union(*(waiting[place] for place in cells))
        return Part(name, sum(cells.values()), share, len(who))

    blanks = [set(record.blank) for record in known if record.blank is not None]
    for title, cells in worth.items():
        own = answers[title]
        yield Task(
            whole=part(title, cells),
            cells=tuple(
                part(place.split("/", 1)[1], {place: points}) for place, points in cells.items()
            ),
            blank=sum(own <= blank for blank in blanks) if own else 0,
            known=len(blanks),
        )


def _mistakes(assignment: Assignment, known: Sequence[Record]) -> Iterable[Mistakes]:
    titles = _titles(assignment)
    answers: Mapping[str, Counter[str]] = defaultdict(Counter)
    kept = [record.wrong for record in known if record.wrong is not None]
    for wrong in kept:
        for name, got in wrong.items():
            answers[name][got] += 1
    for notebook in assignment.notebooks:
        alike = {
            check.twin: check.name
            for check in notebook.checks
            if check.twin is not None and answers[check.name] == answers[check.twin]
        }
        for check in notebook.checks:
            counts = answers[check.name]
            if counts and check.name not in alike:
                # Equal counts by text, so that two reports of the same marks are the same.
                common = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
                yield Mistakes(
                    check=check.name,
                    task=titles[answer_place(notebook.id, check.cell)],
                    hidden=check.hidden,
                    wrong=counts.total(),
                    known=len(kept),
                    common=tuple(common[:COMMON]),
                    rest=sum(count for _, count in common[COMMON:]),
                    twin_alike=check.name in alike.values(),
                )
