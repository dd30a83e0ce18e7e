"""Every kind of submission, graded as one batch by the real thing: sandboxes and gradebook.

One batch holds the most telling kinds, a second, slower one all the others. Their runs are
forked; a third holds the most telling kinds again, and there each run starts Python. All attacks
are tried in both ways by `python -m benchmarks.hostile`.
"""

import csv
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.students import (
    NAME,
    answer_ids,
    grading_facts,
    instructors,
    released,
)
from grading.grade import Status
from tests.grading.handing_in import CASES, Case, check_cells
from tests.grading.hostile.attack import PASSED
from tests.grading.returned import (
    HAND_GRADED,
    hidden_lines,
    hidden_names,
    nbgrader,
    solution_lines,
    texts_for_students,
    texts_in,
    what_they_wrote,
)
from tests.grading.submissions import (
    Batch,
    Marks,
    grade_batch,
    marks_in_gradebook,
    quick_cases,
    slow_cases,
)

every_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=[] if case.quick else pytest.mark.slow)
        for case in [*quick_cases(), *slow_cases()]
    ],
)
both_batches = pytest.mark.parametrize(
    "batch", ["quick_batch", pytest.param("slow_batch", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture(scope="session")
def quick_batch(course_secret: Path, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    return grade_batch(tmp_path_factory.mktemp("quick"), quick_cases())


@pytest.fixture(scope="session")
def slow_batch(course_secret: Path, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    return grade_batch(tmp_path_factory.mktemp("slow"), slow_cases())


@pytest.fixture
def batch(request: pytest.FixtureRequest) -> Batch:
    """Return the batch that a test names, or the one that its submission is in."""
    name = getattr(request, "param", None)
    if name is None:
        name = "quick_batch" if request.getfixturevalue("case").quick else "slow_batch"
    graded: Batch = request.getfixturevalue(name)
    return graded


@pytest.fixture
def marks(batch: Batch, case: Case) -> Marks:
    return marks_in_gradebook(batch.course)[case.student]


def cases_in(batch: Batch) -> list[Case]:
    return [case for case in CASES.values() if case.student in batch.lines]


# One submission.


@every_case
def test_it_gets_the_points_of_its_right_answers_and_no_other(marks: Marks, case: Case) -> None:
    got = {cell: points for cell, points in marks.cells.items() if cell != HAND_GRADED}
    assert got == pytest.approx(case.marks)


@every_case
def test_it_ends_in_one_status_with_a_reason(batch: Batch, case: Case) -> None:
    line = batch.lines[case.student]
    assert line.status in case.statuses, line.reasons
    if line.status != Status.GRADED:
        assert all(reason.strip() for reason in line.reasons)
        assert line.reasons


@every_case
def test_the_line_says_what_the_gradebook_holds(batch: Batch, marks: Marks, case: Case) -> None:
    line = batch.lines[case.student]
    assert line.score == pytest.approx(marks.score)
    assert line.max_score == 100


@every_case
def test_a_person_is_asked_where_one_is_needed(batch: Batch, marks: Marks, case: Case) -> None:
    attention = batch.lines[case.student].status == Status.ATTENTION
    assert marks.flagged == attention
    if attention:
        assert marks.needs_manual_grade


@every_case
def test_its_autograded_notebook_is_there(batch: Batch, case: Case) -> None:
    path = batch.course.autograded / case.student / NAME / f"{NAME}.ipynb"
    assert path.is_file()
    assert not path.is_symlink()


# The whole batch.


@both_batches
def test_every_submission_has_exactly_one_outcome(batch: Batch) -> None:
    students = [case.student for case in cases_in(batch)]
    assert sorted(batch.lines) == sorted(students)
    assert sorted(marks_in_gradebook(batch.course)) == sorted(students)


@pytest.mark.slow
def test_nobody_elses_grade_moves(
    quick_batch: Batch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The honest get the same marks where nobody hostile is in the batch."""
    honest = [case for case in quick_cases() if case.honest][:2]
    root = tmp_path_factory.mktemp("honest")
    # The solution's values are the same ones.
    shutil.copytree(quick_batch.course.state / "reference", root / ".grading" / "reference")
    alone = grade_batch(root, honest)
    among_others = marks_in_gradebook(quick_batch.course)
    assert marks_in_gradebook(alone.course) == {
        case.student: among_others[case.student] for case in honest
    }


@pytest.mark.slow
def test_runs_that_start_python_come_to_the_same(
    quick_batch: Batch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cold = grade_batch(tmp_path_factory.mktemp("cold"), quick_cases(), cold=True)
    assert marks_in_gradebook(cold.course) == marks_in_gradebook(quick_batch.course)
    for student, text in texts_for_students(cold).items():
        assert PASSED not in text, student


def test_grading_again_changes_nothing(quick_batch: Batch) -> None:
    from grading.autograde import autograde

    before = marks_in_gradebook(quick_batch.course)
    lines = autograde(quick_batch.course, NAME)
    assert {line.status for line in lines} == {"already graded"}
    assert marks_in_gradebook(quick_batch.course) == before


# What reaches a student.


@pytest.fixture(scope="session")
def quick_pages(quick_batch: Batch) -> dict[str, str]:
    return texts_for_students(quick_batch)


@pytest.fixture(scope="session")
def slow_pages(slow_batch: Batch) -> dict[str, str]:
    return texts_for_students(slow_batch)


@pytest.fixture
def pages(request: pytest.FixtureRequest, case: Case) -> str:
    """Return all that the case's student gets back: feedback page and autograded notebook."""
    texts: dict[str, str] = request.getfixturevalue("quick_pages" if case.quick else "slow_pages")
    return texts[case.student]


def test_there_is_something_to_hide() -> None:
    assert len(hidden_lines()) > 20
    assert len(hidden_names()) > 10
    assert len(solution_lines()) > 20
    # And the search would find it.
    everything = texts_in(instructors())
    assert all(line in everything for line in hidden_lines() | solution_lines() | hidden_names())


@every_case
def test_nothing_hidden_reaches_the_student(pages: str, case: Case) -> None:
    assert [line for line in hidden_lines() if line in pages] == []
    assert [name for name in hidden_names() if name in pages] == []
    assert "HIDDEN TESTS" not in pages


@every_case
def test_no_wall_was_passed(pages: str, case: Case) -> None:
    assert [line for line in pages.splitlines() if PASSED in line] == []


@every_case
def test_no_solution_reaches_the_student(pages: str, case: Case, batch: Batch) -> None:
    own = what_they_wrote(batch, case)
    told = [line for line in solution_lines() if line in pages and line not in own]
    assert told == []
    assert os.environ["MHA_COURSE_SECRET"] not in pages
    assert Path(os.environ["MHA_COURSE_SECRET"]).read_text().strip() not in pages


@both_batches
def test_grades_are_exported(batch: Batch) -> None:
    nbgrader(batch.course.root, "export")
    with (batch.course.root / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}
    assert rows == pytest.approx({student: line.score for student, line in batch.lines.items()})


@pytest.fixture(autouse=True, scope="session")
def _the_repositorys_notebooks_stay() -> Iterator[None]:
    """Hold the repository's own notebooks as they were."""
    root = Path(__file__).resolve().parents[2]
    files = [path for folder in ("solutions", "exercises") for path in (root / folder).rglob("*")]
    before = {path: path.read_bytes() for path in files if path.is_file()}
    yield
    assert {path: path.read_bytes() for path in before} == before


def test_each_answer_has_tests() -> None:
    """The table's idea, that the tests after an answer are its own, holds for the exercise."""
    assert all(case.marks.keys() == set(check_cells()) for case in CASES.values())
    assert sum(CASES["right"].marks.values()) == 90
    assert {grading_facts(cell).get("grade_id") for cell in released().cells} >= set(answer_ids())
