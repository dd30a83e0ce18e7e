"""Running a stranger's cells where they can reach nothing, and reading what they report.

Each run has a bubblewrap sandbox of its own. The runner inside belongs to the student as soon as
the first cell runs: nothing that comes out is more than a claim. Without every wall there is no
run: `SandboxError` says what is missing, and by which risk's name it would run all the same.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import platform
import resource
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import get_args

from grading import walls
from grading.confined import Confined, SandboxError
from grading.cores import Kind, Turns
from grading.job import PATIENCE, Job, Limits, Run, cell_name, files_flaw
from grading.missing import find_warm_walls, missing_walls
from grading.pace import Pace
from grading.protocol import Reader
from grading.risks import NO_SANDBOX, refusal
from grading.unwalled import Unwalled
from grading.warm import SHARED, Warm, WarmError

__all__ = ["Sandbox", "SandboxError", "missing_walls"]

_USUAL_LIMITS = Limits()
_TURNS = Turns()
_AHEAD = 2  # sandboxes of each kind for one that may go: they stand when its turn comes
_FILES = 16  # are open here for each that stands, and
_OWN_FILES = 256  # for all else
_PATIENCE = 3  # warm processes that a sandbox may lose before it does without


class Sandbox:
    """Runs jobs, each in a fresh sandbox that is gone afterwards with all its processes.

    ``modules`` are package folders to show inside beside the installed packages. With ``warm``
    a run is forked from a process that has imported the modules it names, instead of starting
    Python; behind the same walls, and where that does not work, cold. At most ``at_once`` of all
    runs in this process go at the same time, however many wait. Raises SandboxError where a wall
    is missing whose risk is not ``accepted``; ``taken`` are those that it runs with.
    """

    def __init__(
        self,
        *,
        modules: Sequence[Path] = (),
        limits: Limits = _USUAL_LIMITS,
        warm: Iterable[str] | None = None,
        at_once: int | None = None,
        accepted: Collection[str] = (),
    ) -> None:
        missing = missing_walls()
        if refused := [wall for wall in missing if wall.risk not in accepted]:
            raise SandboxError(refusal(refused))
        self.taken = frozenset(wall.risk for wall in missing if wall.risk is not None)
        for module in modules:
            if not module.is_dir():
                raise SandboxError(f"There is no package folder {module} to show in the sandbox.")
        self._modules = tuple(modules)
        self._limits = limits
        self._at_once = at_once
        kinds: tuple[Kind, ...] = get_args(Kind)
        self._places = {
            kind: BoundedSemaphore(_places(at_once)) if at_once else contextlib.nullcontext()
            for kind in kinds
        }
        self._imports = None if warm is None else tuple(dict.fromkeys(warm))
        self.why_cold = "" if warm is not None else "it was asked for"
        self._kept: Warm | None = None
        self._failures, self._losing = 0, Lock()
        if NO_SANDBOX in self.taken:
            self.why_cold = "there is no sandbox that it could be forked into"
            return
        self._visible = walls.view(self._modules, limits)
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
        cold = cold or job.disturb is not None
        with self._places[kind]:
            for _ in range(_PATIENCE):
                warm = None if cold else self._warm()
                try:
                    return self._go(given, warm, kind, reader, pace, begun)
                except WarmError as error:
                    assert warm is not None
                    self._forget(warm, error)
            return self._go(given, None, kind, reader, pace, begun)

    def _go(
        self,
        given: bytes,
        warm: Warm | None,
        kind: Kind,
        reader: Reader,
        pace: Pace | None,
        begun: Callable[[], None],
    ) -> Run:
        """Put walls up before a forked run's turn, and take them down after it.

        Neither computes much, and the kernel has one wait for the other. Where Python is started
        the turn comes first: bubblewrap starts it even if this process is killed meanwhile.
        """
        with contextlib.ExitStack() as stack:
            if warm is None:
                stack.enter_context(_TURNS.turn(kind, self._at_once))
            confined = stack.enter_context(self._confined(given, warm))
            if warm is not None:
                stack.enter_context(_TURNS.turn(kind, self._at_once))
            begun()
            with confined.going():
                try:
                    run = reader.run(*confined.follow(reader, pace))
                    return replace(run, kept_waiting=confined.kept_waiting)
                finally:
                    if pace is not None:
                        pace.note(confined.seconds)

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
            kept.wait(find_warm_walls)
        except (OSError, SandboxError) as error:
            self._kept, self.why_cold = None, str(error)
            return None
        self._kept = kept
        return kept

    def _confined(self, given: bytes, warm: Warm | None) -> Confined:
        if NO_SANDBOX in self.taken:
            return Unwalled(given, self._modules, self._limits)
        return Confined([walls.RUNNER], given, self._visible, self._limits, warm)

    def _forget(self, warm: Warm, error: WarmError) -> None:
        """Do without a warm process; if several runs miss it at the same time, it counts once."""
        with self._losing:
            SHARED.forget(warm)
            if self._kept is warm:
                self._kept = None
                self._failures += 1
                if self._failures == _PATIENCE:
                    self.why_cold = str(error)

    def digest(self) -> str:
        """Give a text that changes with Python, packages, modules, limits, or missing walls."""
        found = hashlib.sha256()
        about = (sys.version, platform.machine(), self._limits, walls.python())
        found.update(repr((*about, sorted(self.taken))).encode())
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


def _check(job: Job, limits: Limits) -> None:
    ids = [cell.id for cell in job.cells]
    if "" in ids or len(set(ids)) != len(ids):
        raise ValueError(f"Every cell needs an id of its own; these came: {', '.join(ids)}")
    if flaw := files_flaw(job.files, limits):
        raise ValueError(flaw)


def _places(at_once: int) -> int:
    """Give how many sandboxes of a kind may stand, of which so many go.

    Each takes files of this process, and there may be two kinds of them. The soft limit is often
    1,024, for the sake of programs that use select(); it is raised as far as that is allowed.
    """
    needed = _OWN_FILES + 2 * _AHEAD * at_once * _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(1, min(_AHEAD * at_once, (most - _OWN_FILES) // (2 * _FILES)))


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
