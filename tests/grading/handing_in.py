"""How a kind of submission is written down: a small maker, and what grading it must come to.

A maker gets the released notebook and changes it as a student would. It stands in the table
``CASES`` under its name. Use::

    @submission(right=ALL)
    def prints_a_lot(work: Work) -> None:
        "Right answers that print; full marks."
        solve(work.notebook)
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from benchmarks.students import (
    NAME,
    answer_ids,
    find,
    grading_facts,
    hand_in,
    instructors,
    released,
)
from grading.grade import Status

ALL = "all"
NONE: tuple[str, ...] = ()


class Work(NamedTuple):
    """What a maker works on; the notebook is saved into the folder when it is done."""

    notebook: NotebookNode
    folder: Path  # submitted/STUDENT/multi-head, which is there
    course: Path

    @property
    def path(self) -> Path:
        """Where the notebook belongs."""
        return self.folder / f"{NAME}.ipynb"


class Case(NamedTuple):
    """One kind of submission, and what grading it must come to."""

    name: str
    make: Callable[[Work], None]
    student_id: str
    statuses: tuple[Status, ...]
    right: tuple[str, ...]  # answers whose tests must get every point; all other tests get 0
    honest: bool
    quick: bool  # graded in `make test` too
    by_hand: bool  # takes minutes: graded in no test, only by `benchmarks.hostile`
    saved: bool  # the notebook is saved; otherwise the maker wrote the folder itself

    @property
    def student(self) -> str:
        """The id as the gradebook has it."""
        return unicodedata.normalize("NFC", self.student_id)

    @property
    def says(self) -> str:
        """The maker's one line."""
        return (self.make.__doc__ or "").splitlines()[0]

    @property
    def marks(self) -> dict[str, float]:
        """The points of each test cell that a machine gives."""
        return {
            test: points if answer_id in self.right else 0.0
            for answer_id, tests in tests_of_answers().items()
            for test, points in tests.items()
        }


CASES: dict[str, Case] = {}


def submission(
    *,
    right: tuple[str, ...] | str = NONE,
    status: Status | tuple[Status, ...] = Status.GRADED,
    student_id: str = "",
    honest: bool = False,
    quick: bool = False,
    by_hand: bool = False,
    saved: bool = True,
) -> Callable[[Callable[[Work], None]], Callable[[Work], None]]:
    """Put a maker into the table, with what grading its submission must come to."""

    def register(make: Callable[[Work], None]) -> Callable[[Work], None]:
        name = make.__name__
        CASES[name] = Case(
            name=name,
            make=make,
            student_id=student_id or name.replace("_", "-"),
            statuses=status if isinstance(status, tuple) else (status,),
            right=tuple(answer_ids()) if isinstance(right, str) else right,
            honest=honest,
            quick=quick,
            by_hand=by_hand,
            saved=saved,
        )
        return make

    return register


def make(case: Case, course: Path) -> None:
    """Lay one submission into the course."""
    folder = course / "submitted" / case.student_id / NAME
    folder.mkdir(parents=True)
    work = Work(released(), folder, course)
    case.make(work)
    if case.saved:
        hand_in(work.notebook, course, case.student_id)


def tests_of_answers() -> dict[str, dict[str, float]]:
    """Return the tests of each answer with their points: those between it and the next answer."""
    tests: dict[str, dict[str, float]] = {}
    current: dict[str, float] = {}
    for cell in instructors().cells:
        facts = grading_facts(cell)
        if not facts or (facts["grade"] and facts["solution"]):
            continue
        if facts["solution"]:
            current = tests.setdefault(facts["grade_id"], {})
        elif facts["grade"]:
            current[facts["grade_id"]] = float(facts["points"])
    return tests


def check_cells() -> list[str]:
    """Return the grade_ids of the test cells, in order."""
    return [test for tests in tests_of_answers().values() for test in tests]


def index_of(notebook: NotebookNode, grade_id: str) -> int:
    """Return where the cell with this grade_id stands."""
    index: int = notebook.cells.index(find(notebook, grade_id))
    return index
