"""The rules on picks, each broken on purpose; and what hangs on them, with values made up."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from grading import entries as entries_module
from grading import lint_options
from grading.assignment import Assignment, AssignmentError, load
from grading.course import Course
from grading.draws import first_draws, last_draws
from grading.lint import lint, text_flaws
from grading.lint_picks import MOST_OPTIONS
from grading.pick_calls import find_picks
from grading.reference import Reference
from grading.trials import answer_flaws
from grading.values import Value
from tests.grading.drawn_course import DRAW, drawn_cells, drawn_course, switch
from tests.grading.small_course import FUNCTION_TEST, small_course, write_notebook

Cells = dict[str, dict[str, Any]]
PICK = 'd_model = pick("d_model", [768, 1024, 1600, 512])'


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return drawn_course(tmp_path)


def rewrite(course: Course, change: Callable[[Cells], Any]) -> None:
    cells = drawn_cells()
    change({made["id"]: made for made in cells})
    write_notebook(course.solutions / "tiny" / "tiny.ipynb", cells)


def flaws_of(course: Course, change: Callable[[Cells], Any]) -> str:
    rewrite(course, change)
    with pytest.raises(AssignmentError) as caught:
        load(course, "tiny")
    return str(caught.value)


def test_good_picks_are_read_as_they_are_written(course: Course) -> None:
    assignment = load(course, "tiny")
    assert assignment.picks == {"d_model": ("768", "1024", "1600", "512")}
    assert text_flaws(course, assignment) == []
    assert (first_draws(assignment), last_draws(assignment)) == ({"d_model": 0}, {"d_model": 3})
    switch(course, False)
    off = load(course, "tiny")
    assert (off.picks, first_draws(off), last_draws(off)) == (assignment.picks, {}, {})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('d_model = pick(f"d_{1}", [768, 1024])', "first argument is no literal text"),
        ("d_model = pick()", "first argument is no literal text"),
        ('d_model = pick("d_model", range(3))', "second argument is no list of literals"),
        ('d_model = pick("d_model", [768, 1 << 10])', "second argument is no list of literals"),
        ('d_model = pick("d_model", [*[768, 1024]])', "second argument is no list of literals"),
        ('d_model = pick("d_model", [{[1]}, 2])', "second argument is no list of literals"),
        ('d_model = pick("d_model", options=[1, 2])', "second argument is no list of literals"),
        ('d_model = pick("d_model", [768])', "pick has fewer than two options"),
        ('d_model = pick("d_model", [768, 512, 0x300])', "has the option 768 twice"),
        (f"{PICK}\nh = pick('d_model', [8, 12])", "with other options; choose another name"),
        (f"{PICK}\nmine = pick", "line 4 uses the name pick for something else"),
        (f'd_model = pick("d_model", {[*range(25)]})', f"give at most {MOST_OPTIONS}"),
        (f"%precision 3\n{PICK}", "it speaks of pick and is not plain Python"),
    ],
)
def test_a_flaw_is_named(course: Course, call: str, said: str) -> None:
    def change(cells: Cells) -> None:
        cells["drawn"]["source"] = DRAW.replace(PICK, call)

    assert said in flaws_of(course, change)


def test_an_option_reads_the_same_in_every_run_of_python() -> None:
    # The repr of a set of texts does not.
    (call,) = find_picks("pick('letters', [{'Q', 'K', 'V', 'O'}, {8: 'heads'}])")
    assert call.options == ("{'Q', 'K', 'V', 'O'}", "{8: 'heads'}")


def test_a_pick_may_stand_again_with_the_same_options(course: Course) -> None:
    def change(cells: Cells) -> None:
        test = cells["function-test"]
        test["source"] = FUNCTION_TEST.replace(
            "import check, seed", f"import check, pick, seed\n\n{PICK}"
        )

    rewrite(course, change)
    assert text_flaws(course, load(course, "tiny")) == []


@pytest.mark.parametrize("name", ["number", "answer"])
def test_no_pick_stands_where_students_write(course: Course, name: str) -> None:
    def change(cells: Cells) -> None:
        cells[name] |= {"cell_type": "code", "execution_count": None, "outputs": []}
        cells[name]["source"] = f"### BEGIN SOLUTION\n{PICK}\nx = 1\n### END SOLUTION"

    assert "in a cell that students write in" in flaws_of(course, change)


def test_no_pick_stands_in_an_open_cell(course: Course) -> None:
    said = flaws_of(course, lambda cells: cells["drawn"].update(metadata={}))
    assert "in a cell that students write in" in said


def test_hidden_tests_pick_nothing_of_their_own(course: Course) -> None:
    def change(cells: Cells) -> None:
        cells["function-test"]["source"] = FUNCTION_TEST.replace(
            "### END", 'from grading import pick\n\nh = pick("heads", [8, 12])\n### END'
        )

    assert "pick 'heads' stands in hidden tests alone" in flaws_of(course, change)


def test_variants_need_a_pick(tmp_path: Path) -> None:
    course = small_course(tmp_path)
    settings = course.solutions / "tiny.toml"
    for line, said in (
        ("variants = true", "no cell calls pick"),
        ("variants = 1", "true or false"),
    ):
        text = settings.read_text("utf-8")
        settings.write_text(f"{line}\n{text}", "utf-8")
        with pytest.raises(AssignmentError, match=said):
            load(course, "tiny")
        settings.write_text(text, "utf-8")


def test_no_submission_brings_an_id_along(course: Course) -> None:
    settings = course.solutions / "tiny.toml"
    text = settings.read_text("utf-8").replace("notes.txt", "my-id.txt")
    settings.write_text(text, "utf-8")
    with pytest.raises(AssignmentError, match=r"student_files holds 'my-id\.txt'"):
        load(course, "tiny")


def test_a_pick_of_somebody_else_is_none_of_ours(course: Course) -> None:
    def change(cells: Cells) -> None:
        cells["drawn"]["source"] = "def pick(a, b):\n    return b\n\nd_model = pick(1, 768)"

    switch(course, False)
    rewrite(course, change)
    assert load(course, "tiny").picks == {}


# ---------------------------------------------------------------- values, made up for each draw


def give(monkeypatch: pytest.MonkeyPatch, values: Callable[[Mapping[str, int]], Value]) -> None:
    """Let the check "widths" have a value that follows from the draws; all others stay."""

    def reference(course: Any, assignment: Assignment, notebook: Any, sandbox: Any, draws: Any):  # type: ignore[no-untyped-def]
        visible: dict[str, Value] = {"head width": 96, "weights": [1, 2], "widths": values(draws)}
        return Reference(visible, {"head width, once more": 96, "weights, other sizes": 0.5})

    for module in (entries_module, lint_options):
        monkeypatch.setattr(module, "reference", reference)
        monkeypatch.setattr(module, "sandbox_for", lambda course, assignment: None)


def two_picks(cells: Cells) -> None:
    cells["drawn"]["source"] = DRAW + '\nheads = pick("heads", [8, 12, 16])'


@pytest.mark.parametrize(
    "values",
    [
        lambda draws: [draws["d_model"], draws["heads"]],
        lambda draws: [draws["d_model"] * draws["heads"]],  # seen only where neither is the first
    ],
)
def test_a_check_may_not_hang_on_two_picks(
    course: Course, monkeypatch: pytest.MonkeyPatch, values: Callable[[Mapping[str, int]], Value]
) -> None:
    rewrite(course, two_picks)
    give(monkeypatch, values)
    with pytest.raises(AssignmentError, match="hangs on the picks 'd_model' and 'heads' together"):
        entries_module.entries(course, load(course, "tiny"), "5a17")


def test_checks_may_hang_on_a_pick_each(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(course, two_picks)
    give(monkeypatch, lambda draws: [draws["heads"], 8])
    made = entries_module.entries(course, load(course, "tiny"), "5a17")
    assert (made["widths"]["pick"], len(made["widths"]["entries"])) == ("heads", 3)
    assert {made[name]["kind"] for name in ("head width", "weights")} == {"form", "hash"}


def test_options_with_the_same_answer_are_named(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, lambda draws: [draws["d_model"] // 2, 8])
    flaws = lint_options.idle_options(course, load(course, "tiny"))
    assert [flaw.split(",")[0] for flaw in flaws] == [
        "pick 'd_model': its options 768 and 1024 have the same answer in every check",
        "pick 'd_model': its options 1600 and 512 have the same answer in every check",
    ]


# ---------------------------------------------------------------- with real sandboxes

BANK = """\
[[honest]]
name = "by the drawn number"
cell = "number"
source = "head_width = d_model / 8"

[[honest]]
name = "by the first number"
cell = "number"
source = "head_width = 768 // 8"
"""


@pytest.mark.slow
def test_lint_and_the_bank_try_another_option_too(course: Course, course_secret: Path) -> None:
    assert lint(course, "tiny") == []
    (course.solutions / "tiny.answers.toml").write_text(
        BANK + '[[mistake]]\nname = "none"\ncell = "number"\nsource = "head_width = 1"\n', "utf-8"
    )
    said = [flaw for flaw in answer_flaws(course, load(course, "tiny")) if "honest" in flaw]
    assert len(said) == 1
    assert said[0].startswith(
        "tiny.answers.toml, with 'd_model' = 512: the honest answer 'by the f"
    )
