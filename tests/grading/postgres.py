"""A real PostgreSQL server of a test's own, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.grading.without_root import NOBODY

USER, PASSWORD = "grader", "not-a-secret-of-anybody"
START_SECONDS = 60


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, which Debian keeps off PATH.

    Raises:
        FileNotFoundError: It is not installed.
    """
    versions = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: float(path.parts[-3]),
        reverse=True,
    )
    on_path = shutil.which("initdb")
    found = [*versions, *([Path(on_path).resolve()] if on_path else [])]
    if not found:
        raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql")
    return found[0].parent


class Postgres:
    """A server on a port of its own; started anew it holds what it held. Use it in ``with``."""

    def __init__(self) -> None:
        self._programs = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # short: it holds a socket
        self._data = self._folder / "data"
        password = self._folder / "password"
        password.write_text(PASSWORD)
        if os.geteuid() == 0:  # initdb and postgres refuse to run as root.
            os.chown(self._folder, NOBODY, NOBODY)
            os.chown(password, NOBODY, NOBODY)
        words = ["--pgdata", str(self._data), "--username", USER, "--pwfile", str(password)]
        words += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        subprocess.run(self._command("initdb", *words), check=True, capture_output=True, cwd="/")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.start()

    def __enter__(self) -> Postgres:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["-D", str(self._data), "-p", str(self._port), "-k", str(self._folder)]
        words += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", *words), stdout=log, stderr=log, cwd="/"
            )
        import psycopg

        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.address("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def stop(self) -> None:
        """End it at once, as a machine that loses its power."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(30)

    def address(self, database: str) -> str:
        """Return the address of a database, password included."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self._port}/{database}"

    def make(self, database: str) -> str:
        """Make an empty database and return its address."""
        self.ask(f'create database "{database}"')
        return self.address(database)

    def ask(self, command: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Do something as the server's owner; return what it gives."""
        import psycopg

        options = "-c lock_timeout=10s"  # rather an error than a test that waits for itself
        with psycopg.connect(
            self.address(database), autocommit=True, options=options
        ) as connection:
            done = connection.execute(command)
            return done.fetchall() if done.description else []

    def _command(self, program: str, *words: str) -> list[str]:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        return [*(user if os.geteuid() == 0 else []), str(self._programs / program), *words]
