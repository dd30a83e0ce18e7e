"""The ways in from nbgrader: its commands and formgrader's buttons grade and release by our path.

nbgrader_config.py puts what is here in the place of nbgrader's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, PrefixLoader
from nbconvert.exporters import HTMLExporter
from nbconvert.preprocessors import Preprocessor
from nbgrader.converters import (  # type: ignore[import-untyped]
    Autograde,
    GenerateAssignment,
    NbGraderException,
)
from traitlets import Bool, default

from grading.autograde import autograde
from grading.course import Course
from grading.database import shown
from grading.grade import NOT_GRADED, Status
from grading.gradebook import GradebookError
from grading.plain import printable
from grading.release import release
from grading.timestamps import read_timestamp

# Pages that show students' work: with a content security policy, and nothing from other hosts.
TEMPLATES = str(Path(__file__).parent / "templates")


class SafeAutograde(Autograde):  # type: ignore[misc]
    """nbgrader's Autograde with the one thing replaced that runs a student's code."""

    def start(self) -> None:
        """Grade the chosen assignment and students; what failed is raised for the button to show.

        Raises:
            NbGraderException: A submission could not be graded, or nothing was, and why.
        """
        course = Course(Path(self.coursedir.root))
        folder = self.coursedir
        wanted = {
            "submitted_directory": (_below(folder, folder.submitted_directory), course.submitted),
            "autograded_directory": (
                _below(folder, folder.autograded_directory),
                course.autograded,
            ),
            "student_id_exclude": (folder.student_id_exclude, ""),
        }
        _refuse_other_settings(self, course, wanted, "graded")
        try:
            lines = autograde(
                course,
                self.coursedir.assignment_id,
                student_id=self.coursedir.student_id,
                force=self.force,
                progress=self.log.info,
            )
        except Exception as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error
        for line in lines:
            if line.status == Status.ATTENTION:
                self.log.warning("%s: %s", printable(line.student_id), " ".join(line.reasons))
        failed = [line for line in lines if line.status == NOT_GRADED]
        if failed:
            told = "\n".join(f"{printable(each.student_id)}: {each.reasons[0]}" for each in failed)
            self.log.error("Not graded:\n%s", told)
            raise NbGraderException(f"Not graded:\n{told}")


class SafeGenerateAssignment(GenerateAssignment):  # type: ignore[misc]
    """nbgrader's GenerateAssignment, which knows neither our checks.json nor our lint."""

    def start(self) -> None:
        """Release the chosen assignment; what is wrong is raised for the button to show.

        Raises:
            NbGraderException: It was not released, and why; an older release stays as it was.
        """
        course = Course(Path(self.coursedir.root))
        folder = self.coursedir
        wanted = {
            "release_directory": (_below(folder, folder.release_directory), course.exercises),
        }
        _refuse_other_settings(self, course, wanted, "released")
        try:
            made = release(course, folder.assignment_id, register=not self.no_database)
        except Exception as error:
            self.log.error("%s", error)
            raise NbGraderException(str(error)) from error
        self.log.info("Released to %s", made)


class FeedbackExporter(HTMLExporter):
    """nbconvert's HTMLExporter, whose templates can build on nbgrader's, as nbgrader/NAME."""

    @default("extra_loaders")
    def _nbgraders_templates(self) -> list[PrefixLoader]:
        from nbgrader.server_extensions.formgrader import handlers  # type: ignore[import-untyped]

        return [PrefixLoader({"nbgrader": FileSystemLoader(handlers.template_path)})]


def submitted_timestamp(api: Any, assignment_id: str, student_id: str) -> datetime | None:
    """Stand in for ``NbGraderAPI.get_submitted_timestamp``, which trusts what students hand in."""
    folder = api.coursedir
    return read_timestamp(
        Path(folder.format_path(folder.submitted_directory, student_id, assignment_id))
    )


def existing_timestamp(_: Any, folder: str) -> datetime | None:
    """Stand in for ``CourseDirectory.get_existing_timestamp``, which trusts as much."""
    return read_timestamp(Path(folder))


def _refuse_other_settings(
    step: Any, course: Course, wanted: Mapping[str, tuple[object, object]], done: str
) -> None:
    """Refuse what our way does not follow, rather than work in another place."""
    folder = step.coursedir
    wanted = {
        "db_url": (folder.db_url, course.database_url),
        "source_directory": (_below(folder, folder.source_directory), course.solutions),
        "notebook_id": (folder.notebook_id, "*"),
        **wanted,
    }
    for name, (given, expected) in wanted.items():
        if str(given) != str(expected):
            if name == "db_url":
                given, expected = shown(str(given)), shown(str(expected))
            text = (
                f"CourseDirectory.{name} is {str(given)!r}, but this course is {done} with "
                f"{str(expected)!r}. Leave the option out; nothing was {done}."
            )
            step.log.error(text)
            raise NbGraderException(text)


def _below(folder: Any, name: str) -> Path:
    return Path(folder.root).absolute() / name


class RefuseUnsandboxed(Preprocessor):
    """Stands where nbgrader's own way would run a student's code without walls, and stops it."""

    enabled = Bool(True).tag(config=True)  # nbconvert leaves steps out that do not say so.

    def preprocess(self, nb: Any, resources: Any) -> Any:
        """Stop the run.

        Raises:
            GradebookError: Always.
        """
        raise GradebookError(
            "nbgrader's own autograder would run this notebook without a sandbox, so it was "
            "stopped. Mend nbgrader_config.py, or run: python -m grading autograde"
        )
