"""The walls that this machine lacks: what a sandbox needs is looked for, and one is tried."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from grading import guards, seccomp, walls
from grading.confined import Confined, SandboxError
from grading.job import Limits
from grading.risks import NO_MEMORY_LIMIT, NO_SANDBOX, Missing
from grading.warm import Warm

_USUAL_LIMITS = Limits()
# What ends when somebody gives back files, memory, processes or space.
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EINTR)


def missing_walls() -> list[Missing]:
    """Return what this machine lacks for a sandbox; nothing when a real one held."""
    try:
        _find_walls()
    except _MissingWalls as missing:
        return list(missing.args)
    return []


class _MissingWalls(Exception):
    """Walls that are missing: they are its arguments."""


@functools.cache  # of success only: what is missing may be installed while this process lives
def _find_walls() -> None:
    if sys.platform != "linux":
        what = "This system is not Linux, of whose walls the sandbox is made."
        raise _MissingWalls(Missing(what, "Grade on Linux."))
    missing = list(_lacking())
    # Memory is no wall of the trial's: what else is missing is told at the same time.
    if not any(wall.risk != NO_MEMORY_LIMIT for wall in missing):
        missing += _try_walls()
    if missing:
        raise _MissingWalls(*missing)


def _lacking() -> Iterator[Missing]:
    """Give what can be seen to be missing without a trial."""
    packages = {"bwrap": "bubblewrap", "prlimit": "util-linux"}
    if os.geteuid() == 0:
        packages["setpriv"] = "util-linux"
    for tool, package in packages.items():
        if shutil.which(tool) is None:
            way_out = f"Install it: apt-get install {package}."
            risk = NO_SANDBOX if tool == "bwrap" else None
            yield Missing(f"The program {tool} is missing.", way_out, risk)
    if not seccomp.architecture_is_known():
        yield Missing(
            f"For this processor ({platform.machine()}) there is no list of forbidden system "
            "calls, so the sandbox would leak.",
            "Grade on x86_64 or aarch64.",
            NO_SANDBOX,
        )
    if not walls.package_folders():
        yield Missing(
            "This Python has no packages folder, so a student's code would find nothing to import.",
            "Use the Python of a virtual environment: .venv/bin/python.",
        )
    if guards.cgroup_parent() is None and not guards.can_watch():
        yield Missing(
            "Memory cannot be limited: this process may not make a memory cgroup, and the kernel "
            "does not list a process's children (CONFIG_PROC_CHILDREN).",
            "Grade as root.",
            NO_MEMORY_LIMIT,
        )


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
processes = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
if len(set().union(*map(os.sched_getaffinity, processes))) != 1:
    flaws.append("it may use more than one core")
if opens(open, "/proc/loadavg"): flaws.append("it sees how busy the machine is")
for folder in ("/", "/dev", "/usr/bin", "/inside/grading", "/packages"):
    if os.access(folder, os.W_OK): flaws.append(f"{folder} is writable")
for folder in ("/home/student", "/tmp", "/dev/shm"):
    state = os.statvfs(folder)
    if state.f_blocks * state.f_frsize > SIZE: flaws.append(f"{folder} is unlimited")
os.write(int(sys.argv[1]), ("; ".join(flaws) or "all walls stand").encode())
"""


def find_warm_walls(warm: Warm) -> None:
    """Raise SandboxError unless a process forked from this one stands behind all walls."""
    if flaws := _try_walls(warm):
        raise SandboxError(" ".join(f"{flaw.what} {flaw.way_out}" for flaw in flaws))


def _try_walls(warm: Warm | None = None) -> list[Missing]:
    program = f"SIZE = {_USUAL_LIMITS.disk_bytes}\n{_TRY}"
    given = b"" if warm is None else json.dumps({"program": program}).encode()
    try:
        visible = walls.view((), _USUAL_LIMITS)
        confined = Confined(["-c", program], given, visible, _USUAL_LIMITS, warm)
        with confined, confined.going():
            said, errors = confined.said()
    except SandboxError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _PASSING:
            raise  # It says nothing about the machine's walls.
        said, errors = "", str(error)
    if said == "all walls stand":
        return []
    if said:
        what = f"bubblewrap started a sandbox here, but not all walls stand: {said}."
        return [Missing(what, "Install a newer bubblewrap, or grade elsewhere.", NO_SANDBOX)]
    what = f"bubblewrap could not make a sandbox here ({errors or 'no reason'})."
    return [Missing(what, _way_out(errors), NO_SANDBOX)]


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
