"""From what came out of the sandbox to marks: compare outside, share out points, find one outcome.

The student chose everything that came out. So a value counts only if it came exactly once, from
the check's own test cell, and equals the instructor's.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from grading import forbidden
from grading.assignment import Assignment, Check, Notebook
from grading.compare import compare
from grading.job import Run
from grading.rebuild import Rebuilt, RebuiltCell, jobs, rebuild
from grading.reference import Reference, received, secret_key
from grading.sandbox import Sandbox, SandboxError
from grading.submission import Submission
from grading.values import Value

NOTHING_ARRIVED = "no value arrived"
SEVERAL_ARRIVED = "more than one value arrived, so none counts: call this check only in its cell"
HIDDEN_UNFINISHED = "Running the hidden tests did not finish; what they sent before that counts."
NOT_IN_GENERAL = "right for this input; it earns points when it is right for others as well"


class Status(StrEnum):
    """How the grading of one submission ended."""

    GRADED = "graded"
    WARNINGS = "graded with warnings"
    ATTENTION = "needs attention"


@dataclass(frozen=True)
class CheckResult:
    """One check of one submission; ``said`` is what the student may read about it."""

    check: Check
    passed: bool
    said: str


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


def grade(
    assignment: Assignment,
    references: Mapping[str, Reference],
    submission: Submission,
    sandbox: Sandbox,
    secret: bytes,
) -> Outcome:
    """Grade one submission.

    Whatever the student did, the result is an Outcome; what the grader itself cannot do becomes
    one that needs attention.

    Raises:
        SandboxError: The machine lacks a wall; nothing can be said about the submission.
    """
    problems = list(submission.problems)
    warnings = list(submission.warnings)
    details: list[str] = []
    notebooks = []
    key = secret_key(secret, assignment.name)
    files = {**assignment.files, **submission.files}
    for notebook in assignment.notebooks:
        found = _Findings(problems, warnings, details)
        try:
            rebuilt = rebuild(notebook, submission.notebooks.get(notebook.id))
            graded = _grade_notebook(
                assignment, notebook, references[notebook.id], rebuilt, files, key, sandbox, found
            )
        except SandboxError:
            raise
        except Exception as error:  # A hole in the grader must not stop the others.
            problems.append(
                f"The grader itself failed on notebook {notebook.id} ({type(error).__name__}). "
                "This is not the student's fault; a person has to look."
            )
            details.append(traceback.format_exc())
            graded = _ungraded(notebook)
        notebooks.append(graded)
    status = Status.ATTENTION if problems else Status.WARNINGS if warnings else Status.GRADED
    return Outcome(
        student_id=submission.student_id,
        assignment=assignment.name,
        status=status,
        reasons=tuple(dict.fromkeys(problems + warnings)),
        notebooks=tuple(notebooks),
        timestamp=submission.timestamp,
        digest=submission.digest,
        details="\n".join(details),
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
    reason = f"The grader could not show this submission ({type(error).__name__})."
    return replace(
        outcome,
        status=Status.ATTENTION,
        reasons=(*outcome.reasons, reason),
        notebooks=notebooks,
        details="\n".join([outcome.details, *traceback.format_exception(error)]).strip(),
    )


@dataclass(frozen=True)
class _Findings:
    problems: list[str]
    warnings: list[str]
    details: list[str]


def _grade_notebook(
    assignment: Assignment,
    notebook: Notebook,
    reference: Reference,
    rebuilt: Rebuilt,
    files: Mapping[str, bytes],
    key: str,
    sandbox: Sandbox,
    found: _Findings,
) -> NotebookGrade:
    found.problems.extend(rebuilt.problems)
    found.warnings.extend(rebuilt.warnings)
    found.problems.extend(
        f"{_place(place)}, line {line} uses {name}, which this task does not allow."
        for place, line, name in forbidden.find(_students_code(rebuilt), assignment.forbidden_calls)
    )
    released, hidden = jobs(rebuilt, files, key)
    run_a = sandbox.run(released)
    run_b = sandbox.run(hidden)
    if run_a.ended != "finished":
        found.problems.append(f"Running the notebook did not finish: {run_a.reason or run_a.ended}")
    if run_b.ended != "finished":
        # How and where it ended is the student's choice there, and could carry hidden text out.
        found.problems.append(HIDDEN_UNFINISHED)
        found.details.append(f"hidden tests of {notebook.id}: {run_b.reason or run_b.ended}")
    found.warnings.extend(
        f"{_place(cell)} took longer than {assignment.limits.cell_seconds:g} seconds "
        "and was stopped."
        for cell, cell_run in run_a.cells.items()
        if cell_run.state == "timed out" and run_a.ended == "finished"
    )
    results = _results(notebook, reference, run_a, run_b)
    cells = {}
    for cell in notebook.cells:
        if cell.role == "test":
            own = tuple(result for result in results.values() if result.check.cell == cell.id)
            points = _points(cell.points, own, results)
            cells[cell.id] = CellGrade(cell.id, points, cell.points, own)
        elif cell.role == "written":
            by_hand = None if cell.id in rebuilt.changed else 0.0
            cells[cell.id] = CellGrade(cell.id, by_hand, cell.points, ())
    return NotebookGrade(notebook, rebuilt, run_a, cells)


def _results(
    notebook: Notebook, reference: Reference, run_a: Run, run_b: Run
) -> dict[str, CheckResult]:
    """Judge every check; a visible one by the run people see, a hidden one by the other."""
    results: dict[str, CheckResult] = {}
    for check in sorted(notebook.checks, key=lambda check: not check.hidden):
        run, expected = (run_b, reference.hidden) if check.hidden else (run_a, reference.visible)
        wrong = _what_is_wrong(received(run, check), expected[check.name], check.tolerance)
        if check.hidden:
            said = "" if wrong is None else check.feedback
        elif wrong is not None:
            said = f"{wrong.rstrip('.')}. {check.hint}".strip()
        else:
            twin = results[check.twin] if check.twin else None
            said = NOT_IN_GENERAL if twin is not None and not twin.passed else ""
        results[check.name] = CheckResult(check, wrong is None, said)
    return {check.name: results[check.name] for check in notebook.checks}


def _what_is_wrong(values: list[Value], expected: Value, tolerance: float | None) -> str | None:
    if not values:
        return NOTHING_ARRIVED
    if len(values) > 1:
        return SEVERAL_ARRIVED
    return compare(values[0], expected, tolerance)


def _points(
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


def _place(cell: str) -> str:
    return f"Added cell {cell[1:]}" if cell.startswith("+") else f"Cell {cell}"


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
