"""What the grader remembers of each submission, the writer's lock, and files written whole.

A record is written last, after gradebook and notebook: a submission with a finished record is
done, and one without is graded again. So a batch may be killed anywhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grading.course import Course

FORMAT = 1


@dataclass(frozen=True)
class Record:
    """What one graded submission came to. `written` is False while its results are stored.

    `assignment` is the digest of the assignment's version that it was graded by.
    """

    student_id: str
    digest: str
    status: str
    reasons: tuple[str, ...]
    score: float
    max_score: float
    graded_at: str = ""
    written: bool = True
    details: str = ""
    assignment: str = ""


def folder(course: Course, assignment: str) -> Path:
    """Return where the records of one assignment lie."""
    return course.state / "results" / assignment


def path_of(course: Course, assignment: str, student_id: str) -> Path:
    """Return the file of one record; an id too long for a file name is hashed."""
    name = student_id
    if len(name.encode("utf-8", "surrogatepass")) > 200:
        name = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return folder(course, assignment) / f"{name}.json"


def save(course: Course, assignment: str, record: Record) -> None:
    """Write one record, whole or not at all."""
    content = {"format": FORMAT, **asdict(record)}
    text = json.dumps(content, ensure_ascii=True, indent=1, sort_keys=True) + "\n"
    write_file(path_of(course, assignment, record.student_id), text.encode("ascii"), mode=0o600)


def load(course: Course, assignment: str) -> dict[str, Record]:
    """Read every record of one assignment; a damaged one counts as missing."""
    records = {}
    for path in sorted(folder(course, assignment).glob("*.json")):
        record = _read(path)
        if record is not None:
            records[record.student_id] = record
    return records


def _read(path: Path) -> Record | None:
    try:
        content: Any = json.loads(path.read_bytes())
        if content.pop("format") != FORMAT:
            return None
        content["reasons"] = tuple(content["reasons"])
        return Record(**content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_file(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file so that a reader, or a kill, finds the old or the new one, never a part.

    One process at a time: what a killed one left half-written, the next one writes over.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def locked(course: Course, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the course's writer lock; say so when another process has it, and wait.

    The lock goes with the process: a killed grader leaves none behind.
    """
    course.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(course.state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    progress("Another grading run is at work on this course; waiting for it.")
                    told = True
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


def printable(text: str) -> str:
    r"""Return text that is safe on a terminal: control characters become escapes.

    >>> printable("an\x1b[31m\nred")
    'an\\x1b[31m\\nred'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
