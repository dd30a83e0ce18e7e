"""What being late costs: nbgrader's plugin decides, as nbgrader_config.py sets it.

A plugin is somebody's code. What it raises or gives is checked here, so that no broken one forgives
late work or leaves a mark that is no number.
"""

from __future__ import annotations

import sys
from typing import Any

from grading.course import Course
from grading.settings import is_number

MEND = "Mend the plugin or its settings in nbgrader_config.py, and run this again; nothing is lost."


class LateError(RuntimeError):
    """A late penalty that cannot be told; the message says why and what to do."""


class LatePenalties:
    """nbgrader's step AssignLatePenalties, with the plugin that the settings name."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._step: Any = None

    def load(self) -> Any:
        """Return the step, ready.

        Raises:
            LateError: The settings cannot be read, or name no such plugin.
        """
        if self._step is not None:
            return self._step
        from jupyter_core.paths import jupyter_config_path
        from nbgrader.preprocessors import AssignLatePenalties  # type: ignore[import-untyped]
        from traitlets.config import Application

        root = str(self._course.root)
        try:
            if root not in sys.path:  # A plugin of the course's own lies there.
                sys.path.append(root)
            settings = Application(raise_config_file_errors=True)
            settings.load_config_file("nbgrader_config", path=[root, *jupyter_config_path()])
            step = AssignLatePenalties(config=settings.config)
            step.init_plugin()
        except (Exception, SystemExit) as error:
            raise LateError(
                "The settings for late work cannot be used, so no late mark is stored "
                f"({type(error).__name__}: {error}). {MEND}"
            ) from error
        name = type(step.plugin_inst).__name__
        if not callable(getattr(step.plugin_inst, "late_submission_penalty", None)):
            raise LateError(f"The plugin {name} has no method late_submission_penalty. {MEND}")
        self._step = step
        return step

    def of(self, submission: Any, notebook: Any) -> float | None:
        """Return what is taken off a notebook; None if it was in time, or if that costs nothing.

        As in nbgrader, it is at least 0 and at most what the notebook has.

        Raises:
            LateError: The plugin failed, or gave what is no number.
        """
        if submission.assignment.duedate is None:
            return None
        late = submission.total_seconds_late
        if late <= 0:
            return None
        step = self.load()
        name = type(step.plugin_inst).__name__
        try:
            penalty = step.plugin_inst.late_submission_penalty(
                submission.student.id, notebook.score, late
            )
        except (Exception, SystemExit) as error:
            raise LateError(
                f"The late penalty is not known: for {late:g} seconds and {notebook.score:g} "
                f"points the plugin {name} raised {type(error).__name__}: {error}. {MEND}"
            ) from error
        if penalty is None:
            return None
        if not is_number(penalty):
            raise LateError(
                f"The late penalty is not known: for {late:g} seconds and {notebook.score:g} "
                f"points the plugin {name} gave {penalty!r}, expected a number or None. {MEND}"
            )
        return float(step._check_late_penalty(notebook, penalty))
