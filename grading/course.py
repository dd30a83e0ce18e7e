"""Where a course keeps its things: the folders, the gradebook's address and the secret."""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from grading.database import address_of

SECRET_VARIABLE = "MHA_COURSE_SECRET"
SECRET_BYTES = 32
CONTENTS = "_toc.yml"
_EXERCISE = re.compile(r"\bexercises/([\w-]+)/\1\b")


class CourseError(RuntimeError):
    """The course's folders or its secret are not as they must be; the message says the way out."""


@dataclass(frozen=True)
class Course:
    """A course in the folder ``root``, which is made absolute.

    >>> Course(Path("/srv/course")).solutions
    PosixPath('/srv/course/solutions')
    """

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(self.root).absolute())

    @property
    def solutions(self) -> Path:
        """The instructor's notebooks, one folder and one NAME.toml for each assignment."""
        return self.root / "solutions"

    @property
    def assignments(self) -> list[str]:
        """The names of all assignments, in the book's order: each has its settings, NAME.toml.

        What the book's table of contents does not name comes last.
        """
        found = {path.stem for path in self.solutions.glob("*.toml") if "." not in path.stem}
        contents = self.root / CONTENTS
        text = contents.read_text("utf-8") if contents.is_file() else ""
        book = [name for name in _EXERCISE.findall(text) if name in found]
        return list(dict.fromkeys([*book, *sorted(found)]))

    @property
    def exercises(self) -> Path:
        """What students get."""
        return self.root / "exercises"

    @property
    def submitted(self) -> Path:
        """What students handed in: submitted/STUDENT/ASSIGNMENT/."""
        return self.root / "submitted"

    @property
    def autograded(self) -> Path:
        """The graded notebooks, built anew."""
        return self.root / "autograded"

    @property
    def feedback(self) -> Path:
        """The feedback pages that nbgrader makes."""
        return self.root / "feedback"

    @property
    def state(self) -> Path:
        """What the grader keeps for itself: records, the lock, cached references."""
        return self.root / ".grading"

    @property
    def database_url(self) -> str:
        """The gradebook's address, as nbgrader_config.py gives it to nbgrader.

        Raises:
            GradebookError: The settings give none.
        """
        return address_of(self.root)

    def secret(self) -> bytes:
        """Return the 32 bytes that hidden inputs are made from; the first call makes them.

        They lie outside the course, as 64 hexadecimal digits in the file that
        ``$MHA_COURSE_SECRET`` names, else in ``~/.config/mha-course/secret``. Keep a copy: with
        another secret, hidden inputs differ from those of earlier marks.

        Raises:
            CourseError: The file lies inside the course, can be read by others, or is damaged.
        """
        named = os.environ.get(SECRET_VARIABLE)
        path = Path(named) if named else Path.home() / ".config" / "mha-course" / "secret"
        path = path.absolute()
        if path.resolve().is_relative_to(self.root.resolve()):
            raise CourseError(
                f"the course secret {path} lies inside the course {self.root}, where it would be "
                f"published with it; move it out and set {SECRET_VARIABLE} to its new place"
            )
        if not path.exists():
            _make_secret(path)
        return _read_secret(path)


def _make_secret(path: Path) -> None:
    """Write a new secret whole or not at all; of two processes that try, one wins."""
    new = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(SECRET_BYTES) + "\n")
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(new)
        except FileExistsError:
            pass  # Another process made it first: theirs is read.
        finally:
            new.unlink()
    except OSError as error:
        raise CourseError(
            f"cannot make the course secret {path} ({error.strerror}); make its folder writable, "
            f"or set {SECRET_VARIABLE} to a file you may write"
        ) from error


def _read_secret(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(1000) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise CourseError(
            f"cannot read the course secret {path} ({error.strerror}); mend its permissions, "
            f"or set {SECRET_VARIABLE} to another file"
        ) from error
    if status.st_mode & 0o077:
        raise CourseError(
            f"the course secret {path} has mode {stat.S_IMODE(status.st_mode):04o}: others may "
            f"read or change it; run: chmod 600 {path}"
        )
    if status.st_uid not in (os.geteuid(), 0):
        raise CourseError(
            f"the course secret {path} belongs to user {status.st_uid}, who can read it; you are "
            f"{os.geteuid()}: grade as that user, or set {SECRET_VARIABLE} to a file of yours"
        )
    try:
        secret = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise CourseError(
            f"the course secret {path} is damaged: expected {2 * SECRET_BYTES} hexadecimal "
            "digits; put your copy back, or delete the file for a new secret (hidden inputs, "
            "and so some marks, will then differ)"
        )
    return secret
