"""What students handed in, taken from submitted/ without trusting anything that lies there.

A submission folder may hold links, pipes, devices, huge files and names that look alike. Below
submitted/ no link is followed at any level, nothing but plain files is read, and no read waits.
"""

from __future__ import annotations

import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from grading.assignment import Assignment
from grading.course import Course
from grading.job import files_flaw
from grading.plain_files import Refused, read_plain_file
from grading.timestamps import FILE_NAME as TIMESTAMP
from grading.timestamps import MAX_BYTES as MAX_TIMESTAMP_BYTES
from grading.timestamps import parse_timestamp

MAX_BYTES = 20 << 20
# More names than this in one folder are no submission that anyone made by hand.
MAX_NAMES = 1000


@dataclass(frozen=True)
class Submission:
    """One student's work on one assignment.

    ``notebooks`` maps a notebook's id to its bytes, ``files`` a file's name to its bytes.
    ``problems`` call for a person, ``warnings`` are told to one. ``timestamp`` is UTC without a
    time zone, as nbgrader keeps it. ``digest`` changes when anything here does.
    """

    student_id: str
    folder: Path
    notebooks: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    timestamp: datetime | None = None
    digest: str = ""


def collect(
    course: Course,
    assignment: Assignment,
    student_id: str | None = None,
    *,
    contents: bool = True,
) -> list[Submission]:
    """Return every submission of the assignment, sorted by student, or one student's alone.

    Without ``contents`` what was read is forgotten at once, but for the digest: a whole course's
    notebooks may not fit into memory.

    A folder without the assignment is no submission. One student's mess never stops the others:
    it becomes a problem of that submission.
    """
    try:
        root = os.open(course.submitted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    wanted = None if student_id is None else unicodedata.normalize("NFC", student_id)
    taken: dict[str, list[Submission]] = {}
    try:
        for name in sorted(os.listdir(root)):  # noqa: PTH208 (a descriptor, no path)
            if not name.startswith(".") and wanted in (None, student_id_of(name)):
                submission = _take_student(root, name, course.submitted, assignment)
                if submission is not None:
                    if not contents:
                        submission = replace(submission, notebooks={}, files={})
                    taken.setdefault(submission.student_id, []).append(submission)
    finally:
        os.close(root)
    return [_only(taken[name]) for name in sorted(taken)]


def student_id_of(folder_name: str) -> str:
    """Return the id of the student whose folder has this name: its NFC form, made printable.

    >>> student_id_of("Nguye\\u0302\\u0303n") == "Nguy\\u1ec5n"
    True
    >>> print(student_id_of("a\\nb"))
    a\\x0ab
    """
    name = unicodedata.normalize("NFC", folder_name)
    return "".join(_printable(character) for character in name)


def _printable(character: str) -> str:
    """Escape what no database, page or terminal shows: control characters and broken bytes."""
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
        code = ord(character)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return character


def _only(found: list[Submission]) -> Submission:
    """Return the one submission of an id. Where folders share an id, nobody knows whose is whose:
    the id gets nothing of either, and a person looks.
    """
    if len(found) == 1:
        return found[0]
    names = ", ".join(ascii(submission.folder.parent.name) for submission in found)
    problem = (
        f"{len(found)} folders in submitted/ stand for your id {found[0].student_id!r}: {names}. "
        "None was graded. Rename or remove all but one, then grade again."
    )
    return _finish(
        Submission(found[0].student_id, found[0].folder, problems=(problem,)),
        *(submission.digest.encode() for submission in found),
    )


def _take_student(
    root: int, name: str, submitted: Path, assignment: Assignment
) -> Submission | None:
    """Return what lies in submitted/NAME/ASSIGNMENT, or None where there is no such thing."""
    bag = _Bag(student_id_of(name), submitted / name / assignment.name)
    try:
        kind = stat.S_IFMT(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode)
        if kind == stat.S_IFLNK:
            bag.problems.append(
                "Your folder is a link, which is not followed. The folder itself has to be in "
                "submitted/."
            )
        elif kind != stat.S_IFDIR:
            return None  # A stray file, such as a zip archive or .DS_Store.
        else:
            with open_folder(name, root) as student:
                try:
                    os.stat(assignment.name, dir_fd=student, follow_symlinks=False)
                except FileNotFoundError:
                    return None
                with open_folder(assignment.name, student) as folder:
                    bag.fill(folder, assignment)
    except OSError as error:
        bag.problems.append(
            f"Your folder is not a plain folder that can be read ({error.strerror}); a link is "
            "not followed. The folder itself has to be there, with permission to read it."
        )
    if bag.student_id != unicodedata.normalize("NFC", name):
        bag.problems.append(
            "The name of your folder holds characters that cannot be shown, so your id was written "
            f"{bag.student_id!r}. The folder has to have your id as its name."
        )
    return bag.submission()


@contextmanager
def open_folder(name: str, parent: int) -> Iterator[int]:
    """Open a folder inside an open folder; a link or anything else raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Bag:
    """A submission while it is being filled."""

    def __init__(self, student_id: str, folder: Path) -> None:
        self.student_id = student_id
        self.folder = folder
        self.notebooks: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.timestamp: datetime | None = None
        self._timestamp_text = b""

    def fill(self, folder: int, assignment: Assignment) -> None:
        """Take what belongs to the assignment from its open folder."""
        names = sorted(os.listdir(folder))
        if len(names) > MAX_NAMES:
            self.problems.append(
                f"Your folder holds {len(names):,} names; at most {MAX_NAMES:,} were looked at."
            )
        by_name: dict[str, list[str]] = {}
        for name in names[:MAX_NAMES]:
            if not name.startswith("."):
                by_name.setdefault(unicodedata.normalize("NFC", name), []).append(name)
        self._take_notebooks(folder, by_name, assignment)
        for name in assignment.student_files:
            if name in by_name:
                self._take(folder, name, by_name[name], self.files, name)
        flaw = files_flaw({**assignment.files, **self.files}, assignment.limits)
        if self.files and flaw is not None:
            self.files.clear()
            self.problems.append(f"None of the files beside your notebook was taken. {flaw}")
        self._take_timestamp(folder, by_name)

    def submission(self) -> Submission:
        """Return what was taken."""
        submission = Submission(
            student_id=self.student_id,
            folder=self.folder,
            notebooks=self.notebooks,
            files=self.files,
            warnings=tuple(self.warnings),
            problems=tuple(self.problems),
            timestamp=self.timestamp,
        )
        return _finish(submission, self._timestamp_text)

    def _take_notebooks(
        self, folder: int, by_name: Mapping[str, list[str]], assignment: Assignment
    ) -> None:
        expected = {f"{notebook.id}.ipynb": notebook.id for notebook in assignment.notebooks}
        missing = [name for name in expected if name not in by_name]
        others = [
            name for name in by_name if name not in expected and name.lower().endswith(".ipynb")
        ]
        for name, notebook_id in expected.items():
            if name in by_name:
                self._take(folder, name, by_name[name], self.notebooks, notebook_id)
        if len(missing) == 1 and len(others) == 1 and len(by_name[others[0]]) == 1:
            name, other = missing[0], others[0]
            if self._take(folder, other, by_name[other], self.notebooks, expected[name]):
                self.warnings.append(
                    f"You handed in the notebook {name} under the name {shown_name(other)}; it was "
                    "taken, being the only notebook left."
                )
            return
        for name in missing:
            found = ", ".join(shown_name(other) for other in others[:10]) or "no other notebook"
            self.problems.append(
                f"Your notebook {name} is missing; there is {found}. Hand it in under its own name."
            )
        if others and not missing:
            found = ", ".join(shown_name(other) for other in others[:10])
            self.warnings.append(f"Your further notebooks were not looked at: {found}.")

    def _take(
        self, folder: int, name: str, spellings: list[str], into: dict[str, bytes], key: str
    ) -> bool:
        """Read a file into the bag. A name that stands twice, spelt apart, is not read at all."""
        if len(spellings) > 1:
            spelt = ", ".join(ascii(spelling) for spelling in spellings)
            self.problems.append(
                f"{shown_name(name)} is there {len(spellings)} times, spelt with different bytes "
                f"({spelt}); none was taken. Keep one."
            )
            return False
        try:
            into[key] = read_plain_file(spellings[0], folder, MAX_BYTES)
        except Refused as refusal:
            self.problems.append(f"{shown_name(name)} {refusal}")
            return False
        return True

    def _take_timestamp(self, folder: int, by_name: Mapping[str, list[str]]) -> None:
        if TIMESTAMP not in by_name:
            return
        try:
            self._timestamp_text = read_plain_file(TIMESTAMP, folder, MAX_TIMESTAMP_BYTES)
            self.timestamp = parse_timestamp(self._timestamp_text.decode("utf-8-sig"))
        except (Refused, ValueError) as error:
            self.warnings.append(f"{TIMESTAMP} was not used: {error}")


def shown_name(name: str) -> str:
    """Return a file's name as a message may hold it: short, and with nothing that hides."""
    return ascii(name) if len(name) > 120 or student_id_of(name) != name else name


def _finish(submission: Submission, *further: bytes) -> Submission:
    """Return the submission with its digest."""
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "big") + part)

    for title, group in (("notebook", submission.notebooks), ("file", submission.files)):
        for name in sorted(group):
            for part in (title.encode(), name.encode("utf-8", "surrogateescape"), group[name]):
                add(part)
    for said in (*submission.problems, *submission.warnings):
        add(said.encode("utf-8", "surrogateescape"))
    for part in further:
        add(part)
    return replace(submission, digest=digest.hexdigest())
