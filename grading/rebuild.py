"""The notebook that runs: the instructor's cells, with the student's answers put in.

From a student's notebook come source texts and, for written answers, pasted pictures; nothing
else. Type, points, tags and every mark are the instructor's, and marks in a student's text are
text. Nothing is matched silently: what was not plain goes into ``warnings`` or ``problems``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grading.assignment import Cell, Notebook
from grading.job import Job, JobCell

MAX_CELLS = 2_000
MAX_SOURCE = 1_000_000
MAX_ATTACHMENTS = 20
MAX_ATTACHMENT = 10 << 20
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
REPLACEMENT = "\ufffd"
NO_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL and halves of surrogate pairs
DEFINITION = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*=(?!=)", re.MULTILINE)


@dataclass(frozen=True)
class RebuiltCell:
    """One cell of the notebook that runs: ``source`` in run A, ``hidden`` in run B.

    ``carried`` cells are the student's own. ``attachments`` maps a name to {type: base64}; its
    content is the student's and unproven.
    """

    id: str
    type: str
    role: Literal["given", "solution", "test", "written", "carried"]
    source: str
    hidden: str
    attachments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rebuilt:
    """A rebuilt notebook.

    ``changed`` holds the ids of solution and written cells that differ from the release.
    ``problems`` call for a person; ``warnings`` are told to the student.
    """

    notebook_id: str
    cells: tuple[RebuiltCell, ...]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()


def rebuild(notebook: Notebook, content: bytes | None) -> Rebuilt:
    """Return the instructor's notebook with the answers of a student's.

    Whatever ``content`` holds, a whole notebook comes back. Where it is None or no notebook, the
    released text stands, with a problem that says so.
    """
    remarks = _Remarks()
    student = _read_student(content, remarks)
    matches = _match(notebook, student, remarks)
    return _assemble(notebook, student, matches, remarks)


def solved(notebook: Notebook) -> Rebuilt:
    """Return the instructor's own solution as a rebuilt notebook."""
    cells = tuple(
        RebuiltCell(
            id=cell.id,
            type=cell.type,
            role=cell.role,
            source=cell.released if cell.role == "test" else cell.solution,
            hidden=cell.hidden if cell.role == "test" else cell.solution,
        )
        for cell in notebook.cells
    )
    answers = frozenset(cell.id for cell in cells if cell.role in ("solution", "written"))
    return Rebuilt(notebook.id, cells, changed=answers)


def jobs(rebuilt: Rebuilt, files: Mapping[str, bytes], secret_key: str) -> tuple[Job, Job]:
    """Return what to run: A with the released text and outputs, B with the hidden tests."""
    code = [cell for cell in rebuilt.cells if cell.type == "code"]
    return (
        Job(cells=tuple(JobCell(cell.id, cell.source) for cell in code), files=files),
        Job(
            cells=tuple(JobCell(cell.id, cell.hidden) for cell in code),
            files=files,
            key=secret_key,
            outputs=False,
        ),
    )


class _Remarks:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.problems: list[str] = []


# --- reading what a student saved -------------------------------------------------------------


@dataclass
class _StudentCell:
    """What is taken of a student's cell; anything of an absurd type has become empty."""

    type: str
    source: str
    grade_id: str
    cell_id: str
    attachments: dict[str, Any]

    @property
    def text(self) -> str:
        return plain(self.source)


def plain(source: str) -> str:
    """Return a text as it is compared: what surrounds it does not count.

    >>> plain("x = 1\\r\\n\\r\\n")
    'x = 1'
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _read_student(content: bytes | None, remarks: _Remarks) -> list[_StudentCell]:
    """Return a student's cells. Never raises; what cannot be read becomes a problem."""
    if content is None:
        remarks.problems.append("There is no notebook to grade: the released text stands.")
        return []
    if not content.strip():
        remarks.problems.append("The notebook is an empty file: the released text stands.")
        return []
    try:
        document = _parse(content, remarks)
        raw_cells = _raw_cells(document)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        remarks.problems.append(
            f"The notebook cannot be read ({reason[:200]}): the released text stands. Open it in "
            "Jupyter, save it and hand it in again."
        )
        return []
    if len(raw_cells) > MAX_CELLS:
        remarks.problems.append(
            f"The notebook has {len(raw_cells):,} cells; only the first {MAX_CELLS:,} were read."
        )
    cells = [
        _student_cell(raw, number, remarks) for number, raw in enumerate(raw_cells[:MAX_CELLS], 1)
    ]
    return [cell for cell in cells if cell is not None]


def _parse(content: bytes, remarks: _Remarks) -> Any:
    """Parse JSON leniently: of two equal keys the last counts, as in Jupyter."""
    encoding = json.detect_encoding(content)  # UTF-8, 16 or 32, with or without a BOM
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode(encoding, errors="replace")
        remarks.warnings.append(
            f"The notebook is not valid {encoding.upper()}; unreadable characters were replaced "
            f"by {REPLACEMENT}."
        )
    # No number of a notebook matters but its format's, and huge ones are slow to read.
    return json.loads(
        text,
        parse_int=lambda digits: int(digits) if len(digits) < 10 else 0,
        parse_float=lambda digits: 0.0,
        parse_constant=lambda name: None,
    )


def _raw_cells(document: Any) -> list[Any]:
    """Return the list of cells of format 4, or of the older format 3."""
    if isinstance(document, dict):
        if isinstance(document.get("cells"), list):
            return list(document["cells"])
        if isinstance(document.get("worksheets"), list):
            return [
                cell
                for sheet in document["worksheets"]
                if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
                for cell in sheet["cells"]
            ]
    raise ValueError("it is JSON, but holds no list of cells")


def _student_cell(raw: Any, number: int, remarks: _Remarks) -> _StudentCell | None:
    """Return what is taken of a cell, or None for one that is too long."""
    raw = raw if isinstance(raw, dict) else {}
    source = raw.get("source", raw.get("input", ""))  # "input": code in format 3
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    if len(source) > MAX_SOURCE:
        remarks.problems.append(
            f"Cell {number} has {len(source):,} characters; at most {MAX_SOURCE:,} are read, so "
            "it was left out."
        )
        return None
    metadata = raw.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    cell_type = raw.get("cell_type")
    if cell_type == "heading":  # Format 3.
        cell_type = "markdown"
    return _StudentCell(
        type=cell_type if cell_type in ("code", "markdown", "raw") else "raw",
        source=_clean(source, number, remarks),
        grade_id=grade_id if isinstance(grade_id, str) else "",
        cell_id=raw["id"] if isinstance(raw.get("id"), str) else "",
        attachments=raw["attachments"] if isinstance(raw.get("attachments"), dict) else {},
    )


def _clean(source: str, number: int, remarks: _Remarks) -> str:
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    cleaned = NO_TEXT.sub(REPLACEMENT, source)
    if cleaned != source:
        remarks.warnings.append(
            f"Cell {number} held characters that no text may hold; {REPLACEMENT} stands there now."
        )
    return cleaned


# --- whose cell is it? ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Match:
    """A student's cell stands for the instructor's cell ``id``.

    ``own`` means that it runs after the original: given code that is not locked may be edited,
    so what a student adds there, such as an import, is their own code.
    """

    id: str
    own: bool = False


def _match(
    notebook: Notebook, student: list[_StudentCell], remarks: _Remarks
) -> list[_Match | None]:
    """Return for each student's cell what it stands for; None is a cell of the student's own."""
    by_id = {cell.id: cell for cell in notebook.cells}
    marked = {cell.id for cell in notebook.cells if _is_marked(cell)}
    matches = [
        _known(by_id[cell.grade_id], cell) if cell.grade_id in marked else None for cell in student
    ]
    # Cells without a mark, be it that the instructor gave none or that an editor lost it.
    found = {match.id for match in matches if match}
    unfound = [cell for cell in notebook.cells if cell.id not in found]
    by_cell_id = {cell.notebook_cell_id: cell for cell in unfound if cell.notebook_cell_id}
    by_text: dict[tuple[str, str], Cell] = {
        (cell.type, plain(cell.released)): cell
        for cell in reversed(unfound)
        if cell.role in ("given", "test")
    }
    for index, cell in enumerate(student):
        if matches[index] is None and cell.cell_id in by_cell_id:
            matches[index] = _known(by_cell_id.pop(cell.cell_id), cell)
    for index, cell in enumerate(student):
        if matches[index] is None and cell.text and (cell.type, cell.text) in by_text:
            matches[index] = _Match(by_text[cell.type, cell.text].id)
    _match_by_place(notebook, student, matches, remarks)
    _leave_prose_out_of_code(by_id, student, matches)
    return matches


def _leave_prose_out_of_code(
    by_id: Mapping[str, Cell], student: list[_StudentCell], matches: list[_Match | None]
) -> None:
    """Where an answer in code was split and one part made prose, only the code answers."""
    in_code = {
        match.id
        for cell, match in zip(student, matches, strict=True)
        if match and cell.type == "code"
    }
    for index, match in enumerate(matches):
        if match and student[index].type != "code" and match.id in in_code:
            mine = by_id[match.id]
            if mine.type == "code" and mine.role in ("solution", "written"):
                matches[index] = None


def _known(mine: Cell, cell: _StudentCell) -> _Match:
    return _Match(mine.id, own=_is_open_code(mine) and cell.text != plain(mine.released))


def _is_marked(mine: Cell) -> bool:
    return isinstance(mine.metadata.get("nbgrader"), Mapping) and not mine.id.startswith("given-")


def _is_open_code(mine: Cell) -> bool:
    """Tell whether students may edit a given cell: nbgrader has not locked it."""
    marks = mine.metadata.get("nbgrader")
    locked = isinstance(marks, Mapping) and marks.get("locked")
    return mine.role == "given" and mine.type == "code" and not locked


def _match_by_place(
    notebook: Notebook,
    student: list[_StudentCell],
    matches: list[_Match | None],
    remarks: _Remarks,
) -> None:
    """Find answers that have lost their mark, by the names they define or by where they stand.

    Each gap between known cells is looked at by itself. A pair is made only where there is one
    way to make it; else a problem says that a person must look.
    """
    for missing, candidates in _gaps(notebook, student, matches):
        left = list(candidates)
        unpaired = []
        for cell in missing:
            names = _defined(cell.released)
            found = [
                index
                for index in left
                if student[index].type == cell.type and names & _defined(student[index].source)
            ]
            if names and len(found) == 1:
                left.remove(found[0])
                _pair(cell, found[0], matches, remarks)
            else:
                unpaired.append(cell)
        for cell in unpaired:
            found = [index for index in left if student[index].type == cell.type]
            rivals = [other for other in unpaired if other.type == cell.type]
            if len(found) == 1 and len(rivals) == 1:
                _pair(cell, found[0], matches, remarks)
            elif found:
                remarks.problems.append(
                    f"The cell {cell.id!r} has lost the mark it is known by, and "
                    f"{len(found)} cells could be it: the released text stands. Copy the answer "
                    "into a freshly downloaded notebook."
                )


def _pair(cell: Cell, index: int, matches: list[_Match | None], remarks: _Remarks) -> None:
    matches[index] = _Match(cell.id)
    remarks.warnings.append(
        f"The cell {cell.id!r} had lost the mark it is known by; cell {index + 1} was taken for "
        "it, by its place or the names it defines."
    )


def _gaps(
    notebook: Notebook, student: list[_StudentCell], matches: list[_Match | None]
) -> Iterator[tuple[list[Cell], list[int]]]:
    """Yield the answers that are missing between known cells, and what stands in their place."""
    place = {match.id: index for index, match in reversed(list(enumerate(matches))) if match}
    missing: list[Cell] = []
    before = -1
    for cell in (*notebook.cells, None):
        if cell is not None and cell.id not in place:
            if cell.role in ("solution", "written"):
                missing.append(cell)
            continue
        after = len(student) if cell is None else place[cell.id]
        if missing:
            yield (
                missing,
                [
                    index
                    for index in range(before + 1, after)
                    if matches[index] is None and student[index].text
                ],
            )
            missing = []
        before = after


def _defined(source: str) -> set[str]:
    """Return the names of functions, classes and variables that a text defines at its top.

    Not by syntax tree: an answer with a syntax error is still that answer.
    """
    return {name for pair in DEFINITION.findall(source) for name in pair if name}


# --- putting it together ----------------------------------------------------------------------


def _assemble(
    notebook: Notebook,
    student: list[_StudentCell],
    matches: list[_Match | None],
    remarks: _Remarks,
) -> Rebuilt:
    parts: dict[str, list[_StudentCell]] = {cell.id: [] for cell in notebook.cells}
    carried: dict[str | None, list[RebuiltCell]] = {}
    latest: str | None = None
    number = 0
    for cell, match in zip(student, matches, strict=True):
        if match is not None:
            parts[match.id].append(cell)
            latest = match.id
        if cell.text and (match is None or match.own):
            number += 1
            own = RebuiltCell(f"+{number}", cell.type, "carried", cell.source, cell.source)
            carried.setdefault(latest, []).append(own)
    cells = carried.get(None, [])
    changed = set()
    for mine in notebook.cells:
        found = parts[mine.id]
        if mine.role in ("solution", "written"):
            rebuilt = _answer(mine, found, bool(student), remarks)
            if plain(rebuilt.source) != plain(mine.released) or rebuilt.attachments:
                changed.add(mine.id)
        else:
            rebuilt = RebuiltCell(mine.id, mine.type, mine.role, mine.released, mine.hidden)
            _remark_on_locked(mine, found, bool(student), remarks)
        cells += [rebuilt, *carried.get(mine.id, [])]
    return Rebuilt(
        notebook_id=notebook.id,
        cells=tuple(cells),
        warnings=tuple(remarks.warnings),
        problems=tuple(remarks.problems),
        changed=frozenset(changed),
    )


def _answer(
    mine: Cell, found: list[_StudentCell], any_cells: bool, remarks: _Remarks
) -> RebuiltCell:
    """Return a solution or written cell with the student's text, several parts joined in order."""
    if not found:
        # An ambiguous match has said more already.
        if any_cells and not any(repr(mine.id) in problem for problem in remarks.problems):
            remarks.warnings.append(f"The cell {mine.id!r} is not there: the released text stands.")
        return RebuiltCell(mine.id, mine.type, mine.role, mine.released, mine.released)
    if len(found) > 1:
        remarks.warnings.append(
            f"The cell {mine.id!r} is there {len(found)} times, as after splitting it; the parts "
            "were joined in order."
        )
    if any(cell.type != mine.type for cell in found):
        remarks.warnings.append(
            f"The cell {mine.id!r} was made another kind of cell; it counts as {mine.type}."
        )
    source = "\n\n".join(cell.source for cell in found)
    attachments: dict[str, Any] = {}
    if mine.role == "written":
        for cell in found:
            attachments |= _pictures(mine, cell.attachments, remarks)
    return RebuiltCell(mine.id, mine.type, mine.role, source, source, attachments)


def _remark_on_locked(
    mine: Cell, found: list[_StudentCell], any_cells: bool, remarks: _Remarks
) -> None:
    """Warn about a test cell, or a marked or code cell, that is not as it was released."""
    if not _is_marked(mine) and mine.type != "code":
        return  # Prose: whoever edits it for themselves loses nothing.
    if found and _is_open_code(mine):
        return  # What was changed runs too, after the original.
    kind = "test cell" if mine.role == "test" else "cell"
    if any_cells and not found:
        remarks.warnings.append(f"The {kind} {mine.id!r} was removed; the original was used.")
    elif len(found) > 1:
        remarks.warnings.append(
            f"The {kind} {mine.id!r} is there {len(found)} times; the original was used once."
        )
    elif any(cell.text != plain(mine.released) for cell in found):
        remarks.warnings.append(f"You changed the {kind} {mine.id!r}; the original was used.")


def _pictures(mine: Cell, attachments: Mapping[Any, Any], remarks: _Remarks) -> dict[str, Any]:
    """Return the attachments that claim to be pictures of a kind we know, and warn of others."""
    taken: dict[str, Any] = {}
    for name, bundle in attachments.items():
        bundle = bundle if isinstance(bundle, dict) else {}
        pictures = {
            kind: bundle[kind]
            for kind in IMAGE_TYPES
            if isinstance(bundle.get(kind), str) and len(bundle[kind]) <= MAX_ATTACHMENT
        }
        clean_name = name.isprintable() and len(name) <= 200
        if pictures and clean_name and len(taken) < MAX_ATTACHMENTS:
            taken[name] = pictures
        else:
            remarks.warnings.append(
                f"A file pasted into {mine.id!r} was left out: up to {MAX_ATTACHMENTS} pictures "
                "(PNG, JPEG, GIF or WebP) are kept."
            )
    return taken
