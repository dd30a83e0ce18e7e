"""The lock installs anywhere, and is what is installed here."""

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
PINS = dict(line.split(";")[0].strip().split("==") for line in LOCK if "==" in line)


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_an_exact_pin_or_this_project() -> None:
    others = [line for line in LOCK if "==" not in line and not line.startswith("#")]
    assert others == ["-e ."]


def test_no_line_names_this_machine() -> None:
    text = "\n".join(LOCK)
    assert not re.search(r"\+cpu|file:|/opt/|/work/|--find-links|--index-url", text)


def test_torch_is_pinned_and_brings_no_cuda_packages() -> None:
    assert PINS["torch"] == "2.13.0"
    assert not [name for name in PINS if name.startswith("nvidia")]


def test_every_declared_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        declared += extra
    names = {canonical(re.split(r"[\[<>=!~ ]", each)[0]) for each in declared}
    assert names - {"mha-course"} <= {canonical(name) for name in PINS}


def test_what_is_installed_is_what_is_locked() -> None:
    installed = {name: version(name.split("[")[0]).split("+")[0] for name in PINS}
    assert installed == PINS
