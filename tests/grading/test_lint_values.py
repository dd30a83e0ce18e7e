"""The rules on what a solution computes, each broken on purpose."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.assignment import load
from grading.course import Course
from grading.job import CellRun, Limits, Run
from grading.lint import lint
from grading.lint_stubs import stubbed
from grading.lint_times import time_flaws
from grading.lint_values import _unfinished, constants, refusal
from grading.values import Array, Raised, Unsupported, Value
from tests.grading.small_course import Cells, rewrite, small_course


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return small_course(tmp_path)


def array(*numbers: Any, dtype: str = "float64") -> Array:
    made = np.array(numbers[0] if len(numbers) == 1 else numbers, dtype=dtype)
    return Array(dtype, made.shape, made.tobytes())


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, 3, -9, 0, 2.0, [4], [[True]], [1, None], [True, False]),
        *(array(3), array([3]), array(True, dtype="bool"), array([True] * 9, dtype="bool")),
        *(array([], dtype="float64"), Raised("ValueError", "x"), Unsupported("set")),
        *([64, Unsupported("set")], [[64, 65], [[12, None], 3]]),
    ],
)
def test_values_that_earn_nothing(value: Value) -> None:
    assert refusal(value) is not None


@pytest.mark.parametrize(
    "value",
    [
        64,
        10,
        -10,
        0.5,
        "text",
        [1, 2],
        array([1, 2]),
        array(0.25),
        array([[1]], dtype="complex128"),
    ],
)
def test_values_that_may_earn_points(value: Value) -> None:
    assert refusal(value) is None


def test_constants_have_the_form_of_the_value() -> None:
    made = constants([array([1.0, 3.0]), array([[5, 7]], dtype="int64")])
    assert set(made) == {"zeros", "ones", "the mean", "the mean of each array"}
    assert made["zeros"] == [array([0.0, 0.0]), array([[0, 0]], dtype="int64")]
    assert made["the mean of each array"] == [array([2.0, 2.0]), array([[6, 6]], dtype="int64")]
    assert constants("text") == constants([]) == constants(["a", 1]) == {}
    assert set(constants(64)) == {"zeros", "ones"}


def test_stubs_keep_signatures_and_init(course: Course) -> None:
    source = (
        "import numpy as np\nCONSTANT = 3\n\n"
        "def f(x, y):\n    z = 1\n    return z\n\n"
        "class Layer:\n    def __init__(self, h):\n        self.h = h\n\n"
        "    def forward(self, x):\n        return self.h\n\n"
        "    @staticmethod\n    def g(a):\n        return 1\n\n"
        "    def nothing(self):\n        return 2"
    )
    rewrite(course, lambda cells: cells[3].update(source=source))
    notebook = load(course, "tiny").notebooks[0]
    made = next(one for one in stubbed(notebook, raising=False).cells if one.id == "function")
    space: dict[str, Any] = {}
    exec(made.source, space)
    assert space["CONSTANT"] == 3
    assert space["f"](5, 6) == 5
    assert space["Layer"](7).h == 7
    assert space["Layer"](7).forward(8) == 8
    assert space["Layer"].g(9) == 9
    assert space["Layer"](7).nothing() is None
    raising = next(one for one in stubbed(notebook, raising=True).cells if one.id == "function")
    exec(raising.source, space)
    with pytest.raises(NotImplementedError):
        space["f"](5, 6)


SOLUTION = """\
import numpy as np


def same(x):
    return x


def ones(x):
    return np.ones_like(x)


def mean(x):
    return np.full_like(x, x.mean())


def verdict(x):
    return True


def zeros(x):
    return x * 0


def double(x):
    return x * 2


def nearly(x):
    return x * 1.01
"""

BAD_CHECKS = {
    "same": ("same(x)", "return their first argument"),
    "ones": ("ones(x)", "an answer of ones"),
    "mean": ("mean(x)", "an answer of the mean"),
    "zeros": ("zeros(x)", "an answer of zeros"),
    "verdict": ("verdict(x)", "a truth value"),
    "small": ("len(x)", "a small whole number"),
    "fixed": ("double(np.arange(4.0))", "does not hang on the course's secret"),
    "good": ("double(x)", None),
    # bfloat16 may be 3 % off, so all of these count as right in it.
    "nearly one": ("1 + x / 500", "an answer of ones"),
    "nearly itself": ("nearly(x)", "return their first argument"),
    "nearly fixed": ("np.arange(4.0) + x / 500", "does not hang on the course's secret"),
    "plain": ("1024", None),
    "numbers": ("[12, 20, 31]", None),
}


def test_bad_values_are_found_by_running(course: Course, course_secret: Path) -> None:
    """Every check is hidden; one run of lint names what is wrong with each."""
    lines = [
        "import numpy as np",
        "from grading import check, seed",
        "### BEGIN HIDDEN TESTS",
        "x = np.random.default_rng(seed('the inputs')).standard_normal(4)",
        *(f"check('bad {name}', lambda: {value})" for name, (value, _) in BAD_CHECKS.items()),
        "### END HIDDEN TESTS",
    ]
    path = course.solutions / "tiny.toml"
    text = path.read_text(encoding="utf-8").split("[checks.")[0]
    for name in BAD_CHECKS:
        text += f'[checks."bad {name}"]\nfeedback = "{name} is not what it should be."\n'
    path.write_text(text, encoding="utf-8")

    def change(cells: Cells) -> None:
        cells[3]["source"] = SOLUTION
        cells[4]["source"] = "\n".join(lines)
        del cells[1:3]

    rewrite(course, change)
    flaws = lint(course, "tiny")
    flaws = [flaw for flaw in flaws if "check 'bad " in flaw]
    for name, (_, said) in BAD_CHECKS.items():
        own = [flaw for flaw in flaws if f"check 'bad {name}'" in flaw]
        assert not own if said is None else any(said in flaw for flaw in own), (name, own)


def test_values_that_move_with_global_state(course: Course, course_secret: Path) -> None:
    """numpy's global generator, seeded by the solution itself, gives equal values twice."""

    def change(cells: Cells) -> None:
        cells[3]["source"] = (
            "import numpy as np\n\nnp.random.seed(1)\n\n\n"
            "def weights(scores):\n    return scores + np.random.rand()"
        )

    rewrite(course, change)
    flaws = lint(course, "tiny")
    assert any("its value moves with the global" in flaw for flaw in flaws), flaws


def test_a_solution_that_disagrees_with_itself(course: Course, course_secret: Path) -> None:
    def change(cells: Cells) -> None:
        cells[3]["source"] = (
            "import os\n\n\ndef weights(scores):\n    return scores + os.urandom(1)[0]"
        )

    rewrite(course, change)
    assert any("two runs of the solution disagree" in flaw for flaw in lint(course, "tiny"))


@pytest.mark.slow
def test_values_that_move_with_the_number_of_threads(course: Course, course_secret: Path) -> None:
    give_time(course)

    def change(cells: Cells) -> None:
        cells[3]["source"] = (
            "import torch\n\n\ndef weights(scores):\n    return scores + torch.get_num_threads()"
        )

    rewrite(course, change)
    flaws = lint(course, "tiny")
    assert len(flaws) == 2, flaws
    assert all("the number of threads" in flaw for flaw in flaws)


@pytest.mark.slow
def test_a_solution_that_computes_for_long(course: Course, course_secret: Path) -> None:
    """A cell may take a third of what a student's may; here that is one second."""
    path = course.solutions / "tiny.toml"
    path.write_text(path.read_text("utf-8").replace("cell_seconds = 10", "cell_seconds = 3"))

    def change(cells: Cells) -> None:
        cells[3]["source"] += (
            "\n\nimport time\nstart = time.process_time()\n"
            "while time.process_time() - start < 1.2:\n    pass"
        )

    rewrite(course, change)
    flaws = lint(course, "tiny")
    assert len(flaws) == 1, flaws
    assert flaws[0].startswith("tiny.ipynb, cell 'function': the solution computes for 1.")
    assert flaws[0].endswith("raise cell_seconds in [limits], now 3")


def test_a_notebook_that_computes_for_long() -> None:
    def run(*seconds: float) -> Run:
        cells = {f"c{number}": CellRun("ok", (), each) for number, each in enumerate(seconds)}
        return Run((), cells, "finished")

    usual = Limits(cell_seconds=30)
    assert list(time_flaws([run(10, 9.9), run(9.9, 10)], usual)) == []
    (said,) = time_flaws([run(8, 9, 1), run(10, 9.5, 1)], usual)
    assert said.startswith(": the solution computes for 20.5 s in all")
    (said,) = time_flaws([run(8, 9), run(8, 10.1)], usual)
    assert said.startswith(", cell 'c1': the solution computes for 10.1 s, more than a third")


@pytest.mark.slow
def test_layers_of_torchs_default_dtype(course: Course, course_secret: Path) -> None:
    """A layer of the default dtype fails for float32 once a student has set another default."""
    give_time(course)

    def change(cells: Cells) -> None:
        cells[3]["source"] = (
            "from torch import nn\n\n\ndef weights(scores):\n"
            "    layer = nn.Linear(5, 3, bias=False)\n    nn.init.ones_(layer.weight)\n"
            "    return layer(scores)"
        )
        cells[4]["source"] = "\n".join(
            [
                "import torch",
                "from grading import check, seed",
                *_torch_check("weights", 2),
                "### BEGIN HIDDEN TESTS",
                *_torch_check("weights, other sizes", 3),
                "### END HIDDEN TESTS",
            ]
        )

    rewrite(course, change)
    flaws = lint(course, "tiny")
    assert len(flaws) == 2, flaws
    assert all("its value moves with the global" in flaw for flaw in flaws)


def give_time(course: Course) -> None:
    """To load torch takes a while, which counts."""
    path = course.solutions / "tiny.toml"
    path.write_text(path.read_text("utf-8").replace("cell_seconds = 10", "cell_seconds = 30"))


def _torch_check(name: str, rows: int) -> list[str]:
    return [
        f"source = torch.Generator().manual_seed(seed({name!r}))",
        f"x{rows} = torch.randn({rows}, 5, generator=source, dtype=torch.float32)",
        f"check({name!r}, lambda: weights(x{rows}))",
    ]


def test_a_run_that_was_cut_off_is_named_as_such() -> None:
    cells = {"function": CellRun("timed out", ())}
    said = _unfinished("disturbed", Run((), cells, "finished"))
    assert said is not None
    assert "'disturbed' did not finish (cell 'function' took too long)" in said
    assert _unfinished("raising", Run((), {"function": CellRun("error", ())}, "finished")) is None
