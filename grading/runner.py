"""Runs a notebook's cells inside the sandbox and reports what happens.

It lives with the student's code and is trusted by nobody: the grader reads its frames as if the
student had written them. So it only has to be right for honest notebooks, simple and quick.
It is started as `python runner.py PIPE`; the job comes as JSON on standard input.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import json
import os
import random
import signal
import site
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grading.shell import Shell

MAX_CHECKS = 500  # of one cell: a check inside a training loop must not flood the pipe
MAX_NAME = 300  # characters of a check's name
CLEARLY_LESS = 0.9  # of a cell's time: who computed for less was kept waiting
TWO_THREADS = {
    "OMP_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "MKL_DYNAMIC": "FALSE",  # or it takes one, since there is one core
    "OPENBLAS_NUM_THREADS": "2",
}


def write_frame(content: Mapping[str, Any]) -> bytes:
    r"""Give the bytes of one frame: four for the length, then JSON.

    Text that is no Unicode (half of a surrogate pair) is replaced.

    >>> write_frame({"kind": "end"})
    b'\x00\x00\x00\x0e{"kind":"end"}'
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    data = text.encode("utf-8", "replace")
    return struct.pack(">I", len(data)) + data


class Channel:
    """The pipe to the grader, and which cell runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._cell: str | None = None
        self._checks = 0
        self._waiting = b""
        # Set while a frame is written: a cell's time must not end in the middle of it.
        self.writing = False

    def send(self, kind: str, later: bool = False, **content: Any) -> None:
        """Write one frame whole, also while other threads write; a forked child stays silent.

        One that may come ``later`` goes with the next, since each writing wakes the grader.
        """
        if os.getpid() != self._process:
            return
        with self._lock:
            self._waiting += write_frame({"kind": kind, **content})
            if later:
                return
            data, self._waiting = memoryview(self._waiting), b""
            self.writing = True
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            finally:
                self.writing = False

    def begin(self, cell: str) -> None:
        """Say that a cell starts; what comes next is the cell's."""
        with self._lock:
            self.send("cell", cell=cell)
            self._cell, self._checks = cell, 0

    def done(self, state: str, **measured: int) -> None:
        """Say how the cell ended, and what was measured."""
        with self._lock:
            cell, self._cell = self._cell, None
            self.send("done", later=True, cell=cell, state=state, **measured)

    def check(self, name: str, wire: Any) -> None:
        """Send a check's value; between two cells nothing is sent."""
        with self._lock:
            if self._cell is not None and self._checks < MAX_CHECKS:
                self._checks += 1
                self.send("check", cell=self._cell, name=name[:MAX_NAME], value=wire)

    def output(self, output: dict[str, Any]) -> None:
        """Send an output; between two cells nothing is sent."""
        with self._lock:
            if self._cell is not None:
                self.send("output", cell=self._cell, output=output)


class Clock:
    """Raises `CellTimeout` in a cell that takes too long, and again every second until it ends.

    A cell that took ``seconds`` but hardly got to compute may go on, up to ``most_seconds``: the
    machine may be busy.
    """

    def __init__(
        self,
        seconds: float,
        most_seconds: float,
        may_ring: Callable[[], bool],
        error: type[BaseException],
    ) -> None:
        self._seconds = seconds
        self._most_seconds = most_seconds
        self._may_ring = may_ring
        self._error = error
        self._runs = False
        self._start = self._computed = 0.0
        self.rang = False
        signal.signal(signal.SIGALRM, self._ring)

    def start(self) -> None:
        """Start a cell's time."""
        self.rang = False
        self._start, self._computed = time.monotonic(), time.process_time()
        self._runs = True
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 1.0)

    def stop(self) -> None:
        """End a cell's time."""
        self._runs = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if not self._runs or not self._may_ring():
            return  # the next ring comes in a second
        seconds = self._seconds
        if time.process_time() - self._computed < CLEARLY_LESS * seconds:
            seconds = self._most_seconds
        if time.monotonic() - self._start >= seconds:
            self.rang = True
            raise self._error(f"this cell ran longer than {seconds:g} seconds")


class Ready:
    """What can be made ready before it is known what runs: the shell, and where its outputs go."""

    def __init__(self) -> None:
        from grading import check  # noqa: F401  # a test cell imports it
        from grading.shell import Outputs, Shell

        self.outputs = Outputs()
        self.shell: Shell = Shell.instance(outputs=self.outputs)


def main() -> None:
    """Run the job that standard input holds."""
    # Python starts without its own search for packages, which would follow .pth files.
    sys.path += os.environ["PYTHONPATH"].split(":")
    job = json.load(sys.stdin.buffer)
    if job["disturb"] is not None:
        os.environ.update(TWO_THREADS)  # NumPy and torch look there when they are loaded.
    run(job, int(sys.argv[1]), Ready())


def run(job: Mapping[str, Any], pipe: int, ready: Ready) -> None:
    """Run a job, tell of it by the pipe, and end the process."""
    from grading.check import CellTimeout, start_grading
    from grading.shell import Stream

    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    channel = Channel(pipe)
    outputs, shell = ready.outputs, ready.shell
    outputs.connect(channel.output if job["outputs"] else lambda output: None, job["output_bytes"])
    clock = Clock(
        job["cell_seconds"],
        job["most_cell_seconds"],
        lambda: not (shell.reporting or channel.writing),
        CellTimeout,
    )
    start_grading(channel.check, job["key"], job["draws"])
    _write_files(job["files"])
    _make_at_home()
    channel.send("ready")
    # From here on nothing that goes to the file descriptors of old is read by anyone.
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.stdout, sys.stderr = Stream(outputs, "stdout"), Stream(outputs, "stderr")
    process = os.getpid()
    for number, (cell, name, source) in enumerate(job["cells"]):
        if job["disturb"] is not None:
            _disturb(job["disturb"] + number)
        channel.begin(cell)
        outputs.begin()
        start = time.process_time()
        state = _run(shell, clock, name, source)
        if os.getpid() != process:
            os._exit(0)  # a child that the cell forked, and that came back here
        if state == "timed out" and not outputs.had_error:
            outputs.error("CellTimeout", "stopped", ["This cell ran too long and was stopped."])
        outputs.flush()
        measured = {}
        if job["disturb"] is not None:
            measured["milliseconds"] = round(1000 * (time.process_time() - start))
        channel.done(state, **measured)
    channel.send("end")
    os._exit(0)  # without waiting for threads


def _run(shell: Shell, clock: Clock, name: str, source: str) -> str:
    """Run one cell and give its state, whatever it raises."""
    state = "error"
    with contextlib.suppress(BaseException):
        clock.start()
        if shell.run(name, source):
            state = "ok"
    with contextlib.suppress(BaseException):  # the last ring may come right here
        clock.stop()
    clock.stop()
    return "timed out" if clock.rang else state


def _write_files(files: Mapping[str, str]) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(base64.b64decode(content))


def _make_at_home() -> None:
    """Give the cells what they would find in Jupyter, and tell them what they would not."""
    sys.argv = ["notebook"]
    sys.path.insert(0, "")  # modules that lie beside the notebook; ours are imported already
    site.sethelper()
    builtins.input = _no_input
    # IPython's advice after sys.exit() is for a terminal.
    warnings.filterwarnings("ignore", message="To exit: use")


def _no_input(prompt: object = "") -> str:
    raise RuntimeError(
        "input() has nobody to ask while a notebook is graded. Write the value into the cell."
    )


def _disturb(number: int) -> None:
    """Set what a good solution does not depend on to something else."""
    random.seed(number)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(number % (1 << 32))
    if torch := sys.modules.get("torch"):
        torch.manual_seed(number)
        torch.set_default_dtype(torch.float64)


if __name__ == "__main__":
    main()
