"""Set-up does its work once."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "scripts" / "setup.sh"


def test_a_second_run_installs_nothing() -> None:
    run = subprocess.run([SETUP, "tests"], capture_output=True, text=True, check=True)
    assert run.stdout == ""


def test_an_old_python_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "setup.sh"
    script.write_text(SETUP.read_text("utf-8"), encoding="utf-8")
    # Every name the script tries is a Python that says it is too old.
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        (tools / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    text = script.read_text("utf-8").replace("/usr/bin/python3", str(tools / "python3"))
    script.write_text(text, encoding="utf-8")
    environment = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin"}
    run = subprocess.run(["bash", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert "Python 3.11 or newer is needed" in run.stderr
    assert "PYTHON=" in run.stderr


def test_a_missing_right_is_one_exact_line(tmp_path: Path) -> None:
    """A user who is not root and has no sudo is told what to type."""
    functions = SETUP.read_text("utf-8").split("make_venv\ninstall_lock")[0]
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "id").write_text("#!/bin/sh\necho 1000\n", encoding="utf-8")
    (tools / "sudo").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    script = tmp_path / "scripts" / "try.sh"
    script.parent.mkdir()
    script.write_text(f"{functions}\napt_install bubblewrap\n", encoding="utf-8")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    run = subprocess.run(["bash", script], capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        "setup: this needs: sudo apt-get install -y --no-install-recommends bubblewrap"
    ]
