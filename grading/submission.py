"""What students handed in, taken from submitted/ without trusting anything that lies there.

A submission folder may hold links, pipes, devices, huge files and names that look alike. Below
submitted/ no link is followed at any level, nothing but plain files is read, and no read waits.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

from grading.assignment import Assignment
from grading.course import Course

MAX_BYTES = 20 << 20
MAX_TIMESTAMP_BYTES = 1000
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
    course: Course, assignment: Assignment, student_id: str | None = None
) -> list[Submission]:
    """Return every submission of the assignment, sorted by student, or one student's alone.

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
        f"{len(found)} folders in submitted/ stand for the id {found[0].student_id!r}: {names}. "
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
                "The student's folder is a link, which is not followed. Put the folder itself "
                "into submitted/."
            )
        elif kind != stat.S_IFDIR:
            return None  # A stray file, such as a zip archive or .DS_Store.
        else:
            with _opened(name, root) as student:
                try:
                    os.stat(assignment.name, dir_fd=student, follow_symlinks=False)
                except FileNotFoundError:
                    return None
                with _opened(assignment.name, student) as folder:
                    bag.fill(folder, assignment)
    except OSError as error:
        bag.problems.append(
            f"The folder is not a plain folder that can be read ({error.strerror}); a link is not "
            "followed. Put the folder itself there and mend its permissions."
        )
    if bag.student_id != unicodedata.normalize("NFC", name):
        bag.problems.append(
            "The folder's name holds characters that cannot be shown, so the id was written "
            f"{bag.student_id!r}. Rename the folder to the student's id."
        )
    return bag.submission()


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    """Open a folder inside an open folder; a link or anything else raises OSError."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Refused(Exception):
    """Something that is not read; the message is a sentence's end: "tiny.ipynb ..."."""


def read_plain_file(name: str, folder: int, limit: int) -> bytes:
    """Return the bytes of a plain file in an open folder, never waiting and following no link.

    Raises:
        Refused: It is a link, no plain file, shared by a hard link, too big or unreadable.
    """
    try:
        # Looked at before it is opened: to open some devices is to use them.
        _refuse_unless_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), limit)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            _refuse_unless_plain(os.fstat(file.fileno()), limit)
            content = file.read(limit + 1)
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror}). Mend its permissions.") from error
    if len(content) > limit:
        raise Refused(f"grew while it was read. At most {limit:,} bytes are read.")
    return content


def _refuse_unless_plain(status: os.stat_result, limit: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Refused("is a link, which is not followed. Hand in the file itself.")
    if not stat.S_ISREG(status.st_mode):
        raise Refused("is not a plain file. Hand in a file.")
    if status.st_nlink > 1:
        raise Refused(
            "is a hard link: the same file has another name elsewhere, so it may be somebody "
            "else's. Put a copy in its place."
        )
    if status.st_size > limit:
        raise Refused(
            f"has {status.st_size:,} bytes. At most {limit:,} are read; clear its outputs."
        )


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
                f"The folder holds {len(names):,} names; at most {MAX_NAMES:,} were looked at."
            )
        by_name: dict[str, list[str]] = {}
        for name in names[:MAX_NAMES]:
            if not name.startswith("."):
                by_name.setdefault(unicodedata.normalize("NFC", name), []).append(name)
        self._take_notebooks(folder, by_name, assignment)
        for name in assignment.student_files:
            if name in by_name:
                self._take(folder, name, by_name[name], self.files, name)
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
                    f"The notebook {name} was handed in under the name {_show(other)}; it was "
                    "taken, being the only notebook left."
                )
            return
        for name in missing:
            found = ", ".join(_show(other) for other in others[:10]) or "no other notebook"
            self.problems.append(
                f"The notebook {name} is missing; there is {found}. Put it there under its own "
                "name."
            )
        if others and not missing:
            found = ", ".join(_show(other) for other in others[:10])
            self.warnings.append(f"Further notebooks were not looked at: {found}.")

    def _take(
        self, folder: int, name: str, spellings: list[str], into: dict[str, bytes], key: str
    ) -> bool:
        """Read a file into the bag. A name that stands twice, spelt apart, is not read at all."""
        if len(spellings) > 1:
            spelt = ", ".join(ascii(spelling) for spelling in spellings)
            self.problems.append(
                f"{_show(name)} is there {len(spellings)} times, spelt with different bytes "
                f"({spelt}); none was taken. Keep one."
            )
            return False
        try:
            into[key] = read_plain_file(spellings[0], folder, MAX_BYTES)
        except Refused as refusal:
            self.problems.append(f"{_show(name)} {refusal}")
            return False
        return True

    def _take_timestamp(self, folder: int, by_name: Mapping[str, list[str]]) -> None:
        if "timestamp.txt" not in by_name:
            return
        try:
            self._timestamp_text = read_plain_file("timestamp.txt", folder, MAX_TIMESTAMP_BYTES)
            self.timestamp = parse_timestamp(self._timestamp_text.decode("utf-8-sig"))
        except (Refused, ValueError) as error:
            self.warnings.append(f"timestamp.txt was not used: {error}")


def parse_timestamp(text: str) -> datetime:
    """Return UTC without a time zone from what nbgrader writes: date, time, time zone.

    Raises:
        ValueError: It is no such text.

    >>> parse_timestamp("2026-01-31 23:30:00.5 UTC")
    datetime.datetime(2026, 1, 31, 23, 30, 0, 500000)
    >>> parse_timestamp("2026-01-31 23:30:00 Asia/Ho_Chi_Minh")
    datetime.datetime(2026, 1, 31, 16, 30)
    """
    words = text.split()
    zone: timezone | ZoneInfo = UTC
    if len(words) == 3:
        zone = _zone(words.pop())
    try:
        moment = datetime.fromisoformat(_six_digits(" ".join(words)))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text.strip()[:60]!r} is no time such as '2026-01-31 23:30:00.000000 UTC'"
        ) from None


def _six_digits(text: str) -> str:
    """Write a fraction of seconds with six digits: fromisoformat takes three or six only."""
    return re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", text)


def _zone(name: str) -> timezone | ZoneInfo:
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        try:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        except ValueError:
            raise ValueError(f"{name!r} is no time zone") from None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name[:40]!r} is no time zone known here") from None


def _show(name: str) -> str:
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
