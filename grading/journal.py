"""What each grading run did and when: one file for a run, one line of JSON for an event.

Each line is one write, so a reader meets whole lines, whatever is killed; what is no whole line is
skipped. The run holds a lock on its file and the lock goes with the process: so a reader knows
whether a run without an end is going on or was killed. A line holds what a student may read, and
the score: no value that a check compares, none that it received, and no secret.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grading.course import Course
from grading.records import PRIVATE, private_folder

KEPT = 50  # runs of one assignment
BEGUN, FOUND, WORK, PUT_OFF, DONE, ENDED, STOPPED = (
    "run begun",
    "submissions",
    "submission begun",
    "submission put off",
    "submission ended",
    "run ended",
    "run stopped",
)
# Stands for a reason that may hold what the solution computes.
PRIVATE_REASON = "It could not be graded: the solution fails with what this student drew."


def folder(course: Course, assignment: str) -> Path:
    """Return where the logs of one assignment lie."""
    return course.state / "log" / assignment


class Journal:
    """The log of a run that goes on; threads may share it.

    A log that cannot be written never stops a run: marks do not hang on it.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, PRIVATE)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._torn = False
        self._since: dict[str, float] = {}

    def close(self) -> None:
        """Close the file, which gives its lock back."""
        os.close(self._file)

    def write(self, event: str, **content: object) -> None:
        """Append one event."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = json.dumps({"time": now, "event": event, **content}) + "\n"
        line = text.encode("ascii")
        if self._torn:
            line = b"\n" + line
        try:
            self._torn = os.write(self._file, line) < len(line)
        except OSError:
            self._torn = True

    def found(self, waiting: int, refused: Iterable[Any]) -> None:
        """Note how many submissions this run grades, and those that it cannot even begin."""
        self.write(FOUND, waiting=waiting)
        for line in refused:
            self.ended(line)

    def begun(self, student_id: str) -> None:
        """Note that work on a submission has begun; once is enough."""
        if student_id not in self._since:
            self._since[student_id] = time.monotonic()
            self.write(WORK, student=student_id)

    def put_off(self, student_id: str) -> None:
        """Note that work on a submission ended with nothing, and begins anew later."""
        self._since.pop(student_id, None)
        self.write(PUT_OFF, student=student_id)

    def ended(self, line: Any) -> None:
        """Note what a submission came to, a `grading.writer.Line`."""
        since = self._since.pop(line.student_id, None)
        self.write(
            DONE,
            student=line.student_id,
            status=str(line.status),
            reasons=[PRIVATE_REASON] if line.private else list(line.reasons),
            points=line.score,
            max_score=line.max_score,
            late_penalty=line.penalty,
            seconds=None if since is None else round(time.monotonic() - since, 2),
        )


@contextlib.contextmanager
def opened(
    course: Course, assignment: str, version: str, options: Mapping[str, object]
) -> Iterator[Journal]:
    """Log one run of an assignment; use it under the course's lock."""
    private_folder(course)
    place = folder(course, assignment)
    place.mkdir(parents=True, exist_ok=True)
    _remove_old(place)
    now = datetime.now(UTC)
    log = Journal(place / f"{now:%Y%m%dT%H%M%S.%fZ}.jsonl")
    try:
        log.write(BEGUN, assignment=assignment, version=version, options=dict(options))
        try:
            yield log
        except BaseException as error:
            # Its message may hold values: only its kind is noted.
            log.write(STOPPED, why=type(error).__name__)
            raise
        log.write(ENDED)
    finally:
        log.close()


def _remove_old(place: Path) -> None:
    for path in sorted(place.glob("*.jsonl"))[: -(KEPT - 1)]:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class Result:
    """What one submission came to in a run; ``reasons`` say why."""

    status: str
    reasons: tuple[str, ...]


@dataclass
class Run:
    """One run as its log tells it.

    ``waiting`` is how many submissions it set out to grade, None before it knows; ``doing`` holds
    since when each submission is at work, or was when the run was killed; ``put_off`` are those
    that take long and are not graded yet. ``end`` is "ended", "stopped" or, with no end in its log,
    "going on" or "killed".
    """

    begun: datetime
    options: Mapping[str, Any]
    end: str = "killed"
    why: str = ""
    waiting: int | None = None
    working_since: datetime | None = None
    doing: dict[str, datetime] = field(default_factory=dict)
    put_off: set[str] = field(default_factory=set)
    results: dict[str, Result] = field(default_factory=dict)
    done: int = 0

    @property
    def alive(self) -> bool:
        """Say whether the run is going on."""
        return self.end == "going on"

    def left(self, now: datetime) -> float | None:
        """Return the seconds that the run will still take, None where nothing is known.

        How long those take that were put off nobody knows; they are not among them.
        """
        if not self.alive or self.waiting is None or self.working_since is None or not self.done:
            return None
        others = self.waiting - self.done - len(self.put_off)
        if self.put_off and others <= 0:
            return None
        passed = (now - self.working_since).total_seconds()
        return max(0.0, passed / self.done * others)


def runs(course: Course, assignment: str) -> Iterator[Run]:
    """Yield the runs of an assignment that are still known, the newest first."""
    for path in sorted(folder(course, assignment).glob("*.jsonl"), reverse=True):
        run = _read(path)
        if run is not None:
            yield run


def _read(path: Path) -> Run | None:
    try:
        with path.open("rb") as file:
            # Asked first: a run that ends in between has its end in what is read afterwards.
            alive = _is_held(file.fileno())
            lines = file.read().split(b"\n")
    except OSError:
        return None
    run: Run | None = None
    for line in lines:
        # What was torn, or edited by hand, tells nothing; the rest of the log still does.
        with contextlib.suppress(
            *(ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
        ):
            run = _told(json.loads(line), run)
    if run is not None and run.end == "killed" and alive:
        run.end = "going on"
    return run


def _told(event: Any, run: Run | None) -> Run | None:
    """Follow one event."""
    when, kind = datetime.fromisoformat(event["time"]), event["event"]
    if kind == BEGUN:
        return Run(when, dict(event["options"]))
    if run is None:
        return None
    if kind == FOUND:
        run.waiting = int(event["waiting"])
    elif kind == WORK:
        run.working_since = run.working_since or when
        run.doing[str(event["student"])] = when
    elif kind == PUT_OFF:
        run.doing.pop(str(event["student"]), None)
        run.put_off.add(str(event["student"]))
    elif kind == DONE:
        reasons = tuple(str(reason) for reason in event["reasons"])
        student = str(event["student"])
        run.results[student] = Result(str(event["status"]), reasons)
        run.done += run.doing.pop(student, None) is not None
        run.put_off.discard(student)
    elif kind in (ENDED, STOPPED):
        run.end = "ended" if kind == ENDED else "stopped"
        run.why = str(event.get("why", ""))
    return run


def duration(seconds: float) -> str:
    """Say about how long something will take.

    >>> duration(80), duration(300)
    ('about 80 s', 'about 5 min')
    """
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min"


def _is_held(descriptor: int) -> bool:
    """Say whether another open file holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # A file system without locks: nothing can be said.
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False
