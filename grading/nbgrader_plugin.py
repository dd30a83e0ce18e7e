"""The way in from nbgrader: `nbgrader autograde` and formgrader's button grade by our path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbconvert.preprocessors import Preprocessor
from nbgrader.converters import (  # type: ignore[import-untyped]
    Autograde,
    NbGraderException,
)
from traitlets import Bool

from grading.autograde import FAILED, autograde
from grading.course import Course
from grading.grade import Status
from grading.gradebook import GradebookError
from grading.records import printable

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
        self._refuse_other_settings(course)
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
        failed = [line for line in lines if line.status == FAILED]
        if failed:
            told = "\n".join(f"{printable(each.student_id)}: {each.reasons[0]}" for each in failed)
            self.log.error("Not graded:\n%s", told)
            raise NbGraderException(f"Not graded:\n{told}")

    def _refuse_other_settings(self, course: Course) -> None:
        """Refuse what this way does not follow, rather than grade into another place."""
        folder = self.coursedir
        wanted = {
            "db_url": (folder.db_url, course.database_url),
            "submitted_directory": (_below(folder, folder.submitted_directory), course.submitted),
            "autograded_directory": (
                _below(folder, folder.autograded_directory),
                course.autograded,
            ),
            "source_directory": (_below(folder, folder.source_directory), course.solutions),
            "notebook_id": (folder.notebook_id, "*"),
            "student_id_exclude": (folder.student_id_exclude, ""),
        }
        for name, (given, expected) in wanted.items():
            if str(given) != str(expected):
                text = (
                    f"CourseDirectory.{name} is {str(given)!r}, but this course is graded with "
                    f"{str(expected)!r}. Leave the option out; nothing was graded."
                )
                self.log.error(text)
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
