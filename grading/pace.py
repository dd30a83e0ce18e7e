"""How long a run may take while others wait for it: what takes longer is put off.

Runs with hidden tests and runs without take turns, so one that hangs would hold up others. It is
ended instead, and its submission is graded from the start when the others are done. Nothing of
the run that was ended is kept or shown.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from grading.job import Run

LEAST_SECONDS = 10.0
TIMES_THE_MEDIAN = 4.0
_LOOKED_AT = 101  # runs, the last ones


@dataclass(frozen=True)
class Shown:
    """Run A of each notebook of a submission, by notebook, for when its turn comes again.

    What a kernel counts outlives a run: one that people see, made after one of the same work that
    held hidden tests, could show what that had counted up to.
    """

    digest: str
    runs: Mapping[str, Run]


class PutOff(Exception):
    """A run takes so long that others go first; ``shown`` is what was run before it."""

    shown: Shown | None = None


class Pace:
    """The patience with a run, from how long others took; threads may share it.

    Those that were put off count too: where every notebook takes minutes, most of the first ones
    are, and then patience has grown. ``nobody_waits`` says that there is nobody to go first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=_LOOKED_AT)
        self.nobody_waits = False

    def note(self, seconds: float) -> None:
        """Note how long a run took, to its end or until it was put off."""
        with self._lock:
            self._seconds.append(seconds)

    def is_over(self, seconds: float) -> bool:
        """Say whether a run that took so long is to be put off.

        >>> pace = Pace()
        >>> pace.note(60)
        >>> pace.is_over(200), pace.is_over(300)
        (False, True)
        """
        if seconds < LEAST_SECONDS or self.nobody_waits:
            return False
        with self._lock:
            usual = statistics.median(self._seconds) if self._seconds else 0.0
        return seconds >= TIMES_THE_MEDIAN * usual
