"""The notebook that runs: the instructor's cells, with the student's answers put in.

From a student's notebook come source texts and, for written answers, pasted pictures; nothing
else. Type, points, tags and every mark are the instructor's, and marks in a student's text are
text. Nothing is matched silently: what was not plain goes into ``warnings`` or ``problems``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grading.assignment import Cell, Check, Notebook
from grading.job import Job, JobCell
from grading.matching import AMBIGUOUS, Match, is_marked, is_open_code, match
from grading.notebook import Role
from grading.plain import PICTURE_TYPES
from grading.remarks import Kind, Remarks
from grading.student_notebook import StudentCell, is_blank, plain, read

MAX_ATTACHMENTS = 20
MAX_ATTACHMENT = 10 << 20

NOT_THERE = Kind(
    "The cell {it} is not there: the released text stands.",
    "{count} cells are not there: {them}; the released texts stand.",
)
IN_PARTS = Kind(
    "The cell {it} is there {times} times, as after splitting it; the parts were joined in order.",
    "{count} cells are there more than once, as after splitting them: {them}; the parts were "
    "joined in order.",
)
OTHER_TYPE = Kind(
    "You made the cell {it} another kind of cell; it counts as {type}.",
    "You made {count} cells another kind of cell: {them}; they count as what they were.",
)
LEFT_OUT = Kind(
    "Something pasted into {it} was left out: up to {most} pictures (PNG, JPEG, GIF or WebP) are "
    "kept.",
    "Something pasted into {count} cells was left out: {them}; of each, some pictures (PNG, JPEG, "
    "GIF or WebP) are kept.",
)
REMOVED = {
    what: Kind(
        f"The {what} {{it}} was removed; the original was used.",
        f"{{count}} {what}s were removed: {{them}}; the originals were used.",
    )
    for what in ("cell", "test cell")
}
REPEATED = {
    what: Kind(
        f"The {what} {{it}} is there {{times}} times; the original was used once.",
        f"{{count}} {what}s are there more than once: {{them}}; the originals were used once.",
    )
    for what in ("cell", "test cell")
}
CHANGED = {
    what: Kind(
        f"You changed the {what} {{it}}; the original was used.",
        f"You changed {{count}} {what}s: {{them}}; the originals were used.",
    )
    for what in ("cell", "test cell")
}


@dataclass(frozen=True)
class RebuiltCell:
    """One cell of the notebook that runs: ``source`` in run A, ``hidden`` in run B.

    ``carried`` cells are the student's own. ``attachments`` maps a name to {type: base64}; its
    content is the student's and unproven.
    """

    id: str
    type: str
    role: Role | Literal["carried"]
    source: str
    hidden: str
    attachments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rebuilt:
    """A rebuilt notebook.

    ``changed`` holds the ids of solution and written cells that hold an answer: text that is
    neither blank nor the release's, or a picture.
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
    remarks = Remarks()
    student = read(content, remarks)
    matches = match(notebook, student, remarks)
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


def jobs(
    rebuilt: Rebuilt,
    files: Mapping[str, bytes],
    secret_key: str,
    checks: Iterable[Check] | None = None,
    draws: Mapping[str, int] | None = None,
) -> tuple[Job, Job]:
    """Return what to run: A with the released text and outputs, B with the hidden tests.

    Demos are left out: they need what a sandbox may not hold. Of messages only those of ``checks``
    are kept; all of them if None. ``draws`` are the options of the one whose notebook it is.
    """
    code = [cell for cell in rebuilt.cells if cell.type == "code" and cell.role != "demo"]
    pairs = None if checks is None else frozenset((each.cell, each.name) for each in checks)
    return (
        Job(
            cells=tuple(JobCell(cell.id, cell.source) for cell in code),
            files=files,
            draws=draws or {},
            checks=pairs,
        ),
        Job(
            cells=tuple(JobCell(cell.id, cell.hidden) for cell in code),
            files=files,
            key=secret_key,
            outputs=False,
            draws=draws or {},
            checks=pairs,
        ),
    )


def _assemble(
    notebook: Notebook,
    student: list[StudentCell],
    matches: list[Match | None],
    remarks: Remarks,
) -> Rebuilt:
    parts: dict[str, list[StudentCell]] = {cell.id: [] for cell in notebook.cells}
    carried: dict[str | None, list[RebuiltCell]] = {}
    latest: str | None = None
    number = 0
    for cell, matched in zip(student, matches, strict=True):
        if matched is not None:
            parts[matched.id].append(cell)
            latest = matched.id
        if cell.text and (matched is None or matched.own):
            number += 1
            own = RebuiltCell(f"+{number}", cell.type, "carried", cell.source, cell.source)
            carried.setdefault(latest, []).append(own)
    cells = carried.get(None, [])
    changed = set()
    for mine in notebook.cells:
        found = parts[mine.id]
        if mine.role in ("solution", "written"):
            rebuilt = _answer(mine, found, bool(student), remarks)
            if _is_response(rebuilt, mine):
                changed.add(mine.id)
        else:
            rebuilt = RebuiltCell(mine.id, mine.type, mine.role, mine.released, mine.hidden)
            _remark_on_locked(mine, found, bool(student), remarks)
        cells += [rebuilt, *carried.get(mine.id, [])]
    return Rebuilt(
        notebook_id=notebook.id,
        cells=tuple(cells),
        warnings=remarks.warnings,
        problems=remarks.problems,
        changed=frozenset(changed),
    )


def _is_response(rebuilt: RebuiltCell, mine: Cell) -> bool:
    """Tell whether there is anything for a person to read: neither blank nor as released."""
    if rebuilt.attachments:
        return True
    return not is_blank(rebuilt.source) and plain(rebuilt.source) != plain(mine.released)


def _answer(mine: Cell, found: list[StudentCell], any_cells: bool, remarks: Remarks) -> RebuiltCell:
    """Return a solution or written cell with the student's text, several parts joined in order."""
    if not found:
        # An ambiguous match has said more already.
        if any_cells and not remarks.holds(AMBIGUOUS, repr(mine.id)):
            remarks.add(NOT_THERE, repr(mine.id))
        return RebuiltCell(mine.id, mine.type, mine.role, mine.released, mine.released)
    if len(found) > 1:
        remarks.add(IN_PARTS, repr(mine.id), times=len(found))
    if any(cell.type != mine.type for cell in found):
        remarks.add(OTHER_TYPE, repr(mine.id), type=mine.type)
    source = "\n\n".join(cell.source for cell in found)
    attachments: dict[str, Any] = {}
    if mine.role == "written":
        for cell in found:
            attachments |= _pictures(mine, cell.attachments, remarks)
    return RebuiltCell(mine.id, mine.type, mine.role, source, source, attachments)


def _remark_on_locked(
    mine: Cell, found: list[StudentCell], any_cells: bool, remarks: Remarks
) -> None:
    """Warn about a test cell, or a marked or code cell, that is not as it was released."""
    if not is_marked(mine) and mine.type != "code":
        return  # Prose: whoever edits it for themselves loses nothing.
    if found and is_open_code(mine):
        return  # What was changed runs too, after the original.
    kind = "test cell" if mine.role == "test" else "cell"
    if mine.role == "demo" and not found:
        return  # Nothing is lost with it, and work from before it came is whole without.
    if any_cells and not found:
        remarks.add(REMOVED[kind], repr(mine.id))
    elif len(found) > 1:
        remarks.add(REPEATED[kind], repr(mine.id), times=len(found))
    elif any(cell.text != plain(mine.released) for cell in found):
        remarks.add(CHANGED[kind], repr(mine.id))


def _pictures(mine: Cell, attachments: Mapping[Any, Any], remarks: Remarks) -> dict[str, Any]:
    """Return the attachments that claim to be pictures of a kind we know, and warn of others."""
    taken: dict[str, Any] = {}
    for name, bundle in attachments.items():
        bundle = bundle if isinstance(bundle, dict) else {}
        pictures = {
            kind: bundle[kind]
            for kind in PICTURE_TYPES
            if isinstance(bundle.get(kind), str) and len(bundle[kind]) <= MAX_ATTACHMENT
        }
        clean_name = name.isprintable() and len(name) <= 200
        if pictures and clean_name and len(taken) < MAX_ATTACHMENTS:
            taken[name] = pictures
        else:
            remarks.add(LEFT_OUT, repr(mine.id), most=MAX_ATTACHMENTS)
    return taken
