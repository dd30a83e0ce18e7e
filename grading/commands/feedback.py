"""Make the pages that students get back, packed to be given out."""

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


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "feedback",
        run,
        "make feedback pages, a zip for each student and one for Moodle or a folder",
        "Each archive holds its student's own pages alone. Whose marks are not final is named;\n"
        "then nothing is packed, unless --partial says to leave them out.\n\n"
        "Moodle takes the zip back in the assignment's Submissions, by: Upload multiple feedback\n"
        "files in a zip. It needs the assignment's grading worksheet as the roster.",
    )
    made.add_argument(
        "--format",
        choices=("plain", "moodle"),
        default="plain",
        help="how the zip for all is laid out: a folder for each id, or Moodle's names",
    )
    made.add_argument(
        "--roster", type=Path, metavar="FILE", help="the grading worksheet that Moodle exported"
    )
    made.add_argument(
        "--id", metavar="COLUMN", help="the roster's column with our ids, if not found by its name"
    )
    made.add_argument(
        "--to", type=Path, metavar="DIR", help="a new folder; else exports/NAME-feedback, made anew"
    )
    made.add_argument("--partial", action="store_true", help="leave out whoever's marks wait")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.assignment import load
    from grading.feedback import file_names, make_pages, moodle_folders, pack
    from grading.final import final_marks
    from grading.records import locked
    from grading.roster import RosterError, read_roster

    assignment = load(course, options.name)
    if (options.format == "moodle") is not (options.roster is not None):
        raise RosterError("--format moodle goes with --roster, and plain goes without one")
    marks, left_out = final_marks(course, options.name)
    if not marks and not left_out:
        print(f"Nothing to pack: {nobody(course, options.name)}")
        return FINE
    students = [mark.student_id for mark in marks]
    folders = file_names(students)
    if options.roster is not None:
        roster = read_roster(options.roster, options.id)
        folders, unknown = moodle_folders(roster, students)
        left_out = {**left_out, **unknown}
    # What is packed is what was made: nobody grades, or makes pages, meanwhile.
    with locked(course, print):
        if folders and (options.partial or not left_out):
            print(f"Making pages of {options.name} with nbgrader.", flush=True)
            missing = make_pages(course, assignment, folders)
            left_out = {**left_out, **missing}
            folders = {student: folders[student] for student in folders if student not in missing}
        tell_left_out(left_out)
        if not folders or (left_out and not options.partial):
            left, kept = len(left_out), len(folders)
            print(nothing_done("packed", left, kept, "student", partial=options.partial))
            return LOOK
        target = options.to or course.root / "exports" / f"{options.name}-feedback"
        archive = f"{options.name}-{options.format}.zip"
        pack(course, assignment, folders, target, archive, replace=options.to is None)
        print(
            f"{target}: students/ with {numbered(len(folders), 'archive')}, and {archive} for all"
        )
    return LOOK if left_out else FINE
