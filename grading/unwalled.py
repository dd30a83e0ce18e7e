"""One run without a sandbox: only where the instructor took that risk by its name.

The runner is started here, as this user. What each process may use by itself is limited as behind
the walls, and so are time and memory of all; in the end nothing of the run is left. None of that
holds a program that means harm: it may do whatever this user may.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from grading import guards, walls
from grading.confined import START_SECONDS, Confined, SandboxError, memory_file, stopped
from grading.job import Ending, Limits
from grading.protocol import Reader
from grading.warm import Warm

_LAST_SECONDS = 2.0  # for the first process, when all below it have ended
# Stays above all that a run starts, as what loses its parent becomes its child, and ends when they
# all have. Who runs below it is told as bwrap tells it, and waits as there.
_FIRST = """
import ctypes, os, sys
info, held, pipe = map(int, sys.argv[1:4])
prctl = ctypes.CDLL(None).prctl
BECOME_PARENT, END_WITH_PARENT = 36, 1
prctl(BECOME_PARENT, 1, 0, 0, 0)
prctl(END_WITH_PARENT, 9, 0, 0, 0)
runner = os.fork()
if runner == 0:
    prctl(END_WITH_PARENT, 9, 0, 0, 0)
    os.close(info)
    os.read(held, 1)
    os.close(held)
    os.execv(sys.argv[4], sys.argv[4:])
os.close(pipe)
os.write(info, b'{"child-pid": %d}' % runner)
os.close(info)
status = 0
while True:
    try:
        process, ended = os.wait()
    except ChildProcessError:
        break
    if process == runner:
        status = ended
code = os.waitstatus_to_exitcode(status)
os._exit(code if code >= 0 else 128 - code)
"""


class Unwalled(Confined):
    """A Python process of this user that runs a job, in a folder that is gone afterwards.

    ``given`` is the job as the runner reads it, and ``modules`` are the package folders that it
    finds. Raises SandboxError where it does not start.
    """

    def __init__(self, given: bytes, modules: Sequence[Path], limits: Limits) -> None:
        self._modules = modules
        super().__init__((), given, (), limits)

    def _start(
        self, arguments: Sequence[str], given: bytes, visible: Sequence[str], warm: Warm | None
    ) -> None:
        made = tempfile.TemporaryDirectory(prefix="grading-run-", ignore_cleanup_errors=True)
        root = Path(self._leaving.enter_context(made)).resolve()
        _lay_out(root, self._modules)
        with contextlib.ExitStack() as handed_over:
            self._pipe, pipe = self._open_pipe(handed_over)
            self._stderr, stderr = self._open_pipe(handed_over)
            info, info_end = self._open_pipe(handed_over)
            held, self._release = self._hold_back(handed_over)
            python = [str(walls.python()), "-I", "-S", "-B"]
            words = [*self._guard.prefix(), *walls.limited(_limits(self._limits)), *python]
            words += ["-c", _FIRST, *map(str, (info_end, held, pipe))]
            words += [*python, f"{root}{walls.RUNNER}", str(pipe)]
            self._process = subprocess.Popen(
                words,
                stdin=memory_file(given, handed_over),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(pipe, info_end, held),
                env=walls.environment(str(root)) | {"TMPDIR": f"{root}/tmp"},
                cwd=f"{root}{walls.HOME}",
                umask=0o022,
                start_new_session=True,  # Ctrl-C is for the grader
            )
            self._leaving.callback(self._end_process)
            self._first = self._process.pid
            self._roots = (self._first,)
            self._exit = self._first_exit = self._open(os.pidfd_open(self._first))
            runner = self._find_first(info)
            self._leaving.callback(self._end_all)
            try:
                self._exit = self._open(os.pidfd_open(runner))
            except ProcessLookupError:
                raise SandboxError(self._why_not_started()) from None
            self._runner = runner

    def _let_go(self, core: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(self._runner, {core})
        super()._let_go(core)

    def _too_many(self, reader: Reader) -> tuple[Ending, str] | None:
        """End a run with too many processes: the kernel's limit counts all that this user runs."""
        most = self._limits.processes
        if sum(1 for _ in guards.descendants(self._first)) > most + 1:  # itself is no student's
            return "died", stopped(f"started more than {most} processes", reader)
        return None

    def _end_all(self) -> None:
        """End every process of the run, and wait until the last is gone."""
        if self._process.returncode is not None:
            return  # Its number may be another's by now.
        deadline = time.monotonic() + START_SECONDS
        while (members := _members(self._first)) and time.monotonic() < deadline:
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            self._poll(self._first_exit).poll(10)
        try:
            self._process.wait(_LAST_SECONDS)
        except subprocess.TimeoutExpired:  # The run stopped it.
            self._end_process()


def _limits(limits: Limits) -> dict[str, tuple[int, int]]:
    """Give what each process may use, but for the number of processes.

    The kernel counts there all that this user runs, far more than one run, and for root nothing.
    """
    bounds = walls.process_limits(limits)
    del bounds["nproc"]
    return bounds


def _lay_out(root: Path, modules: Sequence[Path]) -> None:
    """Make in a folder what a run would find below / in a sandbox.

    Files of `grading` are copies, so that no run changes those of the grader by mistake.
    """
    for folder in (walls.HOME, "/tmp", "/inside/grading", "/modules", "/packages"):
        Path(f"{root}{folder}").mkdir(parents=True)
    for name in walls.INSIDE_FILES:
        shutil.copyfile(Path(__file__).with_name(name), root / "inside" / "grading" / name)
    for module in modules:
        (root / "modules" / module.name).symlink_to(module.resolve())
    for number, packages in enumerate(walls.package_folders()):
        (root / "packages" / str(number)).symlink_to(packages.resolve())


def _members(first: int) -> set[int]:
    """Return the processes of a run that still live, but for its first.

    They are below it or in its session; here nothing is asked of /proc that a kernel may lack.
    """
    about = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # Behind the name, in which anything may stand: state, parent, group and session.
                fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
                about[int(entry.name)] = (fields[0], int(fields[1]), int(fields[3]))
    family = {first}
    while more := {
        process
        for process, (_, parent, session) in about.items()
        if process not in family and (parent in family or session == first)
    }:
        family |= more
    return {process for process in family - {first} if about[process][0] not in (b"Z", b"X")}
