"""Is an assignment safe to grade by? Rules on its text, each broken one a sentence.

Nothing that is hidden may stand in what is released, and a notebook's head must say what awaits.
No cell of the instructor's uses what students may not. What test cells may hold is in
:mod:`grading.lint_cells`; what can only be seen by running the solution is in
:mod:`grading.lint_values`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grading.answers import Answer, read_answers
from grading.assignment import Assignment, AssignmentError, Cell, Notebook, load
from grading.check_calls import grading_import_flaws
from grading.course import Course
from grading.lint_answers import bank_flaws
from grading.lint_cells import bound, cell_flaws, is_check, parse
from grading.lint_forbidden import forbidden_uses
from grading.lint_values import value_flaws
from grading.walls import OWN_PACKAGES

# Shorter lines of a solution, such as `return x`, may stand anywhere.
TELLING_LINE = 30

TASK_LINE = re.compile(r"(\d+) points? · (\d+) minutes")


def lint(course: Course, name: str) -> list[str]:
    """Return a sentence for each flaw of an assignment; an empty list means it may be released.

    Raises:
        SandboxError: The machine lacks a wall, so the solution cannot be run.
    """
    flaws: list[str] = []
    try:
        assignment = load(course, name)
        flaws += text_flaws(course, assignment)
        flaws += value_flaws(course, assignment)
    except AssignmentError as error:
        flaws += error.flaws
    return flaws


def text_flaws(course: Course, assignment: Assignment) -> list[str]:
    """Return the flaws that can be seen without running anything.

    Raises:
        AssignmentError: The file of answers has flaws.
    """
    answers = read_answers(course, assignment)
    flaws = list(_leaks(assignment, answers))
    flaws += _idle_files(assignment)
    flaws += _head_flaws(assignment)
    flaws += bank_flaws(course, assignment, answers)
    packages = _closed_packages(course, assignment)
    flaws += dict.fromkeys(forbidden_uses(assignment, packages, answers))
    for notebook in assignment.notebooks:
        provided: set[str] = set()
        for cell in notebook.cells:
            place = f"{notebook.id}.ipynb, cell {cell.id!r}"
            if cell.role == "test":
                said = [*cell_flaws(cell, packages, provided)]
                flaws += [f"{place}: {flaw}" for flaw in dict.fromkeys(said)]
            elif cell.type == "code" and cell.role != "demo":  # Loading looks at demos.
                if cell.role in ("solution", "written"):
                    provided |= bound(parse(cell.solution))
                tree = parse(cell.released)
                if tree is None:
                    continue  # With a magic, or a stub that is no code yet.
                flaws += [f"{place}: {flaw}" for flaw in grading_import_flaws(tree)]
                if any(is_check(node) for node in ast.walk(tree)):
                    flaws.append(
                        f"{place}: it calls check, which finds what it needs only for checks in "
                        "test cells; move the call there"
                    )
    return flaws


def _closed_packages(course: Course, assignment: Assignment) -> set[str]:
    """Return this course's own packages, less those that the settings open."""
    own = {path.parent.name for path in course.root.glob("*/__init__.py")}
    return {*own, *OWN_PACKAGES} - {"grading", *assignment.modules}


def _leaks(assignment: Assignment, answers: Iterable[Answer]) -> Iterator[str]:
    """Yield hidden text that stands in the release."""
    released = _released_texts(assignment) | {
        f"what the {answer.place} says": answer.says for answer in answers if answer.says
    }
    for notebook in assignment.notebooks:
        for what, secret in _secrets(notebook):
            for place, text in released.items():
                if secret in text:
                    yield (
                        f"{place} holds {what}: {_short(secret)}; students would read it, so word "
                        "one of the two differently"
                    )


def _released_texts(assignment: Assignment) -> dict[str, str]:
    texts = {"the title": assignment.title}
    for notebook in assignment.notebooks:
        for cell in notebook.cells:
            texts[f"{notebook.id}.ipynb, cell {cell.id!r} as released,"] = cell.released
        for check in notebook.checks:
            if not check.hidden:
                texts[f"the visible check {check.name!r} or its hint"] = (
                    f"{check.name}\n{check.hint}"
                )
    for name, content in assignment.files.items():
        texts[f"the file {name}"] = content.decode("utf-8", errors="replace")
    return texts


def _secrets(notebook: Notebook) -> Iterator[tuple[str, str]]:
    for check in notebook.checks:
        if check.hidden:
            yield f"the name of the hidden check {check.name!r}", check.name
            yield f"the feedback of the hidden check {check.name!r}", check.feedback
    for cell in notebook.cells:
        if cell.solution == cell.released:
            continue
        what = "hidden tests" if cell.role == "test" else "the solution"
        for line in _telling_lines(cell.solution) - _telling_lines(cell.released):
            yield f"a line of {what} of cell {cell.id!r}", line


def _telling_lines(text: str) -> set[str]:
    """Return the lines that give something away, however they are indented."""
    return {
        line.strip()
        for line in text.split("\n")
        if len(line.strip()) >= TELLING_LINE
        and not line.strip().startswith(("import ", "from ", "def ", "class ", "#"))
    }


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _idle_files(assignment: Assignment) -> list[str]:
    """Return a flaw for each file that no notebook speaks of: all of them are released."""
    text = "\n".join(cell.released for book in assignment.notebooks for cell in book.cells)
    return [
        f"{assignment.name}/{name} is named in no notebook, yet all in that folder is released; "
        f"move it out of {Path('solutions', assignment.name)}, or name it where it is used"
        for name in assignment.files
        if name not in text
    ]


def _head_flaws(assignment: Assignment) -> list[str]:
    """Return what the first markdown cell of each notebook should say and does not."""
    flaws = []
    difficulty = "●" * assignment.difficulty + "○" * (3 - assignment.difficulty)
    minutes_of_tasks = 0
    any_task = False
    for notebook in assignment.notebooks:
        place = f"{notebook.id}.ipynb"
        points = sum(cell.points for cell in notebook.cells)
        heads = [cell.released for cell in notebook.cells if cell.type == "markdown"]
        head = re.sub(r"[*_]|&nbsp;", "", heads[0]) if heads else ""
        wanted = {
            f"its difficulty, {difficulty}": re.escape(difficulty),
            f"its minutes, '{assignment.minutes} minutes'": rf"\b{assignment.minutes} minutes\b",
        }
        for what, pattern in wanted.items():
            if not re.search(pattern, head):
                flaws.append(f"{place}: its first markdown cell does not state {what}; add it")
        stated = [float(number) for number in re.findall(r"\bPoints (\d+(?:\.\d+)?)\b", head)]
        if points not in stated:
            says = (
                f"states {_points(stated[0])}" if stated else f"does not state 'Points {points:g}'"
            )
            flaws.append(
                f"{place}: its first markdown cell {says}, but {_sum_of(notebook.cells)}; mend "
                "the cell, or points in JupyterLab's Create Assignment"
            )
        for task in _tasks(notebook):
            any_task = True
            minutes_of_tasks += task.minutes
            if task.points != sum(cell.points for cell in task.cells):
                flaws.append(
                    f"{place}, cell {task.id!r}: it states {_points(task.points)}, but from here "
                    f"to the next task {_sum_of(task.cells)}; mend the cell, or points in "
                    "JupyterLab's Create Assignment"
                )
    if any_task and minutes_of_tasks > assignment.minutes:
        flaws.append(
            f"the tasks take {minutes_of_tasks} minutes together, but the settings say "
            f"{assignment.minutes}; mend one of the two"
        )
    return flaws


@dataclass(frozen=True)
class _Task:
    """A task: the cell that opens it, what that states, and the cells up to the next task."""

    id: str
    points: int
    minutes: int
    cells: list[Cell]


def _tasks(notebook: Notebook) -> list[_Task]:
    """Return the tasks; each is opened by a line such as "10 points · 5 minutes"."""
    tasks: list[_Task] = []
    for cell in notebook.cells:
        opened = TASK_LINE.search(cell.released) if cell.type == "markdown" else None
        if opened and cell.role == "given":
            tasks.append(_Task(cell.id, int(opened[1]), int(opened[2]), []))
        elif tasks:
            tasks[-1].cells.append(cell)
    return tasks


def _sum_of(cells: Iterable[Cell]) -> str:
    """Say what cells earn together and which of them earns what."""
    earning = [cell for cell in cells if cell.points]
    if not earning:
        return "no cell earns points"
    if len(earning) == 1:
        return f"{earning[0].id!r} alone earns {_points(earning[0].points)}"
    each = " + ".join(f"{cell.id!r} {cell.points:g}" for cell in earning)
    return f"{each} come to {_points(sum(cell.points for cell in earning))}"


def _points(number: float) -> str:
    return f"{number:g} point" if number == 1 else f"{number:g} points"
