"""`nbgrader validate`, and the Validate button of JupyterLab, say what the checks say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.students import answer_wrongly, find, released, save, solve

ROOT = Path(__file__).resolve().parents[2]
EXERCISE = ROOT / "exercises" / "multi-head"
NOTEBOOK = "multi-head.ipynb"

pytestmark = pytest.mark.slow


def validate(folder: Path) -> str:
    """Let nbgrader validate the notebook in a student's folder; return what it says."""
    outcome = subprocess.run(
        [sys.executable, "-m", "nbgrader", "validate", NOTEBOOK],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the exercise's folder as a student has it."""
    return shutil.copytree(EXERCISE, tmp_path / "multi-head")


def test_it_passes_a_solved_notebook(folder: Path) -> None:
    notebook = released()
    solve(notebook)
    find(notebook, "one-head").source = "One row of weights has to serve every purpose."
    save(notebook, folder / NOTEBOOK)
    assert validate(folder) == "Success! Your notebook passes all the tests.\n"


def test_it_fails_a_wrong_one_and_says_which_check_and_why(folder: Path) -> None:
    notebook = released()
    solve(notebook)
    answer_wrongly(notebook, "split-heads")
    save(notebook, folder / NOTEBOOK)
    said = validate(folder)
    assert "VALIDATION FAILED" in said
    assert "CheckFailed: split_heads: At [" in said
    assert "Hint:" in said
    assert "check-head-dim" not in said
    assert 'check("head_dim"' not in said


def test_it_fails_the_untouched_release(folder: Path) -> None:
    assert "VALIDATION FAILED ON" in validate(folder)
