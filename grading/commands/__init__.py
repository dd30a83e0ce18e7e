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
    similar,
    status,
)

COMMANDS = (
    release,
    autograde,
    status,
    report,
    restore,
    feedback,
    export,
    similar,
    lint,
    answers,
    publish,
)

__all__ = ["COMMANDS"]
