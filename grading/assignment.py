"""The instructor's side of an assignment: solutions/NAME/*.ipynb and solutions/NAME.toml.

:func:`load` reads both and names every flaw at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grading.course import Course
from grading.head_note import with_id_note
from grading.job import Limits, files_flaw
from grading.lint_picks import read_picks
from grading.notebook import NAME, Cell, Check, Notebook, read_notebook
from grading.settings import RESERVED_FILES, Settings
from grading.walls import OWN_PACKAGES

__all__ = ["Assignment", "AssignmentError", "Cell", "Check", "Notebook", "load"]

# What Jupyter leaves behind; nbgrader does not release it either.
IGNORED_FILES = (".ipynb_checkpoints", "__pycache__")
MAX_FILE_BYTES = 20 << 20


class AssignmentError(ValueError):
    """An assignment with flaws; ``flaws`` holds a sentence for each, the message all of them."""

    def __init__(self, name: str, flaws: list[str]) -> None:
        self.flaws = tuple(flaws)
        count = "1 flaw" if len(flaws) == 1 else f"{len(flaws)} flaws"
        super().__init__(f"assignment {name!r} has {count}:\n" + "\n".join(f"- {f}" for f in flaws))


class UnknownAssignment(AssignmentError):
    """A name that no assignment of the course has; the message names those that there are."""

    def __init__(self, name: str, known: list[str]) -> None:
        there = f"there is: {', '.join(known)}" if known else "there is none in solutions/"
        text = f"no assignment {name}; {there}"
        ValueError.__init__(self, text)
        self.flaws = (text,)


@dataclass(frozen=True)
class Assignment:
    """An assignment without flaws.

    ``files`` is released beside the notebooks; ``student_files`` names what else is taken from a
    submission; ``modules`` the packages of this repository that the sandbox holds. ``picks`` holds
    the options of each pick, as they are written; with ``variants`` each student gets one of them,
    else everybody the first.
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
    variants: bool = False
    picks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """The points of all notebooks together, those given by hand among them."""
        return sum(cell.points for notebook in self.notebooks for cell in notebook.cells)

    @property
    def forbidden_names(self) -> frozenset[str]:
        """What no student's code may use: forbidden calls, and our packages outside its sandbox."""
        return frozenset({*self.forbidden_calls, *OWN_PACKAGES} - {"grading", *self.modules})

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
    if not (folder.exists() or settings_file.exists()):
        raise UnknownAssignment(name, course.assignments)
    for path, what in ((folder, "folder"), (settings_file, "file")):
        if path.is_symlink() or not (path.is_dir() if what == "folder" else path.is_file()):
            flaws.append(f"{path} is missing or not a plain {what}; make it")
    if flaws:
        raise AssignmentError(name, flaws)

    settings = Settings(settings_file, flaws)
    if flaws:  # It is no TOML: all that is not in it would be a flaw as well.
        raise AssignmentError(name, flaws)
    files = _read_folder(folder, flaws)
    notebooks = []
    seen_checks: dict[str, str] = {}
    for file_name in sorted(files):
        if file_name.endswith(".ipynb"):
            content = files.pop(file_name)
            notebooks.append(read_notebook(file_name, content, settings, seen_checks, flaws))
    if not notebooks:
        flaws.append(f"{folder} holds no notebook; put {name}.ipynb there")
    settings.refuse_unused_checks(seen_checks)
    picks = read_picks(notebooks, flaws)
    variants = settings.switch("variants")
    if variants:
        notebooks = [with_id_note(notebook) for notebook in notebooks]
        if not picks:
            flaws.append(
                f"{settings.place}: variants = true, but no cell calls pick('name', [...]) from "
                "grading; let one do so, or take the line out"
            )
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
        variants=variants,
        picks=picks,
    )
    settings.refuse_unknown_keys()
    flaws += [
        f"{settings.place}: student_files holds {taken!r}, which is released too, so a submission "
        "would replace it; choose another name"
        for taken in assignment.student_files
        if taken in files
    ]
    flaw = files_flaw(files, assignment.limits)
    if flaw is not None:
        flaws.append(f"{folder.name}: {flaw} Make them smaller, or raise {settings.place}'s limits")
    if notebooks and not assignment.points > 0:
        flaws.append("no cell earns points; give the test cells and written answers points")
    if flaws:
        raise AssignmentError(name, flaws)
    return assignment


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
