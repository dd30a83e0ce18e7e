"""Processes kept warm: each has imported what an assignment imports, and runs are forked from it.

A fork goes behind walls that bubblewrap made for its run alone (`confined.py`), so a warm run and
a cold one stand behind the same walls. What a warm process holds is what every run begins with:
Python, the packages, and no student's word.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

from grading import walls

READY_SECONDS = 300.0  # for the imports, on a busy machine
ENTER_SECONDS = 60.0  # from a fork to behind the walls
_MESSAGE = 1 << 16


class WarmError(OSError):
    """Nothing can be forked: the words say why. A cold sandbox does the same, and takes longer."""


class Warm:
    """One warm process, which sees what is ``visible`` in a sandbox, with some imports done.

    It is on its way when it is made; `wait` before it is asked for anything.
    """

    def __init__(self, visible: Sequence[str], imports: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._flaw: Exception | None = None
        self.process = 0
        # A sandbox of an ordinary user is made inside this one; the grader keeps it open.
        self.user_namespace: int | None = None
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = os.fdopen(os.memfd_create("grading"), "w+b")
        with theirs, os.fdopen(os.memfd_create("grading"), "w+b") as given:
            given.write(json.dumps(list(imports)).encode())
            given.flush()
            given.seek(0)
            words = [*walls.warm_command(visible), str(walls.python()), "-I", "-S", "-B"]
            words += [walls.FORKED, str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=self._errors,
                    pass_fds=(theirs.fileno(),),
                    env={},
                    cwd="/",
                    umask=0o022,
                    start_new_session=True,
                )
            except OSError:
                self._control.close()
                self._errors.close()
                raise

    def wait(self, try_walls: Callable[[Warm], None]) -> None:
        """Wait until it is ready, and have what is forked from it tried once.

        Raises what is wrong with it, each time: WarmError, or what the trial raises.
        """
        with self._lock:
            if self.process == 0 and self._flaw is None:
                try:
                    self._hear()
                    try_walls(self)
                except Exception as error:
                    self._flaw = error
        if self._flaw is not None:
            raise self._flaw

    def _hear(self) -> None:
        self._control.settimeout(READY_SECONDS)
        said = self._control.recv(_MESSAGE).decode("utf-8", "replace")
        self._control.settimeout(None)
        if not said:
            self._errors.seek(0)
            errors = self._errors.read(_MESSAGE).decode("utf-8", "replace").strip()
            raise WarmError(errors.splitlines()[-1] if errors else "it ended and said nothing")
        number, _, flaw = said.partition(" ")
        if flaw:
            raise WarmError(flaw)
        self.process = int(number)
        if os.geteuid() != 0:
            place = f"/proc/{self.process}/ns/user"
            self.user_namespace = os.open(place, os.O_RDONLY | os.O_CLOEXEC)

    def fork(self, first: int) -> Fork:
        """Fork into the process namespace of ``first``, the descriptor of a process there.

        What is forked does nothing yet but wait for what `Fork.enter` tells it.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno(), first])
            except OSError as error:
                ours.close()
                raise WarmError(f"the warm process has ended ({error.strerror})") from error
        return Fork(ours)

    def close(self) -> None:
        """End the process; runs that were forked from it go on."""
        self._control.close()
        if self.user_namespace is not None:
            os.close(self.user_namespace)
            self.user_namespace = None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._errors.close()


class Fork:
    """A process on its way behind the walls of one run."""

    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        talk.settimeout(ENTER_SECONDS)
        try:
            said = talk.recv(_MESSAGE).decode("utf-8", "replace")
        except OSError as error:
            talk.close()
            raise WarmError(f"nothing was heard of a fork ({error})") from error
        if not said.isdecimal():
            talk.close()
            raise WarmError(said or "the warm process has ended")
        self.process = int(said)

    def enter(self, about: Mapping[str, object], descriptors: Sequence[int]) -> None:
        """Let it go behind the walls and run."""
        try:
            socket.send_fds(self._talk, [json.dumps(about).encode()], list(descriptors))
        except OSError as error:
            raise WarmError(f"a fork ended before it was behind its walls ({error})") from error

    def close(self) -> None:
        """Leave it; one that was told nothing ends."""
        self._talk.close()


class _Shared:
    """The warm processes of this grader, each kept until it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[object, Warm] = {}

    def get(self, visible: Sequence[str], imports: Sequence[str]) -> Warm:
        """Give the warm process that sees this and imported that; started if there is none."""
        key = (*visible, *imports, os.getpid())
        with self._lock:
            if key not in self._found:
                self._found[key] = Warm(visible, imports)
            return self._found[key]

    def forget(self, warm: Warm) -> None:
        """Start another the next time."""
        with self._lock:
            for key in [key for key, each in self._found.items() if each is warm]:
                del self._found[key]
        warm.close()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            for warm in self._found.values():
                warm.close()
            self._found.clear()


SHARED = _Shared()
atexit.register(SHARED.close)
