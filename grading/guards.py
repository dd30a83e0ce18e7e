"""Memory, computing and files of a whole sandbox: no limit of a single process bounds them.

Where this process may make a memory cgroup, the kernel holds the limit. Elsewhere (most often an
ordinary user) a guard adds up the memory of the sandbox's processes every few milliseconds.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

_NAME = "mha-grading"
MAX_FILES = 20_000  # on one writable mount: an empty file costs no space there, but memory


class Guard(Protocol):
    """Holds one sandbox to its memory."""

    def prefix(self) -> list[str]:
        """Give the words that go before the command, so that it starts under the guard."""

    def take(self, process: int) -> None:
        """Take a process that was started elsewhere, with all that it will start."""

    def exceeded(self, *processes: int) -> bool:
        """Say whether a sandbox, all of which is below these processes, used more than it may."""

    def close(self) -> None:
        """Clean up, once the sandbox's processes are gone."""


def memory_guard(limit: int) -> Guard:
    """Give the best guard that this machine allows, for a limit in bytes."""
    parent = cgroup_parent()
    if parent is not None:
        return CgroupGuard(parent, limit)
    # Without either a `Sandbox` is made only where that risk is accepted.
    return WatchingGuard(limit) if can_watch() else NoGuard()


class CgroupGuard:
    """A memory cgroup of its own below ``parent``, of version 1 or 2."""

    def __init__(self, parent: Path, limit: int) -> None:
        self._folder = parent / f"{_named_here()}-{_life(os.getpid())}-{uuid.uuid4().hex}"
        self._folder.mkdir()
        try:
            self._set(limit)
        except OSError:
            self.close()
            raise

    def _set(self, limit: int) -> None:
        version_1 = (self._folder / "memory.limit_in_bytes").exists()
        # Swap must not be a way around the limit; a kernel may be built without counting it.
        if version_1:
            self._events = self._folder / "memory.oom_control"
            (self._folder / "memory.limit_in_bytes").write_text(str(limit))
            with contextlib.suppress(OSError):
                (self._folder / "memory.memsw.limit_in_bytes").write_text(str(limit))
        else:
            self._events = self._folder / "memory.events"
            (self._folder / "memory.max").write_text(str(limit))
            (self._folder / "memory.oom.group").write_text("1")
            with contextlib.suppress(OSError):
                (self._folder / "memory.swap.max").write_text("0")

    def prefix(self) -> list[str]:
        """Let a shell enter the cgroup before it becomes the command."""
        enter = 'echo 0 > "$0" && exec "$@"'
        return ["/bin/sh", "-c", enter, str(self._folder / "cgroup.procs")]

    def take(self, process: int) -> None:
        """Move a process into the cgroup."""
        (self._folder / "cgroup.procs").write_text(str(process))

    def exceeded(self, *processes: int) -> bool:
        """Say whether the kernel ended a process for want of memory."""
        for line in self._events.read_text().splitlines():
            if line.startswith("oom_kill "):
                return line != "oom_kill 0"
        return False

    def close(self) -> None:
        """Remove the cgroup; the last process may take a moment to leave it."""
        for _ in range(200):
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)
            else:
                return


class WatchingGuard:
    """Adds up what the processes of a sandbox hold in memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def prefix(self) -> list[str]:
        """Give nothing: the guard watches from outside."""
        return []

    def take(self, process: int) -> None:
        """Do nothing: it is looked at anyway."""

    def exceeded(self, *processes: int) -> bool:
        """Add up the resident memory, and count shared pages once where that matters."""
        family = list(descendants(*processes))
        if sum(_resident(member) for member in family) <= self._limit:
            return False
        return sum(_own_share(member) for member in family) > self._limit

    def close(self) -> None:
        """Leave nothing behind, as there is nothing."""


class NoGuard:
    """Holds nothing: memory is limited for each process by itself alone."""

    def prefix(self) -> list[str]:
        """Give nothing."""
        return []

    def take(self, process: int) -> None:
        """Do nothing."""

    def exceeded(self, *processes: int) -> bool:
        """Say no, as nobody knows."""
        return False

    def close(self) -> None:
        """Leave nothing behind, as there is nothing."""


@functools.cache
def cgroup_parent() -> Path | None:
    """Give a folder in which this process may make memory cgroups, or None; tried for real."""
    for folder in _candidates():
        try:
            guard = CgroupGuard(folder, 64 << 20)
        except OSError:
            continue
        guard.close()
        sweep(folder)
        return folder
    return None


def _life(process: int) -> str:
    """Name a process so that no later one gets the name: its number, and when it began."""
    with contextlib.suppress(OSError):
        # Behind the name, in which anything may stand, the twentieth is the time of its beginning.
        stat = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return f"{process}-{int(stat[19])}"
    return f"{process}-0"


def _named_here() -> str:
    """Begin the names of cgroups: processes have these numbers in one process namespace alone."""
    return f"{_NAME}-{Path('/proc/self/ns/pid').stat().st_ino}"


def sweep(parent: Path) -> None:
    """End what graders that were killed left behind, and remove their cgroups.

    A bwrap whose grader is killed at one moment of its beginning would wait for ever.
    """
    for folder in parent.glob(f"{_named_here()}-*-*-*"):
        number, began = folder.name.removeprefix(f"{_named_here()}-").split("-")[:2]
        if not number.isdecimal() or _life(int(number)) == f"{number}-{began}":
            continue
        with contextlib.suppress(OSError, ValueError):
            for process in map(int, (folder / "cgroup.procs").read_text().split()):
                if process > 0:  # 0 is one of another namespace, and to kill() it is this group
                    os.kill(process, signal.SIGKILL)
        for _ in range(20):
            try:
                folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)


def can_watch() -> bool:
    """Say whether the kernel tells which processes a process started."""
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists()


def _candidates() -> Iterator[Path]:
    """Give folders to try: the own cgroup first, so that the limits above it go on to hold."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            mount = Path("/sys/fs/cgroup/memory")
            yield from (mount / path.lstrip("/"), mount)
        elif controllers == "":
            mount = Path("/sys/fs/cgroup")
            own = mount / path.lstrip("/")
            for folder in (own, *own.parents):
                if folder.is_relative_to(mount) and _hands_down_memory(folder):
                    yield folder


def _hands_down_memory(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    return False


def descendants(*processes: int) -> Iterator[int]:
    """Give these processes and all below them.

    Inside a sandbox all are below its first process, but for one that was forked elsewhere.
    """
    for process in processes:
        yield process
        with contextlib.suppress(OSError):
            for task in list(Path(f"/proc/{process}/task").iterdir()):
                with contextlib.suppress(OSError):
                    yield from descendants(*map(int, (task / "children").read_text().split()))


def _resident(process: int) -> int:
    with contextlib.suppress(OSError):
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def _own_share(process: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def computed(*processes: int) -> float:
    """Give the seconds that a sandbox's processes computed, with the ended ones waited for."""
    ticks = 0
    for member in descendants(*processes):
        with contextlib.suppress(OSError):
            # Behind the name, in which anything may stand: utime, stime, cutime and cstime.
            fields = Path(f"/proc/{member}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def too_many_files(process: int, mounts: Sequence[str]) -> bool:
    """Say whether one of a sandbox's writable mounts holds more files than it may."""
    for mount in mounts:
        with contextlib.suppress(OSError):
            state = os.statvfs(f"/proc/{process}/root{mount}")
            if state.f_files - state.f_ffree > MAX_FILES:
                return True
    return False
