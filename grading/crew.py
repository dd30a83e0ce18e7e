"""Who grades the submissions of a batch: threads of this process, or a cluster's workers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol

from grading.grade import Outcome
from grading.pace import Shown
from grading.submission import Submission


class Crew(Protocol):
    """Grades submissions side by side; it stores nothing. Use it in a ``with`` block."""

    def __enter__(self) -> Crew: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @property
    def size(self) -> int:
        """How many are graded at a time."""

    @property
    def ahead(self) -> int:
        """How many may be submitted before the first of them has come back."""

    def submit(
        self, submission: Submission, *, hurry: bool, before: Shown | None
    ) -> Future[Outcome]:
        """Have one graded, soon; in a hurry it may raise PutOff, so that others go first.

        ``before`` is what came of it before it was put off.
        """

    def look(self) -> None:
        """See to it that work goes on; it is called every second or so.

        Raises an error whose message says why it cannot, and what to do.
        """


# Threads for each run that may go: runs with hidden tests and runs without take turns, and while
# one of the others is waited for, there is always a submission whose turn it is.
THREADS = 16


class Here:
    """Threads of this process. Leaving the ``with`` block waits for what still runs.

    ``size`` is how many runs go at a time, which the sandbox sees to.
    """

    def __init__(
        self, size: int, work: Callable[[Submission, bool, Shown | None], Outcome]
    ) -> None:
        self.size = size
        self.ahead = (THREADS + 1) * size
        self._work = work
        self._pool = ThreadPoolExecutor(max_workers=THREADS * size, thread_name_prefix="grade")

    def __enter__(self) -> Here:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(
        self, submission: Submission, *, hurry: bool, before: Shown | None
    ) -> Future[Outcome]:
        """Have one graded by the next free thread."""
        return self._pool.submit(self._work, submission, hurry, before)

    def look(self) -> None:
        """Do nothing: threads do not get lost."""
