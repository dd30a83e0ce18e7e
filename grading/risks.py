"""The risks of grading where a wall of the sandbox is missing: only the command line takes one.

A missing wall is a refusal. What is said then ends with the name of the risk, so that whoever gives
that name knows what it means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NO_MEMORY_LIMIT = "no-memory-limit"
NO_SANDBOX = "no-sandbox"
MEANINGS = {
    NO_MEMORY_LIMIT: "a student's program may use up this machine's memory",
    NO_SANDBOX: (
        "a student's program runs as this user, on this machine: it can read the solutions and "
        "hidden tests, change marks and all files of this user, fill the disk and use the network"
    ),
}


@dataclass(frozen=True)
class Missing:
    """A wall that is missing, and the way out; ``risk`` is None where grading needs it."""

    what: str
    way_out: str
    risk: str | None = None

    def __str__(self) -> str:
        if self.risk is None:
            return f"{self.what} Nothing can take its place. {self.way_out}"
        return f"{self.what} Without that, {MEANINGS[self.risk]}. {self.way_out}"


def refusal(missing: Iterable[Missing]) -> str:
    """Return what is missing, a line each, and last the words that would take the risk."""
    walls = list(missing)
    lines = [str(wall) for wall in walls]
    risks = dict.fromkeys(wall.risk for wall in walls)
    if None not in risks:
        words = " ".join(f"--accept-risk {risk}" for risk in risks)
        lines.append(f"To grade all the same, add to python -m grading autograde NAME: {words}")
    return "\n".join(lines)


def reminder(risk: str) -> str:
    """Say at the end of a run that it went without a wall."""
    return f"This run went without a wall ({risk}): {MEANINGS[risk]}."


def told(accepted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Say in a line each which of the accepted risks are taken, and which need not be."""
    taken = set(taken)
    return [
        f"Grading without a wall ({risk}): {MEANINGS[risk]}."
        if risk in taken
        else f"The risk {risk} is not taken: the wall stands on this machine, and is used."
        for risk in sorted(set(accepted))
    ]
