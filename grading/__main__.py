"""The command line: python -m grading release | autograde | status | lint | answers NAME,
and publish DIR."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from grading.course import Course, CourseError

FINE, LOOK, REFUSED, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
MARKER = "nbgrader_config.py"

OVERVIEW = """\
Release assignments and grade what students hand in.

  solutions/NAME      the instructor's notebooks, settings in solutions/NAME.toml, answers
                      that students give in solutions/NAME.answers.toml
  exercises/NAME      what students get, made by: release NAME
  submitted/ID/NAME   what student ID handed in; put it there
  autograded/ID/NAME  the graded notebooks, made by: autograde NAME

A student's code runs in a sandbox without network, files or time to spare; marks are decided
outside it. Afterwards nbgrader's own tools go on: nbgrader generate_feedback NAME,
nbgrader export, and formgrader in JupyterLab for answers that a person grades.
"""
EXIT_CODES = """\
exit codes: 0 all is well; 1 something needs a person, or lint found flaws; 2 refused: wrong
usage, a flaw in the assignment, or a missing wall of the sandbox; 130 stopped by Ctrl-C; 141
nobody reads what is printed, as after `| head`
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        course = _course(options.course)
        code: int = options.run(course, options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has gone, as `head` does; what Python would still write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except Exception as error:
        if not isinstance(error, _expected_errors()):
            raise
        print(f"grading: {error}", file=sys.stderr)
        return REFUSED
    return code


def _parser() -> argparse.ArgumentParser:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m grading", description=OVERVIEW, epilog=EXIT_CODES, formatter_class=formatter
    )
    parser.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help=f"the course's folder; else the nearest one upward that holds {MARKER}",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, what: str, more: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=what, description=f"{what}\n\n{more}", formatter_class=formatter
        )
        count = "?" if name == "lint" else None
        made.add_argument(
            "name", nargs=count, metavar="NAME", help="the assignment, such as multi-head"
        )
        return made

    made = command(
        "release",
        "make exercises/NAME, what students get",
        "Solutions and hidden tests are taken out, and the values that visible checks compare\n"
        "with are laid beside the notebook. The old release stays until the new one is whole.",
    )
    made.set_defaults(run=_release)

    made = command(
        "autograde",
        "grade what lies in submitted/*/NAME",
        "Grades what is new or has changed; all of it, after the assignment itself has changed.\n"
        "Stopped or killed, it carries on where it ended.\n"
        "Marks and comments that a person gave are kept.",
    )
    made.add_argument("--student", metavar="ID", help="one student, or a pattern such as 'a*'")
    made.add_argument("--force", action="store_true", help="grade unchanged work again as well")
    made.add_argument(
        "--workers", type=_count, metavar="N", help="sandboxes at a time; else one for each core"
    )
    made.set_defaults(run=_autograde)

    made = command(
        "status",
        "say what is graded, what waits and what needs a person",
        "Reads only; it may be asked while grading runs.",
    )
    made.set_defaults(run=_status)

    made = command(
        "lint",
        "look for what makes an assignment unfair or easy to cheat",
        "Runs the solution as it is, disturbed, and with stubs that a student could hand in, and\n"
        "each answer of solutions/NAME.answers.toml. NAME may be --all.",
    )
    made.add_argument("--all", action="store_true", help="look at every assignment")
    made.set_defaults(run=_lint)

    made = command(
        "answers",
        "print what each answer of solutions/NAME.answers.toml earns",
        "Each is handed in by itself, all other answers being right.",
    )
    made.set_defaults(run=_answers)

    what = "write the tree that students get, without any solution"
    made = commands.add_parser("publish", help=what, description=what)
    made.add_argument("directory", metavar="DIR", type=Path, help="a new or an empty folder")
    made.set_defaults(run=_publish)
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of sandboxes; give 1 or more")
    return number


def _course(given: Path | None) -> Course:
    if given is not None:
        if not given.is_dir():
            raise CourseError(f"--course {given} is no folder; give the course's folder")
        return Course(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_file():
            return Course(folder)
    raise CourseError(
        f"no {MARKER} in {here} or above it; go to the course's folder or give --course DIR"
    )


def _expected_errors() -> tuple[type[Exception], ...]:
    """Errors whose message tells a person what to do; any other is a flaw of the grader."""
    from grading.assignment import AssignmentError
    from grading.autograde import NothingToGrade
    from grading.gradebook import GradebookError
    from grading.publish import PublishError
    from grading.release import ReleaseError
    from grading.sandbox import SandboxError

    return (
        AssignmentError,
        CourseError,
        GradebookError,
        NothingToGrade,
        OSError,
        PublishError,
        ReleaseError,
        SandboxError,
    )


def _release(course: Course, options: argparse.Namespace) -> int:
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


def _autograde(course: Course, options: argparse.Namespace) -> int:
    from grading.autograde import autograde
    from grading.grade import NOT_GRADED, Status
    from grading.status import totals

    lines = autograde(
        course,
        options.name,
        student_id=options.student,
        force=options.force,
        workers=options.workers,
    )
    if not lines:
        print(f"Nothing to grade: no folder {course.submitted}/*/{options.name}")
        return FINE
    look = [line for line in lines if line.status in (Status.ATTENTION, NOT_GRADED)]
    for line in look:
        _tell(line.student_id, str(line.status), line.reasons)
    ends = {line.status for line in look}
    count = _numbered(len(lines), "submission")
    open_marks = _open_marks(sum(line.waiting > 0 for line in lines))
    print(f"{count} of {options.name}: {totals(line.status for line in lines)}{open_marks}")
    if Status.ATTENTION in ends:
        print("What needs attention is flagged in formgrader; its marks so far stand.")
    if NOT_GRADED in ends:
        print("What was not graded keeps what it had; mend what is named, and run this again.")
    return LOOK if look else FINE


def _status(course: Course, options: argparse.Namespace) -> int:
    from grading.misplaced import misplaced
    from grading.plain import printable
    from grading.standings import points_text
    from grading.status import status, totals

    states = status(course, options.name)
    for each in states:
        points = ""
        if each.score is not None:
            points = f"  {points_text(each.score, each.max_score, each.waiting)}"
        print(f"{printable(each.student_id)}  {each.state}{points}")
        for reason in each.reasons:
            print(f"    {printable(reason)}")
    for ignored in misplaced(course, options.name):
        print(ignored)
    count = _numbered(len(states), "submission")
    open_marks = _open_marks(sum(each.waiting > 0 for each in states))
    print(f"{count} of {options.name}: {totals(each.state for each in states) or '-'}{open_marks}")
    return LOOK if any(each.needs_person for each in states) else FINE


def _lint(course: Course, options: argparse.Namespace) -> int:
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
        print(f"{name}: {_numbered(len(flaws), 'flaw') if flaws else 'no flaw found'}")
        any_flaw = any_flaw or bool(flaws)
    return LOOK if any_flaw else FINE


def _answers(course: Course, options: argparse.Namespace) -> int:
    from grading.answers import read_answers
    from grading.assignment import load
    from grading.trials import table, try_answers

    assignment = load(course, options.name)
    print(table(try_answers(course, assignment, read_answers(course, assignment))))
    return FINE


def _publish(course: Course, options: argparse.Namespace) -> int:
    from grading.publish import publish

    names = publish(course, options.directory)
    print(f"{options.directory}: {_numbered(len(names), 'exercise')}: {', '.join(names)}")
    return FINE


def _numbered(number: int, what: str) -> str:
    """Return a number of things, with the right ending.

    >>> _numbered(1, "flaw"), _numbered(2, "flaw")
    ('1 flaw', '2 flaws')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _open_marks(submissions: int) -> str:
    return f"; in {submissions} of them points wait for a person" if submissions else ""


def _tell(student_id: str, state: str, reasons: Sequence[str]) -> None:
    from grading.plain import printable

    print(f"{printable(student_id)}: {state}")
    for reason in reasons:
        print(f"    {printable(reason)}")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    if code == INTERRUPTED:
        os._exit(code)  # Sandboxes that still run end with this process.
    sys.exit(code)
