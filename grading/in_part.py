"""Grading a few cells anew for everybody: their marks change, and all else stays as it is.

A submission is run whole, since cells build on one another; of what that came to, only the named
cells' marks are stored, with their reports on the page. Marks and comments that a person gave,
flags, reasons and every other mark stay.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from grading.assignment import Assignment
from grading.course import CourseError
from grading.grade import Outcome, Status
from grading.plain import printable
from grading.records import Record
from grading.standings import CellMark

LEFT = "left as it is"
NOT_AS_GRADED = (
    "It was never graded as it is handed in now; the command without --task grades it whole."
)


def named_cells(assignment: Assignment, names: Collection[str] | None) -> frozenset[str]:
    """Return the names, each of which is a test cell's.

    Raises:
        CourseError: One is not; the message says which there are.
    """
    wanted = frozenset(names or ())
    cells = [cell for notebook in assignment.notebooks for cell in notebook.cells]
    tests = [cell.id for cell in cells if cell.role == "test"]
    for name in sorted(wanted - {*tests}):
        if any(cell.id == name and cell.role == "written" for cell in cells):
            raise CourseError(f"--task {name}: a person gives its points, in formgrader")
        raise CourseError(
            f"--task {printable(name)}: {assignment.name} has no test cell of this name; there "
            f"are: {', '.join(tests)}"
        )
    return wanted


def patched(old: str, new: str, cells: Collection[str]) -> str:
    """Return an autograded notebook in which the named cells are those of another one.

    Raises:
        ValueError: The old one cannot be read.
    """
    page = json.loads(old)
    others = {_grade_id(cell): cell for cell in json.loads(new)["cells"]}
    try:
        page["cells"] = [
            {**others[_grade_id(cell)], "id": cell["id"]}
            if _grade_id(cell) in cells and _grade_id(cell) in others
            else cell
            for cell in page["cells"]
        ]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("the autograded notebook is none of ours") from error
    return json.dumps(page, ensure_ascii=False, indent=1) + "\n"


def _grade_id(cell: dict[str, object]) -> object:
    metadata = cell["metadata"]
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return marks.get("grade_id") if isinstance(marks, dict) else None


def merged(
    before: Record,
    outcome: Outcome,
    marks: Iterable[CellMark],
    assignment: Assignment,
    version: str,
    cells: Collection[str],
) -> Record:
    """Return what a submission's record says afterwards, by the marks that it has then.

    ``version`` is the assignment's digest.
    """
    found = {(mark.notebook, mark.cell): mark.auto or 0.0 for mark in marks}
    wanted = {
        (notebook.id, cell.id)
        for notebook in assignment.notebooks
        for cell in notebook.cells
        if cell.role in ("test", "written")
    }
    checks = {
        check.name
        for notebook in assignment.notebooks
        for check in notebook.checks
        if check.cell in cells
    }
    wrong = None
    if before.wrong is not None:
        wrong = {name: got for name, got in before.wrong.items() if name not in checks}
        wrong |= {name: got for name, got in outcome.wrong.items() if name in checks}
    told = tuple(dict.fromkeys((*before.reasons, *outcome.reasons)))
    news = has_news(before, outcome)
    return replace(
        before,
        status=str(outcome.status) if news else before.status,
        reasons=told if news else before.reasons,
        score=round(sum(found.values()), 2),
        max_score=outcome.max_score,
        graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        # It counts as graded by this version, unless that has cells it has no mark for.
        assignment=version if wanted <= {*found} else before.assignment,
        wrong=wrong,
    )


def has_news(before: Record, outcome: Outcome) -> bool:
    """Say whether this run needs a person's look for a reason that no earlier one gave."""
    return outcome.status is Status.ATTENTION and not {*outcome.reasons} <= {*before.reasons}
