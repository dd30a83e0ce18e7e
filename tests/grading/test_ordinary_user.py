"""Grading as an ordinary user: the same walls, the same marks.

Where the tests run as root, these start a process of another user id. Where they run as an
ordinary user, all the other tests of this folder show it, and the last one looks at a batch of
its own user's.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from benchmarks.students import NAME
from grading.course import Course
from tests.grading.handing_in import CASES
from tests.grading.submissions import lay_course, marks_in_gradebook
from tests.grading.without_root import (
    NOBODY,
    REPOSITORY,
    as_nobody,
    open_to_all,
    packages,
    programs,
)

WALLS = Path(__file__).with_name("test_sandbox.py")
MAIN_WALLS = (
    "test_only_the_system_python_and_the_packages_are_there",
    "test_there_is_no_network",
    "test_only_sockets_that_a_network_namespace_holds_can_be_opened",
    "test_files_and_counters_of_the_machine_carry_no_word_to_another_sandbox",
    "test_the_runner_is_nobody_and_can_become_nobody_else",
    "test_all_that_is_writable_is_small",
    "test_where_no_cgroup_may_be_made_a_guard_counts",
    "test_a_fork_bomb_reaches_its_limit",
    "test_a_run_that_never_ends_is_ended_with_all_its_children",
    "test_each_sandbox_has_a_core_of_its_own_and_cannot_leave_it",
)
THREE = ("right", "wrong", "endless_loop")

only_as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason=f"these tests run as an ordinary user, so {WALLS.name} showed it"
)


@pytest.mark.slow
@only_as_root
def test_the_main_walls_stand_without_root() -> None:
    names = [f"{WALLS.name}::{name}" for name in MAIN_WALLS]
    assert passed_as_nobody(*names) == 2 * len(MAIN_WALLS)  # cold and warm


@only_as_root
@pytest.mark.slow
def test_all_walls_stand_without_root() -> None:
    functions = re.findall(r"^def test_", WALLS.read_text(encoding="utf-8"), re.MULTILINE)
    assert passed_as_nobody(WALLS.name) >= 2 * len(functions)  # cold and warm


@only_as_root
@pytest.mark.slow
def test_forked_runs_are_as_isolated_without_root() -> None:
    assert passed_as_nobody("test_warm.py") > 5


@pytest.mark.slow
def test_a_batch_is_graded_without_root() -> None:
    # Not pytest's own folder: that lies behind one which only root may enter.
    with tempfile.TemporaryDirectory() as folder:
        grade_as_ordinary_user(Path(folder))


def passed_as_nobody(*tests: str) -> int:
    """Run tests of the walls as nobody and return how many passed, which must be all of them."""
    repository, folder = open_to_all(REPOSITORY), open_to_all(WALLS.parent)
    with tempfile.TemporaryDirectory() as scratch:
        os.chown(scratch, NOBODY, NOBODY)
        settings = ["-q", "-p", "no:cacheprovider", "--noconftest"]
        settings += [f"--rootdir={repository}", f"--basetemp={scratch}/pytest"]
        names = [str(folder / test) for test in tests]
        words = [*as_nobody(), "-m", "pytest", *settings, *names]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages(repository)}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    # No other word: nothing was skipped, deselected or expected to fail.
    summary = re.search(r"^(\d+) passed in ", done.stdout, re.MULTILINE)
    assert summary is not None, said
    return int(summary[1])


def grade_as_ordinary_user(folder: Path) -> None:
    root = folder / "course"
    root.mkdir()
    lay_course(root, [CASES[name] for name in THREE])
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    environment["MHA_COURSE_SECRET"] = str(folder / "secret")
    command = [sys.executable]
    if os.geteuid() == 0:
        command = as_nobody()
        environment |= {"PATH": programs(folder), "PYTHONPATH": packages()}
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
    command += ["-m", "grading", "autograde", NAME]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    marks = marks_in_gradebook(Course(root))
    for name in THREE:
        case = CASES[name]
        cells = {cell: points for cell, points in marks[case.student].cells.items() if points}
        assert cells == {cell: points for cell, points in case.marks.items() if points}, done.stdout
    if os.geteuid() == 0:
        assert (root / "gradebook.db").stat().st_uid == NOBODY
