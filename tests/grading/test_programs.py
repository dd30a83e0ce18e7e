"""Finding the program that nbgrader starts by its name."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from grading.programs import ProgramError, use_own_programs


def place(folder: Path, text: str, mode: int = 0o755) -> str:
    folder.mkdir()
    (folder / "alembic").write_text(text)
    (folder / "alembic").chmod(mode)
    return str(folder)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python with no alembic beside it."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "scripts"))
    return tmp_path


def test_the_one_beside_python_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = place(tmp_path / "other", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", os.pathsep.join([other, "/usr/bin"]))
    for _ in range(2):
        use_own_programs()
        own = str(Path(sys.executable).parent)
        assert os.environ["PATH"] == os.pathsep.join([own, other, "/usr/bin"])
    assert shutil.which("alembic") == f"{own}/alembic"


def test_one_that_cannot_start_is_passed_over(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place(elsewhere / "bin", "#!/nowhere/python3\n")
    closed = place(elsewhere / "closed", "#!/bin/sh\n", mode=0o644)
    good = place(elsewhere / "good", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", os.pathsep.join([closed, good]))
    use_own_programs()
    assert shutil.which("alembic") == f"{good}/alembic"


def test_none_that_starts_is_told(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(elsewhere / "bin", "#!/nowhere/python3\n")
    closed = place(elsewhere / "closed", "#!/bin/sh\n", mode=0o644)
    monkeypatch.setenv("PATH", closed)
    with pytest.raises(ProgramError) as caught:
        use_own_programs()
    said = str(caught.value)
    assert "asks for /nowhere/python3" in said
    assert f"you may not execute {closed}/alembic" in said
    assert "-m pip install --force-reinstall alembic" in said
    assert os.environ["PATH"] == closed


def test_there_is_none(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(elsewhere))
    with pytest.raises(ProgramError, match="there is none beside"):
        use_own_programs()
