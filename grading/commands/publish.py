"""Write the tree that students get."""

from __future__ import annotations

import argparse
from pathlib import Path

from grading.commands.shared import FINE, Commands, numbered
from grading.course import Course


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "publish",
        run,
        "write the tree that students get, without any solution",
        assignment=False,
    )
    made.add_argument("directory", metavar="DIR", type=Path, help="a new or an empty folder")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.publish import publish

    names = publish(course, options.directory)
    print(f"{options.directory}: {numbered(len(names), 'exercise')}: {', '.join(names)}")
    return FINE
