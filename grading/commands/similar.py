"""List submissions that are nearly the same."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from grading.commands.shared import FINE, Commands, at_least, numbered
from grading.course import Course

MOST_SHOWN = 50
CAUTION = (
    "Likeness is a reason to look at both, and no proof: who worked together, who wrote what, and\n"
    "whether that was allowed, no program can tell."
)


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "similar",
        run,
        "list pairs of graded submissions whose code is nearly the same",
        "Compares the answers in code: what stays when names, numbers, comments, spacing and the\n"
        "order of cells are changed. What was released and the solution's own way are left out,\n"
        f"and what many wrote counts little.\n\n{CAUTION}",
    )
    made.add_argument(
        "--least",
        type=_percent,
        default=60,
        metavar="PERCENT",
        help="the likeness from which on a pair is listed; else 60",
    )
    made.add_argument(
        "--most",
        type=at_least(0),
        default=MOST_SHOWN,
        metavar="N",
        help=f"how many pairs the table shows; else {MOST_SHOWN}, the most alike first",
    )
    made.add_argument("--json", action="store_true", help="print all pairs as JSON")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.assignment import load
    from grading.plain import printable
    from grading.similar import similar

    found = similar(course, load(course, options.name), least=options.least / 100)
    if options.json:
        print(json.dumps({"assignment": options.name, "note": CAUTION, **asdict(found)}, indent=1))
        return FINE
    for pair in found.pairs[: options.most]:
        where = ", ".join(pair.cells)
        same = "; the same but for names, numbers, comments and spacing" if pair.same else ""
        names = f"{printable(pair.first)} and {printable(pair.second)}"
        print(f"{100 * pair.likeness:3.0f} %  {names}: {where}{same}")
    if len(found.pairs) > options.most:
        print(f"... and {numbered(len(found.pairs) - options.most, 'pair')} more: --most, --json")
    count = numbered(found.compared, "submission")
    print(f"{count} of {options.name} compared: {numbered(len(found.pairs), 'pair')} listed")
    for students, why in (
        (found.too_little, "hold too little of their own to compare"),
        (found.unread, "have a graded notebook that cannot be read; grade them again"),
    ):
        if students:
            print(f"{numbered(len(students), 'submission')} {why}: {_some(students)}")
    if found.pairs:
        print(CAUTION)
    return FINE


def _some(students: tuple[str, ...]) -> str:
    from grading.plain import printable

    return ", ".join(map(printable, students[:10])) + (", ..." if len(students) > 10 else "")


def _percent(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no likeness; give more than 0, up to 100")
    return number
