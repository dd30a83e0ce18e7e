"""Look for flaws of an assignment."""

from __future__ import annotations

import argparse

from grading.commands.shared import FINE, LOOK, Commands, numbered
from grading.course import Course, CourseError


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "lint",
        run,
        "look for what makes an assignment unfair or easy to cheat",
        "Runs the solution as it is, disturbed, and with stubs that a student could hand in, and\n"
        "each answer of solutions/NAME.answers.toml. NAME may be --all.",
        assignment=False,
    )
    made.add_argument("name", nargs="?", metavar="NAME", help="the assignment, such as multi-head")
    made.add_argument("--all", action="store_true", help="look at every assignment")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.assignment import AssignmentError, load
    from grading.lint import lint
    from grading.trials import answer_flaws

    if (options.name is None) is not options.all:
        raise CourseError("lint takes the name of one assignment, or --all")
    any_flaw = False
    for name in course.assignments if options.all else [options.name]:
        print(f"Checking {name}, which runs its solution and its answers.", flush=True)
        flaws = lint(course, name)
        if not flaws:  # With flaws an answer may fail for no fault of its own.
            try:
                flaws = answer_flaws(course, load(course, name))
            except AssignmentError as error:
                flaws = list(error.flaws)
        for flaw in flaws:
            print(f"- {flaw}")
        print(f"{name}: {numbered(len(flaws), 'flaw') if flaws else 'no flaw found'}")
        any_flaw = any_flaw or bool(flaws)
    return LOOK if any_flaw else FINE
