"""Knowing a student's cells after their marks were lost."""

from typing import Any

import pytest

from grading.assignment import Notebook, load
from grading.rebuild import rebuild
from tests.grading.rebuilding import (
    STUB,
    assert_all_right,
    assert_instructors,
    by_id,
    of,
    right_cells,
)
from tests.grading.small_course import RIGHT, cell, small_course


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return load(small_course(tmp_path_factory.mktemp("course")), "tiny").notebooks[0]


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
    assert rebuilt.warnings == (
        "3 cells had lost the mark they are known by: 'number', 'function', 'answer'; each was "
        "found by its place or the names it defines.",
    )
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
