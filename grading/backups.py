"""Copies of the gradebook from before a run changed marks, and the way back to one.

SQLite itself makes the copy, so it is whole though formgrader writes at that moment; a copied file
might not be. A gradebook elsewhere, such as PostgreSQL's, has tools of its own: none is made here.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from grading.course import Course
from grading.database import GradebookError, file_of
from grading.patience import BUSY_SECONDS
from grading.records import PRIVATE, private_folder

KEPT = 10
_NAME = re.compile(r"gradebook-\d{8}T\d{12}Z\.db")


def folder(course: Course) -> Path:
    """Return where the copies lie."""
    return course.state / "backups"


def backups(course: Course) -> list[Path]:
    """Return the copies that there are, the newest first."""
    return sorted(
        (path for path in folder(course).glob("gradebook-*.db") if _NAME.fullmatch(path.name)),
        reverse=True,
    )


def back_up(course: Course) -> Path | None:
    """Copy the gradebook, and remove all but the last copies; None where it is not SQLite's.

    Raises:
        GradebookError: It cannot be copied; grading would change marks that nothing gives back.
    """
    gradebook = file_of(course.database_url)
    if gradebook is None or not gradebook.is_file():
        return None
    private_folder(course)
    place = folder(course)
    place.mkdir(exist_ok=True, mode=0o700)
    for unfinished in place.glob("*.new"):  # Killed while it copied: one writer at a time.
        unfinished.unlink(missing_ok=True)
    path = place / f"gradebook-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.db"
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))
        _copy(gradebook, new)
        descriptor = os.open(new, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        new.replace(path)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise GradebookError(
            f"The gradebook could not be copied to {place} ({error}), so no mark was changed. "
            "Make room there, and grade again."
        ) from error
    for old in backups(course)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def restore(course: Course, backup: Path) -> Path | None:
    """Put a copy in the gradebook's place, and return a copy of what that held until now.

    A gradebook that is damaged is set aside as it is. Use it under the course's lock.

    Raises:
        GradebookError: It is no whole gradebook, or cannot be put back; the gradebook is as it was.
    """
    gradebook = file_of(course.database_url)
    if gradebook is None:
        raise GradebookError(
            "The gradebook is not SQLite's, and no copy of it was made here; use its own tools, "
            "such as pg_dump and pg_restore."
        )
    _refuse_damaged(backup)
    content = backup.read_bytes()  # The oldest copy makes room for the one that follows.
    try:
        before, damaged = back_up(course), None
    except GradebookError as error:
        if not _is_damage(error.__cause__):
            raise
        # SQLite neither reads what is damaged nor writes over it.
        before = damaged = _set_aside(course, gradebook)
    source = folder(course) / f"{backup.name}.{secrets.token_hex(4)}.new"
    try:
        source.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        source.touch(PRIVATE)
        source.write_bytes(content)
        _copy(source, gradebook)
    except (OSError, sqlite3.Error) as error:
        if damaged is not None:
            _move(damaged, gradebook)
        raise GradebookError(
            f"{backup} could not be put back ({error}). Close what uses the gradebook, such as "
            "formgrader, and try again."
        ) from error
    finally:
        source.unlink(missing_ok=True)
    return before


def made_at(backup: Path) -> datetime:
    """Return when a copy was made, by its name."""
    stamp = backup.stem.removeprefix("gradebook-").removesuffix("Z")
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)


def _is_damage(error: BaseException | None) -> bool:
    """Tell a file that is no whole database from one that is in use, or a full disk."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.OperationalError
    )


def _set_aside(course: Course, gradebook: Path) -> Path:
    """Move the gradebook to the copies, under a name that is neither listed nor ever removed."""
    aside = folder(course) / f"damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}.db"
    _move(gradebook, aside)
    return aside


def _move(database: Path, target: Path) -> None:
    """Move a database with its journals, which would be played into what takes its place."""
    for ending in ("-journal", "-wal", "-shm", ""):
        place = database.with_name(database.name + ending)
        if place.exists():
            place.replace(target.with_name(target.name + ending))


def _copy(source: Path, target: Path) -> None:
    """Let SQLite copy a database into a file, in one transaction."""
    # What a killed program began is undone when the source is opened, so it may be written.
    address = f"{source.absolute().as_uri()}?mode=rw"
    end = time.monotonic() + BUSY_SECONDS

    def give_up(status: int, *_: int) -> None:
        # Asked after each try; where another program never lets go, Python would try for ever.
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
            raise sqlite3.OperationalError(
                "another program has it open and writes, such as formgrader; close that"
            )

    with (
        closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as old,
        closing(sqlite3.connect(target, timeout=BUSY_SECONDS)) as new,
    ):
        old.backup(new, progress=give_up, sleep=0.05)


def _refuse_damaged(backup: Path) -> None:
    try:
        address = f"{backup.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as book:
            (found,) = book.execute("pragma integrity_check").fetchone()
            tables = {name for (name,) in book.execute("select name from sqlite_master")}
    except sqlite3.Error as error:
        raise GradebookError(f"{backup} cannot be read as a gradebook ({error}).") from error
    if found != "ok" or not {"assignment", "submitted_assignment", "grade"} <= tables:
        raise GradebookError(f"{backup} is no whole gradebook; take another copy.")
