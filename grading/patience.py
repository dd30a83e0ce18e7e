"""Waiting for a gradebook that another program is using, and saying what is wrong with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from grading.database import GradebookError, GradebookLost, file_of, reason, shown

BUSY_SECONDS = 60.0
BUSY_MILLISECONDS = 30_000  # how long SQLite itself waits

# What PostgreSQL says where two wrote the same, or where it has no place for one more.
_IN_THE_WAY = ("40001", "40P01", "23505", "53300", "55P03")

_Result = TypeVar("_Result")


def patiently(action: Callable[[], _Result], address: str, *, is_open: bool = False) -> _Result:
    """Do it, and again for a while if the gradebook is in use elsewhere or its server went away.

    A server that is not there when the gradebook is opened is no accident, and not waited for.
    """
    from sqlalchemy.exc import ArgumentError, DBAPIError

    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except DBAPIError as error:
            lost = file_of(address) is None and _is_lost(error)
            if not (_is_busy(error) or (lost and is_open)):
                raise _explained(error, address) from error
            if time.monotonic() > end:
                raise (_lost if lost else _explained)(error, address) from error
            time.sleep(0.5)
        except (ArgumentError, ModuleNotFoundError) as error:
            raise GradebookError(
                f"The gradebook {shown(address)} cannot be opened ({reason(error)})."
            ) from None


def _is_busy(error: Any) -> bool:
    """Say whether another program was in the way; the next try may do."""
    state = getattr(error.orig, "sqlstate", None)
    return state in _IN_THE_WAY or (
        state is None and any(word in str(error.orig).lower() for word in ("locked", "busy"))
    )


def _is_lost(error: Any) -> bool:
    """Say whether the server went away, or shuts down, or starts."""
    state = getattr(error.orig, "sqlstate", None)
    return bool(error.connection_invalidated) or state is None or state[:3] in ("080", "57P")


def _explained(error: Any, address: str) -> GradebookError:
    return GradebookError(
        f"The gradebook {shown(address)} cannot be used ({reason(error)}). If another program has "
        "it open, close it; if nbgrader was upgraded, back the gradebook up and run: nbgrader db "
        "upgrade. Then grade again: nothing is lost."
    )


def _lost(error: Any, address: str) -> GradebookError:
    return GradebookLost(
        f"The gradebook's server is gone ({shown(address)}: {reason(error)}). What was stored "
        "stays. When it is back, the same command carries on."
    )


def wait_when_busy(connection: Any, _: object) -> None:
    """Let SQLite itself wait; for SQLAlchemy to call at each new connection."""
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
