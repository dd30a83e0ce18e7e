"""A real Dask scheduler with real worker processes, for tests and benchmarks of `--cluster`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.grading.without_root import REPOSITORY

START_SECONDS = 60


class DaskCluster:
    """A scheduler of its own on this machine. Leaving the ``with`` block ends all it started."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._folder = folder
        self._settings = settings
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._file = folder / "scheduler.json"
        words = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self._start("scheduler", [*words, "--scheduler-file", str(self._file)])
        self.address: str = self._wait_for_file()["address"]

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in [*self.workers.values(), self.scheduler]:
            process.terminate()
        for process in [*self.workers.values(), self.scheduler]:
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def start_worker(
        self, name: str, *words: str, code: Path = REPOSITORY, **environment: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker that grades one submission at a time; ``code`` holds its `grading`."""
        words = (self.address, "--nthreads", "1", "--host", "127.0.0.1", "--name", name, *words)
        words = (*words, "--no-dashboard", "--local-directory", str(self._folder / name))
        process = self._start("worker", list(words), code, environment)
        self.workers[name] = process
        return process

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many have come."""
        from distributed import Client

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=START_SECONDS)

    def _start(
        self,
        what: str,
        words: list[str],
        code: Path = REPOSITORY,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        # Nothing is shared: another folder, and a home that holds no secret.
        home = self._folder / "home"
        home.mkdir(exist_ok=True)
        given = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
        given |= {"PYTHONPATH": str(code), **self._settings, **(environment or {})}
        with (self._folder / f"{what}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", *words],
                cwd=home,
                env=given,
                stdout=log,
                stderr=log,
            )

    def _wait_for_file(self) -> dict[str, str]:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError, ValueError):
                found: dict[str, str] = json.loads(self._file.read_text())
                return found
            time.sleep(0.1)
        raise TimeoutError((self._folder / "scheduler.log").read_text())
