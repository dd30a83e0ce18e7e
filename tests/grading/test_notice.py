"""What a student is told at once about a call that the exercise does not allow."""

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbclient
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from grading import notice
from grading.checks_file import FILE_NAME, write
from grading.expected import entry
from grading.job import Job, JobCell
from grading.sandbox import Sandbox

ROOT = Path(__file__).parents[2]
NAMES = ["MultiheadAttention", "log_softmax", "mha_lib", "softmax"]
NOTE = "Note: this exercise does not allow "
Run = Callable[..., str]


def lay(folder: Path, names: list[str]) -> None:
    form = entry(64, hint="", tolerance=None, earns_points=True, salt="5a")
    write(folder / FILE_NAME, assignment="tiny", salt="5a", checks={"width": form}, forbidden=names)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    """The shell of a student's kernel, in the exercise's folder."""
    monkeypatch.chdir(tmp_path)
    lay(tmp_path, NAMES)
    made = InteractiveShell()
    made.colors = "nocolor"
    return made


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    """Run cells as Jupyter does, and give what the last one shows."""

    def run(*cells: str, stored: bool = True) -> str:
        for cell in cells:
            with capture_output() as captured:
                shell.run_cell(cell, store_history=stored)
        return str(captured.stdout) + str(captured.stderr)

    return run


@pytest.fixture
def watched(shell: InteractiveShell, run: Run) -> Run:
    notice.watch(shell)
    return run


def test_a_forbidden_call_is_told_when_its_cell_has_run(watched: Run) -> None:
    shown = watched("import torch.nn.functional as F\nimport torch\nF.softmax(torch.ones(2), -1)")
    assert "tensor([0.5000, 0.5000])" in shown
    assert shown.strip().endswith(
        f"{NOTE}softmax (line 3 of this cell).\n"
        "Here you write it yourself: put your own steps in its place, and run the cell again.\n"
        "If softmax is a name that you chose, choose another.\n"
        "If it stays, whoever grades your work sees this note too."
    )


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch.nn.functional as F\ng = lambda x: F.log_softmax(x, 0)", "log_softmax"),
        ("from torch.nn.functional import log_softmax as ls", "log_softmax"),
        ("from torch.nn.functional import *\ng = log_softmax", "log_softmax"),
        ("import torch\ng = getattr(torch, 'log_' + 'softmax')", "log_softmax"),
        ("import torch\n%time g = torch.log_softmax", "log_softmax"),
        ("%%time\nimport torch\ng = torch.log_softmax", "log_softmax"),
        ("import torch\n1 / 0\ng = torch.log_softmax", "log_softmax"),
        ("import mha_lib", "mha_lib"),
        ("from torch import nn\ng = nn.MultiheadAttention", "MultiheadAttention"),
    ],
)
def test_each_way_to_a_forbidden_call_is_found(watched: Run, source: str, name: str) -> None:
    shown = watched(source)
    assert shown.count(NOTE) == 1
    assert f"{NOTE}{name} (line " in shown


@pytest.mark.parametrize(
    "source",
    [
        "import torch\nx = torch.exp(torch.ones(2))  # no softmax",
        "def softmax(x):\n    return x\n\nsoftmax(1)",
        "x = (softmax",
        "def f(:  # softmax",
        "softmax(1)",
        "%nothing_of_this_name",
        "!echo hello",
        "%%bash\necho hello",
        "",
        "?",
        "\0",
    ],
)
def test_there_is_nothing_to_tell(watched: Run, source: str) -> None:
    assert NOTE not in watched(source)


def test_a_warning_of_the_cell_is_shown_as_often_as_before(
    shell: InteractiveShell, run: Run, recwarn: pytest.WarningsRecorder
) -> None:
    cell = "import torch\nx = '\\d'\ntorch.softmax"
    run(cell)
    before = len(recwarn)
    assert before
    notice.watch(shell)
    assert NOTE in run(cell)
    assert len(recwarn) == 2 * before


def test_several_names_are_told_in_one_note(watched: Run) -> None:
    shown = watched("from torch import nn", "nn.MultiheadAttention\nnn.functional.softmax")
    assert f"{NOTE}MultiheadAttention (line 1 of this cell), softmax (line 2 of this" in shown
    assert "If they stay" in shown


def test_names_of_the_students_own_are_known_in_later_cells(watched: Run) -> None:
    assert NOTE not in watched("softmax(1)")
    assert NOTE not in watched("def softmax(x):\n    return x", "softmax(1)", "print(softmax(1))")
    assert "line 1 of this cell" in watched("import torch; torch.softmax(torch.ones(2), 0)")


def test_cells_from_before_the_first_check_are_told_once(shell: InteractiveShell, run: Run) -> None:
    run("import torch", "def log_softmax(x):\n    return x", "y = torch.softmax(torch.ones(2), 0)")
    notice.watch(shell)
    shown = run("log_softmax(torch.softmax(torch.ones(2), 0))")
    assert f"{NOTE}softmax (line 1 of cell [3]), softmax (line 1 of this cell).\n" in shown
    assert NOTE not in run("log_softmax(1)")
    lay(Path.cwd(), ["log_softmax", "softmax", "tanh"])
    assert NOTE not in run("log_softmax(1)")


def test_cells_that_are_not_stored_are_looked_at_too(watched: Run) -> None:
    watched("import torch")
    assert NOTE in watched("torch.softmax", stored=False)


def test_nobody_is_told_twice(shell: InteractiveShell, watched: Run) -> None:
    """However often this package is loaded anew, as autoreload does."""
    notice.watch(shell)
    sys.modules.pop("grading.notice")
    from grading import notice as again

    again.watch(shell)
    assert watched("import torch\ntorch.softmax").count(NOTE) == 1


@pytest.mark.parametrize("damage", ["", "[]", '{"format": 1}'])
def test_without_a_good_file_nothing_is_told(watched: Run, damage: str) -> None:
    Path(FILE_NAME).write_text(damage)
    assert watched("import torch", "torch.softmax").startswith("Out[2]:")
    assert NOTE not in watched("torch.softmax")
    Path(FILE_NAME).unlink()
    assert NOTE not in watched("torch.softmax")
    lay(Path.cwd(), NAMES)
    assert NOTE in watched("torch.softmax")


def test_a_release_from_before_there_were_notices(watched: Run) -> None:
    lay(Path.cwd(), [])
    assert "forbidden" not in json.loads(Path(FILE_NAME).read_text())
    assert NOTE not in watched("import torch", "torch.softmax")


def test_nothing_is_raised_whatever_a_kernel_is(
    watched: Run, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = notice.Notice(None)
    for odd in (None, SimpleNamespace(error_before_exec=None), object()):
        made.after_cell(odd)
    monkeypatch.setattr("builtins.print", 3)
    assert "Error in callback" not in watched("import torch\nx = torch.softmax")
    notice.watch(None)


def test_the_import_is_light_and_watches_nothing_without_jupyter() -> None:
    code = (
        "import sys; from grading import check; "
        "print([n for n in ('grading.notice', 'IPython', 'torch') if n in sys.modules])"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
    assert done.stdout == "[]\n"


def test_the_notice_needs_no_more_than_check_does() -> None:
    """What a student's kernel holds anyway: Python, NumPy and IPython."""
    for name in ("notice", "forbidden"):
        for node in ast.walk(ast.parse((ROOT / "grading" / f"{name}.py").read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for each in names:
                package = each.split(".")[0]
                assert package in sys.stdlib_module_names or package == "grading", each


def test_a_real_kernel_watches_from_the_first_import(tmp_path: Path) -> None:
    lay(tmp_path, NAMES)
    cells = [
        "from grading import check, seed\n\ncheck('width', 64)",
        "import torch\nx = torch.softmax(torch.ones(2), 0)",
        "x = torch.ones(2)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    client = nbclient.NotebookClient(
        book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment)
    shown: list[Any] = [
        "".join(output.get("text", "") for output in cell.outputs) for cell in book.cells
    ]
    assert shown[0].startswith("• width")
    assert shown[1].startswith(f"{NOTE}softmax (line 2 of this cell).")
    assert shown[2] == ""


def test_while_a_submission_is_graded_nobody_watches(tmp_path: Path) -> None:
    """Not even after a student has loaded this package anew."""
    lay(tmp_path, NAMES)
    cells = (
        "import importlib, sys, grading\nimportlib.reload(grading)\n"
        "from grading import check\ncheck('width', 64)",
        "import torch\ntorch.softmax\nprint(get_ipython().events.callbacks['post_run_cell'])\n"
        "print('grading.notice' in sys.modules)",
    )
    job = Job(
        tuple(JobCell(f"c{number}", cell) for number, cell in enumerate(cells)),
        files={FILE_NAME: (tmp_path / FILE_NAME).read_bytes()},
    )
    result = Sandbox().run(job)
    assert [(one.name, one.value) for one in result.messages] == [("width", 64)]
    assert result.cells["c0"].outputs == ()
    assert [output["text"] for output in result.cells["c1"].outputs] == ["[]\nFalse\n"]


def test_a_cell_is_not_slowed(shell: InteractiveShell, tmp_path: Path) -> None:
    """A cell as long as the course's longest costs a small part of what Jupyter takes for it."""
    source = "import math\n" + "\n".join(
        f"def step_{number}(q, k):\n    scores = q @ k.transpose(-2, -1)\n"
        f"    return scores / math.sqrt(q.shape[-1] + {number})"
        for number in range(20)
    )

    def seconds(rounds: int = 20) -> float:
        times = []
        for _ in range(rounds):
            begin = time.process_time()
            shell.run_cell(source, store_history=True)
            times.append(time.process_time() - begin)
        return min(times)

    plain = seconds()
    notice.watch(shell)
    shell.run_cell(source)
    assert seconds() < 2 * plain + 0.001
