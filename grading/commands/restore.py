"""Go back to the marks from before a run changed them."""

from __future__ import annotations

import argparse
from pathlib import Path

from grading.commands.shared import FINE, Commands
from grading.course import Course, CourseError


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "restore",
        run,
        "list the gradebook's copies, or go back to one",
        "A run that changes marks which exist copies the gradebook to .grading/backups/ first.\n"
        "Without COPY the copies are listed. With one, the whole gradebook, of every assignment,\n"
        "becomes what it was then; what it is now is copied as well, so that you can come back.",
        assignment=False,
    )
    made.add_argument("copy", nargs="?", metavar="COPY", help="a name from the list, or a file")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.backups import backups, folder, made_at, restore
    from grading.records import locked

    if options.copy is None:
        for path in backups(course):
            print(f"{path.name}  {made_at(path).astimezone():%Y-%m-%d %H:%M:%S}")
        if not backups(course):
            print(f"There is no copy in {folder(course)}; a run that changes marks makes one.")
        return FINE
    chosen = folder(course) / options.copy
    if not chosen.is_file():
        chosen = Path(options.copy)
    if not chosen.is_file():
        raise CourseError(f"no copy {options.copy}; `restore` alone lists those that there are")
    with locked(course, print):
        before = restore(course, chosen)
    print(f"The gradebook is that of {chosen.name}.")
    if before is not None:
        print(f"What it was until now: {before.name}")
    print(
        "Pages in autograded/ still show the last grading; autograde NAME --force makes both agree."
    )
    return FINE
