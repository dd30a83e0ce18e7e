"""What goes into a sandbox, what it may use, and what comes out.

Everything in a :class:`Run` was chosen by the student's code. Only its types are certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal

from grading.values import Value

CellState = Literal["ok", "error", "timed out", "not run"]
Ending = Literal["finished", "timed out", "died", "out of memory", "malformed"]

PATIENCE = 3  # times cell_seconds: how long a cell may take that hardly got to compute
MAX_FILES = 1000  # beside a notebook, folders included
_PAGE = 4096  # bytes: every file takes whole pages of its sandbox


@dataclass(frozen=True)
class JobCell:
    """One code cell to run."""

    id: str
    source: str


@dataclass(frozen=True)
class Job:
    """The cells of one run and the files beside them.

    ``key`` is what ``seed()`` mixes into every seed. With ``outputs`` False no output is kept.
    ``disturb`` sets the global seeds before each cell, makes float64 torch's default and computes
    with two threads, so that a solution whose values hang on any of these is noticed; it also
    measures each cell. ``draws`` says which option each ``pick()`` gives, by name and counted from
    0; the first where it says nothing. ``checks`` are the pairs (cell, check name) that somebody
    will look at: of each at most two messages are kept, enough to see that there was more than one,
    and none of any other pair. None keeps all.
    """

    cells: tuple[JobCell, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    key: str = ""
    outputs: bool = True
    disturb: int | None = None
    draws: Mapping[str, int] = field(default_factory=dict)
    checks: frozenset[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Limits:
    """What one run may use.

    ``cell_seconds`` is what one cell may take. A cell that took longer, but computed for clearly
    less than that, waited for a busy machine (or slept): it may go on until it either computed
    that long or took ``PATIENCE`` times as long. ``seconds`` is what the whole run may take by the
    clock, whatever it did; it is meant for runs that hang, and so is far more than an honest
    notebook takes even where many programs share the machine.

    ``cpu_seconds`` is what all processes of a sandbox may compute together, starting Python
    included. They share one core, so what they can take from others is bounded by ``seconds`` too,
    even where a child that nobody waits for is not counted. ``file_bytes`` and seven eighths of
    ``memory_bytes`` hold for each process by itself; all other limits for the sandbox as a whole,
    as does ``memory_bytes``.
    ``disk_bytes`` is the size of each of the three writable folders, and ``output_bytes`` is what
    one cell may show: more is cut, and nothing else happens.
    """

    cell_seconds: float = 30
    seconds: float = 300
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
    """How one cell ended, with its outputs in nbformat 4's form and the student's content.

    ``seconds`` is what it says it computed, in a job that disturbs.
    """

    state: CellState
    outputs: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """What came out of one sandbox; ``reason`` is a sentence that a student can read.

    What arrived before the end stands, whatever the end was. A run that was not ``kept_waiting``
    computed all the time: what was too slow in it was so by itself.
    """

    messages: tuple[Message, ...]
    cells: Mapping[str, CellRun]
    ended: Ending
    reason: str = ""
    kept_waiting: bool = True


def cell_name(cell: str) -> str:
    """Name a cell for people, by its id; the form can stand in the middle of a sentence.

    >>> cell_name("split-heads"), cell_name("+1"), cell_name("given-18")
    ("cell 'split-heads'", 'added cell 1', 'given cell 18')
    """
    if match := re.fullmatch(r"\+([0-9]+)", cell):
        return f"added cell {match[1]}"
    if match := re.fullmatch(r"given-([0-9]+)", cell):
        return f"given cell {match[1]}"
    return f"cell '{cell}'"


def files_flaw(files: Mapping[str, bytes], limits: Limits) -> str | None:
    """Say in a sentence why files cannot lie beside a notebook in its sandbox; None if they can.

    >>> files_flaw({"data/words.txt": b"one two"}, Limits())
    >>> files_flaw({"../words.txt": b"one two"}, Limits())
    "A file beside a notebook needs a plain relative name, not '../words.txt'."
    """
    folders = {str(folder) for name in files for folder in _folders(name)}
    for name in files:
        if not _is_plain(name):
            return f"A file beside a notebook needs a plain relative name, not {name!r}."
        if name in folders:
            return f"{name!r} is a file beside the notebook, and a folder with files as well."
    if len(files) + len(folders) > MAX_FILES:
        return (
            f"There are {len(files)} files beside the notebook, in {len(folders)} folders. "
            f"Together there may be {MAX_FILES}."
        )
    for name, content in files.items():
        if len(content) > limits.file_bytes:
            return f"{name!r} is too big: {len(content)} bytes. It may have {limits.file_bytes}."
    size = sum(-(-len(content) // _PAGE) * _PAGE for content in files.values())
    if size > limits.disk_bytes // 2:
        return (
            f"The files beside the notebook are too big: {size} bytes in all. Together they may "
            f"have {limits.disk_bytes // 2}, half of their sandbox's disk."
        )
    return None


def _folders(name: str) -> Iterator[PurePosixPath]:
    return (folder for folder in PurePosixPath(name).parents if folder.name)


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    try:
        lengths = [len(part.encode()) for part in path.parts]
    except UnicodeEncodeError:
        return False
    return (
        name == str(path)
        and name != "."
        and "\0" not in name
        and not path.is_absolute()
        and ".." not in path.parts
        and max(lengths) <= 255  # what the kernel allows
        and sum(lengths) <= 1000
    )
