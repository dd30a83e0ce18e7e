"""Running a stranger's cells where they can reach nothing, and reading what they report.

Each run has a bubblewrap sandbox of its own. The runner inside belongs to the student as soon as
the first cell runs: nothing that comes out is more than a claim. Without every wall there is no
run: `SandboxError` says what is missing.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from grading import guards, walls
from grading.confined import Confined, SandboxError
from grading.cores import Kind, Turns
from grading.job import PATIENCE, Job, Limits, Run, cell_name, files_flaw
from grading.pace import Pace
from grading.protocol import Reader
from grading.warm import SHARED, Warm, WarmError

__all__ = ["Sandbox", "SandboxError", "missing_walls"]

_USUAL_LIMITS = Limits()
_TURNS = Turns()
_PATIENCE = 3  # warm processes that a sandbox may lose before it does without


class Sandbox:
    """Runs jobs, each in a fresh sandbox that is gone afterwards with all its processes.

    ``modules`` are package folders to show inside beside the installed packages. With ``warm``
    a run is forked from a process that has imported the modules it names, instead of starting
    Python; behind the same walls, and where that does not work, cold. At most ``at_once`` of all
    runs in this process go at the same time, however many wait. Raises SandboxError where a wall
    is missing.
    """

    def __init__(
        self,
        *,
        modules: Sequence[Path] = (),
        limits: Limits = _USUAL_LIMITS,
        warm: Iterable[str] | None = None,
        at_once: int | None = None,
    ) -> None:
        if missing := missing_walls():
            raise SandboxError("\n".join(missing))
        for module in modules:
            if not module.is_dir():
                raise SandboxError(f"There is no package folder {module} to show in the sandbox.")
        self._modules = tuple(modules)
        self._limits = limits
        self._at_once = at_once
        self._imports = None if warm is None else tuple(dict.fromkeys(warm))
        self.why_cold = "" if warm is not None else "it was asked for"
        self._visible = walls.view(self._modules, limits)
        self._kept: Warm | None = None
        self._failures = 0
        if self._imports is not None:
            with contextlib.suppress(OSError):  # the first run will meet it again, and say so
                self._kept = SHARED.get(self._visible, self._imports)

    def run(
        self,
        job: Job,
        *,
        alone: bool = False,
        cold: bool = False,
        pace: Pace | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> Run:
        """Run a job's cells in order; may be called from several threads at once.

        A job with a key waits until no job without one runs in this process, and the other way
        round. With ``alone`` it waits until no other run goes, and holds new ones back: what takes
        too long even so was not kept waiting by another student's code. With ``cold`` this run
        starts Python also in a warm sandbox. ``begun`` is called when the run's turn has come.

        Raises PutOff for a run that takes longer than its ``pace`` allows, ValueError for a job
        that cannot be laid into a sandbox (ask `files_flaw` before), and SandboxError when the
        runner does not start. Else a Run comes back, whatever the cells do.
        """
        _check(job, self._limits)
        reader = Reader(job, self._limits)
        given = _as_json(job, self._limits)
        kind: Kind = "alone" if alone else "secret" if job.key else "shown"
        # Libraries read the number of threads when they are loaded: too early in a warm process.
        warm = None if cold or job.disturb is not None else self._warm()
        with _TURNS.turn(kind, self._at_once):
            begun()
            with self._confined(given, warm) as confined:
                try:
                    ended, reason = confined.follow(reader, pace)
                finally:
                    if pace is not None:
                        pace.note(confined.seconds)
        return reader.run(ended, reason)

    def get_ready(self) -> str:
        """Start what runs are forked from; say why they will start cold, "" if they will not."""
        self._warm()
        return self.why_cold

    def _warm(self) -> Warm | None:
        if self.why_cold:
            return None
        assert self._imports is not None
        try:
            kept = self._kept or SHARED.get(self._visible, self._imports)
            kept.wait(_find_warm_walls)
        except (OSError, SandboxError) as error:
            self._kept, self.why_cold = None, str(error)
            return None
        self._kept = kept
        return kept

    def _confined(self, given: bytes, warm: Warm | None) -> Confined:
        words = [walls.RUNNER]
        if warm is not None:
            try:
                return Confined(words, given, self._visible, self._limits, warm)
            except WarmError as error:
                self._kept = None
                SHARED.forget(warm)
                self._failures += 1
                if self._failures == _PATIENCE:
                    self.why_cold = str(error)
        return Confined(words, given, self._visible, self._limits)

    def digest(self) -> str:
        """Give a text that changes with Python, the packages, the modules, or the limits."""
        found = hashlib.sha256()
        about = (sys.version, platform.machine(), self._limits, walls.python())
        found.update(repr(about).encode())
        here = Path(walls.__file__).parent
        files = [here / name for name in walls.INSIDE_FILES]
        for module in self._modules:
            files += sorted(path for path in module.rglob("*") if path.suffix != ".pyc")
        for file in files:
            if file.is_file():
                found.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
        for folder in walls.package_folders():
            for record in sorted(folder.glob("*.dist-info/RECORD")):
                state = record.stat()
                line = f"{record.parent.name} {state.st_size} {state.st_mtime_ns}\n"
                found.update(line.encode())
        return found.hexdigest()


def missing_walls() -> list[str]:
    """Say in sentences what this machine lacks for a sandbox; empty when a real one held."""
    try:
        _find_walls()
    except _MissingWalls as missing:
        return list(missing.args)
    return []


class _MissingWalls(Exception):
    """Walls that are missing: its arguments are sentences."""


@functools.cache  # of success only: what is missing may be installed while this process lives
def _find_walls() -> None:
    if sys.platform != "linux":
        raise _MissingWalls("Grading needs Linux: its sandbox is made of the Linux kernel's walls.")
    missing = []
    packages = {"bwrap": "bubblewrap", "prlimit": "util-linux"}
    if os.geteuid() == 0:
        packages["setpriv"] = "util-linux"
    for tool, package in packages.items():
        if shutil.which(tool) is None:
            missing.append(
                f"The program {tool} is missing. Without it a student's code could reach this "
                f"machine. Install it: apt-get install {package}."
            )
    if not walls.architecture_is_known():
        missing.append(
            f"For this processor ({platform.machine()}) there is no list of forbidden system "
            "calls, so the sandbox would leak. Grade on x86_64 or aarch64."
        )
    if not walls.package_folders():
        missing.append(
            "This Python has no packages folder, so the sandbox would be empty. Use the Python "
            "of a virtual environment: .venv/bin/python."
        )
    if guards.cgroup_parent() is None and not guards.can_watch():
        missing.append(
            "Memory cannot be limited: this process may not make a memory cgroup, and the kernel "
            "does not list a process's children (CONFIG_PROC_CHILDREN). Grade as root."
        )
    if missing := missing or _try_walls():
        raise _MissingWalls(*missing)


# Runs inside, before any student's code ever does, and prints the walls that do not stand.
_TRY = """
import os, socket, sys
def opens(make, *arguments):
    try:
        return bool(make(*arguments))
    except OSError:
        return False

status = dict(line.split(":", 1) for line in open("/proc/self/status"))
sets = [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")]
flaws = []
if any(sets): flaws.append("it has capabilities")
if os.getuid() == 0: flaws.append("it runs as root")
if status["NoNewPrivs"].strip() != "1": flaws.append("it could gain rights")
if status["Seccomp"].strip() != "2": flaws.append("system calls are not filtered")
if [name for _, name in socket.if_nameindex() if name != "lo"]: flaws.append("it has a network")
if opens(socket.socket, socket.AF_VSOCK): flaws.append("it can call the host (AF_VSOCK)")
if opens(os.memfd_create, "x"): flaws.append("forbidden system calls work")
if len(os.sched_getaffinity(0)) != 1: flaws.append("it may use more than one core")
if opens(open, "/proc/loadavg"): flaws.append("it sees how busy the machine is")
for folder in ("/", "/dev", "/usr/bin", "/inside/grading", "/packages"):
    if os.access(folder, os.W_OK): flaws.append(f"{folder} is writable")
for folder in ("/home/student", "/tmp", "/dev/shm"):
    state = os.statvfs(folder)
    if state.f_blocks * state.f_frsize > SIZE: flaws.append(f"{folder} is unlimited")
os.write(int(sys.argv[1]), ("; ".join(flaws) or "all walls stand").encode())
"""


def _find_warm_walls(warm: Warm) -> None:
    """Raise SandboxError unless a process forked from this one stands behind all walls."""
    if flaws := _try_walls(warm):
        raise SandboxError(" ".join(flaws))


def _try_walls(warm: Warm | None = None) -> list[str]:
    program = f"SIZE = {_USUAL_LIMITS.disk_bytes}\n{_TRY}"
    given = b"" if warm is None else json.dumps({"program": program}).encode()
    try:
        visible = walls.view((), _USUAL_LIMITS)
        with Confined(["-c", program], given, visible, _USUAL_LIMITS, warm) as confined:
            said, errors = confined.said()
    except SandboxError as error:
        said, errors = "", str(error)
    if said == "all walls stand":
        return []
    if said:
        return [f"bubblewrap started a sandbox here, but not all walls stand: {said}."]
    return [
        f"bubblewrap could not make a sandbox here ({errors or 'no reason'}). {_way_out(errors)}"
    ]


def _way_out(errors: str) -> str:
    """Give the likely cause of a sandbox that does not start, and what helps."""
    if "Unknown option" in errors:
        return "It is too old to limit a folder's size: install bubblewrap 0.7 or newer."
    switches = {
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
        "kernel/unprivileged_userns_clone": ("0", "1"),
        "user/max_user_namespaces": ("0", "10000"),
    }
    for switch, (closed, opened) in switches.items():
        with contextlib.suppress(OSError):
            if Path("/proc/sys", switch).read_text().strip() == closed and os.geteuid() != 0:
                name = switch.replace("/", ".")
                return (
                    "This machine forbids ordinary users to make namespaces. An administrator "
                    f"can allow it: sysctl -w {name}={opened}."
                )
    return (
        "Inside a container it needs the right to make namespaces and mounts (docker run "
        "--privileged); Python and its packages must be readable for every user."
    )


def _check(job: Job, limits: Limits) -> None:
    ids = [cell.id for cell in job.cells]
    if "" in ids or len(set(ids)) != len(ids):
        raise ValueError(f"Every cell needs an id of its own; these came: {', '.join(ids)}")
    if flaw := files_flaw(job.files, limits):
        raise ValueError(flaw)


def _as_json(job: Job, limits: Limits) -> bytes:
    content = {
        "cells": [[cell.id, cell_name(cell.id), cell.source] for cell in job.cells],
        "files": {name: base64.b64encode(data).decode() for name, data in job.files.items()},
        "key": job.key,
        "draws": dict(job.draws),
        "outputs": job.outputs,
        "disturb": job.disturb,
        "cell_seconds": limits.cell_seconds,
        "most_cell_seconds": PATIENCE * limits.cell_seconds,
        "output_bytes": limits.output_bytes,
    }
    return json.dumps(content).encode()
