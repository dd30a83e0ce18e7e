"""The commands of ``python -m grading``, a module each, in the order of its help."""

from grading.commands import (
    answers,
    autograde,
    export,
    feedback,
    lint,
    publish,
    release,
    report,
    restore,
    status,
)

COMMANDS = (release, autograde, status, report, restore, feedback, export, lint, answers, publish)

__all__ = ["COMMANDS"]
