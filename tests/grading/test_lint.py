"""The rules on an assignment's text, each broken on purpose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.assignment import load
from grading.course import Course
from grading.lint import lint, text_flaws
from tests.grading.small_course import (
    FUNCTION_TEST,
    HEAD,
    Cells,
    cell,
    rewrite,
    small_course,
)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return small_course(tmp_path)


def said_of(course: Course, change: Callable[[Cells], Any]) -> list[str]:
    rewrite(course, change)
    return text_flaws(course, load(course, "tiny"))


def test_a_good_assignment_has_no_flaws(course: Course, course_secret: Path) -> None:
    assert lint(course, "tiny") == []


def test_the_flaws_of_loading_are_flaws(course: Course) -> None:
    (course.solutions / "tiny.toml").write_text("")
    assert any("title = None" in flaw for flaw in lint(course, "tiny"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("assert weights(scores).sum()", "asserts"),
        ("good = weights(scores).sum() > 1", "compares"),
        ("good = np.allclose(scores, scores)", "'allclose'"),
        ("from numpy.testing import assert_allclose as same", "'assert_allclose'"),
        ("expected_weights = scores", "'expected_weights'"),
        ("tolerance = 1e-3", "'tolerance'"),
        ("good = np.isclose(scores, scores, rtol=1)", "'rtol'"),
        ("import mha_lib", "imports mha_lib"),
        ("from mha_lib.functional import attention", "imports mha_lib"),
        ("import mha_lib.functional as mine", "imports mha_lib"),
        ("from here import thing", "imports here"),
        ("np.dot(scores, elsewhere)", "'elsewhere'"),
        ("more = lambda: math.sqrt(2)", "'math'"),
        ("np.random.seed(1)", "calls numpy.random.seed, the global generator"),
        ("more = np.random.rand(3)", "calls numpy.random.rand, the global generator"),
        ("from numpy import random as r; more = r.normal()", "calls numpy.random.normal"),
        ("from numpy.random import default_rng; more = default_rng()", "without a seed"),
        ("import random; more = random.random()", "calls random.random, the global generator"),
        ("import random; more = random.Random()", "without a seed"),
        ("from random import choice; more = choice([1])", "calls random.choice"),
        ("import torch; more = torch.randn(3)", "calls torch.randn without dtype="),
        ("import torch; more = torch.randn(3)", "calls torch.randn without generator="),
        ("import torch as t; more = t.rand(3, dtype=t.float32)", "rand without generator="),
        ("from torch import randint as r; more = r(3, (1,))", "randint without dtype="),
        ("import torch; torch.manual_seed(1)", "torch.manual_seed, the global generator"),
        ("import torch; more = torch.rand_like(scores)", "torch.rand_like, the global generator"),
        ("import torch; more = torch.empty(3).normal_()", "without generator="),
        ("import torch; torch.random.fork_rng()", "a global state"),
    ],
)
def test_a_line_that_no_test_cell_may_hold(course: Course, line: str, said: str) -> None:
    (course.root / "here").mkdir()
    (course.root / "here" / "__init__.py").touch()
    visible = FUNCTION_TEST.replace("### BEGIN", f"{line}\n### BEGIN")
    hidden = FUNCTION_TEST.replace("### END", f"{line}\n### END")
    for text in (visible, hidden):
        flaws = said_of(course, lambda cells, text=text: cells[4].update(source=text))
        assert any(said in flaw and "'function-test'" in flaw for flaw in flaws), flaws


@pytest.mark.parametrize(
    "line",
    [
        "import torch; g = torch.Generator().manual_seed(seed('a'))\n"
        "more = torch.randn(3, generator=g, dtype=torch.float32)",
        "import random; more = random.Random(seed('a')).randrange(5)",
        "more = [number for number in range(3)]",
        "def more(number, *others, **named):\n    return number, others, named",
        "more = np.random.Generator(np.random.PCG64(seed('a'))).normal(size=3)",
        "more = head_width",
        "for number in [1, 2]:\n    more = print(number)",
    ],
)
def test_a_line_that_a_test_cell_may_hold(course: Course, line: str) -> None:
    text = FUNCTION_TEST.replace("### BEGIN", f"{line}\n### BEGIN")
    assert said_of(course, lambda cells: cells[4].update(source=text)) == []


def test_a_visible_test_may_not_need_the_hidden_part(course: Course) -> None:
    text = FUNCTION_TEST.replace(
        "### BEGIN", 'check("weights", lambda: weights(others))\n### BEGIN'
    ).replace('check("weights", lambda: weights(scores))\n', "")
    flaws = said_of(course, lambda cells: cells[4].update(source=text))
    assert len(flaws) == 1
    assert "'others'" in flaws[0]


def test_names_must_come_from_answers_not_from_given_cells(course: Course) -> None:
    def given(cells: Cells) -> None:
        cells.insert(3, cell("set-up", "code", "import math\nSIZE = 3", locked=True))
        cells[5]["source"] += "\nSIZE"

    assert any("'SIZE'" in flaw for flaw in said_of(course, given))


def test_a_modules_entry_opens_a_package(course: Course) -> None:
    (course.root / "here").mkdir()
    (course.root / "here" / "__init__.py").touch()
    path = course.solutions / "tiny.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("modules = []", 'modules = ["here"]'))
    text = FUNCTION_TEST.replace("### BEGIN", "from here import thing\n### BEGIN")
    assert said_of(course, lambda cells: cells[4].update(source=text)) == []


@pytest.mark.parametrize(
    "text",
    [
        'for x in [1]:\n    check("weights", 1)',
        'if True:\n    check("weights", 1)',
        'result = check("weights", 1)',
        'f = lambda: check("weights", 1)',
        '[check("weights", 1)]',
        'def run():\n    check("weights", 1)\nrun()',
    ],
)
def test_checks_stand_at_the_left_margin(course: Course, text: str) -> None:
    whole = FUNCTION_TEST.replace('check("weights", lambda: weights(scores))', text)
    flaws = said_of(course, lambda cells: cells[4].update(source=whole))
    assert any("is not a statement of its own" in flaw for flaw in flaws)


def test_checks_stand_in_test_cells(course: Course) -> None:
    def given(cells: Cells) -> None:
        cells.insert(1, cell("try", "code", 'from grading import check\ncheck("x", 1)'))

    assert any("it calls check" in flaw for flaw in said_of(course, given))


@pytest.mark.parametrize(
    ("place", "line", "name"),
    [
        (0, "import torch\nsmooth = torch.log_softmax", "log_softmax"),
        (0, "from mha_lib import attention", "mha_lib"),
        (3, "import torch\nsmooth = getattr(torch, 'log_' + 'softmax')", "log_softmax"),
        (4, "log_softmax(scores)", "log_softmax"),
    ],
)
def test_no_cell_of_the_instructors_uses_what_students_may_not(
    course: Course, place: int, line: str, name: str
) -> None:
    def change(cells: Cells) -> None:
        if place == 0:
            cells.insert(1, cell("given", "code", line, locked=True))
        else:
            cells[place]["source"] = f"{line}\n{cells[place]['source']}"

    flaws = [flaw for flaw in said_of(course, change) if "which students may not" in flaw]
    assert len(flaws) == 1, flaws
    assert f"it uses {name}, which students may not; write it in another way, or " in flaws[0]
    assert flaws[0].endswith(
        "add it to modules in tiny.toml"
        if name == "mha_lib"
        else "take it out of forbidden_calls in tiny.toml"
    )


def test_a_task_may_ask_for_a_function_of_a_forbidden_name(course: Course) -> None:
    def change(cells: Cells) -> None:
        cells[3]["source"] += "\n\n\ndef log_softmax(x):\n    return x"
        cells[4]["source"] = cells[4]["source"].replace(
            "weights(scores))", "log_softmax(weights(scores)))"
        )

    assert said_of(course, change) == []


def test_check_is_imported_by_its_name_in_given_cells_too(course: Course) -> None:
    def given(cells: Cells) -> None:
        cells.insert(1, cell("try", "code", 'from grading import check as c\nc("x", 1)'))

    assert any("imports grading in another way" in flaw for flaw in said_of(course, given))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("See 'weights, other sizes'.", "the name of the hidden check"),
        ("The width of one head is not right.", "the feedback of the hidden check"),
        ("return raised / raised.sum(axis=-1, keepdims=True)", "a line of the solution"),
        ("others = local.standard_normal((3, 7), dtype=np.float64)", "a line of hidden tests"),
        ("One head gives one pattern of weights; several look at several things at once.", "line"),
    ],
)
def test_hidden_text_in_what_is_released(course: Course, text: str, said: str) -> None:
    flaws = said_of(course, lambda cells: cells[5].update(source=text))
    assert len(flaws) == 1
    assert said in flaws[0]
    assert "'question' as released" in flaws[0]


def test_hidden_text_in_a_hint_or_a_file(course: Course) -> None:
    path = course.solutions / "tiny.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("equal share.", "share, in head width, once more."))
    (course.solutions / "tiny" / "answers.txt").write_text("weights, other sizes: ...")
    flaws = "\n".join(text_flaws(course, load(course, "tiny")))
    assert "the visible check 'head width' or its hint holds" in flaws
    assert "the file answers.txt holds the name of the hidden check" in flaws
    assert "tiny/answers.txt is named in no notebook" in flaws


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("# Tiny", "its difficulty, ●○○"),
        (HEAD.replace("●○○", "●●○"), "its difficulty, ●○○"),
        (HEAD.replace("10", "15"), "its minutes, '10 minutes'"),
        (
            "# Tiny",
            "does not state 'Points 7', but 'number-test' 2 + 'function-test' 3 + 'answer' 2",
        ),
        (
            HEAD.replace("** 7", "** 70"),
            "states 70 points, but 'number-test' 2 + 'function-test' 3 + 'answer' 2 come to",
        ),
    ],
)
def test_the_head_states_what_awaits(course: Course, head: str, said: str) -> None:
    flaws = said_of(course, lambda cells: cells[0].update(source=head))
    assert any(said in flaw for flaw in flaws)


def test_the_points_and_minutes_of_tasks_add_up(course: Course) -> None:
    def tasks(first: str, second: str) -> Callable[[Cells], None]:
        def change(cells: Cells) -> None:
            cells.insert(1, cell("task-1", "markdown", f"## Task 1\n\n*{first} · ●○○*"))
            cells[6]["source"] = f"## Task 2\n\n*{second}*"

        return change

    assert said_of(course, tasks("5 points · 6 minutes", "2 points · 4 minutes")) == []
    flaws = said_of(course, tasks("4 points · 6 minutes", "1 point · 5 minutes"))
    assert len(flaws) == 3
    assert "cell 'given-2': it states 4 points" in flaws[0]
    assert "'number-test' 2 + 'function-test' 3 come to 5 points" in flaws[0]
    assert "it states 1 point, " in flaws[1]
    assert "'answer' alone earns 2 points" in flaws[1]
    assert "11 minutes together" in flaws[2]


def test_flaws_in_text_are_told_though_the_solution_fails(
    course: Course, course_secret: Path
) -> None:
    def change(cells: Cells) -> None:
        cells[0]["source"] = "# Tiny"
        cells[3]["source"] = "def weights(scores):\n    raise ValueError('not done')"

    rewrite(course, change)
    flaws = "\n".join(lint(course, "tiny"))
    assert "its difficulty" in flaws
    assert "the solution raises ValueError: not done" in flaws
