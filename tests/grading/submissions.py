"""All kinds of submissions, and what grading them comes to: `python -m tests.grading.submissions`.

The command grades every kind as one batch in a course of its own and prints the table. Names
after the command choose kinds; `--quick` chooses those that `make test` grades, and `--cold` starts
Python for each run.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.students import NAME, copy_course
from grading.autograde import autograde
from grading.course import Course
from grading.writer import Line
from tests.grading import honest_work  # noqa: F401  # fills the table
from tests.grading.handing_in import CASES, Case, make
from tests.grading.hostile import every_attack  # noqa: F401  # fills the table

# Endless loops cost a test this long, twice each: one that can be interrupted, one that cannot.
# Those that are put off cost `pace.LEAST_SECONDS` before that.
# An import of torch must fit into the first, a whole notebook into the second, on a busy machine.
CELL_SECONDS = 8
SECONDS = 40
WORKERS = 2


class Marks(NamedTuple):
    """What the gradebook holds for one submission."""

    cells: dict[str, float | None]  # automatic points of each graded cell
    score: float
    needs_manual_grade: bool
    flagged: bool


class Batch(NamedTuple):
    """A graded course."""

    course: Course
    lines: dict[str, Line]  # by student
    seconds: float


def quick_cases() -> list[Case]:
    """Return the kinds that every `make test` grades."""
    return [case for case in CASES.values() if case.quick]


def slow_cases() -> list[Case]:
    """Return the kinds that `make test-slow` grades beside them."""
    return [case for case in CASES.values() if not case.quick and not case.by_hand]


def lay_course(root: Path, cases: Iterable[Case]) -> Course:
    """Lay a course into the empty folder ``root``, with one submission of each kind."""
    copy_course(root)
    settings = root / "solutions" / f"{NAME}.toml"
    text = settings.read_text(encoding="utf-8")
    lines = f"cell_seconds = {CELL_SECONDS}\nseconds = {SECONDS}"
    shorter, changed = re.subn(r"(?m)^cell_seconds = .*$", lines, text)
    assert changed == 1, f"{settings} has no line for cell_seconds"
    settings.write_text(shorter, encoding="utf-8")
    for case in cases:
        make(case, root)
    return Course(root)


def grade_batch(
    root: Path,
    cases: Iterable[Case],
    laid: Callable[[], object] = lambda: None,
    *,
    cold: bool = False,
) -> Batch:
    """Lay a course with one submission of each kind, call ``laid``, and grade it."""
    course = lay_course(root, cases)
    laid()
    start = time.monotonic()
    lines = autograde(course, NAME, workers=WORKERS, cold=cold)
    return Batch(course, {line.student_id: line for line in lines}, time.monotonic() - start)


def marks_in_gradebook(course: Course) -> dict[str, Marks]:
    """Read the gradebook with nbgrader's own code, by student."""
    from nbgrader.api import Gradebook

    with Gradebook(course.database_url) as book:
        return {
            submission.student_id: Marks(
                {
                    grade.cell.name: grade.auto_score
                    for notebook in submission.notebooks
                    for grade in notebook.grades
                },
                submission.score,
                submission.needs_manual_grade,
                any(notebook.flagged for notebook in submission.notebooks),
            )
            for submission in book.assignment_submissions(NAME)
        }


def main(arguments: list[str]) -> None:
    """Grade the chosen kinds and print what each came to."""
    cases = quick_cases() if "--quick" in arguments else list(CASES.values())
    names = [name for name in arguments if not name.startswith("-")]
    cases = [CASES[name] for name in names] if names else cases
    with tempfile.TemporaryDirectory(prefix="submissions-") as folder:
        os.environ["MHA_COURSE_SECRET"] = f"{folder}/secret"
        root = Path(folder, "course")
        root.mkdir()
        batch = grade_batch(root, cases, cold="--cold" in arguments)
    print(f"{len(cases)} submissions in {batch.seconds:.0f} s\n")
    print("| Submission | Must get | Got | Status and reasons |")
    print("|---|--:|--:|---|")
    for case in cases:
        line = batch.lines[case.student]
        reasons = " ".join(line.reasons).replace("|", "\\|").replace("\n", " ")
        score = "none" if line.score is None else f"{line.score:g}"
        print(
            f"| {case.name.replace('_', ' ')}: {case.says.split(':')[0]} "
            f"| {sum(case.marks.values()):g} | {score} | {line.status}. {reasons} |"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
