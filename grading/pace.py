"""How long a run may take while others wait for it: what takes longer is put off.

Runs with hidden tests and runs without take turns, so one that hangs would hold up all others.
It is ended instead, and its submission is graded from the start when nobody else waits. What it
showed until then is thrown away, so a student learns nothing of how long others took.
"""

from __future__ import annotations

import statistics
import threading
from collections import deque

LEAST_SECONDS = 10.0
TIMES_THE_MEDIAN = 4.0
_LOOKED_AT = 101  # of the runs that came to their end, the last ones


class PutOff(Exception):
    """A run takes so long that others go first."""


class Pace:
    """The patience with a run, from those that came to their end; threads may share it.

    Where every notebook takes minutes, minutes are no sign that one hangs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: deque[float] = deque(maxlen=_LOOKED_AT)

    def note(self, seconds: float) -> None:
        """Note how long a run took that came to its end."""
        with self._lock:
            self._seconds.append(seconds)

    @property
    def patience(self) -> float:
        """Seconds that a run may take while others wait.

        >>> pace = Pace()
        >>> pace.note(60)
        >>> pace.patience
        240.0
        """
        with self._lock:
            usual = statistics.median(self._seconds) if self._seconds else 0.0
        return max(LEAST_SECONDS, TIMES_THE_MEDIAN * usual)
