"""Starting a program as an ordinary user, to whom root's home is shut."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from grading import walls

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]


def as_nobody() -> list[str]:
    """Return the words that start Python as a user to whom root's home is shut."""
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return [*user, str(python_for_everyone())]


def python_for_everyone() -> Path:
    """Return a Python of this version that every user may start.

    Its packages are those of the virtual environment.

    Raises:
        FileNotFoundError: when there is none.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (walls.python(), Path(f"/usr/bin/python{version}"))
    for candidate in candidates:
        if candidate.exists() and all(
            place.stat().st_mode & 0o005 == 0o005 for place in (candidate, *candidate.parents)
        ):
            return candidate
    raise FileNotFoundError(
        f"An ordinary user may start none of {' and '.join(map(str, candidates))}, so nothing "
        f"shows that grading works without root. Install one: apt-get install python{version}"
    )


def packages(*more: Path) -> str:
    """Return the PYTHONPATH of a Python that stands outside the virtual environment."""
    return ":".join(map(str, (*more, *map(open_to_all, walls.package_folders()))))


def open_to_all(path: Path) -> Path:
    """Return the path, or its copy where a clone lies in a folder that is shut to others."""
    if all(place.stat().st_mode & 0o005 == 0o005 for place in (REPOSITORY, *REPOSITORY.parents)):
        return path
    if not path.is_relative_to(REPOSITORY):
        return path
    return copy_of_the_repository() / path.relative_to(REPOSITORY)


@functools.cache
def copy_of_the_repository() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="open-to-all-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    # Links to the same files where they lie on the same disk: the packages are large.
    links = subprocess.run(["cp", "-al", REPOSITORY, folder / "copy"], capture_output=True)
    if links.returncode != 0:
        shutil.rmtree(folder / "copy", ignore_errors=True)
        shutil.copytree(REPOSITORY, folder / "copy", symlinks=True)
    return folder / "copy"


def programs(folder: Path) -> str:
    """Return a PATH with alembic, which nbgrader calls by its name.

    The virtual environment's own asks for its Python, which may be shut.
    """
    alembic = folder / "bin" / "alembic"
    alembic.parent.mkdir()
    alembic.write_text(f'#!/bin/sh\nexec {python_for_everyone()} -m alembic "$@"\n')
    alembic.chmod(0o755)
    return f"{alembic.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
