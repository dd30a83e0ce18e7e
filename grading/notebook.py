"""The instructor's notebook: cells with their roles, and the checks in test cells."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grading.check_calls import demo_flaws, find_checks, grading_import_flaws, other_uses
from grading.marks import clear_hidden, clear_solution, mark_flaws
from grading.parsing import parse_python
from grading.settings import Settings, is_number

CellType = Literal["code", "markdown", "raw"]
Role = Literal["given", "solution", "test", "written", "demo"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")
DEMO_TAG = "demo"


@dataclass(frozen=True)
class Check:
    """One call of ``check`` in a test cell, with what the settings say about it.

    ``hint`` belongs to visible checks, ``feedback`` to hidden ones. ``tolerance`` is relative to
    the reference's scale; None leaves it to :mod:`grading.compare`.
    """

    name: str
    cell: str
    hidden: bool
    weight: float = 1.0
    twin: str | None = None
    hint: str = ""
    feedback: str = ""
    tolerance: float | None = None


@dataclass(frozen=True)
class Cell:
    """One of the instructor's cells.

    ``solution`` is its whole text, ``released`` what students get, ``hidden`` what run B holds:
    the whole text of a test cell, the released text of any other. ``written`` is graded by hand;
    ``demo`` is only looked at, and not run while grading.
    ``notebook_cell_id`` is the id that Jupyter itself gives the cell.
    """

    id: str
    type: CellType
    role: Role
    points: float
    solution: str
    released: str
    hidden: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notebook_cell_id: str = ""


@dataclass(frozen=True)
class Notebook:
    """One notebook of an assignment; its file is ``id`` + ``.ipynb``."""

    id: str
    cells: tuple[Cell, ...]
    checks: tuple[Check, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)


def read_notebook(
    file_name: str,
    content: bytes,
    settings: Settings,
    seen_checks: dict[str, str],
    flaws: list[str],
) -> Notebook:
    """Read a notebook's bytes; what is wrong with it is added to ``flaws``.

    ``seen_checks`` says where each check's name of this assignment stands, and is added to.
    """
    notebook_id = file_name.removesuffix(".ipynb")
    if not NAME.fullmatch(notebook_id):
        flaws.append(f"{file_name}: the name may hold letters, digits, - and _ only; rename it")
    document = _parse_notebook(file_name, content, flaws)
    cells: list[Cell] = []
    checks: list[Check] = []
    seen: tuple[set[str], set[str]] = (set(), set())
    for number, raw in enumerate(document.get("cells", []), 1):
        cell, cell_flaws = _read_cell(raw, number)
        place = f"{file_name}, cell {cell.id!r} (number {number})"
        flaws += [f"{place}: {flaw}" for flaw in cell_flaws]
        for its_id, others in zip((cell.id, cell.notebook_cell_id), seen, strict=True):
            if its_id in others:
                flaws.append(f"{place}: the id {its_id!r} stands twice; give this cell another")
            others.add(its_id)
        cells.append(cell)
        if cell.role == "test":
            checks += _read_checks(cell, place, settings, seen_checks, flaws)
    _twin_flaws(file_name, cells, checks, flaws)
    return Notebook(notebook_id, tuple(cells), tuple(checks), document.get("metadata", {}))


def _parse_notebook(file_name: str, content: bytes, flaws: list[str]) -> dict[str, Any]:
    import nbformat

    try:
        document = json.loads(content)
        nbformat.validate(document)
    except (ValueError, RecursionError, nbformat.ValidationError) as error:
        reason = str(error).strip().split("\n")[0]
        flaws.append(f"{file_name} is not a valid notebook ({reason}); save it anew in Jupyter")
        return {}
    version = (document["nbformat"], document["nbformat_minor"])
    if version < (4, 5):
        flaws.append(
            f"{file_name} is of format {version[0]}.{version[1]}, in which cells have no ids; "
            "open it in a new Jupyter, change something and save it"
        )
        return {}
    result: dict[str, Any] = document
    return result


def _read_cell(raw: Mapping[str, Any], number: int) -> tuple[Cell, list[str]]:
    """Return a cell and what is wrong with it."""
    flaws: list[str] = []
    source = raw["source"] if isinstance(raw["source"], str) else "".join(raw["source"])
    cell_type: CellType = raw["cell_type"]
    marks = raw["metadata"].get("nbgrader")
    if marks is not None and not isinstance(marks, dict):
        flaws.append("its nbgrader metadata is not a table; mark the cell anew in Jupyter")
    marks = marks if isinstance(marks, dict) else {}
    if marks and marks.get("schema_version") != 3:
        flaws.append(
            f"its nbgrader metadata is of version {marks.get('schema_version')!r}, not 3; "
            "run: nbgrader update"
        )
    if marks.get("task"):
        flaws.append("it is a task cell, which this grader does not know; make it a written answer")
    if raw.get("attachments"):
        flaws.append("it holds a pasted picture; save that beside the notebook and link to it")
    tagged = DEMO_TAG in raw["metadata"].get("tags", [])
    role = _role(marks, tagged)
    grade_id = marks.get("grade_id")
    if role == "given" and grade_id is None:
        grade_id = f"given-{number}"
    elif not isinstance(grade_id, str) or not GRADE_ID.fullmatch(grade_id):
        flaws.append(f"grade_id={grade_id!r}; use letters, digits, - and _")
        grade_id = f"cell-{number}"
    elif grade_id.startswith("given-"):
        flaws.append("a grade_id may not start with 'given-', which names unmarked cells; rename")
    if role in ("test", "solution") and cell_type != "code":
        flaws.append(f"a {role} cell must be a code cell, not {cell_type}; change one of the two")
    if role == "written" and cell_type == "raw":
        flaws.append("a written answer must be a markdown or code cell, not raw; change it")
    if tagged and role != "demo":
        flaws.append(f"the tag {DEMO_TAG!r} is for cells that are only looked at; take it off")
    elif tagged and not (marks.get("locked") and cell_type == "code"):
        flaws.append("a demo cell is a code cell that students cannot change; make it read-only")
    elif tagged:
        flaws += demo_flaws(source)
    points = _points(marks, role, flaws)
    flaws += mark_flaws(source, role)
    released = source
    if role in ("solution", "written"):
        released = clear_solution(source, cell_type)
    elif role == "test":
        released = clear_hidden(source)
    cell = Cell(
        id=grade_id,
        type=cell_type,
        role=role,
        points=points,
        solution=source,
        released=released,
        hidden=source if role == "test" else released,
        metadata=raw["metadata"],
        notebook_cell_id=raw["id"],
    )
    return cell, flaws


def _role(marks: Mapping[str, Any], tagged: bool) -> Role:
    if marks.get("solution"):
        return "written" if marks.get("grade") else "solution"
    if marks.get("grade"):
        return "test"
    return "demo" if tagged else "given"


def _points(marks: Mapping[str, Any], role: Role, flaws: list[str]) -> float:
    if role not in ("test", "written"):
        return 0.0
    points = marks.get("points")
    if not is_number(points) or points < 0:
        flaws.append(f"points={points!r}; give it a number of 0 or more")
        return 0.0
    return float(points)


def _read_checks(
    cell: Cell,
    place: str,
    settings: Settings,
    seen: dict[str, str],
    flaws: list[str],
) -> list[Check]:
    try:
        everything, visible = find_checks(cell.solution), find_checks(cell.released)
    except (SyntaxError, ValueError) as error:
        flaws.append(f"{place}: it is not plain Python, with and without its hidden part ({error})")
        return []
    tree = parse_python(cell.solution)
    said = [*grading_import_flaws(tree), *other_uses(tree, "check")]
    flaws += [f"{place}: {flaw}" for flaw in said]
    if not everything:
        flaws.append(f"{place}: a test cell without a check; add one, or take its points away")
    checks = []
    for name in everything:
        if name is None:
            flaws.append(f"{place}: a check's first argument must be its name, a literal string")
        elif name in seen:
            flaws.append(f"{place}: the check {name!r} stands in {seen[name]} already; rename it")
        else:
            seen[name] = place
            hidden = name not in visible
            checks.append(Check(name, cell.id, hidden, **settings.check(name, hidden, place)))
    return checks


def _twin_flaws(file_name: str, cells: list[Cell], checks: list[Check], flaws: list[str]) -> None:
    """Add what is wrong with twins and weights: points rest on hidden checks alone."""
    hidden = {(check.cell, check.name) for check in checks if check.hidden}
    for check in checks:
        place = f"{file_name}, check {check.name!r}"
        if check.twin is not None and check.hidden:
            flaws.append(f"{place}: a hidden check has no twin; take the line out")
        elif check.twin is not None and (check.cell, check.twin) not in hidden:
            flaws.append(f"{place}: its twin {check.twin!r} is no hidden check of the same cell")
        elif check.twin is None and not check.hidden and check.weight > 0:
            flaws.append(
                f"{place}: a visible check that earns points needs a hidden twin, since what it "
                'compares with can be read; add twin = "...", or weight = 0 for practice'
            )
    for cell in cells:
        own = [check for check in checks if check.cell == cell.id]
        if cell.role == "test" and cell.points and own and not any(c.weight for c in own):
            flaws.append(
                f"{file_name}, cell {cell.id!r}: it has points, but all its checks weigh 0; "
                "give one a weight"
            )
