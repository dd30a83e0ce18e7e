"""Make the page of results for the instructor."""

from __future__ import annotations

import argparse

from grading.commands.shared import FINE, Commands
from grading.course import Course


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    commands.add(
        "report",
        run,
        "sum up the results: points, hard tasks, common wrong answers",
        "From what is stored, marks by hand included; nothing is graded. The page lies in\n"
        ".grading/reports/. It names students and tells what hidden checks received: keep it to\n"
        "yourself.",
    )


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    show(course, options.name)
    return FINE


def show(course: Course, name: str) -> None:
    """Print the results and write their page."""
    from datetime import UTC, datetime

    from grading.report import as_text, write_page
    from grading.summary import summary

    results = summary(course, name)
    print(as_text(results))
    print(f"For instructors: {write_page(course, results, datetime.now(UTC))}")
