"""The pages that students get back, packed: an archive for each, and one for the LMS.

nbgrader's generate_feedback makes the pages, with this course's templates. What an archive holds is
chosen by name, page by page, so nothing else that lies about can slip in.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grading.assignment import Assignment
from grading.course import Course
from grading.plain import clean
from grading.programs import use_own_programs
from grading.roster import Roster, RosterError

LONGEST_NAME = 100  # bytes: a system's limit is on these
SAID_LINES = 8
# What some system will not have in a name.
_AWKWARD = re.compile(r'[\\/:*?"<>|]')
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # on Windows
_MARKED = re.compile(r"-[0-9a-f]{16}$")
_PARTICIPANT = re.compile(r"(\d+)\s*$")


class FeedbackError(RuntimeError):
    """Pages that cannot be made or packed; the message says why and what to do."""


def make_pages(course: Course, assignment: Assignment, students: Iterable[str]) -> dict[str, str]:
    """Make everybody's pages anew, and return which of these students have none, and why.

    Raises:
        FeedbackError: nbgrader cannot be started.
    """
    students = list(students)
    for student in students:  # What lies there afterwards is new.
        for page in pages_of(course, assignment, student):
            page.unlink(missing_ok=True)
    use_own_programs()
    command = [sys.executable, "-m", "nbgrader", "generate_feedback", assignment.name, "--force"]
    try:
        done = subprocess.run(
            command, cwd=course.root, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise FeedbackError(f"nbgrader cannot be started ({error})") from error
    missing = [
        student
        for student in students
        if not all(page.is_file() for page in pages_of(course, assignment, student))
    ]
    if missing and len(missing) == len(students):
        # It may tell what a student wrote.
        said = "\n".join(clean(done.stderr).strip().splitlines()[-SAID_LINES:])
        raise FeedbackError(f"nbgrader generate_feedback made no page; it says:\n{said}")
    reason = f"nbgrader made no page; see: nbgrader generate_feedback {assignment.name} --force"
    return dict.fromkeys(missing, reason)


def pages_of(course: Course, assignment: Assignment, student: str) -> list[Path]:
    """Return where a student's pages lie, one for each notebook."""
    folder = course.feedback / student / assignment.name
    return [folder / f"{notebook.id}.html" for notebook in assignment.notebooks]


def file_names(students: Sequence[str]) -> dict[str, str]:
    """Return a name for each student that every system can use and tells them apart.

    An id that is one already stays as it is; others get a mark of their own, and so does an id
    that ends like a marked one.

    >>> file_names(["Nguyễn An", "binh"])
    {'Nguyễn An': 'Nguyễn An', 'binh': 'binh'}
    """
    plain = {student: _plain_name(student) for student in students}
    shared = Counter(name.casefold() for name in plain.values())
    return {
        student: name
        if name == student and shared[name.casefold()] == 1 and not _MARKED.search(name.casefold())
        else f"{name}-{hashlib.sha256(os.fsencode(student)).hexdigest()[:16]}"
        for student, name in plain.items()
    }


def _plain_name(text: str) -> str:
    # What does not show would let one name pass for another.
    shown = "".join(char if char.isprintable() else "-" for char in _AWKWARD.sub("-", text))
    cut = shown.encode("utf-8", "replace")[:LONGEST_NAME].decode("utf-8", "ignore")
    # A name that begins with a minus is an option to programs that unpack.
    name = cut.rstrip(". ").lstrip(".~- ") or "student"
    return f"student {name}" if _DEVICE.fullmatch(name) else name


def moodle_folders(
    roster: Roster, students: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the folder that Moodle knows each student's files by, and why some have none.

    Moodle's assignment takes feedback files as a zip: each folder is named by a person, the number
    of the participant (from its grading worksheet) and the plugin.

    Raises:
        RosterError: It is no grading worksheet.
    """
    identifier, name = roster.find("Identifier"), roster.find("Full name")
    if identifier is None:
        raise RosterError(
            f"{roster.place} has no column Identifier, which holds the participants' numbers. Give "
            "the assignment's grading worksheet: in Moodle, Submissions, Download grading worksheet"
        )
    found, failed = roster.match(students)
    folders = {}
    for student, person in found.items():
        number = _PARTICIPANT.search(person.cells[identifier])
        if number is None:
            failed[student] = f"line {person.line} of {roster.place} has no participant's number"
            continue
        # Moodle parts the name at each "_".
        called = (
            _plain_name(person.cells[name]).replace("_", " ") if name is not None else "student"
        )
        folders[student] = f"{called}_{number[1]}_assignsubmission_file_"
    return folders, failed


def pack(
    course: Course,
    assignment: Assignment,
    folders: Mapping[str, str],
    target: Path,
    archive: str,
    *,
    replace: bool = False,
) -> None:
    """Write students/ID.zip for each student and one ``archive`` for all into a new folder.

    ``folders`` says under which name each student's pages stand in the one for all. With
    ``replace`` whatever is in the folder goes, once the new one is whole.

    Raises:
        FeedbackError: The folder holds something, or two students would share a name.
    """
    students = sorted(folders)
    names = file_names(students)
    if len({folder.casefold() for folder in folders.values()}) != len(folders):
        raise FeedbackError("two students would share one folder in the archive; mend the roster")
    with _new_folder(target, replace) as made:
        (made / "students").mkdir(mode=0o700)
        with zipfile.ZipFile(made / archive, "x", zipfile.ZIP_DEFLATED) as everybody:
            for student in students:
                own = made / "students" / f"{names[student]}.zip"
                with zipfile.ZipFile(own, "x", zipfile.ZIP_DEFLATED) as one:
                    for page in pages_of(course, assignment, student):
                        content = page.read_bytes()
                        one.writestr(_entry(page.name), content)
                        everybody.writestr(_entry(f"{folders[student]}/{page.name}"), content)


def _entry(name: str) -> zipfile.ZipInfo:
    """Return a file's entry without a date, so that the same pages give the same archive."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    return entry


@contextlib.contextmanager
def _new_folder(target: Path, replace: bool) -> Iterator[Path]:
    """Yield an empty folder that takes the target's place once it is whole."""
    target = target.resolve()  # "." has no name that another could stand beside
    if not replace and target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise FeedbackError(f"{target} is there already; give a new or an empty folder: --to DIR")
    target = target.resolve()  # "." has no name to put a new one beside.
    made = target.with_name(f".{target.name}.{os.getpid()}.new")
    made.mkdir(parents=True, mode=0o700)
    try:
        yield made
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
