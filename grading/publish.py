"""The tree that students get: the exercises and what they run with, and no solution.

A public copy of this repository, a wheel or a Binder shows solutions/ to everyone. What
:func:`publish` writes can be given away: the released exercises, of this package only what
`check` needs, `mha_lib`, and a light list of what to install.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from pathlib import Path

from grading.assignment import load
from grading.course import Course
from grading.parsing import parse_python
from grading.release import is_current

# What a student's Jupyter runs; the rest of the lock builds the book and grades.
NEEDED = ("torch", "numpy", "matplotlib", "jupyterlab", "ipywidgets", "anywidget", "tqdm")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".ipynb_checkpoints")

README = """\
# The exercises on attention

| Exercise | Difficulty | Minutes | Points |
|---|---|---|---|
{rows}

## Set up, once

In this folder, with Python 3.11 or newer:

```
python3 -m venv .venv
.venv/bin/pip install -r requirements.txt
```

On Windows it is `.venv\\Scripts\\pip`.

On Linux this fetches PyTorch with all that graphics cards need, several gigabytes. The exercises
need none of it. For the small build, install that first, between the two lines above:

```
.venv/bin/pip install {torch} --index-url https://download.pytorch.org/whl/cpu
```

## Work

```
.venv/bin/jupyter lab
```

Open a notebook in `exercises/`. The table above has the order of the course: each exercise builds
on those before it. Leave `checks.json` beside the notebook: that is what the checks compare with.
Hand in the notebook, under the name it has.
"""
PROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "mha-exercises"
version = "1"
description = "What the exercises on attention run with."
requires-python = ">=3.11"
dependencies = ["torch", "numpy"]

[project.optional-dependencies]
widgets = ["anywidget", "ipywidgets", "tqdm"]

[tool.hatch.build.targets.wheel]
packages = [{packages}]
"""


class PublishError(RuntimeError):
    """The tree could not be written; the message says the way out."""


def publish(course: Course, target: Path) -> list[str]:
    """Write the students' tree into a new or empty folder; return the names of its exercises.

    Raises:
        PublishError: The folder holds something, or a release is not current.
        AssignmentError: An assignment has flaws.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise PublishError(f"{target} is there already; give the name of a new or an empty folder")
    if target.resolve().is_relative_to(course.root):
        raise PublishError(f"{target} lies in the course itself; give a folder outside of it")
    assignments = [load(course, name) for name in course.assignments]
    if not assignments:
        raise PublishError(f"there is no assignment in {course.solutions}")
    for assignment in assignments:
        if differences := is_current(course, assignment.name):
            raise PublishError(
                f"{differences[0]}; first run: python -m grading release {assignment.name}"
            )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as temporary:
        made = Path(temporary) / "tree"
        for assignment in assignments:
            folder = Path("exercises") / assignment.name
            shutil.copytree(course.root / folder, made / folder, ignore=LEFT_OUT)
        packages = ["grading"]
        for module in check_modules():
            _copy(module, made / "grading" / module.name)
        if (course.root / "mha_lib").is_dir():
            packages.append("mha_lib")
            shutil.copytree(course.root / "mha_lib", made / "mha_lib", ignore=LEFT_OUT)
        rows = "\n".join(
            f"| [{each.title}](exercises/{each.name}) | {'●' * each.difficulty:○<3} "
            f"| {each.minutes} | {each.points:g} |"
            for each in assignments
        )
        named = ", ".join(f'"{package}"' for package in packages)
        needed = requirements(course)
        torch = next(line for line in needed.splitlines() if line.startswith("torch=="))
        (made / "README.md").write_text(README.format(rows=rows, torch=torch), "utf-8")
        (made / "requirements.txt").write_text(needed, "utf-8")
        (made / "pyproject.toml").write_text(PROJECT.format(packages=named), "utf-8")
        if (course.root / "LICENSE").is_file():
            _copy(course.root / "LICENSE", made / "LICENSE")
        if target.exists():
            target.rmdir()
        made.rename(target)
    return [assignment.name for assignment in assignments]


def check_modules() -> list[Path]:
    """Return the files of this package that `from grading import check` needs.

    >>> "check.py" in [path.name for path in check_modules()]
    True
    >>> "grade.py" in [path.name for path in check_modules()]
    False
    """
    here = Path(__file__).parent
    found: dict[str, Path] = {}
    waiting = ["__init__"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found[name] = here / f"{name}.py"
        for node in ast.walk(parse_python(found[name].read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                package, _, module = node.module.partition(".")
                if package == "grading" and module:
                    waiting.append(module)
    return [found[name] for name in sorted(found)]


def requirements(course: Course) -> str:
    """Return what a student installs: this tree, and of the lock only what notebooks run with."""
    lock = (course.root / "requirements.txt").read_text("utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    if missing := [name for name in NEEDED if name not in pins]:
        raise PublishError(f"requirements.txt has no {missing[0]}; run: make lock")
    # Without what only one build of a package has, such as +cpu.
    lines = [f"{name}=={pins[name].partition('+')[0]}" for name in NEEDED]
    return "\n".join(["# What the exercises run with; `.` is this folder.", ".", *lines, ""])


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
