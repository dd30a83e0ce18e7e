"""Releasing with the real nbgrader, a real gradebook and real sandboxes."""

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading import checks_file, expected
from grading.assignment import AssignmentError, load
from grading.course import Course
from grading.release import ReleaseError, is_current, register, release
from tests.grading.small_course import (
    NUMBER_TEST,
    document,
    released_cells,
    small_course,
    solution_cells,
    write_notebook,
)

Tree = dict[str, bytes]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory, course_secret: Path) -> Course:
    """A course with its release made, and a file beside the notebook. Copy it to change it."""
    course = small_course(tmp_path_factory.mktemp("released"))
    cells = solution_cells()
    cells[5]["source"] += " See scores.csv."
    cells[5]["metadata"]["collapsed"] = True
    cells[5]["metadata"]["tags"] = ["question"]
    cells[1] |= {
        "execution_count": 3,
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "64"}],
    }
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", cells)
    (course.solutions / "tiny" / "scores.csv").write_text("1,2\n")
    release(course, "tiny")
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    """A copy to change, with the cached reference of the original."""
    shutil.copytree(released.root, tmp_path / "course")
    return Course(tmp_path / "course")


def tree(folder: Path) -> Tree:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def change(course: Course, old: str, new: str) -> None:
    """Change the text of the instructor's notebook."""
    path = course.solutions / "tiny" / "tiny.ipynb"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_release_holds_what_it_may_and_nothing_else(released: Course) -> None:
    made = tree(released.exercises)
    assert sorted(made) == ["tiny/checks.json", "tiny/scores.csv", "tiny/tiny.ipynb"]
    assert made["tiny/scores.csv"] == b"1,2\n"
    everything = b"\n".join(made.values()).decode()
    for hidden in ("once more", "other sizes", "HIDDEN", "SOLUTION", "raised", "is not right"):
        assert hidden not in everything


def test_the_notebook_is_clean(released: Course) -> None:
    made = json.loads((released.exercises / "tiny" / "tiny.ipynb").read_text(encoding="utf-8"))
    wanted = released_cells()
    wanted[5]["source"] += " See scores.csv."
    assert ["".join(cell["source"]) for cell in made["cells"]] == [c["source"] for c in wanted]
    assert [cell["id"] for cell in made["cells"]] == [cell["id"] for cell in wanted]
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    assert set(made["metadata"]) == {"kernelspec", "language_info"}
    for cell in made["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"nbgrader", "deletable", "editable", "tags"}


def test_checks_json_holds_the_solutions_values(released: Course) -> None:
    checks = checks_file.read(released.exercises / "tiny" / "checks.json")
    assert checks.assignment == "tiny"
    assert set(checks.checks) == {"head width", "weights"}
    # A plain number that earns points is told to nobody, not even as a hash.
    assert checks.checks["head width"]["kind"] == "form"
    assert checks.checks["weights"]["kind"] == "value"
    verdict = expected.judge([1.0], checks.checks["weights"])
    assert not verdict.passed


def test_checks_json_holds_what_the_student_may_not_use(course: Course) -> None:
    path = course.exercises / "tiny" / "checks.json"
    assert checks_file.read(path).forbidden == ("log_softmax", "mha_lib")
    checks = json.loads(path.read_text())
    del checks["forbidden"]
    path.write_text(json.dumps(checks))
    assert "forbidden is not what a release makes now" in is_current(course, "tiny")[0]


@pytest.mark.slow
def test_releasing_again_changes_no_byte(course: Course) -> None:
    before = tree(course.exercises)
    elsewhere = release(course, "tiny", course.root / "again", register=False)
    assert {f"tiny/{name}": content for name, content in tree(elsewhere).items()} == before
    release(course, "tiny")
    assert tree(course.exercises) == before
    assert [path.name for path in course.exercises.iterdir()] == ["tiny"]


def test_a_fresh_release_is_current(released: Course) -> None:
    assert is_current(released, "tiny") == []


def test_what_is_not_current_is_named(course: Course) -> None:
    folder = course.exercises / "tiny"
    (folder / "scores.csv").write_text("1,3\n")
    (folder / "more.txt").write_text("x")
    (folder / "tiny.ipynb").unlink()
    checks = json.loads((folder / "checks.json").read_text())
    checks["checks"]["weights"]["hint"] = "Another."
    (folder / "checks.json").write_text(json.dumps(checks))
    said = "\n".join(is_current(course, "tiny"))
    for what in (
        "more.txt does not belong there",
        "scores.csv is not what a release makes",
        "tiny.ipynb is missing",
        "check 'weights' is not what a release makes",
    ):
        assert what in said
    assert len(said.split("\n")) == 4
    shutil.rmtree(folder)
    assert "run: python -m grading release tiny" in is_current(course, "tiny")[0]


def test_arrays_may_differ_in_their_last_digits(course: Course) -> None:
    path = course.exercises / "tiny" / "checks.json"
    before = path.read_bytes()
    checks = json.loads(before)
    array = checks["checks"]["weights"]["value"]["array"]

    def write(factor: float) -> None:
        numbers = np.frombuffer(base64.b64decode(array["data"]), dtype=array["dtype"]) * factor
        changed = json.loads(before)
        data = base64.b64encode(numbers.tobytes()).decode()
        changed["checks"]["weights"]["value"]["array"]["data"] = data
        path.write_text(json.dumps(changed))

    write(1 + 1e-12)
    assert path.read_bytes() != before
    assert is_current(course, "tiny") == []
    write(1 + 1e-3)
    assert len(is_current(course, "tiny")) == 1


def test_nbgrader_accepts_the_release(released: Course) -> None:
    from nbgrader.nbgraderformat import read

    with (released.exercises / "tiny" / "tiny.ipynb").open(encoding="utf-8") as file:
        notebook = read(file, as_version=4)
    checksums = [cell.metadata.nbgrader.get("checksum") for cell in notebook.cells[1:]]
    assert all(checksums)


def cells_in_gradebook(course: Course) -> dict[str, float]:
    from nbgrader.api import Gradebook

    with Gradebook(course.database_url) as gradebook:
        notebook = gradebook.find_notebook("tiny", "tiny")
        return {cell.name: cell.max_score for cell in notebook.grade_cells}


def test_the_cells_are_in_the_gradebook(released: Course) -> None:
    assert cells_in_gradebook(released) == {"number-test": 2, "function-test": 3, "answer": 2}


@pytest.mark.slow
def test_registering_makes_a_gradebook_and_touches_no_exercise(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    # nbgrader starts alembic by name for a new gradebook; cron, for one, has a short PATH.
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    before = tree(course.exercises)
    (course.root / "gradebook.db").unlink()
    change(course, '"points": 3', '"points": 4')
    register(course, "tiny")
    assert cells_in_gradebook(course)["function-test"] == 4
    assert tree(course.exercises) == before


def hand_in(course: Course) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(course.database_url) as gradebook:
        gradebook.add_student("an")
        gradebook.add_submission("tiny", "an")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")
def test_cells_that_marks_rest_on_stay(course: Course) -> None:
    hand_in(course)
    change(course, "What would one head miss?", "What would a single head miss?")
    register(course, "tiny")
    before = tree(course.exercises)
    change(course, '"grade_id": "number-test"', '"grade_id": "other-test"')
    with pytest.raises(ReleaseError, match="under another name"):
        register(course, "tiny")
    assert cells_in_gradebook(course)["number-test"] == 2
    # A release that cannot be registered is not made either.
    with pytest.raises(ReleaseError, match="under another name"):
        release(course, "tiny")
    assert tree(course.exercises) == before


@pytest.mark.slow
def test_an_assignment_with_flaws_is_not_released(course: Course) -> None:
    before = tree(course.exercises)
    cells: list[dict[str, Any]] = solution_cells()
    cells[2]["source"] = NUMBER_TEST.replace("head_width)", "head_width == 64)")
    cells[0]["source"] = "# Tiny"
    (course.solutions / "tiny" / "tiny.ipynb").write_text(json.dumps(document(cells)))
    with pytest.raises(AssignmentError) as caught:
        release(course, "tiny")
    said = str(caught.value)
    for what in ("compares", "its difficulty", "a truth value", "scores.csv is named in no"):
        assert what in said
    assert tree(course.exercises) == before


@pytest.mark.parametrize("step", ["_register", "_differences", "_refuse_surprises"])
def test_a_failure_keeps_the_old_release(
    course: Course, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = tree(course.exercises)
    change(course, "What would one head miss?", "What would a single head miss?")

    def fail(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(f"grading.release.{step}", fail)
    monkeypatch.setattr("grading.release.lint", lambda course, name: [])
    with pytest.raises(OSError, match="the disk is full"):
        release(course, "tiny")
    assert tree(course.exercises) == before
    assert [path.name for path in course.exercises.iterdir()] == ["tiny"]


def test_a_move_that_fails_brings_the_old_release_back(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(course.exercises)
    change(course, "What would one head miss?", "What would a single head miss?")
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.parent.name == "release":
            raise OSError("the disk is full")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr("grading.release.lint", lambda course, name: [])
    with pytest.raises(OSError, match="the disk is full"):
        release(course, "tiny", register=False)
    assert tree(course.exercises) == before


@pytest.mark.parametrize("moment", ["before the old one moves", "after it", "at the new one"])
def test_ctrl_c_between_the_moves_brings_the_old_release_back(
    course: Course, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before = tree(course.exercises)
    change(course, "What would one head miss?", "What would a single head miss?")
    real = Path.rename
    pressed = []

    def rename(self: Path, target: Path) -> Path:
        moves_new = self.parent.name == "release"
        if pressed or moves_new != (moment == "at the new one"):
            return real(self, target)
        pressed.append(moment)
        if moment == "after it":
            real(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr("grading.release.lint", lambda course, name: [])
    with pytest.raises(KeyboardInterrupt):
        release(course, "tiny", register=False)
    assert pressed
    assert tree(course.exercises) == before
    assert [path.name for path in course.exercises.iterdir()] == ["tiny"]


def test_a_release_must_be_what_the_grader_takes_for_released(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were nbgrader's rules to change, no release would be made with the old ones."""
    monkeypatch.setattr("grading.marks.CODE_STUB", "# another stub")
    monkeypatch.setattr("grading.release.lint", lambda course, name: [])
    with pytest.raises(ReleaseError, match="no longer follows"):
        release(course, "tiny")


@pytest.mark.slow
def test_nbgraders_own_command_releases_the_same_notebook(course: Course, tmp_path: Path) -> None:
    """``nbgrader generate_assignment`` on solutions/ itself, without our clean copy."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    config = Config()
    config.CourseDirectory.root = str(course.root)
    config.CourseDirectory.assignment_id = "tiny"
    config.CourseDirectory.source_directory = "solutions"
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'other.db'}"
    GenerateAssignment(coursedir=CourseDirectory(config=config), config=config).start()
    made = json.loads((course.root / "release" / "tiny" / "tiny.ipynb").read_text())
    texts = ["".join(cell["source"]) for cell in made["cells"]]
    assert texts == [cell.released for cell in load(course, "tiny").notebooks[0].cells]
