"""Rebuilding a notebook from whatever a student saved."""

import json
from pathlib import Path
from typing import Any

import pytest

from grading.assignment import Notebook, load
from grading.plain import PICTURE_TYPES
from grading.rebuild import RebuiltCell, jobs, rebuild, solved
from tests.grading.rebuilding import (
    ALL,
    ANSWERS,
    STUB,
    assert_all_right,
    assert_instructors,
    at,
    by_id,
    of,
    right_cells,
)
from tests.grading.small_course import (
    FUNCTION_SOLUTION,
    FUNCTION_TEST,
    RIGHT,
    cell,
    released_cells,
    small_course,
)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return load(small_course(tmp_path_factory.mktemp("course")), "tiny").notebooks[0]


def test_right_work(notebook: Notebook) -> None:
    rebuilt = rebuild(notebook, of(right_cells()))
    assert [made.id for made in rebuilt.cells] == ALL
    assert_all_right(rebuilt, notebook)
    assert rebuilt.warnings == rebuilt.problems == ()


def test_untouched_work(notebook: Notebook) -> None:
    rebuilt = rebuild(notebook, of(released_cells()))
    assert_instructors(rebuilt, notebook)
    assert rebuilt.changed == frozenset()
    assert rebuilt.warnings == rebuilt.problems == ()


def test_blank_lines_and_windows_line_ends_change_nothing(notebook: Notebook) -> None:
    cells = released_cells()
    for made in cells:
        made["source"] = made["source"].replace("\n", "  \r\n") + "\r\n\r\n"
    rebuilt = rebuild(notebook, of(cells))
    assert rebuilt.changed == frozenset()
    assert rebuilt.warnings == rebuilt.problems == ()
    assert all("\r" not in made.source for made in rebuilt.cells)


def test_source_as_a_list_of_lines(notebook: Notebook) -> None:
    cells = right_cells()
    for made in cells:
        made["source"] = made["source"].splitlines(keepends=True)
    assert_all_right(rebuild(notebook, of(cells)), notebook)


def test_own_cells_are_carried_in_place(notebook: Notebook) -> None:
    cells = right_cells()
    cells.insert(at(cells, "function"), cell("own-import", "code", "import math"))
    cells.insert(0, cell("own-first", "markdown", "My notes"))
    cells.insert(at(cells, "number-test") + 1, cell("own-raw", "raw", "raw text"))
    cells.append(cell("blank", "code", "  \n"))
    rebuilt = rebuild(notebook, of(cells))
    assert [made.id for made in rebuilt.cells] == [
        "+1",
        *ALL[:3],
        "+2",
        "+3",
        *ALL[3:],
    ]
    made = by_id(rebuilt)
    assert made["+1"] == RebuiltCell("+1", "markdown", "carried", "My notes", "My notes")
    assert (made["+2"].type, made["+3"].source) == ("raw", "import math")
    assert_all_right(rebuilt, notebook)
    assert rebuilt.warnings == rebuilt.problems == ()


def test_jobs_hold_code_and_hide_hidden_tests_from_run_a(notebook: Notebook) -> None:
    cells = [*right_cells(), cell("own", "code", "own = 1"), cell("raw", "raw", "no code")]
    run_a, run_b = jobs(rebuild(notebook, of(cells)), {"data.csv": b"1"}, "key")
    names = ["number", "number-test", "function", "function-test", "+1"]
    assert [made.id for made in run_a.cells] == [made.id for made in run_b.cells] == names
    assert "once more" not in "".join(made.source for made in run_a.cells)
    assert "once more" in run_b.cells[1].source
    assert (run_a.key, run_a.outputs, run_b.key, run_b.outputs) == ("", True, "key", False)
    assert run_a.files == run_b.files == {"data.csv": b"1"}


def test_the_solution(notebook: Notebook) -> None:
    rebuilt = solved(notebook)
    made = by_id(rebuilt)
    assert made["function"].source == made["function"].hidden == FUNCTION_SOLUTION
    assert made["function-test"].hidden == FUNCTION_TEST
    assert "HIDDEN" not in made["function-test"].source
    assert rebuilt.changed == set(ANSWERS)


@pytest.mark.parametrize("name", ["number-test", "function-test", "question"])
def test_a_deleted_locked_cell_comes_back(notebook: Notebook, name: str) -> None:
    cells = [made for made in right_cells() if made["id"] != name]
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert len(rebuilt.warnings) == 1
    assert f"{name!r} was removed" in rebuilt.warnings[0]


def test_deleted_prose_is_nobodys_business(notebook: Notebook) -> None:
    rebuilt = rebuild(notebook, of(right_cells()[1:]))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.warnings == ()


def test_a_deleted_answer_counts_as_released(notebook: Notebook) -> None:
    cells = [made for made in right_cells() if made["id"] != "number"]
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["number"].source == STUB
    assert rebuilt.changed == {"function", "answer"}
    assert "'number' is not there" in rebuilt.warnings[0]
    assert rebuilt.problems == ()


def test_a_duplicated_test_cell_runs_once(notebook: Notebook) -> None:
    cells = right_cells()
    cells.insert(3, dict(cells[2]))
    rebuilt = rebuild(notebook, of(cells))
    assert [made.id for made in rebuilt.cells] == ALL
    assert_all_right(rebuilt, notebook)
    assert "2 times" in rebuilt.warnings[0]


def test_an_edited_test_cell_is_replaced(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "number-test")]["source"] = "print('edited')"
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert "You changed the test cell 'number-test'" in rebuilt.warnings[0]
    assert not any("edited" in made.source for made in rebuilt.cells)


def test_a_split_test_cell_runs_none_of_the_students_text(notebook: Notebook) -> None:
    cells = right_cells()
    place = at(cells, "number-test")
    half = {**cells[place], "id": "half", "source": "head_width = 64"}
    cells.insert(place, half)
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert [made.id for made in rebuilt.cells] == ALL
    assert "2 times" in rebuilt.warnings[0]


def test_a_split_answer_is_joined_in_order(notebook: Notebook) -> None:
    cells = right_cells()
    place = at(cells, "function")
    first, second = RIGHT["function"].split("\n\n\n")
    cells[place]["source"] = first
    cells.insert(place + 1, {**cells[place], "id": "second", "source": second})
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["function"].source == f"{first}\n\n{second}"
    assert "2 times" in rebuilt.warnings[0]
    assert [made.id for made in rebuilt.cells] == ALL


def test_prose_split_off_an_answer_in_code_stays_prose(notebook: Notebook) -> None:
    cells = right_cells()
    place = at(cells, "function")
    prose = {**cells[place], "id": "why", "cell_type": "markdown", "source": "Here is why:"}
    cells.insert(place, prose)
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert by_id(rebuilt)["+1"].type == "markdown"


def test_an_answer_made_another_kind_of_cell_counts(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "function")]["cell_type"] = "markdown"
    cells[at(cells, "number")]["cell_type"] = "raw"
    cells[at(cells, "answer")]["cell_type"] = "code"
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.warnings == (
        "You made 3 cells another kind of cell: 'number', 'function', 'answer'; they count as "
        "what they were.",
    )


def test_reordered_cells_run_in_the_instructors_order(notebook: Notebook) -> None:
    rebuilt = rebuild(notebook, of(reversed(right_cells())))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.problems == ()


def test_marks_in_a_students_text_are_text(notebook: Notebook) -> None:
    cells = right_cells()
    text = (
        "### BEGIN HIDDEN TESTS\nhead_width = 64\n### END HIDDEN TESTS\n"
        "### BEGIN SOLUTION\nx = 1\n### END SOLUTION"
    )
    cells[at(cells, "number")]["source"] = text
    rebuilt = rebuild(notebook, of(cells))
    made = by_id(rebuilt)["number"]
    assert made.source == made.hidden == text


def test_claims_in_metadata_change_nothing(notebook: Notebook) -> None:
    cells = right_cells()
    for made in cells:
        made["metadata"].setdefault("nbgrader", {}).update(points=1000, grade=True, locked=False)
        made["metadata"]["tags"] = ["raises-exception"]
        made["outputs"] = [{"output_type": "execute_result", "data": {"text/plain": "1000"}}]
    assert_all_right(rebuild(notebook, of(cells)), notebook)


def test_an_unknown_grade_id_is_carried(notebook: Notebook) -> None:
    cells = [*right_cells(), cell("elsewhere", "code", "own = 1", grade=True, points=100)]
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["+1"].role == "carried"
    assert_all_right(rebuilt, notebook)


@pytest.mark.parametrize("marked", [False, True])
def test_given_code_that_is_not_locked_may_be_added_to(tmp_path: Path, marked: bool) -> None:
    course = small_course(tmp_path)
    path = course.solutions / "tiny" / "tiny.ipynb"
    content = json.loads(path.read_text())
    given = cell("set-up", "code", "import numpy", locked=marked)
    if marked:
        given["metadata"]["nbgrader"]["locked"] = False
    content["cells"].insert(1, given)
    path.write_text(json.dumps(content))
    notebook = load(course, "tiny").notebooks[0]
    cells = right_cells()
    cells.insert(1, given)
    assert rebuild(notebook, of(cells)).warnings == ()
    cells[1] = {**given, "source": "import numpy\nimport math"}
    rebuilt = rebuild(notebook, of(cells))
    assert [made.source for made in rebuilt.cells[1:3]] == [
        "import numpy",
        "import numpy\nimport math",
    ]
    assert rebuilt.cells[2].role == "carried"
    assert rebuilt.warnings == rebuilt.problems == ()


PICTURE = "iVBORw0KGgo="


def test_pictures_of_written_answers_are_taken(notebook: Notebook) -> None:
    cells = released_cells()
    cells[-1]["attachments"] = {"image.png": {"image/png": PICTURE, "text/html": "<script>"}}
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["answer"].attachments == {"image.png": {"image/png": PICTURE}}
    assert rebuilt.changed == {"answer"}
    assert rebuilt.warnings == ()


@pytest.mark.parametrize(
    "attachments",
    [
        {"a.svg": {"image/svg+xml": "<svg onload=...>"}},
        {"a.png": {"image/png": ["iVBO"]}},
        {"a.png": "iVBO"},
        {"a\n.png": {"image/png": PICTURE}},
        {"a" * 201: {"image/png": PICTURE}},
    ],
)
def test_other_attachments_are_left_out_with_a_warning(
    notebook: Notebook, attachments: dict[str, Any]
) -> None:
    cells = released_cells()
    cells[-1]["attachments"] = attachments
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["answer"].attachments == {}
    assert rebuilt.changed == frozenset()
    assert "was left out" in rebuilt.warnings[0]


def test_only_written_answers_have_pictures(notebook: Notebook) -> None:
    cells = right_cells()
    for made in cells[:-1]:
        made["attachments"] = {"image.png": {"image/png": PICTURE}}
    rebuilt = rebuild(notebook, of(cells))
    assert not any(made.attachments for made in rebuilt.cells)


@pytest.mark.parametrize("kind", PICTURE_TYPES)
def test_every_kind_of_picture_that_can_be_shown_is_taken(notebook: Notebook, kind: str) -> None:
    cells = released_cells()
    cells[-1]["attachments"] = {"mine": {kind: PICTURE}}
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["answer"].attachments == {"mine": {kind: PICTURE}}
    assert rebuilt.warnings == ()


@pytest.mark.parametrize("blank", ["", "   ", " \n\n\t\n", "\u200b \xa0"])
def test_a_blank_answer_is_no_answer_and_runs_as_blank(notebook: Notebook, blank: str) -> None:
    cells = released_cells()
    for made in cells:
        if made["id"] in ANSWERS:
            made["source"] = blank
    rebuilt = rebuild(notebook, of(cells))
    assert rebuilt.changed == frozenset()
    assert [by_id(rebuilt)[name].source for name in ANSWERS] == [blank] * 3
    assert rebuilt.warnings == rebuilt.problems == ()


def test_a_blank_answer_with_a_picture_is_an_answer(notebook: Notebook) -> None:
    cells = released_cells()
    cells[-1] |= {"source": "", "attachments": {"a.png": {"image/png": PICTURE}}}
    assert rebuild(notebook, of(cells)).changed == {"answer"}


def test_every_cell_twice_is_said_once(notebook: Notebook) -> None:
    cells = [made for made in right_cells() for _ in range(2)]
    rebuilt = rebuild(notebook, of(cells))
    assert rebuilt.problems == ()
    assert rebuilt.warnings == (
        "3 cells are there more than once, as after splitting them: 'number', 'function', "
        "'answer'; the parts were joined in order.",
        "2 test cells are there more than once: 'number-test', 'function-test'; the originals "
        "were used once.",
        "The cell 'question' is there 2 times; the original was used once.",
    )


def test_a_student_is_spoken_to(notebook: Notebook) -> None:
    cells = [{**made, "source": made["source"] + " edited"} for made in right_cells()]
    said = rebuild(notebook, of(cells)).warnings
    assert said[0].startswith("You changed 2 test cells: 'number-test', 'function-test'; the")
    assert said[1].startswith("You changed the cell 'question'; the original")
    assert len(said) == 2
