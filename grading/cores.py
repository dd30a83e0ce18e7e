"""Which core a sandbox computes on, and which sandboxes run at the same time.

A student's code may keep a core busy with any number of processes. It takes no time from its
neighbours, because each sandbox has a core of its own as long as there are enough.

All sandboxes share one kernel and the same files, so two that run at the same time can always
talk: one wakes what waits on a page of a file, or makes itself felt in the processor's cache. So
a run that knows secrets never goes at the same time as one whose output people see.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["shown", "secret", "alone"]
MOST_PASSED = 64  # go past somebody who waits


class Cores:
    """Shares out the cores that this process may use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: Counter[int] = Counter()

    @contextlib.contextmanager
    def one(self) -> Iterator[int]:
        """Lend the core with the fewest users: a free one, as long as there is one.

        Among equals it is one that no other grader of this machine uses, and else chance decides.
        """
        with self._lock:
            cores = os.sched_getaffinity(0)
            fewest = min(self._users[core] for core in cores)
            equals = [core for core in cores if self._users[core] == fewest]
            random.SystemRandom().shuffle(equals)
            core, claim = equals[0], None
            for each in equals:
                if (claim := _claim(each)) is not None:
                    core = each
                    break
            self._users[core] += 1
        try:
            yield core
        finally:
            if claim is not None:
                claim.close()
            with self._lock:
                self._users[core] -= 1


def _claim(core: int) -> socket.socket | None:
    """Say to other graders of this machine that a core is in use; None where it is said already.

    The name goes with the process, however that ends. Inside a sandbox it cannot be seen.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0mha-grading-core-{core}")
    except OSError:
        claim.close()
        return None
    return claim


@dataclass(frozen=True, eq=False)
class _Ticket:
    kind: Kind
    most: int | None


class Turns:
    """Lets runs of one kind go at the same time; a run of the kind "alone" goes alone.

    Newcomers of the kind that goes pass those of another, so that one run that hangs does not hold
    up all others; but not for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Ticket] = []
        self._going: list[_Ticket] = []
        self._passed = 0  # how many went past somebody who waited

    @contextlib.contextmanager
    def turn(self, kind: Kind, most: int | None = None) -> Iterator[None]:
        """Wait for this kind's turn, and until fewer than ``most`` go; and go."""
        ticket = _Ticket(kind, most)
        try:
            with self._changed:
                self._waiting.append(ticket)
                self._let_in()
                self._changed.wait_for(lambda: ticket in self._going)
            yield
        finally:
            with self._changed:
                for tickets in (self._waiting, self._going):
                    if ticket in tickets:
                        tickets.remove(ticket)
                self._let_in()

    def _let_in(self) -> None:
        """Let in all that may go now."""
        while (ticket := self._next()) is not None:
            self._passed += ticket is not self._waiting[0]
            self._waiting.remove(ticket)
            self._going.append(ticket)
            self._changed.notify_all()

    def _next(self) -> _Ticket | None:
        if not self._going:
            self._passed = 0
            return self._waiting[0] if self._waiting else None
        kind = self._going[0].kind
        if kind == "alone":
            return None
        for ticket in self._waiting:
            if ticket.kind == kind:
                room = ticket.most is None or len(self._going) < ticket.most
                first = ticket is self._waiting[0]
                return ticket if room and (first or self._passed < MOST_PASSED) else None
        return None
