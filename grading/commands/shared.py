"""What the commands share: exit codes, how each is entered, and words for people."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
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


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads an option that is a whole number, this or more.

    >>> at_least(1)("12")
    12
    """

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of {least} or more")
        return int(text)

    return read


def nobody(course: Course, name: str) -> str:
    """Say that an assignment has no submission, and where one would lie."""
    return f"no folder {course.submitted}/*/{name}"


def tell_left_out(left_out: Mapping[str, str]) -> None:
    """Print who is left out of what is given out, and why."""
    from grading.plain import printable

    for student in sorted(left_out):
        print(f"{printable(student)}: left out: {printable(left_out[student])}")


def nothing_done(deed: str, left: int, kept: int, what: str, *, partial: bool) -> str:
    """Say that nothing was done for the sake of those who would be left out, and the way out.

    >>> nothing_done("written", 1, 2, "mark", partial=False)
    'Nothing was written: 1 of 3 marks would be left out. Settle that, or give --partial.'
    >>> nothing_done("packed", 1, 0, "student", partial=True)
    'Nothing was packed: 1 of 1 student would be left out. Settle that.'
    """
    count = f"{left} of {numbered(left + kept, what)}"
    way = ", or give --partial" if kept and not partial else ""
    return f"Nothing was {deed}: {count} would be left out. Settle that{way}."


def open_marks(submissions: int) -> str:
    """Say in how many submissions points wait for a person."""
    return f"; in {submissions} of them points wait for a person" if submissions else ""


def tell(student_id: str, state: str, reasons: Sequence[str]) -> None:
    """Print how a submission stands, and why."""
    from grading.plain import printable

    print(f"{printable(student_id)}: {state}")
    for reason in reasons:
        print(f"    {printable(reason)}")
