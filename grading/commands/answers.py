"""Print what known answers earn."""

from __future__ import annotations

import argparse

from grading.commands.shared import FINE, Commands
from grading.course import Course


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    commands.add(
        "answers",
        run,
        "print what each answer of solutions/NAME.answers.toml earns",
        "Each is handed in by itself, all other answers being right.",
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.answers import read_answers
    from grading.assignment import load
    from grading.trials import table, try_answers

    assignment = load(course, options.name)
    print(table(try_answers(course, assignment, read_answers(course, assignment))))
    return FINE
