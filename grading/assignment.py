"""The instructor's side of an assignment: solutions/NAME/*.ipynb and solutions/NAME.toml.

:func:`load` reads both, names every flaw at once, and works out what students get of each cell
by nbgrader's rules. A test holds these rules equal to nbgrader's own output.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from grading.course import Course
from grading.job import Limits
from grading.settings import RESERVED_FILES, Settings, is_number

CellType = Literal["code", "markdown", "raw"]
Role = Literal["given", "solution", "test", "written"]

CODE_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
TEXT_STUB = "YOUR ANSWER HERE"
SOLUTION_MARKS = ("BEGIN SOLUTION", "END SOLUTION")
HIDDEN_MARKS = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")
# nbgrader acts on these too; nothing here does, so they are refused.
OTHER_MARKS = ("BEGIN MARK SCHEME", "END MARK SCHEME", "AUTOTEST")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
GRADE_ID = re.compile(r"[A-Za-z0-9_-]+")
# What Jupyter leaves behind; nbgrader does not release it either.
IGNORED_FILES = (".ipynb_checkpoints", "__pycache__")
MAX_FILE_BYTES = 20 << 20


class AssignmentError(ValueError):
    """An assignment with flaws; ``flaws`` holds a sentence for each, the message all of them."""

    def __init__(self, name: str, flaws: list[str]) -> None:
        self.flaws = tuple(flaws)
        count = "1 flaw" if len(flaws) == 1 else f"{len(flaws)} flaws"
        super().__init__(f"assignment {name!r} has {count}:\n" + "\n".join(f"- {f}" for f in flaws))


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
    the whole text of a test cell, the released text of any other. ``written`` is graded by hand.
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


@dataclass(frozen=True)
class Assignment:
    """An assignment without flaws.

    ``files`` is released beside the notebooks; ``student_files`` names what else is taken from a
    submission; ``modules`` the packages of this repository that the sandbox holds.
    """

    name: str
    title: str
    difficulty: int
    minutes: int
    notebooks: tuple[Notebook, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    student_files: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    forbidden_calls: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def points(self) -> float:
        """The points of all notebooks together, those given by hand among them."""
        return sum(cell.points for notebook in self.notebooks for cell in notebook.cells)

    @property
    def digest(self) -> str:
        """Name this very version: whatever changes a mark or a page changes the digest."""
        content = asdict(self)
        content["files"] = {
            name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()
        }
        text = json.dumps(content, sort_keys=True, default=dict)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(course: Course, name: str) -> Assignment:
    """Read an assignment.

    Raises:
        AssignmentError: With every flaw that was found.
    """
    if not NAME.fullmatch(name):
        raise AssignmentError(name, ["the name may hold letters, digits, - and _ only"])
    folder, settings_file = course.solutions / name, course.solutions / f"{name}.toml"
    flaws: list[str] = []
    for path, what in ((folder, "folder"), (settings_file, "file")):
        if path.is_symlink() or not (path.is_dir() if what == "folder" else path.is_file()):
            flaws.append(f"{path} is missing or not a plain {what}; make it")
    if flaws:
        raise AssignmentError(name, flaws)

    settings = Settings(settings_file, flaws)
    files = _read_folder(folder, flaws)
    notebooks = []
    seen_checks: dict[str, str] = {}
    for file_name in sorted(files):
        if file_name.endswith(".ipynb"):
            content = files.pop(file_name)
            notebooks.append(_read_notebook(file_name, content, settings, seen_checks, flaws))
    if not notebooks:
        flaws.append(f"{folder} holds no notebook; put {name}.ipynb there")
    settings.refuse_unused_checks(seen_checks)
    assignment = Assignment(
        name=name,
        title=settings.text("title"),
        difficulty=settings.whole("difficulty", 1, 3),
        minutes=settings.whole("minutes", 1, 100_000),
        notebooks=tuple(notebooks),
        files=files,
        student_files=settings.file_names("student_files"),
        modules=settings.modules(course),
        forbidden_calls=settings.identifiers("forbidden_calls"),
        limits=settings.limits(),
    )
    settings.refuse_unknown_keys()
    flaws += [
        f"{settings.place}: student_files holds {taken!r}, which is released too, so a submission "
        "would replace it; choose another name"
        for taken in assignment.student_files
        if taken in files
    ]
    if notebooks and not assignment.points > 0:
        flaws.append("no cell earns points; give the test cells and written answers points")
    if flaws:
        raise AssignmentError(name, flaws)
    return assignment


# --- what students get: nbgrader's ClearSolutions and ClearHiddenTests -----------------------


def clear_solution(source: str, cell_type: str) -> str:
    """Return a solution cell's text as nbgrader releases it.

    Each region between the solution marks becomes a stub; a cell without a region becomes one.

    >>> clear_solution("x = 1\\n### BEGIN SOLUTION\\ny = 2\\n### END SOLUTION", "code")
    'x = 1\\n# YOUR CODE HERE\\nraise NotImplementedError()'
    """
    stub = CODE_STUB if cell_type == "code" else TEXT_STUB
    if SOLUTION_MARKS[0] not in source:
        return stub
    return _replace_regions(source, SOLUTION_MARKS, stub.split("\n"))


def clear_hidden(source: str) -> str:
    """Return a test cell's text without its hidden regions, as nbgrader releases it.

    >>> clear_hidden("a\\n### BEGIN HIDDEN TESTS\\nb\\n### END HIDDEN TESTS\\nc")
    'a\\nc'
    """
    return _replace_regions(source, HIDDEN_MARKS, [])


def _replace_regions(source: str, marks: tuple[str, str], stub: list[str]) -> str:
    begin, end = marks
    kept: list[str] = []
    inside = False
    for line in source.split("\n"):
        if begin in line:
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + stub_line for stub_line in stub]
        elif end in line:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def _mark_flaws(source: str, role: Role) -> Iterator[str]:
    """Yield what is wrong with a cell's marks. nbgrader takes an END without a BEGIN silently."""
    for (begin, end), allowed, place in (
        (SOLUTION_MARKS, ("solution", "written"), "solution cells"),
        (HIDDEN_MARKS, ("test",), "test cells"),
    ):
        if (begin in source or end in source) and role not in allowed:
            yield f"it holds {begin!r} or {end!r}, which belong in {place} only; take them out"
            continue
        inside = False
        for line in source.split("\n"):
            if begin in line and end in line:
                yield f"one line holds both {begin!r} and {end!r}; give each a line of its own"
            if begin in line:
                if inside:
                    yield f"{begin!r} stands twice before {end!r}; close the first region"
                inside = True
            elif end in line:
                if not inside:
                    yield f"{end!r} has no {begin!r} before it; add it"
                inside = False
        if inside:
            yield f"{begin!r} is never closed; add a line with {end!r}"
    for mark in OTHER_MARKS:
        if mark in source:
            yield f"it holds {mark!r}, which nbgrader acts on and this grader does not; reword it"


# --- the notebook -----------------------------------------------------------------------------


def find_checks(source: str) -> list[str | None]:
    """Return the name of each call of ``check`` in Python text, None where it is no literal.

    Raises:
        SyntaxError: The text is not Python.

    >>> find_checks("check('a', 1)\\nif x:\\n    check(name, 2)")
    ['a', None]
    """
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "check"
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    names: list[str | None] = []
    for call in calls:
        first = call.args[0] if call.args else None
        literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
        names.append(first.value if literal else None)  # type: ignore[union-attr]
    return names


def _read_notebook(
    file_name: str,
    content: bytes,
    settings: Settings,
    seen_checks: dict[str, str],
    flaws: list[str],
) -> Notebook:
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
    role = _role(marks)
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
    points = _points(marks, role, flaws)
    flaws += _mark_flaws(source, role)
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


def _role(marks: Mapping[str, Any]) -> Role:
    if marks.get("solution"):
        return "written" if marks.get("grade") else "solution"
    return "test" if marks.get("grade") else "given"


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


# --- the files beside the notebooks -----------------------------------------------------------


def _read_folder(folder: Path, flaws: list[str]) -> dict[str, bytes]:
    """Return the content of each file in the folder. All of it will be released."""
    files = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in IGNORED_FILES or entry.name.endswith(".pyc"):
            continue
        place = f"{folder.name}/{entry.name}"
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            flaws.append(f"{place} is no plain file; only notebooks and files are released")
        elif entry.name.startswith(".") or entry.name in RESERVED_FILES:
            flaws.append(f"{place}: a file of this name cannot be released; rename or move it")
        elif status.st_size > MAX_FILE_BYTES:
            flaws.append(f"{place} has {status.st_size} bytes; at most {MAX_FILE_BYTES} are read")
        else:
            files[unicodedata.normalize("NFC", entry.name)] = Path(entry.path).read_bytes()
    return files
