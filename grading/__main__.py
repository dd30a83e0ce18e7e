"""The command line: python -m grading COMMAND; each is a module of `grading.commands`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from grading.commands import COMMANDS
from grading.commands.shared import INTERRUPTED, REFUSED, UNREAD, Commands
from grading.course import Course, CourseError
from grading.spared import spare_grammars

MARKER = "nbgrader_config.py"

OVERVIEW = """\
Release assignments and grade what students hand in.

  solutions/NAME      the instructor's notebooks, settings in solutions/NAME.toml, answers
                      that students give in solutions/NAME.answers.toml
  exercises/NAME      what students get, made by: release NAME
  submitted/ID/NAME   what student ID handed in; put it there
  autograded/ID/NAME  the graded notebooks, made by: autograde NAME

A student's code runs in a sandbox without network, files or time to spare; marks are decided
outside it. Answers that a person grades are marked in nbgrader's formgrader, in JupyterLab.
What is final leaves by: feedback NAME and export NAME
"""
EXIT_CODES = """\
exit codes: 0 all is well; 1 something needs a person, or lint found flaws; 2 refused: wrong
usage, a flaw in the assignment, or a missing wall of the sandbox; 130 stopped by Ctrl-C; 141
nobody reads what is printed, as after `| head`
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name that this terminal has no letters for must not end a run.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = _parser().parse_args(arguments)
    spare_grammars()
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

    for each in COMMANDS:
        each.add(Commands(commands))
    return parser


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
    from grading.cluster import ClusterError
    from grading.feedback import FeedbackError
    from grading.gradebook import GradebookError
    from grading.late import LateError
    from grading.publish import PublishError
    from grading.release import ReleaseError
    from grading.roster import RosterError
    from grading.sandbox import SandboxError

    return (
        AssignmentError,
        ClusterError,
        CourseError,
        FeedbackError,
        GradebookError,
        LateError,
        NothingToGrade,
        OSError,
        PublishError,
        ReleaseError,
        RosterError,
        SandboxError,
    )


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    if code == INTERRUPTED:
        os._exit(code)  # Sandboxes that still run end with this process.
    sys.exit(code)
