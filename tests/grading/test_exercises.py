"""The exercises: right work passes every check, and each known mistake loses what it must.

The answers stand in solutions/NAME.answers.toml; `python -m grading answers NAME` prints the table.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.students import MARKER
from grading import checks_file
from grading.answers import read_answers
from grading.assignment import Assignment, load
from grading.autograde import autograde
from grading.course import Course
from grading.draws import drawn
from grading.lint import lint
from grading.release import is_current
from grading.trials import answer_flaws, judging_cells
from mha_lib.cost import MODELS
from tests.grading.small_course import write_notebook

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
    assert {path.name for path in (ROOT / "exercises").iterdir() if path.is_dir()} == {*NAMES}


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


# ---------------------------------------------------------------- variants, in embeddings

PICK = "model of task 3a"
# The models of the task as the library has them.
SIZES = {
    "BERT-base": MODELS["bert-base"],
    "BERT-large": MODELS["bert-large"],
    "GPT-2 small": MODELS["gpt2-small"],
    "GPT-2 XL": MODELS["gpt2-xl"],
}


@pytest.fixture
def switched_on(course: Course, tmp_path: Path) -> Course:
    """A copy of the course in which embeddings has variants."""
    shutil.copytree(course.root, tmp_path / "course")
    made = Course(tmp_path / "course")
    settings = made.solutions / "embeddings.toml"
    text, count = re.subn("(?m)^# (variants = true)$", r"\1", settings.read_text("utf-8"))
    assert count == 1  # one line switches it
    settings.write_text(text, "utf-8")
    return made


def test_the_models_to_count_are_those_of_the_library() -> None:
    assignment = load(Course(ROOT), "embeddings")
    assert not assignment.variants
    assert assignment.picks[PICK] == tuple(map(repr, SIZES))
    (task,) = (cell for cell in assignment.notebooks[0].cells if cell.id == "task-3")
    for name, model in SIZES.items():
        sizes = (model.vocabulary, model.positions, model.embed_dim)
        row = " | ".join([name, *(f"{size:,}" for size in sizes)])
        assert f"| {row} |" in task.solution


def _with_numbers_of(course: Course, assignment: Assignment, model: str, student: str) -> None:
    """Hand in the solution, with the numbers of this model worked out and written down."""
    sizes = SIZES[model]
    tables = (
        f"in_token_table = {sizes.vocabulary * sizes.embed_dim}\n"
        f"in_place_table = {sizes.positions * sizes.embed_dim}"
    )
    cells = [
        {
            "id": cell.notebook_cell_id,
            "cell_type": cell.type,
            "metadata": cell.metadata,
            "source": tables if cell.id == "bert-tables" else MARKER.sub("", cell.solution),
            **({"execution_count": None, "outputs": []} if cell.type == "code" else {}),
        }
        for cell in assignment.notebooks[0].cells
    ]
    write_notebook(course.submitted / student / "embeddings" / "embeddings.ipynb", cells)


@pytest.mark.slow
def test_with_variants_each_is_graded_by_their_own_model(switched_on: Course) -> None:
    """The copied notebook is right in all but the two numbers of its neighbour's model."""
    assignment = load(switched_on, "embeddings")
    # As a release with variants leaves it; making one takes minutes.
    checks_file.write(
        switched_on.exercises / "embeddings" / checks_file.FILE_NAME,
        assignment=assignment.name,
        salt="5a17",
        checks={},
        picks=assignment.picks,
    )
    large, small, copier = (
        next(id for id in map(str, range(99)) if drawn(assignment, id)[PICK] == option)
        for option in (1, 2, 3)
    )
    _with_numbers_of(switched_on, assignment, "BERT-large", large)
    _with_numbers_of(switched_on, assignment, "GPT-2 small", small)
    _with_numbers_of(switched_on, assignment, "GPT-2 small", copier)
    lines = autograde(switched_on, "embeddings", progress=print)
    scores = {line.student_id: line.score for line in lines}
    assert scores == {large: 90.0, small: 90.0, copier: 88.0}


@pytest.mark.slow
def test_with_variants_embeddings_has_no_flaw(switched_on: Course) -> None:
    assert lint(switched_on, "embeddings") == []
    assert answer_flaws(switched_on, load(switched_on, "embeddings")) == []
