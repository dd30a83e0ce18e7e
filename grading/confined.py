"""One process behind the walls: starting it, listening to it, and ending all that it started."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from grading import guards, seccomp, walls
from grading.cores import Cores
from grading.job import Ending, Limits, cell_name
from grading.pace import Pace, PutOff
from grading.protocol import Reader
from grading.runner import CLEARLY_LESS
from grading.warm import Fork, Warm, WarmError

START_SECONDS = 300.0  # long, as no student's code runs yet: a busy machine is no failure
# How long what is written is left to gather: each writing would wake the grader otherwise, which
# takes longer than most cells.
_REST_SECONDS = 0.004
_PIPE_BYTES = 1 << 20  # so that nobody waits for the grader meanwhile
_LOOK_SECONDS = 0.05  # how often memory, files and the clock are looked at
_YOUNG_SECONDS = 1.0  # before which nobody asks how long it computed
_ERROR_BYTES = 4000
_CPU_SIGNAL = 128 + signal.SIGXCPU
_CORES = Cores()
# Stands behind the walls in place of Python, so that they stand when what was forked comes.
_STAY = ("/bin/sh", "-c", "echo; read -r stay")


class SandboxError(RuntimeError):
    """The machine cannot run a sandbox. It is never the student's fault."""


class Confined:
    """A Python process in a fresh sandbox, with one pipe out.

    ``arguments`` follow Python's name; the pipe's file descriptor is added to them. ``given`` is
    what it reads from its standard input, and ``visible`` comes from `walls.view`. With a ``warm``
    process Python is not started: a fork of that process goes into the sandbox.

    When it is made, it does nothing yet but what is the same for all: no student's code runs, and
    nobody inside has read what is given. That begins with `going`. Leaving the ``with`` block ends
    every process inside. Raises SandboxError where bubblewrap fails, and WarmError where nothing
    can be forked.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        given: bytes,
        visible: Sequence[str],
        limits: Limits,
        warm: Warm | None = None,
    ) -> None:
        self._limits = limits
        self._errors = b""
        self._born = 0.0
        self._computed = self._computed_of = 0.0  # seconds, when it was last looked at
        self._fork: Fork | None = None
        # What the process inside gets, and is held here no longer than until it has it.
        self._given_over = contextlib.ExitStack()
        self._started: float | None = None  # when the first cell was about to run
        self._leaving = contextlib.ExitStack()
        with contextlib.ExitStack() as on_failure:
            on_failure.enter_context(self._leaving)
            try:
                self._leaving.callback(self._given_over.close)
                self._guard = guards.memory_guard(limits.memory_bytes)
                self._leaving.callback(self._guard.close)
                self._start(arguments, given, visible, warm)
            except WarmError:
                raise
            except OSError as error:
                raise SandboxError(f"The sandbox did not start: {error}") from error
            on_failure.pop_all()

    def __enter__(self) -> Confined:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leaving.close()

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        """Let it go, on a core of its own; at the end of the block every process inside is gone.

        Raises SandboxError or WarmError where it cannot go.
        """
        with contextlib.ExitStack() as going:
            core = going.enter_context(_CORES.one())
            going.callback(self._end_all)
            self._born = time.monotonic()
            try:
                self._let_go(core)
            except WarmError:
                raise
            except OSError as error:
                raise SandboxError(f"The sandbox did not start: {error}") from error
            yield

    def follow(self, reader: Reader, pace: Pace | None = None) -> tuple[Ending, str]:
        """Hand what comes out to the reader until the end; give how it ended, and why in words.

        Raises SandboxError, and WarmError for a fork, when nothing was said before the first cell:
        that is not the student's doing. Raises PutOff when it takes longer than its ``pace``.
        """
        ended, reason = self._listen(reader, pace)
        if not reader.started and self._fork is not None:
            raise WarmError(self._why_not_started())
        if not reader.started:
            raise SandboxError(self._why_not_started())
        return ended, reason

    @property
    def seconds(self) -> float:
        """How long cells have been running."""
        return 0.0 if self._started is None else time.monotonic() - self._started

    @property
    def kept_waiting(self) -> bool:
        """Whether it perhaps did not get to compute all the time; the kernel says so, not it."""
        return self._computed <= CLEARLY_LESS * self._computed_of

    def said(self) -> tuple[str, str]:
        """Give what came out of the pipe, and out of standard error, once the process ended."""
        deadline = time.monotonic() + START_SECONDS
        poll = self._poll(self._pipe, self._stderr, self._exit)
        said = b""
        while time.monotonic() < deadline:
            ready = [descriptor for descriptor, _ in poll.poll(1000)]
            said += _read(self._pipe) or b""
            self._read_errors()
            if self._exit in ready:
                break
        return said.decode("utf-8", "replace"), self._errors.decode("utf-8", "replace").strip()

    # Starting

    def _start(
        self, arguments: Sequence[str], given: bytes, visible: Sequence[str], warm: Warm | None
    ) -> None:
        given_over = self._given_over
        self._pipe, pipe = self._open_pipe(given_over)
        self._stderr, stderr = self._open_pipe(given_over)
        given_file = memory_file(given, given_over)
        with contextlib.ExitStack() as handed_over:
            info, info_end = self._open_pipe(handed_over)
            here, here_end = self._open_pipe(handed_over)
            held, self._release = self._hold_back(handed_over)
            stay, _ = self._hold_back(handed_over)
            calls = memory_file(seccomp.call_filter(), handed_over)
            user, limits = walls.fresh_user(), self._limits
            if warm is not None:
                # For the program that stays; and the guard is to be first, as nobody hears of how a
                # forked process ended.
                limits = dataclasses.replace(
                    limits, processes=limits.processes + 1, cpu_seconds=limits.cpu_seconds + 1
                )
            words = walls.command(visible, limits, user, info=info_end, hold=held, seccomp=calls)
            if warm is None:
                words += [str(walls.python()), "-I", "-S", "-B", *arguments, str(pipe)]
            else:
                words += _STAY
                if warm.user_namespace is not None:
                    words = walls.inside_user_namespace(warm.user_namespace) + words
            process = subprocess.Popen(
                [*self._guard.prefix(), *words],
                stdin=given_file if warm is None else stay,
                stdout=subprocess.DEVNULL if warm is None else here_end,
                stderr=stderr,
                pass_fds=_known(warm.user_namespace if warm else pipe, info_end, held, calls),
                env={},
                cwd="/",
                umask=0o022,  # bwrap makes folders that the user inside must be able to enter
                start_new_session=True,  # Ctrl-C is for the grader
            )
            self._process = process
            self._leaving.callback(self._end_process)
            self._exit = self._open(os.pidfd_open(process.pid))
            self._first = self._find_first(info)
            self._roots: tuple[int, ...] = (self._first,)
            try:
                self._first_exit = self._open(os.pidfd_open(self._first))
            except ProcessLookupError:
                raise SandboxError(self._why_not_started()) from None
            if _parent(self._first) != process.pid:
                raise SandboxError(self._why_not_started())
            # All processes inside live in a namespace of their own, which ends with its first one.
            self._leaving.callback(self._end_all)
            if warm is None:
                given_over.close()
                return
            self._release.close()
            self._wait_for(here)
            self._fork = warm.fork(self._first_exit)
            given_over.callback(self._fork.close)
            self._guard.take(self._fork.process)
            self._exit = self._open(os.pidfd_open(self._fork.process))
            self._roots = (self._first, self._fork.process)
            self._given = (pipe, stderr, given_file)
            self._about = {
                "user": user,
                "limits": walls.process_limits(limits),
                "seccomp": seccomp.call_filter().hex(),
            }

    def _let_go(self, core: int) -> None:
        for process in guards.descendants(self._first):
            with contextlib.suppress(ProcessLookupError):  # it ended: what it said is told later
                os.sched_setaffinity(process, {core})  # all that it starts inherits it
        if self._fork is None:
            # Only now: otherwise a short run could be over before it was looked at.
            self._release.close()
        else:
            self._fork.enter({**self._about, "core": core}, self._given)
            self._given_over.close()

    def _wait_for(self, here: int) -> None:
        """Wait until a program stands behind all walls and says so."""
        deadline = time.monotonic() + START_SECONDS
        poll = self._poll(here, self._exit)
        while time.monotonic() < deadline:
            ready = [descriptor for descriptor, _ in poll.poll(1000)]
            if here in ready and _read(here):
                return
            if self._exit in ready:
                break
        raise SandboxError(self._why_not_started())

    def _hold_back(self, handed_over: contextlib.ExitStack) -> tuple[int, BinaryIO]:
        """Give a descriptor on which nothing comes until the other end is closed."""
        held, hold = os.pipe()
        handed_over.callback(os.close, held)
        return held, self._leaving.enter_context(os.fdopen(hold, "wb"))

    def _open(self, descriptor: int) -> int:
        self._leaving.callback(os.close, descriptor)
        return descriptor

    def _open_pipe(self, handed_over: contextlib.ExitStack) -> tuple[int, int]:
        """Open a pipe, whose writing end is closed here as soon as the sandbox has it."""
        reading, writing = os.pipe()
        handed_over.callback(os.close, writing)
        os.set_blocking(reading, False)
        with contextlib.suppress(OSError):  # an ordinary user may have only so much
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return self._open(reading), writing

    def _find_first(self, info: int) -> int:
        """Give the id of the first process inside, as bwrap tells it."""
        deadline = time.monotonic() + START_SECONDS
        poll = self._poll(info, self._exit)
        told = b""
        while time.monotonic() < deadline:
            ready = [descriptor for descriptor, _ in poll.poll(1000)]
            told += _read(info) or b""
            with contextlib.suppress(ValueError):
                return int(json.loads(told)["child-pid"])
            if self._exit in ready:
                break
        raise SandboxError(self._why_not_started())

    def _why_not_started(self) -> str:
        """Say why nothing ran: in bwrap's or Python's own words where there are any."""
        self._poll(self._exit).poll(1000)  # what it says comes shortly before its end
        status = self._process.poll()
        self._read_errors()
        said = self._errors.decode("utf-8", "replace").strip()
        if said:
            return f"The sandbox did not start. It said: {said}"
        if status is None:
            return (
                "The sandbox did not start and said nothing. If this machine is overloaded, "
                f"{START_SECONDS:g} seconds may be too few: grade again when it is not."
            )
        return f"The sandbox did not start. It ended with status {status} and said nothing."

    # Listening

    def _listen(self, reader: Reader, pace: Pace | None) -> tuple[Ending, str]:
        poll = self._poll(self._pipe, self._stderr, self._exit)
        deadline = time.monotonic() + START_SECONDS
        next_look = 0.0
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(1000 * _LOOK_SECONDS)]
            was_started = reader.started
            if self._stderr in ready and not self._read_errors():
                poll.unregister(self._stderr)
            if self._pipe in ready:
                data = _read(self._pipe)
                if data == b"":
                    return self._died(reader)
                reader.feed(data or b"")
                if not (reader.finished or reader.flaw):
                    time.sleep(_REST_SECONDS)
            if reader.finished:
                return "finished", ""
            if reader.flaw:
                return self._malformed(reader)
            if self._exit in ready:
                return self._died(reader)
            now = time.monotonic()
            if reader.started and not was_started:
                self._started = now
                deadline = now + self._limits.seconds
            if now >= next_look:
                next_look = now + _LOOK_SECONDS
                if (used_up := self._used_up(reader)) is not None:
                    return used_up
                if pace is not None and pace.is_over(self.seconds):
                    raise PutOff
            if now >= deadline:
                seconds = f"{self._limits.seconds:g} seconds"
                return "timed out", stopped(f"ran longer than {seconds}", reader)

    def _poll(self, *descriptors: int) -> select.poll:
        poll = select.poll()
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        return poll

    def _read_errors(self) -> bool:
        """Keep the beginning of standard error; give False at its end."""
        data = _read(self._stderr)
        self._errors = (self._errors + (data or b""))[:_ERROR_BYTES]
        return data != b""

    def _used_up(self, reader: Reader) -> tuple[Ending, str] | None:
        if not reader.started:
            return None  # bwrap may still be building the walls: its root is the machine's own
        if self._guard.exceeded(*self._roots):
            size = f"{self._limits.memory_bytes / (1 << 30):.3g} GB"
            return "out of memory", stopped(f"used more than {size} of memory", reader)
        # All of it shares one core, so it computed for no longer than it is there.
        age = time.monotonic() - self._born
        if age > _YOUNG_SECONDS:
            self._computed, self._computed_of = guards.computed(*self._roots), age
        if self._computed > self._limits.cpu_seconds:
            return self._computed_too_long(reader)
        return self._too_many(reader)

    def _too_many(self, reader: Reader) -> tuple[Ending, str] | None:
        if guards.too_many_files(self._first, walls.WRITABLE):
            return "died", stopped(f"made more than {guards.MAX_FILES} files", reader)
        # An ordinary user's first process belongs to the run, which can compute in its memory, and
        # no limit holds that. It and the program that stays are no student's.
        most = self._limits.processes
        if sum(1 for _ in guards.descendants(*self._roots)) > most + 2:
            return "died", stopped(f"started more than {most} processes", reader)
        return None

    def _computed_too_long(self, reader: Reader) -> tuple[Ending, str]:
        seconds = f"{self._limits.cpu_seconds:g} seconds of computing"
        return "timed out", stopped(f"used more than {seconds}", reader)

    def _malformed(self, reader: Reader) -> tuple[Ending, str]:
        return "malformed", stopped(f"disturbed the grader's channel ({reader.flaw})", reader)

    def _died(self, reader: Reader) -> tuple[Ending, str]:
        """Read what was still in the pipe when the process ended, or closed it."""
        used_up = self._used_up(reader)
        self._poll(self._exit).poll(1000)  # for its exit status, unless it only closed the pipe
        self._end_all()
        while not reader.flaw and not reader.finished and (data := _read(self._pipe)):
            reader.feed(data)
        reader.close()
        if reader.finished:
            return "finished", ""
        if used_up is not None:
            return used_up
        if self._process.wait() == _CPU_SIGNAL:
            return self._computed_too_long(reader)
        if reader.flaw:
            return self._malformed(reader)
        return "died", f"Your notebook ended the Python process {_where(reader)}."

    # Ending

    def _end_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def _end_all(self) -> None:
        """End every process inside, and wait until the last is gone."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._first_exit, signal.SIGKILL)
        self._poll(self._first_exit).poll(1000 * START_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2)  # so that bwrap itself can bury its child


def _known(*descriptors: int | None) -> tuple[int, ...]:
    return tuple(descriptor for descriptor in descriptors if descriptor is not None)


def memory_file(content: bytes, handed_over: contextlib.ExitStack) -> int:
    """Give a file that has no name and lies in memory, to be read from its beginning."""
    file = handed_over.enter_context(os.fdopen(os.memfd_create("grading"), "wb"))
    file.write(content)
    file.flush()
    file.seek(0)
    return file.fileno()


def _read(descriptor: int) -> bytes | None:
    """Read what is there: None when nothing is yet, nothing at all when it is over."""
    try:
        return os.read(descriptor, _PIPE_BYTES)
    except BlockingIOError:
        return None


def _parent(process: int) -> int | None:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("PPid:"):
                return int(line.split()[1])
    return None


def _where(reader: Reader) -> str:
    return f"in {cell_name(reader.current)}" if reader.current is not None else "between two cells"


def stopped(why: str, reader: Reader) -> str:
    """Say why a run was stopped, and where."""
    return f"Your notebook {why} and was stopped {_where(reader)}."
