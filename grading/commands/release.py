"""Make what students get."""

from __future__ import annotations

import argparse

from grading.commands.shared import FINE, Commands
from grading.course import Course


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    commands.add(
        "release",
        run,
        "make exercises/NAME, what students get",
        "Solutions and hidden tests are taken out, and the values that visible checks compare\n"
        "with are laid beside the notebook. The old release stays until the new one is whole.",
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.answers import answers_file
    from grading.assignment import load
    from grading.release import release

    load(course, options.name)  # Refuses at once what cannot be released.
    print(f"Checking {options.name}, which runs its solution several times.", flush=True)
    print(f"Released to {release(course, options.name)}")
    if answers_file(course, options.name).exists():
        print(
            "The answers in its bank were not handed in, which takes longer. Before students get "
            f"it: python -m grading lint {options.name}"
        )
    return FINE
