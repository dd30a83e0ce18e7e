"""The tiny course with variants: each student's d_model is drawn, and so is the width of a head."""

from pathlib import Path
from typing import Any

from grading.course import Course
from grading.variants import draw
from tests.grading.small_course import (
    NUMBER_TEST,
    RIGHT,
    SETTINGS,
    cell,
    small_course,
    solution_cells,
    write_notebook,
)

OPTIONS = (768, 1024, 1600, 512)
DRAW = f"""\
from grading import pick

d_model = pick("d_model", {list(OPTIONS)})
print("d_model is", d_model)"""
WIDTHS = """
check("widths", lambda: [head_width, 2 * head_width])
### BEGIN HIDDEN"""
WIDTHS_SETTINGS = """
[checks."widths"]
weight = 0
hint = "Both follow from d_model."
"""
ON = "variants = true\n"
# Who drew which option: all differ.
WHO = {name: OPTIONS[draw(name, "tiny", "d_model", len(OPTIONS))] for name in ("ada", "ben", "eve")}


def drawn_cells() -> list[dict[str, Any]]:
    """Return the cells of the solution: a draw in front, and a width that follows from it."""
    head, number, test, *rest = solution_cells()
    number["source"] = number["source"].replace("768 // 12", "d_model // 8")
    test["source"] = NUMBER_TEST.replace("\n### BEGIN HIDDEN", WIDTHS)
    return [head, cell("drawn", "code", DRAW, locked=True), number, test, *rest]


def drawn_course(root: Path, *, variants: bool = True) -> Course:
    """Make the course in the folder."""
    course = small_course(root)
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", drawn_cells())
    switch(course, variants)
    return course


def switch(course: Course, variants: bool) -> None:
    """Switch variants on or off, by one line of the settings."""
    settings = (ON if variants else "") + SETTINGS + WIDTHS_SETTINGS
    (course.solutions / "tiny.toml").write_text(settings, encoding="utf-8")


def answers(student: str) -> dict[str, str]:
    """Return right answers with the numbers of this student, worked out and written down."""
    return RIGHT | {"number": f"head_width = {WHO[student] // 8}"}
