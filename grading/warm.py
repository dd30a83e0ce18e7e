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
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from grading import walls
from grading.job import Limits

READY_SECONDS = 300.0  # for the imports, on a busy machine
ENTER_SECONDS = 60.0  # from a fork to behind the walls
_MESSAGE = 1 << 16
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class WarmError(OSError):
    """Nothing can be forked: the words say why. A cold sandbox does the same, and takes longer."""


class Warm:
    """One warm process for sandboxes with these modules, with some imports done."""

    def __init__(self, modules: Sequence[Path], imports: Sequence[str], limits: Limits) -> None:
        self._modules = modules
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        # A user namespace belongs to whoever made it; the grader keeps it by this descriptor.
        self.user_namespace: int | None = None
        self._errors = os.fdopen(os.memfd_create("grading"), "w+b")
        with theirs, os.fdopen(os.memfd_create("grading"), "w+b") as given:
            given.write(json.dumps(list(imports)).encode())
            given.flush()
            given.seek(0)
            words = [*walls.warm_command(modules, limits), str(walls.python()), "-I", "-S", "-B"]
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
                ours.close()
                self._errors.close()
                raise
        try:
            self._wait_until_ready()
        except OSError:
            self.close()
            raise

    def _wait_until_ready(self) -> None:
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

    def fork(self) -> Fork:
        """Fork a process that is not behind walls yet, and runs nothing before it is."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
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
        self._talk.settimeout(ENTER_SECONDS)
        try:
            self.process = int(self._hear())
        except OSError:
            talk.close()
            raise

    def enter(self, about: Mapping[str, object], descriptors: Sequence[int]) -> int:
        """Lead it behind the walls; give the descriptor of the process there, which goes on."""
        with self._talk:
            self._talk.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            socket.send_fds(self._talk, [json.dumps(about).encode()], list(descriptors))
            inside = os.pidfd_open(self._hear_who_is_in())
            self._talk.send(b"go")  # until then it stays, and its number is no other's
        return inside

    def close(self) -> None:
        """Leave it; a process that hears nothing more ends."""
        self._talk.close()

    def _hear_who_is_in(self) -> int:
        """Wait until it is behind its walls; the kernel says which process wrote that."""
        said, about = self._hear_with_sender()
        if said != "in":
            raise WarmError(f"the forked process said {said!r}")
        return about

    def _hear(self) -> str:
        return self._hear_with_sender()[0]

    def _hear_with_sender(self) -> tuple[str, int]:
        room = socket.CMSG_SPACE(_CREDENTIALS.size)
        try:
            data, ancillary, _, _ = self._talk.recvmsg(_MESSAGE, room)
        except OSError as error:
            raise WarmError(f"the forked process was not heard of ({error})") from error
        said = data.decode("utf-8", "replace")
        if not said or said.startswith("!"):
            raise WarmError(said[2:] or "the forked process ended before it was behind its walls")
        senders = [
            _CREDENTIALS.unpack(content)[0]
            for level, kind, content in ancillary
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
        ]
        return said, senders[0] if senders else 0


class _Shared:
    """The warm processes of this grader, each kept until it ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[object, Warm] = {}

    def get(self, modules: Sequence[Path], imports: Sequence[str], limits: Limits) -> Warm:
        """Give the warm process for these modules and imports; it is started if there is none."""
        key = (*walls.warm_command(modules, limits), *imports, os.getpid())
        with self._lock:
            if key not in self._found:
                self._found[key] = Warm(modules, imports, limits)
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
