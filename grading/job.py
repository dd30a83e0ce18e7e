"""What goes into a sandbox, what it may use, and what comes out.

Everything in a :class:`Run` was chosen by the student's code. Only its types are certain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grading.values import Value

CellState = Literal["ok", "error", "timed out", "not run"]
Ending = Literal["finished", "timed out", "died", "out of memory", "malformed"]


@dataclass(frozen=True)
class JobCell:
    """One code cell to run."""

    id: str
    source: str


@dataclass(frozen=True)
class Job:
    """The cells of one run and the files beside them.

    ``key`` is what ``seed()`` mixes into every seed. With ``outputs`` False no output is kept.
    ``disturb`` sets the global seeds before each cell and makes float64 torch's default, so that
    a solution whose values hang on either is noticed.
    """

    cells: tuple[JobCell, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    key: str = ""
    outputs: bool = True
    disturb: int | None = None


@dataclass(frozen=True)
class Limits:
    """What one run may use. Seconds are seconds of the clock unless named otherwise."""

    cell_seconds: float = 30
    seconds: float = 180
    cpu_seconds: int = 180
    memory_bytes: int = 3 << 30
    processes: int = 64
    disk_bytes: int = 128 << 20
    file_bytes: int = 64 << 20
    pipe_bytes: int = 64 << 20
    output_bytes: int = 1 << 20


@dataclass(frozen=True)
class Message:
    """What one call of ``check`` reported, from the cell that ran at the time."""

    cell: str
    name: str
    value: Value


@dataclass(frozen=True)
class CellRun:
    """How one cell ended, with its outputs in nbformat 4's form and the student's content."""

    state: CellState
    outputs: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Run:
    """What came out of one sandbox; ``reason`` is a sentence that a student can read.

    What arrived before the end stands, whatever the end was.
    """

    messages: tuple[Message, ...]
    cells: Mapping[str, CellRun]
    ended: Ending
    reason: str = ""
