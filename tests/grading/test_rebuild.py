"""Rebuilding a notebook from whatever a student saved."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from grading.assignment import Notebook, load
from grading.rebuild import MAX_CELLS, MAX_SOURCE, Rebuilt, RebuiltCell, jobs, rebuild, solved
from tests.grading.small_course import (
    FUNCTION_SOLUTION,
    FUNCTION_TEST,
    RIGHT,
    cell,
    document,
    released_cells,
    small_course,
)

ANSWERS = ("number", "function", "answer")
ALL = ["given-1", "number", "number-test", "function", "function-test", "question", "answer"]
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return load(small_course(tmp_path_factory.mktemp("course")), "tiny").notebooks[0]


def right_cells() -> list[dict[str, Any]]:
    cells = released_cells()
    for made in cells:
        made["source"] = RIGHT.get(made["id"], made["source"])
    return cells


def of(cells: Iterable[Any]) -> bytes:
    return json.dumps(document(cells)).encode()


def at(cells: list[dict[str, Any]], name: str) -> int:
    return next(index for index, made in enumerate(cells) if made["id"] == name)


def by_id(rebuilt: Rebuilt) -> dict[str, RebuiltCell]:
    assert len({made.id for made in rebuilt.cells}) == len(rebuilt.cells)
    return {made.id: made for made in rebuilt.cells}


def assert_instructors(rebuilt: Rebuilt, notebook: Notebook) -> None:
    """All that is not an answer or carried is the instructor's, in the instructor's order."""
    known = [made for made in rebuilt.cells if made.role != "carried"]
    assert [made.id for made in known] == [mine.id for mine in notebook.cells]
    for made, mine in zip(known, notebook.cells, strict=True):
        assert (made.type, made.role) == (mine.type, mine.role)
        if mine.role in ("given", "test"):
            assert (made.source, made.hidden) == (mine.released, mine.hidden)
        else:
            assert made.source == made.hidden


def assert_all_right(rebuilt: Rebuilt, notebook: Notebook) -> None:
    assert_instructors(rebuilt, notebook)
    assert {name: by_id(rebuilt)[name].source for name in ANSWERS} == RIGHT
    assert rebuilt.changed == set(ANSWERS)


# --- honest work ---


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


# --- cells deleted, moved, split and edited ---


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
    assert len(rebuilt.warnings) == 3


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


# --- marks lost ---


def test_metadata_stripped_but_cell_ids_kept(notebook: Notebook) -> None:
    cells = [{**made, "metadata": {}} for made in right_cells()]
    rebuilt = rebuild(notebook, of(cells))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.problems == ()


def stripped() -> list[dict[str, Any]]:
    """Right work after an editor that keeps neither metadata nor ids."""
    return [{**made, "metadata": {}, "id": f"new-{made['id']}"} for made in right_cells()]


def test_answers_are_known_by_their_neighbours(notebook: Notebook) -> None:
    rebuilt = rebuild(notebook, of(stripped()))
    assert_all_right(rebuilt, notebook)
    assert len(rebuilt.warnings) == 3
    assert all("had lost the mark" in warning for warning in rebuilt.warnings)
    assert rebuilt.problems == ()


def test_answers_are_known_by_what_they_define(notebook: Notebook) -> None:
    cells = stripped()
    cells.insert(3, cell("helper", "code", "def helper():\n    return 1"))
    cells[4]["source"] += "\n("  # A syntax error does not hide the name.
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["function"].source == RIGHT["function"] + "\n("
    assert by_id(rebuilt)["+1"].source.startswith("def helper")
    assert rebuilt.problems == ()


def test_an_ambiguous_answer_is_not_guessed(notebook: Notebook) -> None:
    cells = stripped()
    cells.insert(2, cell("another", "code", "width = 3"))
    rebuilt = rebuild(notebook, of(cells))
    assert by_id(rebuilt)["number"].source == STUB
    assert len(rebuilt.problems) == 1
    assert "'number' has lost the mark" in rebuilt.problems[0]
    assert not any("'number'" in warning for warning in rebuilt.warnings)
    assert {made.source for made in rebuilt.cells if made.role == "carried"} == {
        "head_width = 64",
        "width = 3",
    }


def test_a_new_notebook_is_not_guessed(notebook: Notebook) -> None:
    cells = [cell("a", "code", "x = 1"), cell("b", "code", "y = 2"), cell("c", "markdown", "text")]
    rebuilt = rebuild(notebook, of(cells))
    assert_instructors(rebuilt, notebook)
    assert by_id(rebuilt)["number"].source == STUB
    assert any("'number'" in problem for problem in rebuilt.problems)
    # The only prose there is counts as the only written answer, and says so.
    assert any("'answer' had lost the mark" in warning for warning in rebuilt.warnings)


# --- files that are hardly notebooks ---


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b" \n",
        b"not JSON",
        b"<<<<<<< HEAD\n{}\n=======",
        b"[]",
        b"null",
        b"3",
        b'"cells"',
        b"{}",
        b'{"cells": {}}',
        b'{"worksheets": 3}',
        b"[" * 100_000,
        b'{"cells":' * 50_000,
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_no_notebook_at_all(notebook: Notebook, content: bytes | None) -> None:
    rebuilt = rebuild(notebook, content)
    assert [made.id for made in rebuilt.cells] == ALL
    assert_instructors(rebuilt, notebook)
    assert rebuilt.changed == frozenset()
    assert len(rebuilt.problems) == 1
    assert "released text stands" in rebuilt.problems[0]


@pytest.mark.parametrize(
    "absurd",
    [
        None,
        3,
        "text",
        [],
        {},
        {"cell_type": 3, "source": 3, "metadata": 3},
        {"cell_type": ["code"], "source": {"a": 1}, "metadata": []},
        {"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"nbgrader": "text"}},
        {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": ["number"]}}},
        {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": {}}}, "id": {}},
        {"cell_type": "markdown", "source": "", "metadata": None, "attachments": "x"},
    ],
)
def test_absurd_cells_do_no_harm(notebook: Notebook, absurd: object) -> None:
    rebuilt = rebuild(notebook, of([absurd, *right_cells(), absurd]))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.problems == ()


def test_encodings(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "answer")]["source"] = "Một đầu chỉ thấy một thứ."
    text = json.dumps(document(cells), ensure_ascii=False)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        rebuilt = rebuild(notebook, text.encode(encoding))
        assert by_id(rebuilt)["answer"].source == "Một đầu chỉ thấy một thứ."
        assert rebuilt.warnings == rebuilt.problems == ()
    cells[at(cells, "answer")]["source"] = "één hoofd"
    text = json.dumps(document(cells[1:]), ensure_ascii=False)
    rebuilt = rebuild(notebook, text.encode("latin-1"))
    assert by_id(rebuilt)["function"].source == RIGHT["function"]
    assert by_id(rebuilt)["answer"].source == "\ufffd\ufffdn hoofd"
    assert "not valid UTF-8" in rebuilt.warnings[0]


def test_nul_and_surrogates_become_a_sign(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "number")]["source"] = "head_width = 64  # \0 \ud800 \U0001f600"
    rebuilt = rebuild(notebook, of(cells))
    made = by_id(rebuilt)["number"].source
    assert made == "head_width = 64  # \ufffd \ufffd \U0001f600"
    made.encode()
    assert len(rebuilt.warnings) == 1


def test_odd_numbers_and_keys(notebook: Notebook) -> None:
    content = of(right_cells()).decode()
    odd = content.replace('"nbformat": 4', f'"nbformat": {"9" * 10_000}, "x": NaN, "y": 1e999')
    assert_all_right(rebuild(notebook, odd.encode()), notebook)
    twice = '{"cells": [], ' + content[1:]
    assert_all_right(rebuild(notebook, twice.encode()), notebook)


def test_the_old_format_3(notebook: Notebook) -> None:
    cells = []
    for made in right_cells():
        old = {"cell_type": made["cell_type"], "metadata": made["metadata"]}
        old["input" if made["cell_type"] == "code" else "source"] = made["source"]
        cells.append(old)
    cells.append({"cell_type": "heading", "level": 2, "source": "Mine", "metadata": {}})
    content = {"worksheets": [{"cells": cells}], "nbformat": 3, "nbformat_minor": 0}
    rebuilt = rebuild(notebook, json.dumps(content).encode())
    assert_all_right(rebuilt, notebook)
    assert by_id(rebuilt)["+1"].type == "markdown"


def test_more_cells_than_anyone_writes(notebook: Notebook) -> None:
    own = {"cell_type": "code", "metadata": {}, "source": "x"}
    rebuilt = rebuild(notebook, of([*right_cells(), *[own] * 100_000]))
    assert_all_right(rebuilt, notebook)
    assert len(rebuilt.cells) == MAX_CELLS
    assert "100,007 cells" in rebuilt.problems[0]


def test_a_huge_cell_is_left_out(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "number")]["source"] = "x" * (MAX_SOURCE + 1)
    rebuilt = rebuild(notebook, of(cells))
    assert "1,000,001 characters" in rebuilt.problems[0]
    assert by_id(rebuilt)["number"].source == STUB
    assert by_id(rebuilt)["function"].source == RIGHT["function"]


# --- pasted pictures ---

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
