"""The lock installs anywhere, and is what is installed here."""

import os
import re
import shutil
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCK = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
MODELS = (ROOT / "requirements-models.txt").read_text("utf-8")
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


def test_the_packages_that_carry_models_are_locked_by_hash_and_installed() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    pins = re.findall(r"^(\S+==\S+) \\\n    --hash=sha256:", MODELS, re.MULTILINE)
    assert pins == groups["models"]
    assert pins == [f"{pin.split('==')[0]}=={version(pin.split('==')[0])}" for pin in pins]


@pytest.mark.parametrize(
    ("find_links", "places"),
    [
        ("/wheels https://example.org/links", "--find-links /wheels --find-links https://example"),
        ("", "--index https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match"),
    ],
    ids=["pip is told of folders", "pip is told of nothing"],
)
def test_the_cpu_wheel_is_looked_for_where_it_is(
    tmp_path: Path, find_links: str, places: str
) -> None:
    uv = tmp_path / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text(
        "#!/bin/bash\n"
        'echo "$@" >>asked\n'
        "while [ $# -gt 1 ]; do\n"
        '  [ "$1" = --output-file ] && echo "torch==1.0+cpu" >"$2"\n'
        "  shift\n"
        "done\n"
    )
    uv.chmod(0o755)
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts" / "lock.sh", tmp_path / "scripts")
    environment = {**os.environ, "PIP_FIND_LINKS": find_links}
    subprocess.run([script], env=environment, check=True, capture_output=True)
    assert places in (tmp_path / "asked").read_text()
    assert (tmp_path / "requirements.txt").read_text().splitlines()[-2:] == ["-e .", "torch==1.0"]
