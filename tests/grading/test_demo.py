"""A demo cell: looked at beside a task, never run while grading, and never in anybody's way."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.assignment import AssignmentError, Notebook, load
from grading.assignment_sandbox import sandbox_for
from grading.check import _Grading
from grading.course import Course
from grading.demo import demo
from grading.grade import Status
from grading.lint import lint, text_flaws
from grading.rebuild import jobs, rebuild, solved
from grading.release import release
from tests.grading.outcomes import graded
from tests.grading.rebuilding import at, by_id, of, right_cells
from tests.grading.small_course import (
    Cells,
    cell,
    rewrite,
    small_course,
    submit,
)

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "from grading import demo\n\ndemo('HeadExplorer', query=1)"


def demo_cell(source: str = SOURCE, *, locked: bool = True, **marks: Any) -> dict[str, Any]:
    made = cell("look", "code", source, locked=locked, **marks)
    made["metadata"]["tags"] = ["demo"]
    return made


def with_demo(cells: Cells, made: dict[str, Any]) -> Cells:
    """Put a demo cell before the function's task."""
    cells.insert(at(cells, "function"), made)
    return cells


@pytest.fixture
def course(tmp_path: Path) -> Course:
    course = small_course(tmp_path / "course")
    rewrite(course, lambda cells: with_demo(cells, demo_cell()))
    return course


@pytest.fixture
def notebook(course: Course) -> Notebook:
    return load(course, "tiny").notebooks[0]


# ---------------------------------------------------------------- the cell, while grading


def test_it_has_a_role_and_no_points(notebook: Notebook) -> None:
    (look,) = [cell for cell in notebook.cells if cell.role == "demo"]
    assert (look.id, look.points, look.released) == ("look", 0.0, SOURCE)
    assert sum(cell.points for cell in notebook.cells) == 7


def test_neither_a_students_work_nor_the_solution_runs_it(notebook: Notebook) -> None:
    work = rebuild(notebook, of(with_demo(right_cells(), demo_cell())))
    assert work.warnings == work.problems == ()
    for rebuilt in (work, solved(notebook)):
        assert by_id(rebuilt)["look"].role == "demo"
        for job in jobs(rebuilt, {}, "key"):
            names = [cell.id for cell in job.cells]
            assert names == ["number", "number-test", "function", "function-test"]


def test_what_a_student_writes_into_it_is_not_run(notebook: Notebook) -> None:
    work = rebuild(notebook, of(with_demo(right_cells(), demo_cell("print('mine')"))))
    assert by_id(work)["look"].source == SOURCE
    for job in jobs(work, {}, "key"):
        assert "mine" not in "".join(cell.source for cell in job.cells)
    assert [*work.warnings] == ["You changed the cell 'look'; the original was used."]


def test_a_tag_of_the_students_keeps_no_cell_from_running(notebook: Notebook) -> None:
    cells = with_demo(right_cells(), demo_cell())
    for made in cells:
        made["metadata"]["tags"] = ["demo"]
    names = [cell.id for cell in jobs(rebuild(notebook, of(cells)), {}, "key")[0].cells]
    assert names == ["number", "number-test", "function", "function-test"]


def test_work_from_before_the_demo_came_is_whole(notebook: Notebook, course: Course) -> None:
    work = rebuild(notebook, of(right_cells()))
    assert by_id(work)["look"].source == SOURCE
    assert work.warnings == work.problems == ()
    submit(course, "an")
    assert graded(course, "an").status is Status.GRADED


def test_the_page_of_graded_work_shows_it_as_not_run(course: Course) -> None:
    from grading.render import render

    submit(course, "an", cells=with_demo(right_cells(), demo_cell()))
    outcome = graded(course, "an")
    assert (outcome.status, outcome.score) == (Status.GRADED, 5.0)
    page = json.loads(render(outcome.notebooks[0], outcome, {}))
    (look,) = [made for made in page["cells"] if made["source"] == SOURCE]
    assert (look["outputs"], look["execution_count"]) == ([], None)


# ---------------------------------------------------------------- lint, reference, release


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (demo_cell("x = 1"), "a demo cell holds"),
        (
            demo_cell("from grading import demo\nsize = 3\ndemo('Map', at=size)"),
            "a demo cell holds",
        ),
        (demo_cell("from grading import demo\ndemo('Map', at=size)"), "a demo cell holds"),
        (demo_cell("from grading import demo\ndemo('Map', **{})"), "a demo cell holds"),
        (demo_cell("from grading import demo\ndemo(1)"), "a demo cell holds"),
        (
            demo_cell("from mha_lib.widgets import HeadExplorer\nHeadExplorer()"),
            "a demo cell holds",
        ),
        (demo_cell("demo("), "a demo cell holds"),
        (demo_cell(locked=False, solution=True), "is for cells that are only looked at"),
        (demo_cell(locked=False, grade=True, points=1), "is for cells that are only looked at"),
        (demo_cell() | {"cell_type": "markdown"}, "make it read-only"),
        ({**cell("look", "code", SOURCE), "metadata": {"tags": ["demo"]}}, "make it read-only"),
    ],
)
def test_what_is_no_demo_cell_is_refused(course: Course, made: dict[str, Any], said: str) -> None:
    made = {key: made[key] for key in made if made["cell_type"] == "code" or key not in RUN_PARTS}
    rewrite(course, lambda cells: with_demo(cells, made))
    with pytest.raises(AssignmentError, match=said):
        load(course, "tiny")


RUN_PARTS = ("outputs", "execution_count")


def test_a_demo_without_the_tag_is_refused(course: Course) -> None:
    """It would be run while grading, where there may be no library."""
    rewrite(course, lambda cells: with_demo(cells, cell("look", "code", SOURCE, locked=True)))
    (flaw,) = text_flaws(course, load(course, "tiny"))
    assert "cell 'look'" in flaw
    assert "imports grading in another way" in flaw


@pytest.mark.slow
def test_a_demo_is_no_flaw(course: Course, course_secret: Path) -> None:
    assert lint(course, "tiny") == []


def test_students_get_it_with_its_tag(course: Course, course_secret: Path) -> None:
    folder = release(course, "tiny", register=False)
    cells = json.loads((folder / "tiny.ipynb").read_text("utf-8"))["cells"]
    (look,) = [made for made in cells if made["id"] == "look"]
    assert "".join(look["source"]) == SOURCE
    assert look["metadata"]["tags"] == ["demo"]
    assert look["metadata"]["nbgrader"]["locked"] is True


# ---------------------------------------------------------------- in a student's Jupyter


def in_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["mha_lib", "anywidget", "torch"])
def test_where_a_package_is_missing_one_plain_line_says_so(missing: str) -> None:
    shown = in_python(
        f"import sys; sys.modules[{missing!r}] = None; from grading import demo; "
        "assert demo('HeadExplorer', query=1) is None"
    )
    assert len(shown.splitlines()) == 1
    assert "not installed" in shown
    assert "pip install" in shown
    assert "The exercise works without it." in shown


@pytest.mark.parametrize(("name", "inputs"), [("Missing", {}), ("HeadExplorer", {"query": 77})])
def test_another_library_than_the_exercises_stops_nobody(
    name: str, inputs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo(name, **inputs) is None
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == 1
    assert "refuses it" in shown
    assert ("Missing" if not inputs else "77") in shown


def test_it_returns_the_demo_with_its_inputs() -> None:
    assert demo("HeadExplorer", query=2).query == 2


def test_a_students_copy_shows_nothing_while_grading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send: Callable[[str, Any], None] = lambda name, value: None  # noqa: E731
    monkeypatch.setattr(_Grading, "send", send)
    assert demo("Missing") is None
    assert capsys.readouterr().out == ""


def test_in_the_sandbox_a_students_own_demo_runs_without_the_library(
    course: Course, course_secret: Path
) -> None:
    cells = right_cells()
    cells.insert(at(cells, "function"), cell("own", "code", SOURCE.replace("1", "2")))
    submit(course, "an", cells=cells)
    outcome = graded(course, "an", sandbox_for(course, load(course, "tiny")))
    own = outcome.notebooks[0].run.cells["+1"]  # type: ignore[union-attr]
    assert (own.state, own.outputs) == ("ok", ())
