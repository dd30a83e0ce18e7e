"""From solutions/NAME to what students get: exercises/NAME, made by nbgrader.

A release holds the notebooks, the instructor's other files and checks.json, with variants a file
for the student's id too, and nothing else. It is made in a temporary folder and moved into place
whole; if anything fails, the old one stays.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grading import checks_file
from grading.assignment import Assignment, AssignmentError, Notebook, load
from grading.compare import compare
from grading.course import Course
from grading.database import file_of
from grading.draws import refuse_to_draw_anew
from grading.entries import entries
from grading.lint import lint
from grading.programs import use_own_programs
from grading.records import locked
from grading.values import decode
from grading.variants import ID_FILE, ID_FILE_TEXT

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# What a cell keeps of its metadata; nbgrader adds deletable and editable itself.
KEPT_METADATA = ("nbgrader", "tags")


class ReleaseError(RuntimeError):
    """A release, or its cells in the gradebook, could not be made; the message says the way out."""


def release(
    course: Course, name: str, destination: Path | None = None, *, register: bool = True
) -> Path:
    """Make exercises/NAME, or ``destination``, and return its path.

    A release that is current already is left as it is. With ``register`` the cells are put into
    the gradebook first, under the writer's lock.

    Raises:
        AssignmentError: The assignment has flaws, by :func:`grading.lint.lint`; all are listed. Of
            the answers only those are handed in that say something: the others take minutes, and
            are left to :func:`grading.trials.answer_flaws`. Or work that is handed in would be
            graded by other draws.
        ReleaseError: nbgrader refused, or its result is not what was expected.
        SandboxError: The machine lacks a wall.
        ProgramError: nbgrader's own helper for a new gradebook cannot be started.
    """
    flaws = lint(course, name)
    if flaws:
        raise AssignmentError(name, flaws)
    assignment = load(course, name)
    if destination is None:
        refuse_to_draw_anew(course, assignment)  # Elsewhere nobody is graded by it.
    target = course.exercises / name if destination is None else destination
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as temporary:
        made = _make(course, assignment, Path(temporary))
        if register:
            with locked(course, print):
                _register(course, assignment)
        if _differences(made, target):
            _put_in_place(made, target, Path(temporary) / "old")
    return target


def is_current(course: Course, name: str) -> list[str]:
    """Return how exercises/NAME differs from a fresh release; empty means it is current.

    Arrays are compared with a tolerance, since processors differ in the last digits; all else
    must be equal byte for byte.

    Raises:
        AssignmentError: The assignment has flaws.
    """
    assignment = load(course, name)
    with tempfile.TemporaryDirectory(prefix="release-") as temporary:
        return _differences(_make(course, assignment, Path(temporary)), course.exercises / name)


def register(course: Course, name: str) -> None:
    """Put the assignment's cells into nbgrader's gradebook; exercises/ is not touched.

    The caller holds the writer's lock, :func:`grading.records.locked`.

    Raises:
        AssignmentError: The assignment has flaws.
        ReleaseError: Submissions rest on other cells than the assignment has now.
    """
    _register(course, load(course, name))


def _make(course: Course, assignment: Assignment, folder: Path) -> Path:
    """Make the release inside an empty folder and return its path."""
    made = _generate(assignment, folder, database_url=None)
    for notebook in assignment.notebooks:
        _refuse_surprises(notebook, made / f"{notebook.id}.ipynb")
    for name, content in assignment.files.items():
        (made / name).write_bytes(content)
    salt = _salt(assignment)
    checks_file.write(
        made / checks_file.FILE_NAME,
        assignment=assignment.name,
        salt=salt,
        checks=entries(course, assignment, salt),
        picks=assignment.picks if assignment.variants else None,
        forbidden=assignment.forbidden_names,
    )
    if assignment.variants:
        (made / ID_FILE).write_text(ID_FILE_TEXT, encoding="utf-8", newline="\n")
    allowed = {f"{notebook.id}.ipynb" for notebook in assignment.notebooks}
    allowed |= {*assignment.files, checks_file.FILE_NAME}
    allowed |= {ID_FILE} if assignment.variants else set()
    found = {path.name for path in made.iterdir()}
    if found != allowed:
        raise ReleaseError(
            f"the release of {assignment.name!r} would hold {sorted(found)}, not {sorted(allowed)}"
        )
    return made


def _salt(assignment: Assignment) -> str:
    """Return the salt of the release's hashes: the same until what is released changes.

    The salt is published beside the hashes, so it need not be secret or random. It only has to
    differ between assignments and versions, so that a table made for one fits no other; and no
    mark rests on the hashes. Being derived, a second release changes nothing.
    """
    content = [assignment.name, *(_release_text(notebook) for notebook in assignment.notebooks)]
    return hashlib.sha256(json.dumps(content).encode("ascii")).hexdigest()[:32]


def _release_text(notebook: Notebook) -> str:
    return json.dumps([[cell.id, cell.released] for cell in notebook.cells])


def _generate(assignment: Assignment, folder: Path, database_url: str | None) -> Path:
    """Run nbgrader's generate_assignment inside a folder, with or without a gradebook."""
    use_own_programs()
    # Importing nbgrader costs 2.4 s.
    from nbgrader.converters import GenerateAssignment  # type: ignore[import-untyped]
    from nbgrader.coursedir import CourseDirectory  # type: ignore[import-untyped]
    from nbgrader.utils import capture_log  # type: ignore[import-untyped]
    from traitlets.config import Config

    for notebook in assignment.notebooks:
        _write_source(notebook, folder / "source" / assignment.name)
    config = Config()
    config.CourseDirectory.root = str(folder.resolve())
    config.CourseDirectory.assignment_id = assignment.name
    if database_url is None:
        config.GenerateAssignment.no_database = True
        config.SaveCells.enabled = False
    else:
        config.CourseDirectory.db_url = database_url
        if file_of(database_url) is None:
            # PostgreSQL holds nbgrader to its own rule that an assignment is of a known course.
            config.CourseDirectory.course_id = "default_course"
    converter = GenerateAssignment(coursedir=CourseDirectory(config=config), config=config)
    result = capture_log(converter)
    if not result["success"]:
        raise ReleaseError(_explain(assignment.name, result.get("log", "") + result["error"]))
    return folder / "release" / assignment.name


def _write_source(notebook: Notebook, folder: Path) -> None:
    """Write the instructor's notebook for nbgrader: no outputs, no counts, little metadata."""
    cells = []
    for cell in notebook.cells:
        raw: dict[str, Any] = {
            "id": cell.notebook_cell_id,
            "cell_type": cell.type,
            "metadata": {key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata},
            "source": cell.solution,
        }
        if cell.type == "code":
            raw |= {"execution_count": None, "outputs": []}
        cells.append(raw)
    document = {
        "cells": cells,
        "metadata": {"kernelspec": KERNEL, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{notebook.id}.ipynb").write_text(json.dumps(document), encoding="utf-8")


def _explain(name: str, log: str) -> str:
    """Say what nbgrader refused, and the way out."""
    if "there are submissions associated with it" in log:
        return (
            f"the cells of {name!r} are not those that graded submissions rest on, and nbgrader "
            "keeps marks only for the cells it knows. Put the old cells and their ids back (text "
            "and points may change); or release the new version under another name; or, to grade "
            f"everything anew, back up gradebook.db and run: nbgrader db assignment remove {name} "
            "--force"
        )
    reason = [line for line in log.strip().split("\n") if line.strip()]
    return f"nbgrader could not make {name!r}: {reason[-1] if reason else 'it gave no reason'}"


def _refuse_surprises(notebook: Notebook, path: Path) -> None:
    """Refuse a release whose cells are not what the grader takes for released."""
    made = json.loads(path.read_text(encoding="utf-8"))
    texts = ["".join(cell["source"]) for cell in made["cells"]]
    if texts != [cell.released for cell in notebook.cells]:
        raise ReleaseError(
            f"nbgrader released other cells of {notebook.id!r} than the grader works out; "
            "grading.marks no longer follows this version of nbgrader"
        )


def _register(course: Course, assignment: Assignment) -> None:
    with tempfile.TemporaryDirectory(prefix="register-") as temporary:
        _generate(assignment, Path(temporary), course.database_url)


def _differences(made: Path, old: Path) -> list[str]:
    """Return a sentence for each difference between a fresh release and an old one."""
    if old.is_symlink() or not old.is_dir():
        return [f"{old} is missing; run: python -m grading release {old.name}"]
    new_names = {path.name for path in made.iterdir()}
    # Jupyter's checkpoints are no part of a release.
    old_names = {path.name for path in old.iterdir()} - {".ipynb_checkpoints"}
    said = [f"{old / name} does not belong there" for name in sorted(old_names - new_names)]
    for name in sorted(new_names):
        path = old / name
        if path.is_symlink() or not path.is_file():
            said.append(f"{path} is missing")
        elif name == checks_file.FILE_NAME:
            said += [f"{path}: {what}" for what in _check_differences(made / name, path)]
        elif path.read_bytes() != (made / name).read_bytes():
            said.append(f"{path} is not what a release makes now")
    return said


def _check_differences(made: Path, old: Path) -> list[str]:
    try:
        was = checks_file.read(old)
    except checks_file.DamagedChecks as error:
        return [f"is damaged: {error}"]
    now = checks_file.read(made)
    if (was.assignment, was.salt, was.picks) != (now.assignment, now.salt, now.picks):
        return ["belongs to another version"]
    said = [] if was.forbidden == now.forbidden else ["forbidden is not what a release makes now"]
    return said + [
        f"check {name!r} is not what a release makes now"
        for name in sorted({*was.checks, *now.checks})
        if not _same_entry(was.checks.get(name), now.checks.get(name))
    ]


def _same_entry(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    if was is None or now is None or was["kind"] != now["kind"]:
        return was == now
    if was["kind"] == "drawn":
        each = zip(was["entries"], now["entries"], strict=False)
        sizes = len(was["entries"]) == len(now["entries"])
        return sizes and was["pick"] == now["pick"] and all(_same_entry(*pair) for pair in each)
    if was["kind"] != "value":
        return was == now
    told = [[one["says"] for one in entry.get("known", ())] for entry in (was, now)]
    rest = [
        {key: entry[key] for key in entry if key not in ("value", "known")} for entry in (was, now)
    ]
    if rest[0] != rest[1] or told[0] != told[1]:
        return False
    values = [
        [entry["value"], *(one["value"] for one in entry.get("known", ()))] for entry in (was, now)
    ]
    return all(compare(decode(old), decode(new)) is None for old, new in zip(*values, strict=True))


def _put_in_place(made: Path, target: Path, aside: Path) -> None:
    """Move a release to its place, the old one aside; if that fails, the old one comes back."""
    try:
        if _is_there(target):
            target.rename(aside)
        made.rename(target)
    except BaseException:  # Ctrl-C too.
        if _is_there(aside) and not _is_there(target):
            aside.rename(target)
        raise


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
