"""From what came out of the sandbox to marks: compare outside, share out points, find one outcome.

The student chose everything that came out. So a value counts only if it came exactly once, from
the check's own test cell, and equals the instructor's.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from grading import forbidden
from grading.assignment import Assignment, Check, Notebook
from grading.compare import compare
from grading.draws import drawn
from grading.job import Job, Run
from grading.pace import PutOff, Shown
from grading.plain import one_line
from grading.rebuild import Rebuilt, RebuiltCell, jobs, rebuild
from grading.received import received_text
from grading.reference import Reference, received
from grading.runs import Findings, Runs, find_stops, run_hidden, run_shown
from grading.sandbox import SandboxError
from grading.submission import Submission
from grading.tasks import places
from grading.values import Raised, Value

# Reasons are stored, sent to pages and read by people, and a student can make many.
MAX_REASONS = 30
MAX_REASON_CHARACTERS = 300
NOTHING_ARRIVED = "no value arrived: the cell stopped before it came to this check"
NOT_JUDGED = "not judged; the reason stands above"
SEVERAL_ARRIVED = "more than one value arrived, so none counts: call this check only in its cell"
NOT_IN_GENERAL = "right for this input; it earns points when it is right for others as well"
# What stands in place of a status where nothing was graded in this run.
ALREADY = "already graded"
NOT_GRADED = "not graded"

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


class Status(StrEnum):
    """How the grading of one submission ended."""

    GRADED = "graded"
    WARNINGS = "graded with warnings"
    ATTENTION = "needs attention"


@dataclass(frozen=True)
class CheckResult:
    """One check of one submission; ``said`` is what the student may read about it.

    ``got`` says what arrived in place of the right value, for the instructor alone.
    """

    check: Check
    passed: bool
    said: str
    got: str = ""


@dataclass(frozen=True)
class CellGrade:
    """One graded cell; ``points`` is None where a person gives them."""

    id: str
    points: float | None
    max_points: float
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True)
class NotebookGrade:
    """One notebook of a submission; ``run`` is the run whose outputs people see."""

    notebook: Notebook
    rebuilt: Rebuilt
    run: Run | None
    cells: Mapping[str, CellGrade]


@dataclass(frozen=True)
class _Half:
    """A notebook of which people see ``run``, and whose ``hidden`` tests are still to be run."""

    notebook: Notebook
    rebuilt: Rebuilt
    run: Run
    hidden: Job


@dataclass(frozen=True)
class Outcome:
    """What grading one submission came to: the one thing that is stored.

    ``reasons`` are sentences that a student may read; ``details`` is for the instructor alone.
    """

    student_id: str
    assignment: str
    status: Status
    reasons: tuple[str, ...]
    notebooks: tuple[NotebookGrade, ...]
    timestamp: datetime | None
    digest: str
    details: str = ""

    @property
    def score(self) -> float:
        """The automatic points that stand; what a person still has to grade counts as 0."""
        cells = [cell for graded in self.notebooks for cell in graded.cells.values()]
        return round(sum(cell.points or 0.0 for cell in cells), 2)

    @property
    def max_score(self) -> float:
        """All points of the assignment."""
        cells = [cell for graded in self.notebooks for cell in graded.cells.values()]
        return round(sum(cell.max_points for cell in cells), 2)

    @property
    def wrong(self) -> dict[str, str]:
        """What arrived for each check that failed, by its name; for the instructor alone."""
        cells = [cell for graded in self.notebooks for cell in graded.cells.values()]
        results = [result for cell in cells for result in cell.checks]
        return {result.check.name: result.got for result in results if not result.passed}

    @property
    def blank(self) -> tuple[str, ...]:
        """The answers that are as they were released, each as NOTEBOOK/CELL."""
        return tuple(
            answer_place(graded.notebook.id, cell.id)
            for graded in self.notebooks
            for cell in graded.notebook.cells
            if cell.role in ("solution", "written") and cell.id not in graded.rebuilt.changed
        )


def answer_place(notebook: str, cell: str) -> str:
    """Name a cell among those of all notebooks."""
    return f"{notebook}/{cell}"


def grade(
    assignment: Assignment,
    references: Mapping[str, Reference],
    submission: Submission,
    runs: Runs,
    key: str,
    before: Shown | None = None,
) -> Outcome:
    """Grade one submission by the references of its student's own draws.

    ``key`` is the assignment's own, made from the course's secret, for the hidden tests' seeds.
    ``before`` is what came of it before it was put off.

    Whatever the student did, the result is an Outcome; what the grader itself cannot do becomes
    one that needs attention.

    Raises:
        SandboxError: The machine lacks a wall; nothing can be said about the submission.
        PutOff: It takes so long that others go first.
    """
    found = Findings(list(submission.problems), list(submission.warnings))
    files = {**assignment.files, **submission.files}
    draws = drawn(assignment, submission.student_id)
    kept = before is not None and before.digest == submission.digest
    shown = dict(before.runs) if before is not None and kept else {}

    def run_a(notebook: Notebook) -> _Half:
        rebuilt = rebuild(notebook, submission.notebooks.get(notebook.id))
        released, hidden = jobs(rebuilt, files, key, notebook.checks, draws)
        _note_uses(assignment, notebook, rebuilt, found)
        if notebook.id not in shown:
            shown[notebook.id] = run_shown(runs, released, rebuilt)
        return _Half(notebook, rebuilt, shown[notebook.id], hidden)

    def run_b(half: _Half) -> NotebookGrade:
        run = run_hidden(runs, half.hidden, half.run)
        return _grade_notebook(assignment, references[half.notebook.id], half, run, found)

    try:
        # All runs that people see go first, of whichever notebook: see `Shown`.
        halves = [_held(notebook, found, run_a, notebook) for notebook in assignment.notebooks]
        notebooks = [
            (_held(half.notebook, found, run_b, half) if half else None) or _ungraded(notebook)
            for notebook, half in zip(assignment.notebooks, halves, strict=True)
        ]
    except PutOff as put_off:
        put_off.shown = Shown(submission.digest, shown)
        raise
    status = Status.ATTENTION if found.problems else Status.GRADED
    if status is Status.GRADED and found.warnings:
        status = Status.WARNINGS
    return Outcome(
        student_id=submission.student_id,
        assignment=assignment.name,
        status=status,
        reasons=_some(dict.fromkeys(found.problems + found.warnings)),
        notebooks=tuple(notebooks),
        timestamp=submission.timestamp,
        digest=submission.digest,
        details="\n".join(found.details),
    )


def _held(
    notebook: Notebook, found: Findings, step: Callable[[_Given], _Made], given: _Given
) -> _Made | None:
    """Take a step of grading a notebook; None where the grader failed, which must stop no other."""
    try:
        return step(given)
    except (SandboxError, PutOff):
        raise
    except Exception as error:
        found.problems.append(
            f"The grader itself failed on notebook {notebook.id} ({type(error).__name__}). "
            "This is not your fault; a person will look at it."
        )
        found.details.append(traceback.format_exc())
        return None


def given_up(assignment: Assignment, submission: Submission, details: str) -> Outcome:
    """Return the outcome of a submission under which machine after machine broke down.

    Nothing came back from any, so nothing stands; a person decides.
    """
    reason = (
        "The machine that graded your work broke down, each time anew, so it was not graded. "
        "A person will look at it."
    )
    reasons = (reason, *submission.problems, *submission.warnings)
    return Outcome(
        student_id=submission.student_id,
        assignment=assignment.name,
        status=Status.ATTENTION,
        reasons=_some(dict.fromkeys(reasons)),
        notebooks=tuple(_ungraded(notebook) for notebook in assignment.notebooks),
        timestamp=submission.timestamp,
        digest=submission.digest,
        details=details,
    )


def unshowable(outcome: Outcome, error: Exception) -> Outcome:
    """Return an outcome whose notebooks cannot be shown as one that needs attention.

    The points stand; the released text takes the place of the student's.
    """
    notebooks = tuple(
        replace(
            graded,
            rebuilt=replace(_ungraded(graded.notebook).rebuilt, changed=graded.rebuilt.changed),
            run=None,
        )
        for graded in outcome.notebooks
    )
    reason = (
        f"The grader could not show your work here ({type(error).__name__}). "
        "This is not your fault; a person will look at it."
    )
    return replace(
        outcome,
        status=Status.ATTENTION,
        reasons=(*outcome.reasons, reason),
        notebooks=notebooks,
        details="\n".join([outcome.details, *traceback.format_exception(error)]).strip(),
    )


def _some(reasons: Iterable[str]) -> tuple[str, ...]:
    """Return as many reasons as anybody reads, each of them short."""
    texts = [one_line(reason, MAX_REASON_CHARACTERS) for reason in reasons]
    if len(texts) <= MAX_REASONS:
        return tuple(texts)
    return (*texts[: MAX_REASONS - 1], f"... and {len(texts) - MAX_REASONS + 1} more.")


def _note_uses(
    assignment: Assignment, notebook: Notebook, rebuilt: Rebuilt, found: Findings
) -> None:
    """Note what rebuilding met, and the student's uses of what the exercise does not allow."""
    found.problems.extend(rebuilt.problems)
    found.warnings.extend(rebuilt.warnings)
    named = places(notebook, rebuilt)
    found.problems.extend(
        _forbidden(use, named[use.cell])
        for use in forbidden.find(_students_code(rebuilt), assignment.forbidden_names)
    )


def _grade_notebook(
    assignment: Assignment, reference: Reference, half: _Half, run_b: Run, found: Findings
) -> NotebookGrade:
    notebook, rebuilt, run_a = half.notebook, half.rebuilt, half.run
    find_stops(notebook, rebuilt, run_a, run_b, assignment.limits.cell_seconds, found)
    results = judge(notebook, reference, run_a, run_b)
    cells = {}
    for cell in notebook.cells:
        if cell.role == "test":
            own = tuple(result for result in results.values() if result.check.cell == cell.id)
            points = share_points(cell.points, own, results)
            cells[cell.id] = CellGrade(cell.id, points, cell.points, own)
        elif cell.role == "written":
            by_hand = None if cell.id in rebuilt.changed else 0.0
            cells[cell.id] = CellGrade(cell.id, by_hand, cell.points, ())
    return NotebookGrade(notebook, rebuilt, run_a, cells)


def judge(
    notebook: Notebook, reference: Reference, run_a: Run, run_b: Run
) -> dict[str, CheckResult]:
    """Judge every check; a visible one by the run people see, a hidden one by the other."""
    results: dict[str, CheckResult] = {}
    arrived = {
        check.name: received(run_b if check.hidden else run_a, check) for check in notebook.checks
    }
    without = {
        name for name, values in arrived.items() if not values or isinstance(values[0], Raised)
    }
    for check in sorted(notebook.checks, key=lambda check: not check.hidden):
        expected = reference.hidden if check.hidden else reference.visible
        wrong = _what_is_wrong(arrived[check.name], expected[check.name], check.tolerance)
        if check.hidden:
            twins = {twin.name for twin in notebook.checks if twin.twin == check.name}
            said = "" if wrong is None else check.feedback
            if check.name in without and twins & without:
                said = NOT_JUDGED  # The visible check says already what is the matter.
        elif wrong is not None:
            said = f"{wrong.rstrip('.')}. {check.hint}".strip()
        else:
            twin = results[check.twin] if check.twin else None
            said = NOT_IN_GENERAL if twin is not None and not twin.passed else ""
        got = "" if wrong is None else received_text(arrived[check.name])
        results[check.name] = CheckResult(check, wrong is None, said, got)
    return {check.name: results[check.name] for check in notebook.checks}


def _what_is_wrong(values: list[Value], expected: Value, tolerance: float | None) -> str | None:
    if not values:
        return NOTHING_ARRIVED
    if len(values) > 1:
        return SEVERAL_ARRIVED
    return compare(values[0], expected, tolerance)


def share_points(
    points: float, own: tuple[CheckResult, ...], results: Mapping[str, CheckResult]
) -> float:
    """Share a cell's points out by weight. A visible check earns only with its hidden twin."""
    earned = whole = 0.0
    for result in own:
        check = result.check
        if not check.hidden and check.twin is None:
            continue  # Practice: what it compares with can be read.
        whole += check.weight
        twin_passed = check.twin is None or results[check.twin].passed
        earned += check.weight if result.passed and twin_passed else 0.0
    return round(points * earned / whole, 2) if whole else 0.0


def _students_code(rebuilt: Rebuilt) -> list[tuple[str, str]]:
    return [
        (cell.id, cell.source)
        for cell in rebuilt.cells
        if cell.type == "code"
        and (cell.role == "carried" or (cell.role != "test" and cell.id in rebuilt.changed))
    ]


def _forbidden(use: forbidden.Use, place: str) -> str:
    further = "" if use.lines == 1 else f" (and {use.lines - 1:,} more)"
    return (
        f"{place}, line {use.line}{further}, uses {use.name}, which this exercise does not allow."
    )


def _ungraded(notebook: Notebook) -> NotebookGrade:
    """Return the released notebook with 0 points: what stands when the grader itself fails."""
    rebuilt = Rebuilt(
        notebook_id=notebook.id,
        cells=tuple(
            RebuiltCell(cell.id, cell.type, cell.role, cell.released, cell.hidden)
            for cell in notebook.cells
        ),
        warnings=(),
        problems=(),
        changed=frozenset(),
    )
    cells = {
        cell.id: CellGrade(cell.id, 0.0, cell.points, ())
        for cell in notebook.cells
        if cell.role in ("test", "written")
    }
    return NotebookGrade(notebook, rebuilt, None, cells)
