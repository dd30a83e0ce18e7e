"""Grading as an ordinary user: the same walls, the same marks.

Where the tests run as root, a batch is graded by a process of another user id. Where they run
as an ordinary user, all the other tests of this folder show it, and this one looks at a batch
of its own user's.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from benchmarks.students import NAME
from grading.course import Course
from tests.grading.handing_in import CASES
from tests.grading.submissions import lay_course, marks_in_gradebook

NOBODY = 65534
THREE = ("right", "wrong", "endless_loop")


@pytest.mark.slow
def test_a_batch_is_graded_without_root() -> None:
    # Not pytest's own folder: that lies behind one which only root may enter.
    with tempfile.TemporaryDirectory() as folder:
        grade_as_ordinary_user(Path(folder))


def grade_as_ordinary_user(folder: Path) -> None:
    root = folder / "course"
    root.mkdir()
    lay_course(root, [CASES[name] for name in THREE])
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    environment["MHA_COURSE_SECRET"] = str(folder / "secret")
    command = [sys.executable, "-m", "grading", "autograde", NAME]
    if os.geteuid() == 0:
        command, environment = as_nobody(folder, environment)
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    marks = marks_in_gradebook(Course(root))
    for name in THREE:
        case = CASES[name]
        cells = {cell: points for cell, points in marks[case.student].cells.items() if points}
        assert cells == {cell: points for cell, points in case.marks.items() if points}, done.stdout
    if os.geteuid() == 0:
        assert (root / "gradebook.db").stat().st_uid == NOBODY


def as_nobody(folder: Path, environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a user to whom root's home, and so its Python, is shut.

    The Python is the system's; the packages are those of the virtual environment.
    """
    python = "/usr/bin/python3"
    said = subprocess.check_output([python, "-c", "import sys; print(*sys.version_info[:2])"])
    assert said.split() == [b"%d" % part for part in sys.version_info[:2]], (
        f"{python} has another version than the packages are for"
    )
    # nbgrader calls alembic by its name, and the environment's own asks for root's Python.
    alembic = folder / "bin" / "alembic"
    alembic.parent.mkdir()
    alembic.write_text(f'#!/bin/sh\nexec {python} -m alembic "$@"\n')
    alembic.chmod(0o755)
    environment["PATH"] = f"{alembic.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    environment["PYTHONPATH"] = sysconfig.get_path("purelib")
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return [*user, python, "-m", "grading", "autograde", NAME], environment
