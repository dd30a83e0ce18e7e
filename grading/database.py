"""The gradebook's address, how it is said, and reading what lies there.

The address is nbgrader's own setting, ``CourseDirectory.db_url`` in nbgrader_config.py: a SQLite
file, or a PostgreSQL server, for which psycopg has to be installed.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

READ_SECONDS = 60.0
SETTINGS = "nbgrader_config.py"
SETTING = "c.CourseDirectory.db_url"
KINDS = ("sqlite:///", "postgresql://", "postgresql+psycopg://")
NO_TABLE = "42P01"  # what PostgreSQL says of a gradebook that nobody has begun


class GradebookError(RuntimeError):
    """The gradebook cannot be used; the message says why and what to do, and no password."""


class GradebookLost(GradebookError):
    """The gradebook's server is gone: no other submission can be stored either."""


def address_of(root: Path) -> str:
    """Return the address of a course's gradebook: the setting's, or nbgrader's own default.

    Raises:
        GradebookError: The settings cannot be followed up to this one, or it is no address.
    """
    settings = root / SETTINGS
    try:
        state = settings.stat()
    except OSError:
        return _default(root)
    return _set_in(settings, state.st_mtime_ns, state.st_size) or _default(root)


def _default(root: Path) -> str:
    return f"sqlite:///{root / 'gradebook.db'}"


@functools.lru_cache(maxsize=8)
def _set_in(settings: Path, *_: int) -> str | None:
    """Run the settings up to the last line that sets the address.

    The rest is nbgrader's matter, and importing nbgrader takes seconds.
    """
    import ast

    from traitlets.config import Config

    from grading.parsing import parse_python

    try:
        tree = parse_python(settings.read_text("utf-8"))
        lines = [
            number
            for number, line in enumerate(tree.body, 1)
            if isinstance(line, ast.Assign) and SETTING in map(ast.unparse, line.targets)
        ]
        if not lines:
            return None
        config = Config()
        names = {"__file__": str(settings), "get_config": lambda: config, "c": config}
        begin = ast.Module(body=tree.body[: lines[-1]], type_ignores=[])
        exec(compile(begin, str(settings), "exec"), names)
        address = config.CourseDirectory.db_url
    except Exception as error:
        raise GradebookError(
            f"{settings} says where the gradebook is, and it fails before it does "
            f"({type(error).__name__}). Mend it: python {settings.name} shows the line."
        ) from None  # What it holds may be a password.
    if not isinstance(address, str) or not address.startswith(KINDS):
        raise GradebookError(
            f"{SETTING} in {settings} has to begin with one of {', '.join(KINDS)}. "
            "Mend it there; nothing was read or written."
        )
    return address


def file_of(address: str) -> Path | None:
    """Return the file of a gradebook; None where a server keeps it."""
    if not address.startswith("sqlite:///"):
        return None
    return Path(address.removeprefix("sqlite:///"))


def shown(address: str) -> str:
    """Return an address without its password, for messages.

    >>> shown("postgresql://an:secret@db.example:5432/grades?password=x&sslmode=require")
    'postgresql://an@db.example:5432/grades'
    >>> shown("sqlite:////srv/course/gradebook.db")
    '/srv/course/gradebook.db'
    """
    path = file_of(address)
    if path is not None:
        return str(path)
    kind, _, rest = address.partition("://")
    who, at, where = rest.split("?")[0].rpartition("@")
    return f"{kind}://{who.split(':')[0]}{at}{where}"


def read(address: str, query: str, **values: object) -> Sequence[Sequence[Any]]:
    """Return what a query finds; nothing where there is no gradebook yet.

    Values stand in the query as ``:name``.

    Raises:
        GradebookError: The gradebook is there, but cannot be read.
    """
    path = file_of(address)
    if path is not None and not path.is_file():
        return []
    try:
        return _read_file(path, query, values) if path else _read_server(address, query, values)
    except Exception as error:
        if getattr(getattr(error, "orig", None), "sqlstate", None) == NO_TABLE:
            return []
        raise GradebookError(
            f"The gradebook {shown(address)} cannot be read ({reason(error)})."
        ) from None


def _read_file(path: Path, query: str, values: dict[str, object]) -> Sequence[Sequence[Any]]:
    # By Python's own module, which is there at once: status is asked often.
    # SQLite may have to undo what a killed program began; read-only it would refuse.
    address = f"{path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=READ_SECONDS)) as book:
        return book.execute(query, values).fetchall()


def _read_server(address: str, query: str, values: dict[str, object]) -> Sequence[Sequence[Any]]:
    from sqlalchemy import text

    with _engine(address).connect() as connection:
        found: Sequence[Sequence[Any]] = connection.execute(text(query), values).fetchall()
    return found


@functools.lru_cache(maxsize=8)
def _engine(address: str) -> Any:
    from sqlalchemy import create_engine

    return create_engine(address, pool_pre_ping=True)


def reason(error: BaseException) -> str:
    """Say in one line what went wrong: the driver's words, which hold no address."""
    from grading.plain import one_line

    if isinstance(error, ModuleNotFoundError):
        return f"{error}; for PostgreSQL run: pip install 'psycopg[binary]'"
    return one_line(str(getattr(error, "orig", None) or error))
