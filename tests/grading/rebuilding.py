"""What the tests of rebuilding share: right work on "tiny", and what must hold of any result."""

import json
from collections.abc import Iterable
from typing import Any

from grading.assignment import Notebook
from grading.rebuild import Rebuilt, RebuiltCell
from tests.grading.small_course import RIGHT, document, released_cells

ANSWERS = ("number", "function", "answer")
ALL = ["given-1", "number", "number-test", "function", "function-test", "question", "answer"]
STUB = "# YOUR CODE HERE\nraise NotImplementedError()"


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
