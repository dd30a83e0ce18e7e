"""Say where each submission stands."""

from __future__ import annotations

import argparse

from grading.commands.shared import FINE, LOOK, Commands, numbered, open_marks
from grading.course import Course


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    commands.add(
        "status",
        run,
        "say what is graded, what waits and what needs a person",
        "Reads only; it may be asked while grading runs.",
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.misplaced import misplaced
    from grading.plain import printable
    from grading.standings import points_text
    from grading.status import status, totals

    states = status(course, options.name)
    for each in states:
        points = ""
        if each.score is not None:
            text = points_text(each.score, each.max_score, each.waiting, each.penalty)
            points = f"  {text}"
        print(f"{printable(each.student_id)}  {each.state}{points}")
        for reason in each.reasons:
            print(f"    {printable(reason)}")
    for ignored in misplaced(course, options.name):
        print(ignored)
    count = numbered(len(states), "submission")
    waiting = open_marks(sum(each.waiting > 0 for each in states))
    print(f"{count} of {options.name}: {totals(each.state for each in states) or '-'}{waiting}")
    return LOOK if any(each.needs_person for each in states) else FINE
