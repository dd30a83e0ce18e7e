"""The students' tree: it works by itself, and nothing secret is in it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from grading.__main__ import main
from grading.assignment import load
from grading.commands.shared import FINE, REFUSED
from grading.course import Course
from grading.lint import _secrets
from grading.publish import (
    NEEDED,
    PROJECT,
    PublishError,
    check_modules,
    publish,
    requirements,
)
from grading.release import release
from tests.grading.small_course import small_course

ROOT = Path(__file__).resolve().parents[2]
ATTEMPT = """
import numpy as np
import grading, sys
from grading import check
from grading.check import CheckFailed
print(grading.__file__)
raised = lambda s: np.exp(s - s.max(-1, keepdims=True))
scores = np.random.default_rng(grading.seed("weights")).standard_normal((2, 5))
check("weights", lambda: raised(scores) / raised(scores).sum(-1, keepdims=True))
try:
    check("weights", scores)
except CheckFailed as failed:
    print("failed:", failed)
print(sorted(name for name in sys.modules if name.startswith("grading.")))
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory, course_secret: Path) -> Course:
    """A course with one released exercise, and with a lock."""
    course = small_course(tmp_path_factory.mktemp("course"))
    release(course, "tiny", register=False)
    shutil.copy(ROOT / "requirements.txt", course.root)
    return course


@pytest.fixture(scope="module")
def tree(course: Course, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("public") / "exercises of ours"
    assert publish(course, target) == ["tiny"]
    return target


@pytest.mark.slow
def test_it_holds_the_exercises_and_what_check_needs_and_nothing_else(tree: Path) -> None:
    found = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    modules = {f"grading/{path.name}" for path in check_modules()}
    assert {"grading/__init__.py", "grading/check.py", "grading/values.py"} <= modules
    assert found == modules | {
        "README.md",
        "pyproject.toml",
        "requirements.txt",
        "exercises/tiny/tiny.ipynb",
        "exercises/tiny/checks.json",
    }
    readme = (tree / "README.md").read_text("utf-8")
    assert "[Tiny](exercises/tiny) | ●○○ | 10 | 7 |" in readme
    (torch,) = re.findall(r"^torch==.*$", (tree / "requirements.txt").read_text("utf-8"), re.M)
    assert f".venv/bin/pip install {torch} --index-url" in readme
    assert not list(tree.parent.glob(".*"))


@pytest.mark.slow
def test_nothing_secret_is_in_it(course: Course, tree: Path) -> None:
    texts = {path: path.read_text("utf-8") for path in tree.rglob("*") if path.is_file()}
    secrets = [
        secret for notebook in load(course, "tiny").notebooks for _, secret in _secrets(notebook)
    ]
    assert len(secrets) > 4
    held = [(path, secret) for secret in secrets for path, text in texts.items() if secret in text]
    assert held == []


@pytest.mark.slow
def test_checks_work_from_the_tree_alone(tree: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ATTEMPT],
        cwd=tree / "exercises" / "tiny",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert str(tree) in done.stdout
    assert "✓ weights: right." in done.stdout
    assert "failed: weights: " in done.stdout
    assert "grading.grade" not in done.stdout


@pytest.mark.slow
def test_a_folder_that_holds_something_or_lies_in_the_course_is_refused(
    course: Course, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("keep me")
    words = ["--course", str(course.root), "publish"]
    assert main([*words, str(tmp_path)]) == REFUSED
    assert "is there already" in capsys.readouterr().err
    assert main([*words, str(course.root / "public")]) == REFUSED
    assert "outside" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "keep me"
    assert main([*words, str(tmp_path / "new")]) == FINE
    assert "1 exercise: tiny" in capsys.readouterr().out


@pytest.mark.slow
def test_a_release_that_is_not_current_is_refused(course: Course, tmp_path: Path) -> None:
    path = course.exercises / "tiny" / "checks.json"
    text = path.read_text("utf-8")
    try:
        path.write_text(text.replace("Subtract", "Do not subtract"), "utf-8")
        with pytest.raises(PublishError, match="python -m grading release tiny"):
            publish(course, tmp_path / "new")
    finally:
        path.write_text(text, "utf-8")
    assert not (tmp_path / "new").exists()


def test_a_student_installs_what_notebooks_run_with(tmp_path: Path) -> None:
    lines = requirements(Course(ROOT)).splitlines()
    assert {line.partition("==")[0] for line in lines if "==" in line} == {*NEEDED}
    assert not [line for line in lines if "+" in line or "nbgrader" in line]
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n")
    with pytest.raises(PublishError, match="make lock"):
        requirements(Course(tmp_path))


def _installed_with(project: str) -> tuple[set[str], set[str]]:
    """Return the packages that `pip install .` brings by a pyproject.toml, and those of widgets."""
    table = tomllib.loads(project)["project"]
    lists = table["dependencies"], table["optional-dependencies"]["widgets"]
    library, demos = ({re.split("[><=~]", one)[0] for one in each} for each in lists)
    return library, demos


def test_the_tree_needs_what_our_own_package_needs() -> None:
    library, demos = _installed_with(PROJECT.format(packages=""))
    assert (library, demos) == _installed_with((ROOT / "pyproject.toml").read_text("utf-8"))
    assert library | demos <= {*NEEDED}
