"""Grade what lies in submitted/."""

from __future__ import annotations

import argparse

from grading.commands.report import show
from grading.commands.shared import (
    FINE,
    LOOK,
    Commands,
    at_least,
    nobody,
    numbered,
    open_marks,
    tell,
)
from grading.course import Course
from grading.risks import MEANINGS


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "autograde",
        run,
        "grade what lies in submitted/*/NAME",
        "Grades what is new or has changed; all of it, after the assignment itself has changed.\n"
        "Stopped or killed, it carries on where it ended.\n"
        "Marks and comments that a person gave are kept.",
    )
    made.add_argument("--student", metavar="ID", help="one student, or a pattern such as 'a*'")
    made.add_argument("--force", action="store_true", help="grade unchanged work again as well")
    made.add_argument(
        "--task",
        metavar="GRADE_ID",
        nargs="+",
        action="extend",
        help="grade again what is graded, and change these test cells' marks alone",
    )
    made.add_argument(
        "--workers",
        type=at_least(1),
        metavar="N",
        help="sandboxes at a time; else one for each core",
    )
    made.add_argument(
        "--cold",
        action="store_true",
        help="start Python anew for each run; slower, behind the same walls",
    )
    made.add_argument(
        "--accept-risk",
        metavar="RISK",
        action="append",
        choices=sorted(MEANINGS),
        default=[],
        help="grade although this machine lacks a wall of the sandbox, by naming what that risks; "
        "may be given again. "
        + "; ".join(f"{risk}: {meaning}" for risk, meaning in sorted(MEANINGS.items())),
    )
    made.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="grade on the workers of the Dask scheduler at tcp://HOST:PORT or tls://HOST:PORT; "
        "this machine runs the solution alone, and stores",
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.autograde import autograde
    from grading.grade import NOT_GRADED, Status
    from grading.in_part import LEFT
    from grading.status import totals

    lines = autograde(
        course,
        options.name,
        student_id=options.student,
        force=options.force,
        only=options.task,
        workers=options.workers,
        cluster=options.cluster,
        cold=options.cold,
        accepted=options.accept_risk,
    )
    if not lines:
        print(f"Nothing to grade: {nobody(course, options.name)}")
        return FINE
    look = [line for line in lines if line.status in (Status.ATTENTION, NOT_GRADED)]
    left = [line for line in lines if line.status == LEFT]
    for line in look:
        tell(line.student_id, str(line.status), line.reasons)
    ends = {line.status for line in look}
    for line in left:
        tell(line.student_id, line.status, line.reasons)
    _sum_up(course, options.name)
    count = numbered(len(lines), "submission")
    waiting = open_marks(sum(line.waiting > 0 for line in lines))
    print(f"{count} of {options.name}: {totals(line.status for line in lines)}{waiting}")
    if Status.ATTENTION in ends:
        print("What needs attention is flagged in formgrader; its marks so far stand.")
    if NOT_GRADED in ends:
        print("What was not graded keeps what it had; mend what is named, and run this again.")
    return LOOK if look else FINE


def _sum_up(course: Course, name: str) -> None:
    """Print the results of everybody and write their page; what was graded stays if it fails."""
    try:
        show(course, name)
    except OSError as error:
        print(f"The page of results could not be written ({error}); mend it, then: report {name}")
