"""What the grader remembers of each submission, the writer's lock, and files written whole.

A record is written last, after gradebook and notebook: a submission with a finished record is
done, and one without is graded again. So a batch may be killed anywhere.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grading.course import Course

FORMAT = 1
PRIVATE = 0o600
LEFT_BEHIND_SECONDS = 3600  # No write takes so long: whoever began it was killed.


@dataclass(frozen=True)
class Record:
    """What one graded submission came to. `written` is False while its results are stored.

    `assignment` is the digest of the assignment's version that it was graded by. `wrong` and
    `blank` are the outcome's, for the instructor alone; None where an older grader kept none.
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
    wrong: Mapping[str, str] | None = None
    blank: tuple[str, ...] | None = None


def private_folder(course: Course) -> Path:
    """Return .grading, open to its owner alone, whoever made it first."""
    course.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    if course.state.stat().st_mode & 0o077:
        course.state.chmod(0o700)
    return course.state


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
    private_folder(course)
    content = {"format": FORMAT, **asdict(record)}
    text = json.dumps(content, ensure_ascii=True, indent=1, sort_keys=True) + "\n"
    write_file(path_of(course, assignment, record.student_id), text.encode("ascii"), mode=PRIVATE)


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
        if content.get("blank") is not None:
            content["blank"] = tuple(content["blank"])
        record = Record(**content)
        return record if _is_whole(record) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _is_whole(record: Record) -> bool:
    """Say whether every field is of its type, as it is unless somebody edited the file."""
    texts = (
        *(record.student_id, record.digest, record.status, record.graded_at),
        *(record.details, record.assignment, *record.reasons),
        *(record.blank or ()),
    )
    wrong = {} if record.wrong is None else record.wrong
    return (
        all(isinstance(text, str) for text in texts)
        and all(type(number) in (int, float) for number in (record.score, record.max_score))
        and math.isfinite(record.score + record.max_score)
        and isinstance(record.written, bool)
        and isinstance(wrong, dict)
        and all(isinstance(text, str) for text in wrong.values())
    )


def write_file(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that a reader, or a kill, finds the old or the new one, never a part.

    Several may write the same file at once: one of them is last. The umask narrows ``mode``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    start = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}-"
    _remove_what_was_left_behind(path.parent, start)
    new = path.with_name(f"{start}{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _remove_what_was_left_behind(folder: Path, start: str) -> None:
    """Remove what a killed process began to write of this same file."""
    for old in folder.glob(f"{start}*.new"):
        with contextlib.suppress(FileNotFoundError):  # Another one does the same.
            if time.time() - old.stat().st_mtime > LEFT_BEHIND_SECONDS:
                old.unlink()


@contextlib.contextmanager
def locked(course: Course, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the course's writer lock; say so when another process has it, and wait.

    The lock goes with the process: a killed grader leaves none behind.
    """
    lock = private_folder(course) / "lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
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
