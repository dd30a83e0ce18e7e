"""What students get back of a graded batch, and what must not stand in it."""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.students import MARKER, NAME, answer_ids, find, instructors, released
from grading.assignment import load
from grading.feedback import file_names, pack
from tests.grading.handing_in import Case, check_cells
from tests.grading.submissions import Batch

HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS", re.DOTALL)
HAND_GRADED = "one-head"
# Shorter lines stand in anybody's code.
TELLING = 20


def nbgrader(course: Path, *arguments: str) -> None:
    """Run nbgrader's own command in the course, with its programs on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    modules = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": modules}
    command = [sys.executable, "-m", "nbgrader", *arguments]
    done = subprocess.run(command, cwd=course, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr, done.stderr


def texts_for_students(batch: Batch) -> dict[str, str]:
    """Make feedback pages with nbgrader's command and pack them; return what each gets back."""
    nbgrader(batch.course.root, "generate_feedback", NAME)
    names = file_names([*batch.lines])
    packed = batch.course.root / "exports"
    pack(batch.course, load(batch.course, NAME), names, packed, "all.zip", replace=True)
    texts = {}
    for student in batch.lines:
        with zipfile.ZipFile(packed / "students" / f"{names[student]}.zip") as own:
            (name,) = own.namelist()
            page = name + plain_text(own.read(name).decode("utf-8"))
        notebook = batch.course.autograded / student / NAME / f"{NAME}.ipynb"
        content = json.loads(notebook.read_text(encoding="utf-8"))
        texts[student] = page + texts_in(content) + points_of_pictures(content)
    return texts


def points_of_pictures(notebook: dict[str, Any]) -> str:
    """Return the points of each picture in a notebook's outputs, each as the letter of its number.

    A text can be drawn so.
    """
    from PIL import Image

    points = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", ()):
                data = base64.b64decode(output["data"]["image/png"])
                points.append(Image.open(io.BytesIO(data)).convert("L").tobytes())
    return b"\n".join(points).decode("utf-8", "replace")


def plain_text(source: str) -> str:
    """Return a page's source and its text; tags stand between the words of highlighted code."""
    from bs4 import BeautifulSoup

    return source + BeautifulSoup(source, "html.parser").get_text()


def texts_in(content: object) -> str:
    """Return every text of a notebook's JSON, with a list of lines as the text that it is."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return "\n".join(f"{key}\n{texts_in(value)}" for key, value in content.items())
    if isinstance(content, list):
        return "".join(texts_in(part) for part in content)
    return str(content)


def hidden_lines() -> set[str]:
    """Return lines that stand in hidden tests and nowhere in the release."""
    public = "\n".join(cell.source for cell in released().cells)
    lines = {
        line.strip()
        for cell in instructors().cells
        for region in HIDDEN.findall(cell.source)
        for line in region.splitlines()
    }
    return {line for line in lines if len(line) >= TELLING and line not in public}


def hidden_names() -> set[str]:
    """Return the names of hidden checks."""
    return {
        call.args[0].value
        for test in check_cells()
        for region in HIDDEN.findall(find(instructors(), test).source)
        for call in ast.walk(ast.parse(region))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "check"
        and isinstance(call.args[0], ast.Constant)
    }


def solution_lines() -> set[str]:
    """Return lines of the instructor's answers, the written one among them."""
    public = "\n".join(cell.source for cell in released().cells)
    cells = [find(instructors(), grade_id).source for grade_id in [*answer_ids(), HAND_GRADED]]
    lines = {line.strip() for cell in cells for line in MARKER.sub("", cell).splitlines()}
    return {line for line in lines if len(line) >= TELLING and line not in public}


def what_they_wrote(batch: Batch, case: Case) -> str:
    """Return the text of the notebooks that a student handed in, as far as they can be read."""
    folder = batch.course.submitted / case.student_id
    texts = []
    for path in folder.rglob("*.ipynb"):
        with contextlib.suppress(ValueError, RecursionError):
            if path.is_file() and not path.is_symlink():  # on a pipe one would wait for ever
                texts.append(texts_in(json.loads(path.read_bytes())))
    return "".join(texts)
