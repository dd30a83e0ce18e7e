"""The exercises: right work passes every check, and each known mistake loses what it must.

The answers stand in solutions/NAME.answers.toml; `python -m grading answers NAME` prints the table.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grading.answers import read_answers
from grading.assignment import load
from grading.course import Course
from grading.lint import lint
from grading.release import is_current
from grading.trials import answer_flaws, judging_cells

ROOT = Path(__file__).resolve().parents[2]
SECRET = "5a" * 32
NAMES = Course(ROOT).assignments


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """Yield a course with the exercises, whose hidden inputs are always the same."""
    course = Course(tmp_path_factory.mktemp("course"))
    shutil.copytree(ROOT / "solutions", course.solutions)
    shutil.copytree(ROOT / "exercises", course.exercises)
    secret = tmp_path_factory.mktemp("secret") / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MHA_COURSE_SECRET", str(secret))
        yield course


def test_there_are_exercises() -> None:
    assert "multi-head" in NAMES
    assert sorted(path.name for path in (ROOT / "exercises").iterdir() if path.is_dir()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_points_add_up_to_100(name: str) -> None:
    assert load(Course(ROOT), name).points == 100


def test_the_instructors_table_says_what_is_so() -> None:
    text = (ROOT / "solutions" / "README.md").read_text("utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| [")]
    said = {row[0].split("](")[1].rstrip(")"): row[2:5] for row in rows}
    so = {}
    for name in NAMES:
        assignment = load(Course(ROOT), name)
        cells = [cell for notebook in assignment.notebooks for cell in notebook.cells]
        by_hand = sum(cell.points for cell in cells if cell.role == "written")
        difficulty = "●" * assignment.difficulty + "○" * (3 - assignment.difficulty)
        so[name] = [difficulty, str(assignment.minutes), f"{by_hand:g}"]
    assert said == so


@pytest.mark.parametrize("name", NAMES)
def test_each_answer_has_a_right_and_a_wrong_one_of_a_student(name: str) -> None:
    assignment = load(Course(ROOT), name)
    answers = read_answers(Course(ROOT), assignment)
    for notebook in assignment.notebooks:
        asked = [cell.id for cell in notebook.cells if cell.role == "solution"]
        graded = [cell for cell in asked if judging_cells(notebook, cell)]
        assert graded == asked
        assert {one.cell for one in answers if one.wrong} == {*asked}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_release_in_the_repository_is_current(course: Course, name: str) -> None:
    assert is_current(course, name) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_exercise_has_no_flaw(course: Course, name: str) -> None:
    assert lint(course, name) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_answer_comes_to_what_it_should(course: Course, name: str) -> None:
    assert answer_flaws(course, load(course, name)) == []
