"""What the commands share: exit codes, how each is entered, and words for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from grading.course import Course

FINE, LOOK, REFUSED, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141


@dataclass(frozen=True)
class Commands:
    """Where a command enters itself."""

    parsers: argparse._SubParsersAction[argparse.ArgumentParser]

    def add(
        self,
        name: str,
        run: Callable[[Course, argparse.Namespace], int],
        what: str,
        more: str = "",
        *,
        assignment: bool = True,
    ) -> argparse.ArgumentParser:
        """Add a command, which takes an assignment's name first, and return its parser."""
        made = self.parsers.add_parser(
            name,
            help=what,
            description=f"{what}\n\n{more}".rstrip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        if assignment:
            made.add_argument("name", metavar="NAME", help="the assignment, such as multi-head")
        return made


def numbered(number: int, what: str) -> str:
    """Return a number of things, with the right ending.

    >>> numbered(1, "flaw"), numbered(2, "flaw")
    ('1 flaw', '2 flaws')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def open_marks(submissions: int) -> str:
    """Say in how many submissions points wait for a person."""
    return f"; in {submissions} of them points wait for a person" if submissions else ""


def tell(student_id: str, state: str, reasons: Sequence[str]) -> None:
    """Print how a submission stands, and why."""
    from grading.plain import printable

    print(f"{printable(student_id)}: {state}")
    for reason in reasons:
        print(f"    {printable(reason)}")
