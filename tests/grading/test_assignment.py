"""Reading an assignment: what students get, and every flaw named."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.assignment import AssignmentError, load
from grading.check_calls import find_checks
from grading.course import Course
from grading.job import Limits
from grading.marks import clear_hidden, clear_solution
from tests.grading.small_course import (
    Cells,
    cell,
    document,
    released_cells,
    rewrite,
    small_course,
    solution_cells,
)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return small_course(tmp_path)


def flaws_of(course: Course, name: str = "tiny") -> tuple[str, ...]:
    with pytest.raises(AssignmentError) as caught:
        load(course, name)
    assert all(flaw in str(caught.value) for flaw in caught.value.flaws)
    return caught.value.flaws


def settings(course: Course, old: str, new: str) -> None:
    path = course.solutions / "tiny.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_what_students_get(course: Course) -> None:
    assignment = load(course, "tiny")
    cells = assignment.notebooks[0].cells
    assert [made.released for made in cells] == [made["source"] for made in released_cells()]
    assert [made.solution for made in cells] == [made["source"] for made in solution_cells()]
    assert [made.role for made in cells] == [
        *("given", "solution", "test", "solution", "test", "given", "written")
    ]
    assert assignment.points == 7
    assert assignment.student_files == ("notes.txt",)
    assert assignment.limits == Limits(cell_seconds=10, seconds=60)


def test_run_b_holds_hidden_tests_and_no_solution(course: Course) -> None:
    for made in load(course, "tiny").notebooks[0].cells:
        assert made.hidden == (made.solution if made.role == "test" else made.released)


def test_checks_and_their_settings(course: Course) -> None:
    visible, hidden = load(course, "tiny").notebooks[0].checks[2:]
    assert (visible.name, visible.cell, visible.hidden) == ("weights", "function-test", False)
    assert (visible.twin, visible.weight) == ("weights, other sizes", 1)
    assert visible.hint.startswith("Subtract")
    assert (hidden.hidden, hidden.weight, hidden.tolerance) == (True, 2, 1e-6)
    assert hidden.feedback.startswith("weights is wrong")


def test_files_beside_the_notebook(course: Course) -> None:
    folder = course.solutions / "tiny"
    (folder / "data.csv").write_bytes(b"1,2")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "__pycache__").mkdir()
    assert load(course, "tiny").files == {"data.csv": b"1,2"}


def test_several_notebooks(course: Course) -> None:
    path = course.solutions / "tiny" / "a-second.ipynb"
    path.write_text(json.dumps(document([cell("text", "markdown", "More")])), encoding="utf-8")
    assert [notebook.id for notebook in load(course, "tiny").notebooks] == ["a-second", "tiny"]


@pytest.mark.parametrize(
    ("source", "cell_type", "released"),
    [
        ("x = 1", "code", "# YOUR CODE HERE\nraise NotImplementedError()"),
        ("", "code", "# YOUR CODE HERE\nraise NotImplementedError()"),
        ("text", "markdown", "YOUR ANSWER HERE"),
        (
            "a\n  # BEGIN SOLUTION\n  b\n  # END SOLUTION\nc\n### BEGIN SOLUTION\n### END SOLUTION",
            "code",
            "a\n  # YOUR CODE HERE\n  raise NotImplementedError()\nc\n"
            "# YOUR CODE HERE\nraise NotImplementedError()",
        ),
        ("Why?\nBEGIN SOLUTION\nx\nEND SOLUTION", "markdown", "Why?\nYOUR ANSWER HERE"),
    ],
)
def test_clearing_solutions_as_nbgrader_does(source: str, cell_type: str, released: str) -> None:
    assert clear_solution(source, cell_type) == released
    assert _by_nbgrader("ClearSolutions", source, cell_type, solution=True) == released


@pytest.mark.parametrize(
    "source",
    [
        "a",
        "a\n### BEGIN HIDDEN TESTS\nb\n### END HIDDEN TESTS",
        "### BEGIN HIDDEN TESTS\n  x\n### END HIDDEN TESTS\n\nc\n  # BEGIN HIDDEN TESTS\n"
        "# END HIDDEN TESTS\n",
    ],
)
def test_clearing_hidden_tests_as_nbgrader_does(source: str) -> None:
    assert clear_hidden(source) == _by_nbgrader("ClearHiddenTests", source, "code", grade=True)


def _by_nbgrader(preprocessor: str, source: str, cell_type: str, **marks: bool) -> str:
    import nbformat
    from nbgrader import preprocessors

    notebook = nbformat.from_dict(document([cell("a", cell_type, source, **marks)]))
    cleared, _ = getattr(preprocessors, preprocessor)().preprocess(notebook, {})
    return str(cleared.cells[0].source)


def test_checks_are_found_by_syntax_not_by_text() -> None:
    source = (
        'text = "check(1)"  # check("no")\n'
        "for name in names:\n    check(name, 1)\n"
        'check("a", lambda: check("b", 2))\nother.check("no")\ncheck()\ncheck(1)'
    )
    assert find_checks(source) == [None, "a", "b", None, None]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('title = "Tiny"', "title = 3", "title = 3"),
        ('title = "Tiny"', "", "title = None"),
        ("difficulty = 1", "difficulty = 4", "from 1 to 3"),
        ("difficulty = 1", "difficulty = true", "difficulty = True"),
        ("minutes = 10", "minutes = 2.5", "minutes = 2.5"),
        ("modules = []", 'modules = ["nowhere"]', "is no package"),
        ("modules = []", 'modules = "mha_lib"', "give a list of texts"),
        ("modules = []", "points = 7", "no setting 'points'"),
        ('["log_softmax"]', '["torch.log_softmax"]', "bare name"),
        ('["notes.txt"]', '["../notes.txt"]', "plain file names"),
        ('["notes.txt"]', '[".bashrc"]', "plain file names"),
        ('["notes.txt"]', '["numpy.py"]', "would use as its own"),
        ('["notes.txt"]', '["checks.json"]', "would use as its own"),
        ("seconds = 60", "second = 60", "limits has no 'second'"),
        ("seconds = 60", "seconds = -1", "give a positive number"),
        ("seconds = 60", "seconds = inf", "give a positive number"),
        ("seconds = 60", "processes = 1.5", "give a positive whole number"),
        ("seconds = 60", "processes = true", "give a positive whole number"),
        ("weight = 2", "weight = -1", "weight = -1"),
        ("weight = 2", "weight = nan", "weight = nan"),
        ("weight = 2", "wieght = 2", "no key 'wieght'"),
        ("tolerance = 1e-6", "tolerance = 0", "between 0 and 1"),
        ("tolerance = 1e-6", "tolerance = 2", "between 0 and 1"),
        ('hint = "Each head', 'feedback = "Each head', "no hint"),
        ('hint = "Each head', 'hint = ""\n#', "hint = ''"),
        ('feedback = "weights', 'hint = "weights', "no feedback"),
        ('twin = "weights, other sizes"', 'twin = "head width"', "no hidden check of the same"),
        ('twin = "weights, other sizes"', "", "needs a hidden twin"),
        ("weight = 2", 'twin = "weights"', "a hidden check has no twin"),
        ('[checks."weights"]', '[checks."weihgts"]', "has no check in a test cell"),
        ("[limits]", "[limits", "not valid TOML"),
        ('title = "Tiny"', 'title = "Tiny"\nlimits = 3\n[nothing]', "not valid TOML"),
    ],
)
def test_a_flaw_in_the_settings(course: Course, old: str, new: str, said: str) -> None:
    settings(course, old, new)
    assert any(said in flaw for flaw in flaws_of(course)), flaws_of(course)


def test_practice_needs_no_twin(course: Course) -> None:
    settings(course, 'twin = "weights, other sizes"', "weight = 0")
    assert load(course, "tiny").notebooks[0].checks[2].weight == 0


def test_points_need_a_weight(course: Course) -> None:
    settings(course, 'twin = "head width, once more"', "weight = 0")
    settings(
        course, '[checks."head width, once more"]', '[checks."head width, once more"]\nweight=0'
    )
    assert any("all its checks weigh 0" in flaw for flaw in flaws_of(course))


def test_every_flaw_is_named_at_once(course: Course) -> None:
    settings(course, "difficulty = 1", "difficulty = 9")
    settings(course, "minutes = 10", "colour = 1")
    rewrite(course, lambda cells: cells[2]["metadata"]["nbgrader"].pop("points"))
    flaws = flaws_of(course)
    assert len(flaws) == 4
    for said in ("difficulty = 9", "minutes = None", "'colour'", "points=None"):
        assert any(said in flaw for flaw in flaws)


def mark(**marks: Any) -> Callable[[Cells], None]:
    return lambda cells: cells[2]["metadata"]["nbgrader"].update(marks)


def source(index: int, text: str) -> Callable[[Cells], None]:
    return lambda cells: cells[index].update(source=text)


def other_id(cells: Cells) -> None:
    cells[1]["metadata"]["nbgrader"]["grade_id"] = "function"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_id, "the id 'function' stands twice"),
        (mark(grade_id="ä"), "grade_id='ä'"),
        (mark(grade_id=""), "grade_id=''"),
        (mark(grade_id=None), "grade_id=None"),
        (mark(grade_id="given-1x"), "may not start with 'given-'"),
        (mark(points=-1), "points=-1"),
        (mark(points="two"), "points='two'"),
        (mark(points=True), "points=True"),
        (mark(points=float("nan")), "points=nan"),
        (mark(task=True), "task cell"),
        (mark(schema_version=1), "nbgrader update"),
        (lambda cells: cells[1]["metadata"].update(nbgrader=[1]), "not a table"),
        (lambda cells: cells[6].update(attachments={"a.png": {}}), "pasted picture"),
        (lambda cells: cells[6].update(cell_type="raw"), "not raw"),
        (source(1, "### BEGIN SOLUTION\nx = 1"), "never closed"),
        (source(1, "x = 1\n### END SOLUTION"), "has no 'BEGIN SOLUTION' before it"),
        (source(1, "# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION"), "stands twice"),
        (source(1, "# BEGIN SOLUTION END SOLUTION"), "one line holds both"),
        (source(1, "# BEGIN HIDDEN TESTS\n# END HIDDEN TESTS"), "belong in test cells only"),
        (source(0, "BEGIN HIDDEN TESTS\nEND HIDDEN TESTS"), "belong in test cells only"),
        (source(2, "# BEGIN SOLUTION\n# END SOLUTION"), "belong in solution cells only"),
        (source(0, "BEGIN SOLUTION\nEND SOLUTION"), "belong in solution cells only"),
        (source(6, "BEGIN MARK SCHEME\nx\nEND MARK SCHEME"), "reword it"),
        (source(2, "### AUTOTEST x\ncheck('head width', 1)"), "reword it"),
        (source(2, "x = 1"), "a test cell without a check"),
        (source(2, "x = ("), "not plain Python"),
        (source(2, "%matplotlib inline"), "not plain Python"),
        (
            source(2, "if x:\n    # BEGIN HIDDEN TESTS\n    check('a', 1)\n    # END HIDDEN TESTS"),
            "not plain Python",
        ),
        (source(2, "check(name, 1)"), "a literal string"),
        (source(2, "check(f'{x}', 1)"), "a literal string"),
        (source(2, "check('weights', 1)"), "stands in tiny.ipynb, cell 'number-test'"),
        (source(2, "check('new', 1)"), "the visible check 'new' has no hint"),
        (source(2, "from grading import check as c\nc('head width', 1)"), "imports grading in an"),
        (source(2, "from grading import check, seed as s\ncheck('a', 1)"), "imports grading in an"),
        (source(2, "from grading import values\ncheck('a', 1)"), "imports grading in another"),
        (source(2, "from grading import *\ncheck('a', 1)"), "imports grading in another"),
        (source(2, "from grading.check import check\ncheck('a', 1)"), "imports grading in another"),
        (source(2, "from .grading import check\ncheck('a', 1)"), "imports grading in another"),
        (source(2, "import grading\ngrading.check('head width', 1)"), "imports grading in another"),
        (source(2, "import grading.check as g\ng.check('a', 1)"), "imports grading in another"),
        (source(2, "c = check\nc('head width', 1)"), "for something else than a call"),
        (source(2, "def check(a, b): pass\ncheck('a', 1)"), "for something else than a call"),
        (source(2, "from numpy import any as check\ncheck('a', 1)"), "for something else than"),
        (source(2, "f = lambda check: check('a', 1)"), "for something else than a call"),
    ],
)
def test_a_flaw_in_the_notebook(course: Course, change: Callable[[Cells], Any], said: str) -> None:
    rewrite(course, change)
    assert any(said in flaw for flaw in flaws_of(course)), flaws_of(course)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not a valid notebook"),
        ("{}", "not a valid notebook"),
        ("[" * 100_000, "not a valid notebook"),
        (json.dumps({**document([]), "nbformat_minor": 4}), "cells have no ids"),
    ],
)
def test_a_file_that_is_no_notebook(course: Course, content: str, said: str) -> None:
    (course.solutions / "tiny" / "tiny.ipynb").write_text(content)
    assert any(said in flaw for flaw in flaws_of(course))


@pytest.mark.parametrize("name", ["", "../tiny", "tiny/..", ".tiny", "a+b", "nowhere"])
def test_a_name_that_is_none(course: Course, name: str) -> None:
    assert flaws_of(course, name)


def test_files_that_cannot_be_released(course: Course, tmp_path: Path) -> None:
    folder = course.solutions / "tiny"
    (tmp_path / "answers.txt").write_text("64")
    (folder / "answers.txt").symlink_to(tmp_path / "answers.txt")
    (folder / "figures").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / ".env").write_text("x")
    (folder / "checks.json").write_text("x")
    (folder / "notes.txt").write_text("x")
    flaws = "\n".join(flaws_of(course))
    for said in (
        "answers.txt is no plain file",
        "figures is no plain file",
        "pipe is no plain file",
        ".env: a file of this name",
        "checks.json: a file of this name",
        "student_files holds 'notes.txt', which is released too",
    ):
        assert said in flaws


def test_files_that_do_not_fit_into_the_sandbox_together(course: Course) -> None:
    folder = course.solutions / "tiny"
    for number in range(4):
        (folder / f"data-{number}.bin").write_bytes(bytes(20 << 20))
    assert any("too big" in flaw and "limits" in flaw for flaw in flaws_of(course))
    (folder / "data-3.bin").unlink()
    assert len(load(course, "tiny").files) == 3


def test_settings_saved_by_notepad(course: Course) -> None:
    path = course.solutions / "tiny.toml"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load(course, "tiny").title == "Tiny"


def test_a_notebook_with_a_mark_of_order(course: Course) -> None:
    path = course.solutions / "tiny" / "tiny.ipynb"
    text = path.read_text(encoding="utf-8")
    for encoding in ("utf-8-sig", "utf-16"):
        path.write_bytes(text.encode(encoding))
        assert load(course, "tiny").points == 7
    path.write_bytes(text.replace("Tiny", "één").encode("latin-1"))
    assert any("not a valid notebook" in flaw and "utf-8" in flaw for flaw in flaws_of(course))


def test_a_folder_without_a_notebook(course: Course) -> None:
    (course.solutions / "tiny" / "tiny.ipynb").unlink()
    assert any("holds no notebook" in flaw for flaw in flaws_of(course))


def test_a_linked_folder(course: Course, tmp_path: Path) -> None:
    (course.solutions / "tiny").rename(tmp_path / "elsewhere")
    (course.solutions / "tiny").symlink_to(tmp_path / "elsewhere")
    assert any("not a plain folder" in flaw for flaw in flaws_of(course))


def test_an_assignment_needs_points(course: Course) -> None:
    def no_points(cells: Cells) -> None:
        for made in cells:
            if "points" in made["metadata"].get("nbgrader", {}):
                made["metadata"]["nbgrader"]["points"] = 0

    rewrite(course, no_points)
    assert any("no cell earns points" in flaw for flaw in flaws_of(course))
