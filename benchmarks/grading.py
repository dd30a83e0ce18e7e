"""What grading costs beside stock nbgrader: `python -m benchmarks.grading --submissions 16`.

Both grade the same honest submissions on this machine, in turns: a few in one command, then as many
as were asked for in another, and whoever began the first begins not the second. A command is what
an instructor types, timed from the start of Python to its end. What it takes for the submissions
that the second has more than the first, is what a further submission costs: its throughput is what
a course of hundreds sees, while a few are mostly waited for because Python starts. Both are
printed. Then every grade is compared, cell by cell.

Stock nbgrader runs a notebook once and gives a test cell all its points or none, by whether it
raised. So that it does the same work fairly, its course holds the same tests, hidden ones too,
and a checks.json with the values of all of them: `check()` compares at once, as it does for a
student, and raises. Each submission is right up to some task and wrong after it, so that no
cell is partly right.

It fails when a grade differs, or when ours has less than RATIO times stock's throughput for further
submissions. So it does when the second command has less: RATIO of MANY submissions or more, and
RATIO_OF_FEW of fewer.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grading.autograde
import grading.writer
from benchmarks.students import (
    NAME,
    ROOT,
    answer_ids,
    answer_wrongly,
    copy_course,
    hand_in,
    released,
    solve,
)
from grading import checks_file, expected
from grading.assignment import Assignment, load
from grading.confined import Confined
from grading.course import Course
from grading.gradebook import GradebookWriter
from grading.imports import imports_of
from grading.job import Job, JobCell
from grading.rebuild import jobs, solved
from grading.sandbox import Sandbox

FEW = 8  # the first command gets one submission for so many of the second
ALONE = 15  # runs of a sandbox with no work in it
MANY = 64
RATIO = 20.0
RATIO_OF_FEW = 5.0
STOCK_SETTINGS = """\
c = get_config()
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
"""
# How many tasks are right, in turn: most people finish, some stop early.
FINISHED = (10, 10, 6, 10, 8, 10, 3, 10)


def hand_in_one(course: Path, number: int) -> None:
    """Lay submission ``number`` into a course."""
    notebook = released()
    right = answer_ids()[: FINISHED[number % len(FINISHED)]]
    answer_wrongly(notebook)
    solve(notebook, *right)
    hand_in(notebook, course, f"student-{number:04}")


def stock_course(root: Path, ours: Course, sandbox: Sandbox) -> Path:
    """Lay a course for stock nbgrader into the empty folder ``root``."""
    copy_course(root)
    for settings in root.glob("nbgrader_config.*"):
        settings.unlink()
    (root / "nbgrader_config.py").write_text(STOCK_SETTINGS)
    assignment = load(ours, NAME)
    salt = secrets.token_hex(16)
    checks = {}
    for notebook in assignment.notebooks:
        _, with_hidden = jobs(solved(notebook), dict(assignment.files), secret_key="")
        values = {message.name: message.value for message in sandbox.run(with_hidden).messages}
        for check in notebook.checks:
            checks[check.name] = expected.entry(
                values[check.name],
                hint=check.hint,
                tolerance=check.tolerance,
                earns_points=False,
                salt=salt,
            )
    # nbgrader copies what lies beside the source to where a submission runs.
    beside = root / "solutions" / NAME / checks_file.FILE_NAME
    checks_file.write(beside, assignment=NAME, salt=salt, checks=checks)
    run_in(root, "nbgrader", "generate_assignment", NAME, "--force")
    return root


def run_in(course: Path, *command: str) -> float:
    """Run ``python -m COMMAND`` in a course; return its seconds."""
    # nbgrader looks for alembic on PATH. Both get this repository's grading package.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=course,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"benchmarks.grading: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return seconds


def grades(course: Path) -> dict[tuple[str, str], float | None]:
    """Return what the gradebook holds: points of each student's graded cells."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        return {
            (submission.student_id, grade.cell.name): grade.auto_score
            for submission in book.assignment_submissions(NAME)
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


@contextmanager
def watching(**places: tuple[Any, str]) -> Iterator[dict[str, list[float]]]:
    """Note the seconds of each call of these functions, each given as its owner and its name."""
    seconds: dict[str, list[float]] = {label: [] for label in places}

    def watched(function: Callable[..., Any], into: list[float]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                into.append(time.perf_counter() - start)

        return call

    with ExitStack() as patches:
        for label, (owner, name) in places.items():
            function = watched(getattr(owner, name), seconds[label])
            patches.enter_context(patch.object(owner, name, function))
        yield seconds


def divide(course: Course, assignment: Assignment) -> dict[str, float]:
    """Return the seconds of one submission's parts, on average, with one worker alone."""
    sandbox = Sandbox(limits=assignment.limits, warm=imports_of(assignment))
    sandbox.get_ready()
    with watching(run=(Sandbox, "run"), follow=(Confined, "follow")) as bare:
        for _ in range(ALONE):
            sandbox.run(Job(cells=()))
            sandbox.run(Job(cells=(JobCell("import", "import torch"),)))
            sandbox.run(Job(cells=()), cold=True)
    start_up = statistics.median(bare["run"][::3])
    imports = statistics.median(bare["run"][1::3]) - start_up
    cold = statistics.median(bare["run"][2::3])
    nothing = statistics.median(bare["follow"][::3])
    with watching(
        run=(Sandbox, "run"),
        follow=(Confined, "follow"),  # A run also waits for its turn.
        grade=(grading.autograde, "grade"),
        render=(grading.writer, "render"),
        store=(GradebookWriter, "write"),
    ) as parts:
        grading.autograde.autograde(
            course, NAME, student_id="student-000*", force=True, workers=1, progress=lambda _: None
        )
    count = len(parts["grade"])
    mean = {label: sum(times) / count for label, times in parts.items()}
    return {
        "start of sandboxes": 2 * start_up,
        "(of cold ones)": 2 * cold,
        "imports": 2 * imports,
        "cells": mean["follow"] - 2 * nothing - 2 * imports,
        "rebuild and compare": mean["grade"] - mean["run"],
        "autograded notebook": mean["render"],
        "gradebook": mean["store"],
    }


def main() -> None:
    """Measure, print, and exit non-zero when grades differ or ours is slower."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grading", description=__doc__)
    parser.add_argument(
        "--submissions",
        type=int,
        default=16,
        help="how many in the second command, at least 4 (default 16)",
    )
    count = parser.parse_args().submissions
    if count < 4:
        parser.error(f"--submissions {count} is too few to see what one more costs; give 4 or more")
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        os.environ["MHA_COURSE_SECRET"] = str(Path(folder, "secret"))
        measure(Path(folder), count)


def measure(folder: Path, count: int) -> None:
    """Grade ``count`` submissions in both courses, in turns."""
    (folder / "ours").mkdir()
    (folder / "stock").mkdir()
    ours = Course(copy_course(folder / "ours"))
    assignment = load(ours, NAME)
    sandbox = Sandbox(limits=assignment.limits)
    stock = stock_course(folder / "stock", ours, sandbox)
    commands = {
        "ours": (ours.root, ("grading", "autograde", NAME)),
        "stock": (stock, ("nbgrader", "autograde", NAME)),
    }
    # One submission each before the clock runs: ours runs the solution then, once for a course.
    hand_in_everywhere(range(1), ours.root, stock)
    first = {name: run_in(root, *command) for name, (root, command) in commands.items()}
    seconds: dict[str, list[float]] = {"ours": [], "stock": []}
    few = max(1, count // FEW)
    chunks = [range(1, 1 + few), range(1 + few, 1 + few + count)]
    for turn, chunk in enumerate(chunks):
        hand_in_everywhere(chunk, ours.root, stock)
        for name in sorted(commands, reverse=turn % 2 == 1):
            root, command = commands[name]
            seconds[name].append(run_in(root, *command))
    ours_grades, stock_grades = grades(ours.root), grades(stock)
    differing = sorted(
        key
        for key in ours_grades.keys() | stock_grades.keys()
        if ours_grades.get(key, "none") != stock_grades.get(key, "none")
    )
    more = len(chunks[1]) - len(chunks[0])
    further = {name: (many - some) / more for name, (some, many) in seconds.items()}
    ratios = {
        "further submissions": (further["stock"] / further["ours"], RATIO),
        f"a command with {count} of them": (
            seconds["stock"][1] / seconds["ours"][1],
            RATIO if count >= MANY else RATIO_OF_FEW,
        ),
    }
    print(
        f"{few} and {count} honest submissions of {NAME}; {os.cpu_count()} cores, seconds a command"
    )
    sizes = [len(chunk) for chunk in chunks]
    print(f"{'':28}{sizes[0]:>4} of them{sizes[1]:>6} of them   each further, and a minute")
    for name, what in (("ours", "ours, each run twice"), ("stock", "stock nbgrader autograde")):
        some, many = seconds[name]
        print(
            f"  {what:26}{some:9.1f} s{many:11.1f} s {further[name]:9.3f} s "
            f"{60 / further[name]:9.1f}   (the very first {first[name]:.1f} s)"
        )
    for what, (ratio, aim) in ratios.items():
        print(f"  throughput of {what:28} ours / stock {ratio:6.2f}, aim {aim:g}")
    print(f"  grades compared           {len(stock_grades):6}    differing {len(differing)}, aim 0")
    print("  one submission of ours, run twice, one worker, nothing else running:")
    for part, taken in divide(ours, assignment).items():
        print(f"    {part:24}{taken:7.3f} s")
    for key in differing[:10]:
        print(f"  {key}: ours {ours_grades.get(key)}, stock {stock_grades.get(key)}")
    missed = []
    if differing or len(ours_grades) < count:
        missed.append("equal grades")
    missed += [f"throughput of {what}" for what, (ratio, aim) in ratios.items() if ratio < aim]
    if missed:
        sys.exit(f"benchmarks.grading: an aim is missed: {', '.join(missed)}")


def hand_in_everywhere(numbers: range, *courses: Path) -> None:
    """Lay the same submissions into each course."""
    for number in numbers:
        for course in courses:
            hand_in_one(course, number)


if __name__ == "__main__":
    main()
