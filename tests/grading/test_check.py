import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grading import check, seed
from grading.check import CellTimeout, CheckFailed, _Grading, start_grading
from grading.checks_file import FILE_NAME, write
from grading.expected import entry
from grading.values import Raised, Unsupported, Value, decode, encode

X = torch.arange(6.0).view(2, 3)


@pytest.fixture
def exercise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder, with the kernel in it."""

    def made(expected: object, hint: str, *, earns_points: bool = False) -> dict[str, Any]:
        value = decode(encode(expected))
        return entry(
            value,
            hint=hint,
            tolerance=None,
            earns_points=earns_points,
            salt="5a17",
            mistakes=[(decode(encode(X + 1)), "One too many.")],
        )

    checks = {
        "d_k": made(64, "Divide the width by the heads.", earns_points=True),
        "heads": made(12, "Count them."),
        "split_heads": made(X, "First view, then transpose."),
        "no hint": made("Q", ""),
    }
    write(tmp_path / FILE_NAME, assignment="multi-head", salt="5a17", checks=checks)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sent() -> Iterator[list[tuple[str, Value]]]:
    """What leaves the sandbox while a submission is graded."""
    messages: list[tuple[str, Value]] = []
    start_grading(lambda name, wire: messages.append((name, decode(wire))), "secret")
    yield messages
    _Grading.send, _Grading.key = None, ""


def failure(*arguments: Any) -> str:
    with pytest.raises(CheckFailed) as caught:
        check(*arguments)
    return str(caught.value)


# ---------------------------------------------------------------- in a student's Jupyter


def test_a_known_mistake_is_named_before_the_hint(exercise: Path) -> None:
    assert failure("split_heads", X + 1).endswith(
        "\nOne too many.\nHint: First view, then transpose."
    )
    assert "One too many" not in failure("split_heads", X + 2)


def test_right_values_print_one_line(exercise: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("heads", 24 / 2) is None  # type: ignore[func-returns-value]
    check("heads", lambda: 12)
    check("split_heads", X.bfloat16())
    check("split_heads", torch.add, X, torch.zeros(2, 3))
    assert capsys.readouterr().out == (
        "✓ heads: right.\n" * 2 + "✓ split_heads: right.\n" * 2  # one line each
    )


def test_a_form_only_check_says_so(exercise: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check("d_k", 63)
    assert capsys.readouterr().out == (
        "• d_k: a whole number, as it should be. "
        "Whether it is right is checked when it is graded.\n"
    )
    assert failure("d_k", 63.5) == (
        "d_k: Expected a whole number; yours is a number with a fraction.\n"
        "Hint: Divide the width by the heads."
    )


def test_a_wrong_value_says_which_check_what_differs_and_the_hint(exercise: Path) -> None:
    assert failure("split_heads", X.t()) == (
        "split_heads: Expected shape (2, 3); yours has shape (3, 2): "
        "the same sizes in another order.\n"
        "Hint: First view, then transpose."
    )
    assert failure("heads", 13) == "heads: This is not the right number.\nHint: Count them."
    assert failure("no hint", "K") == "no hint: This is not the right text."


def test_an_exception_of_the_students_function_is_the_cause(exercise: Path) -> None:
    def split_heads() -> None:
        raise ValueError("no such shape")

    with pytest.raises(CheckFailed) as caught:
        check("split_heads", split_heads)
    assert str(caught.value).startswith("split_heads: It raised ValueError: no such shape\nHint:")
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_name_that_is_not_there_is_asked_for(exercise: Path) -> None:
    said = failure("d_k", lambda: d_k)  # type: ignore[name-defined]  # noqa: F821
    assert said == (
        "d_k: It raised NameError: name 'd_k' is not defined.\n"
        "Run the cell above that defines it, once it is written. "
        "After a restart of the kernel, run all cells from the top."
    )
    assert "Run the cell" not in failure("d_k", int, "x")


def test_a_name_much_like_it_is_offered(exercise: Path) -> None:
    shown = run_cells(
        "split_head = abs", "from grading import check\ncheck('heads', lambda: split_heads)"
    )
    assert "Did you mean split_head?" in shown[1]
    assert "Hint:" not in shown[1]


def test_a_stub_is_told_that_it_is_one(exercise: Path) -> None:
    def stub() -> None:
        raise NotImplementedError

    assert failure("split_heads", lambda: stub()) == (
        "split_heads: This is not written yet: stub raises NotImplementedError. "
        "Put your code in the place of that line, run its cell, and then this one."
    )


def test_jupyter_shows_a_layers_long_error_once(exercise: Path) -> None:
    layer = """
import torch
def loaded():
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.load_state_dict({"bias": torch.zeros(2)})
"""
    shown = run_cells(layer, "from grading import check\ncheck('split_heads', loaded)")[1]
    assert shown.count("Missing key(s)") == 1
    assert "torch/nn" not in shown
    assert "It raised RuntimeError: Error(s) in loading state_dict for Linear: ...\n" in shown
    assert len(shown.splitlines()) < 14


def test_a_forgotten_self_is_offered(exercise: Path) -> None:
    class Layer:
        q_proj = abs

        def forward(self) -> object:
            return q_proj(3)  # type: ignore[name-defined]  # noqa: F821

    assert failure("split_heads", Layer().forward) == (
        "split_heads: It raised NameError: name 'q_proj' is not defined. Did you mean self.q_proj?"
    )


def test_odd_objects_fail_with_a_sentence(exercise: Path) -> None:
    class Equal:
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    for odd in (Equal(), {}, None, True, object):
        for name in ("d_k", "heads", "split_heads"):
            assert "Hint:" in failure(name, odd)


def test_interrupts_and_exit_stay_what_they_are(exercise: Path) -> None:
    def stop(error: type[BaseException]) -> None:
        raise error

    for error in (KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            check("heads", stop, error)


def test_a_missing_file_says_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = failure("heads", 12)
    assert f"There is no checks.json in {tmp_path}" in said
    assert "get the exercise again" in said


def test_the_folder_is_looked_up_at_each_call(
    exercise: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    check("heads", 12)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "There is no checks.json" in failure("heads", 12)


@pytest.mark.parametrize(
    "damage", ["", "{}", '{"format": 1, "assignment": "a", "salt": "", "checks": {"heads": {}}}']
)
def test_a_damaged_file_says_the_way_out(exercise: Path, damage: str) -> None:
    (exercise / FILE_NAME).write_text(damage)
    said = failure("heads", 12)
    assert said.startswith("checks.json is damaged: ")
    assert "Get the exercise again" in said


def test_an_unknown_name_says_the_way_out(exercise: Path) -> None:
    said = failure("split_head", X)
    assert "There is no check with the name 'split_head'" in said
    assert "Did you mean 'split_heads'?" in said
    assert "Did you mean" not in failure("something else", X)
    assert "the check's name first" in failure(64, "d_k")


SETUP = """
import torch
from grading import check
x = torch.arange(6.0).view(2, 3)

def split_heads(x):
    y = x.t()
    return y @ y
"""


def run_cells(*cells: str) -> list[str]:
    """What IPython's own shell shows for each cell."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    shell.colors = "nocolor"
    shown = []
    for cell in cells:
        with capture_output() as captured:
            shell.run_cell(cell)
        shown.append(captured.stdout + captured.stderr)
    return shown


def test_jupyter_shows_a_short_message_for_a_wrong_value(exercise: Path) -> None:
    shown = run_cells(SETUP, 'check("split_heads", x.t())')[1]
    assert shown.strip() == (
        "CheckFailed: split_heads: Expected shape (2, 3); yours has shape (3, 2): "
        "the same sizes in another order.\n"
        "Hint: First view, then transpose."
    )


def test_jupyter_shows_the_students_own_line_when_it_raised(exercise: Path) -> None:
    shown = run_cells(SETUP, 'check("split_heads", lambda: split_heads(x))')[1]
    assert "line 7, in split_heads\n    return y @ y\n" in shown
    assert "grading/check.py" not in shown
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied" in shown
    assert shown.strip().endswith("Hint: First view, then transpose.")
    assert len(shown.splitlines()) < 15


def test_endless_recursion_stays_short(exercise: Path) -> None:
    shown = run_cells("def f(): return f()", "from grading import check\ncheck('heads', f)")[1]
    assert "RecursionError" in shown
    assert len(shown.splitlines()) < 50


# ---------------------------------------------------------------- while grading


def test_grading_only_sends(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sent: list[tuple[str, Value]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # no checks.json, and none is missed
    check("d_k", 768 / 12)
    check("split_heads", lambda y: y + 1, np.zeros(1))
    check("split_heads", {})
    assert [name for name, _ in sent] == ["d_k", "split_heads", "split_heads"]
    assert sent[0][1] == 64.0
    assert sent[2][1] == Unsupported("a value of type dict")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, AssertionError])
def test_one_exception_costs_one_check(
    error: type[BaseException], sent: list[tuple[str, Value]]
) -> None:
    def fails() -> None:
        raise error("no")

    check("a", fails)
    check("b", len)  # len() without an argument
    check("c", 3)
    assert sent[0] == ("a", Raised(error.__name__, "no"))
    assert isinstance(sent[1][1], Raised)
    assert sent[2] == ("c", 3)


@pytest.mark.parametrize("error", [KeyboardInterrupt, CellTimeout])
def test_the_clock_and_the_keyboard_are_never_caught(
    error: type[BaseException], sent: list[tuple[str, Value]]
) -> None:
    def stops() -> None:
        raise error

    with pytest.raises(error):
        check("a", stops)
    assert sent == []
    assert not issubclass(CellTimeout, Exception)


def test_grading_survives_every_call(sent: list[tuple[str, Value]]) -> None:
    odd: list[Any] = [None, 3, ["a"], object()]
    for name in odd:
        check(name, 1)
    assert sent == []

    def broken(name: str, wire: Any) -> None:
        raise BrokenPipeError

    start_grading(broken, "")
    check("a", 1)


# ---------------------------------------------------------------- seeds


def test_seeds_are_fixed_distinct_and_of_63_bits() -> None:
    names = ["split_heads", "split_heads ", "merge_heads", "Đa đầu", "", "\ud800"]
    seeds = [seed(name) for name in names]
    assert seeds == [seed(name) for name in names]
    assert len(set(seeds)) == len(names)
    assert all(0 <= number < 2**63 for number in seeds)
    torch.Generator().manual_seed(seeds[0])
    np.random.default_rng(seeds[0])


def test_the_key_changes_every_seed(sent: list[tuple[str, Value]]) -> None:
    secret = seed("split_heads")
    start_grading(lambda name, wire: None, "")
    public = seed("split_heads")
    start_grading(lambda name, wire: None, "other")
    assert len({secret, public, seed("split_heads")}) == 3


def test_run_a_has_the_students_own_seeds(sent: list[tuple[str, Value]]) -> None:
    start_grading(lambda name, wire: None, "")
    graded = seed("split_heads")
    _Grading.send = None
    assert seed("split_heads") == graded


@pytest.mark.parametrize("name", [None, 3, b"split_heads", ["a"]])
def test_a_seeds_name_is_a_text(name: Any) -> None:
    with pytest.raises(TypeError, match="takes a check's name"):
        seed(name)


# ---------------------------------------------------------------- the import


def in_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_the_import_is_light() -> None:
    heavy = ["nbgrader", "nbformat", "torch", "IPython", "jupyter_core", "traitlets", "scipy"]
    code = (
        "import sys, json; from grading import check, seed; "
        f"print(json.dumps([name for name in {heavy!r} if name in sys.modules]))"
    )
    assert json.loads(in_python(code)) == []


def test_the_import_takes_little_longer_than_numpy() -> None:
    # What comes on top of NumPy is less than NumPy itself; both side by side, on a busy machine.
    code = (
        "import time; start = time.perf_counter(); import numpy; middle = time.perf_counter(); "
        "from grading import check; print(middle - start, time.perf_counter() - middle)"
    )
    times = [[float(part) for part in in_python(code).split()] for _ in range(3)]
    assert min(ours for _, ours in times) < min(numpy for numpy, _ in times)


def test_check_works_without_torch(exercise: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import numpy as np; from grading import check; "
        "check('split_heads', np.arange(6.0, dtype=np.float32).reshape(2, 3)); check('heads', 12)"
    )
    root = Path(__file__).parents[2]
    done = in_python(f"import sys; sys.path.insert(0, {str(root)!r}); {code}")
    assert done == "✓ split_heads: right.\n✓ heads: right.\n"


def test_a_call_is_quick(exercise: Path) -> None:
    start = time.perf_counter()
    for _ in range(20):
        check("heads", 12)
    assert (time.perf_counter() - start) / 20 < 0.05
