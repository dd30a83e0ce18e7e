"""A tiny throw-away course: one assignment, "tiny", with a number, a function and a text."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from grading.course import Course

Cells = list[dict[str, Any]]

SETTINGS = """\
title = "Tiny"
difficulty = 1
minutes = 10
modules = []
forbidden_calls = ["log_softmax"]
student_files = ["notes.txt"]

[limits]
cell_seconds = 10
seconds = 60

[checks."head width"]
twin = "head width, once more"
hint = "Each head gets an equal share."

[checks."head width, once more"]
feedback = "The width of one head is not right."

[checks."weights"]
twin = "weights, other sizes"
hint = "Subtract the largest score, take exp, divide by the sum of each row."

[checks."weights, other sizes"]
weight = 2
feedback = "weights is wrong for scores other than the visible ones."
tolerance = 1e-6
"""

HEAD = """\
# Tiny

**Difficulty** ●○○ · **Time** about 10 minutes · **Points** 7
"""

NUMBER_SOLUTION = """\
### BEGIN SOLUTION
head_width = 768 // 12
### END SOLUTION"""

NUMBER_TEST = """\
from grading import check

check("head width", head_width)
### BEGIN HIDDEN TESTS
check("head width, once more", head_width)
### END HIDDEN TESTS"""

FUNCTION_SOLUTION = """\
import numpy as np


def weights(scores):
    ### BEGIN SOLUTION
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)
    ### END SOLUTION"""

FUNCTION_TEST = """\
import numpy as np
from grading import check, seed

scores = np.random.default_rng(seed("weights")).standard_normal((2, 5), dtype=np.float64)
check("weights", lambda: weights(scores))
### BEGIN HIDDEN TESTS
local = np.random.default_rng(seed("weights, other sizes"))
others = local.standard_normal((3, 7), dtype=np.float64)
check("weights, other sizes", lambda: weights(others))
### END HIDDEN TESTS"""

WRITTEN_SOLUTION = "One head gives one pattern of weights; several look at several things at once."


def small_course(root: Path) -> Course:
    """Make the course in the folder and return it; solutions/ is all it has."""
    course = Course(root)
    folder = course.solutions / "tiny"
    folder.mkdir(parents=True)
    (course.solutions / "tiny.toml").write_text(SETTINGS, encoding="utf-8")
    write_notebook(folder / "tiny.ipynb", solution_cells())
    return course


def solution_cells() -> list[dict[str, Any]]:
    """Return the cells of solutions/tiny/tiny.ipynb."""
    return [
        cell("head", "markdown", HEAD),
        cell("number", "code", NUMBER_SOLUTION, solution=True),
        cell("number-test", "code", NUMBER_TEST, grade=True, points=2),
        cell("function", "code", FUNCTION_SOLUTION, solution=True),
        cell("function-test", "code", FUNCTION_TEST, grade=True, points=3),
        cell("question", "markdown", "What would one head miss?", locked=True),
        cell("answer", "markdown", WRITTEN_SOLUTION, solution=True, grade=True, points=2),
    ]


def cell(
    name: str,
    cell_type: str,
    source: str,
    *,
    grade: bool = False,
    solution: bool = False,
    locked: bool = False,
    points: float | None = None,
) -> dict[str, Any]:
    """Return a cell as Jupyter saves it; with no mark at all it carries no nbgrader metadata."""
    made: dict[str, Any] = {"id": name, "cell_type": cell_type, "metadata": {}, "source": source}
    if cell_type == "code":
        made |= {"execution_count": None, "outputs": []}
    if grade or solution or locked:
        marks = {
            "schema_version": 3,
            "grade_id": name,
            "grade": grade,
            "solution": solution,
            "locked": locked or (grade and not solution),
            "task": False,
        }
        if points is not None:
            marks["points"] = points
        made["metadata"] = {"nbgrader": marks}
    return made


def write_notebook(path: Path, cells: Iterable[dict[str, Any]]) -> None:
    """Write cells as a notebook of format 4.5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(cells), indent=1) + "\n", encoding="utf-8")


def rewrite(course: Course, change: Callable[[Cells], Any]) -> None:
    """Change the cells of the instructor's notebook."""
    cells = solution_cells()
    change(cells)
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", cells)


def document(cells: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return cells as a notebook of format 4.5."""
    return {
        "cells": list(cells),
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def released_cells() -> list[dict[str, Any]]:
    """Return the cells as students get them, worked out by hand rather than by the grader."""
    stub = "# YOUR CODE HERE\nraise NotImplementedError()"
    released = {
        "number": stub,
        "number-test": NUMBER_TEST.split("\n### BEGIN")[0],
        "function": "import numpy as np\n\n\ndef weights(scores):\n"
        + "\n".join("    " + line for line in stub.split("\n")),
        "function-test": FUNCTION_TEST.split("\n### BEGIN")[0],
        "answer": "YOUR ANSWER HERE",
    }
    cells = solution_cells()
    for made in cells:
        made["source"] = released.get(made["id"], made["source"])
    return cells


RIGHT = {
    "number": "head_width = 64",
    "function": (
        "import numpy as np\n\n\ndef weights(scores):\n"
        "    raised = np.exp(scores)\n"
        "    return raised / raised.sum(axis=-1, keepdims=True)"
    ),
    "answer": "It sees one pattern only.",
}


def submit(
    course: Course,
    student: str,
    answers: dict[str, str] | None = None,
    cells: Iterable[dict[str, Any]] | None = None,
) -> Path:
    """Hand in "tiny" as a student: RIGHT, or the given answers by cell, or these cells.

    Returns the folder submitted/STUDENT/tiny.
    """
    if cells is None:
        cells = released_cells()
        for made in cells:
            made["source"] = (RIGHT if answers is None else answers).get(made["id"], made["source"])
    folder = course.submitted / student / "tiny"
    write_notebook(folder / "tiny.ipynb", cells)
    return folder
