"""Write the marks as a learning management system takes them."""

from __future__ import annotations

import argparse
from pathlib import Path

from grading.commands.shared import (
    FINE,
    LOOK,
    Commands,
    nobody,
    nothing_done,
    numbered,
    tell_left_out,
)
from grading.course import Course

MOST_NAMED = 10


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "export",
        run,
        "write the marks as CSV for Canvas, Moodle, Gradescope or a spreadsheet",
        "Marks by hand are in it; late penalties are taken off. A mark that waits for a person\n"
        "is named, and so is one whose student is not in the roster; then nothing is written,\n"
        "unless --partial says to leave it out. A cell that a spreadsheet would compute gets an\n"
        "apostrophe.\n\n"
        "Canvas: give the exported gradebook as the roster, and import the file in Grades.\n"
        "Moodle: give the assignment's grading worksheet, or any export with ID numbers or email\n"
        "addresses. Gradescope documents no import of marks; the file is laid out like those that\n"
        "it exports.",
    )
    made.add_argument(
        "--format",
        required=True,
        choices=("canvas", "moodle", "gradescope", "csv"),
        help="whose layout",
    )
    made.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="a CSV file exported from that system; else our ids are taken for its own",
    )
    made.add_argument(
        "--id", metavar="COLUMN", help="the roster's column with our ids, if not found by its name"
    )
    made.add_argument(
        "--column",
        metavar="TITLE",
        help="the title of the column with the marks; Moodle's worksheet and csv have theirs",
    )
    made.add_argument(
        "--to", type=Path, metavar="FILE", help="where to write; else exports/NAME-FORMAT.csv"
    )
    made.add_argument(
        "--partial", action="store_true", help="leave out what is not final or not known"
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.assignment import load
    from grading.cells import number
    from grading.export import export
    from grading.final import final_marks
    from grading.plain import printable
    from grading.records import PRIVATE, write_file
    from grading.roster import read_roster

    assignment = load(course, options.name)
    roster = read_roster(options.roster, options.id) if options.roster else None
    marks, waiting = final_marks(course, options.name)
    made = export(assignment, marks, options.format, roster=roster, title=options.column)
    left_out = {**waiting, **made.left_out}
    if not marks and not left_out:
        print(f"Nothing to export: {nobody(course, options.name)}")
        return FINE
    tell_left_out(left_out)
    if made.without_mark:
        named = ", ".join(map(printable, made.without_mark[:MOST_NAMED]))
        more = ", ..." if len(made.without_mark) > MOST_NAMED else ""
        count = numbered(len(made.without_mark), "row")
        print(f"{count} of the roster without a mark: {named}{more}")
    if not made.count or (left_out and not options.partial):
        left = len(left_out)
        print(nothing_done("written", left, made.count, "mark", partial=options.partial))
        return LOOK
    path = options.to or course.root / "exports" / f"{options.name}-{options.format}.csv"
    write_file(path, made.text.encode("utf-8", "backslashreplace"), mode=PRIVATE)
    most = number(assignment.points)
    print(f"{path}: {numbered(made.count, 'mark')} of {options.name}, out of {most} points")
    return LOOK if left_out else FINE
