"""Programs that nbgrader starts by their bare names, found for it."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

NEEDED = "alembic"  # nbgrader makes a new gradebook with it.


class ProgramError(OSError):
    """A program that nbgrader starts cannot be started; the message says the way out."""


def use_own_programs() -> None:
    """Let nbgrader find ``alembic``: the one beside this Python, else the first that can start.

    Its folder is put first on PATH.

    Raises:
        ProgramError: There is none, or none that can be started.
    """
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    beside = [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]
    refused = []
    for folder in dict.fromkeys([*beside, *known]):
        reason = _refusal(Path(folder) / NEEDED)
        if reason is None:
            rest = [other for other in known if other != folder]
            os.environ["PATH"] = os.pathsep.join([folder, *rest])
            return
        if reason:
            refused.append(reason)
    found = "; ".join(refused) or f"there is none beside {sys.executable} or on PATH"
    raise ProgramError(
        f"nbgrader makes a gradebook with the program {NEEDED}, which cannot be started ({found}); "
        f"run: {sys.executable} -m pip install --force-reinstall {NEEDED}"
    )


def _refusal(program: Path) -> str | None:
    """Return why a program cannot be started, "" where it does not exist, None where it can."""
    try:
        if not program.is_file():
            return ""
        if not os.access(program, os.X_OK):
            return f"you may not execute {program}"
        with program.open("rb") as file:
            first = file.readline(1000)
    except OSError as error:
        return f"{program} cannot be read: {error.strerror}"
    words = first[2:].split() if first.startswith(b"#!") else []
    interpreter = os.fsdecode(words[0]) if words else None
    if interpreter is not None and not os.access(interpreter, os.X_OK):
        return f"{program} asks for {interpreter}, which you may not execute or which is gone"
    return None
