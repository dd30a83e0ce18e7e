"""Marks from values: only a value that came once, from its own test cell, counts."""

import dataclasses
import pickle
import time
import warnings

import numpy as np
import pytest

from grading import forbidden
from grading import grade as grade_module
from grading.assignment import load
from grading.course import Course
from grading.grade import NOT_JUDGED, Outcome, Status
from grading.job import Message, Run
from grading.pace import PutOff, Shown
from grading.reference import secret_key
from grading.runs import HIDDEN_UNFINISHED
from grading.sandbox import SandboxError
from grading.submission import collect
from grading.values import Array, Raised, Unsupported
from tests.grading.outcomes import (
    REFERENCE,
    RIGHT_A,
    RIGHT_B,
    ChosenSandbox,
    array,
    graded,
    replaced,
)
from tests.grading.small_course import (
    RIGHT,
    cell,
    released_cells,
    small_course,
    solution_cells,
    submit,
)

HIDDEN_WORDS = ("once more", "other sizes")


@pytest.fixture
def course(tmp_path):
    return small_course(tmp_path / "course")


def points(outcome: Outcome) -> dict[str, float | None]:
    return {
        grade.id: grade.points
        for notebook in outcome.notebooks
        for grade in notebook.cells.values()
    }


def said(outcome: Outcome, name: str) -> str:
    (result,) = [
        result
        for notebook in outcome.notebooks
        for grade in notebook.cells.values()
        for result in grade.checks
        if result.check.name == name
    ]
    return result.said


def test_right_work_gets_full_marks(course: Course):
    submit(course, "an")
    outcome = graded(course, "an")
    assert points(outcome) == {"number-test": 2.0, "function-test": 3.0, "answer": None}
    assert (outcome.status, outcome.reasons) == (Status.GRADED, ())
    assert (outcome.score, outcome.max_score) == (5.0, 7.0)


def test_an_untouched_notebook_gets_nothing_and_no_written_response(course: Course):
    submit(course, "an", {})
    nothing = ChosenSandbox((), ())
    outcome = graded(course, "an", nothing)
    assert points(outcome) == {"number-test": 0.0, "function-test": 0.0, "answer": 0.0}
    assert outcome.status is Status.GRADED
    assert "no value arrived" in said(outcome, "head width")


def test_a_visible_check_earns_only_with_its_twin(course: Course):
    submit(course, "an")
    sandbox = ChosenSandbox(hidden=replaced(RIGHT_B, "weights, other sizes", array((3, 7), 0.5)))
    outcome = graded(course, "an", sandbox)
    assert points(outcome)["function-test"] == 0.0
    assert "others" in said(outcome, "weights")
    assert said(outcome, "weights, other sizes") == (
        "weights is wrong for scores other than the visible ones."
    )


def test_a_hidden_check_misleads_nobody_where_the_visible_one_got_no_value(course: Course):
    submit(course, "an")
    raised = Raised("NameError", "name 'weights' is not defined")
    hidden = "weights, other sizes"
    for visible, secret in [((raised,), (raised,)), ((), ()), ((raised,), ())]:
        sandbox = ChosenSandbox(
            replaced(RIGHT_A, "weights", *visible), replaced(RIGHT_B, hidden, *secret)
        )
        assert said(graded(course, "an", sandbox), hidden) == NOT_JUDGED
    sandbox = ChosenSandbox(hidden=replaced(RIGHT_B, hidden, raised))
    assert said(graded(course, "an", sandbox), hidden).startswith("weights is wrong for")


def test_weights_share_a_cells_points(course: Course):
    submit(course, "an")
    sandbox = ChosenSandbox(replaced(RIGHT_A, "weights", array((2, 5), 0.5)))
    # The hidden check has weight 2 of 3, and the cell 3 points.
    assert points(graded(course, "an", sandbox))["function-test"] == 2.0


def test_points_are_rounded_for_people(course: Course, tmp_path):
    settings = course.solutions / "tiny.toml"
    settings.write_text(settings.read_text().replace("weight = 2", "weight = 6"))
    submit(course, "an")
    sandbox = ChosenSandbox(replaced(RIGHT_A, "weights", array((2, 5), 0.5)))
    assert points(graded(course, "an", sandbox))["function-test"] == 2.57


@pytest.mark.parametrize(
    "hidden",
    [
        replaced(RIGHT_B, "weights, other sizes", array((3, 7)), array((3, 7))),
        replaced(RIGHT_B, "weights, other sizes", array((3, 7), 9.0), array((3, 7))),
        replaced(RIGHT_B, "weights, other sizes", array((3, 7)), cell="function"),
        replaced(RIGHT_B, "weights, other sizes", array((3, 7)), cell="number-test"),
        replaced(RIGHT_B, "weights, other sizes", array((3, 7)), cell="+1"),
        replaced(RIGHT_B, "weights, other sizes"),
        replaced(RIGHT_B, "weights, other sizes", array((0, 7))),
        replaced(RIGHT_B, "weights, other sizes", array((1, 7))),
        replaced(RIGHT_B, "weights, other sizes", array((3, 7), np.nan)),
        replaced(RIGHT_B, "weights, other sizes", Array("bool", (3, 7), b"\1" * 21)),
        replaced(RIGHT_B, "weights, other sizes", Raised("ValueError", "no")),
        replaced(RIGHT_B, "weights, other sizes", Unsupported("a value of type Any")),
        replaced(RIGHT_B, "weights, other sizes", True),
        replaced(RIGHT_B, "weights, other sizes", None),
        replaced(RIGHT_B, "weights, other sizes", [[[]]]),
    ],
    ids=lambda messages: str([m for m in messages if "other" in m.name])[:60],
)
def test_wrong_doubled_forged_or_odd_values_never_count(course: Course, hidden):
    submit(course, "an")
    outcome = graded(course, "an", ChosenSandbox(hidden=hidden))
    assert points(outcome)["function-test"] == 0.0
    assert points(outcome)["number-test"] == 2.0
    assert outcome.status is Status.GRADED


def test_values_of_the_other_run_do_not_count(course: Course):
    submit(course, "an")
    outcome = graded(course, "an", ChosenSandbox(RIGHT_A + RIGHT_B, ()))
    assert points(outcome)["number-test"] == points(outcome)["function-test"] == 0.0


def test_what_a_student_may_read_names_no_hidden_check(course: Course):
    submit(course, "an")
    outcome = graded(course, "an", ChosenSandbox((), ()))
    texts = [*outcome.reasons]
    for notebook in outcome.notebooks:
        for grade in notebook.cells.values():
            texts += [result.said for result in grade.checks]
    assert not [text for text in texts for word in HIDDEN_WORDS if word in text]


def test_a_fault_of_the_graders_own_needs_attention_and_gives_nothing(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(course, "an")

    def fail(*_: object) -> None:
        raise SystemError("AST constructor recursion depth mismatch")

    monkeypatch.setattr(grade_module, "_grade_notebook", fail)
    outcome = graded(course, "an")
    assert (outcome.status, outcome.score) == (Status.ATTENTION, 0.0)
    (reason,) = outcome.reasons
    assert reason.startswith("The grader itself failed on notebook tiny (SystemError).")


@pytest.mark.parametrize("ended", ["timed out", "died", "out of memory", "malformed"])
def test_a_run_that_does_not_finish_needs_attention_and_what_arrived_stands(course, ended):
    submit(course, "an")
    messages = tuple(message for message in RIGHT_A if message.cell == "number-test")
    hidden = tuple(message for message in RIGHT_B if message.cell == "number-test")
    sandbox = ChosenSandbox(messages, hidden, ended=ended, reason="It took too long.")
    outcome = graded(course, "an", sandbox)
    assert outcome.status is Status.ATTENTION
    assert "It took too long." in outcome.reasons[0]
    assert points(outcome) == {"number-test": 2.0, "function-test": 0.0, "answer": None}


class BusyMachine(ChosenSandbox):
    """Stops cells in the first run of a job alone, as a machine does that is busy for a while."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.jobs: list = []

    def run(self, job, *, alone=False) -> Run:
        again = job in self.jobs
        assert alone == again
        self.jobs.append(job)
        if again:
            return ChosenSandbox().run(job)
        return super().run(job)


def test_a_students_own_slow_cell_is_a_warning(course: Course):
    submit(course, "an")
    slow = {"number": "timed out"}
    sandbox = ChosenSandbox(states=slow, hidden_states=slow)
    runs = count_runs(sandbox)
    outcome = graded(course, "an", sandbox)
    assert outcome.status is Status.WARNINGS
    assert outcome.reasons == ("Cell 'number' took longer than 10 seconds and was stopped.",)
    assert len(runs) == 2


def count_runs(sandbox: ChosenSandbox) -> list:
    runs: list = []
    run = sandbox.run
    sandbox.run = lambda job, **how: runs.append(job) or run(job, **how)  # type: ignore[method-assign]
    return runs


@pytest.mark.parametrize(
    "stopped",
    [
        {"states": {"number-test": "timed out"}},
        {"hidden_states": {"number-test": "timed out"}},
        {"hidden_states": {"number": "timed out"}},
        {"ended": "timed out"},
    ],
    ids=str,
)
def test_what_a_busy_machine_stopped_is_run_once_more(course: Course, stopped):
    submit(course, "an")
    sandbox = BusyMachine(messages=(), hidden=(), **stopped)
    if "hidden_states" in stopped:
        sandbox.messages = RIGHT_A
    elif "states" in stopped:
        sandbox.hidden = RIGHT_B
    outcome = graded(course, "an", sandbox)
    assert (outcome.status, outcome.score) == (Status.GRADED, 5.0)
    assert len(sandbox.jobs) == (4 if "ended" in stopped else 3)


@pytest.mark.parametrize(
    "stopped",
    [
        {"states": {"number-test": "timed out"}},
        {"hidden_states": {"number-test": "timed out"}},
        {"ended": "timed out"},
    ],
    ids=str,
)
def test_what_computed_all_the_time_is_not_run_once_more(course: Course, stopped):
    submit(course, "an")
    sandbox = ChosenSandbox(**stopped, kept_waiting=False)
    runs = count_runs(sandbox)
    assert graded(course, "an", sandbox).status is Status.ATTENTION
    assert len(runs) == 2


class HangsFirst(ChosenSandbox):
    """Is put off when it runs the hidden tests, the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.order: list[str] = []

    def run(self, job, *, alone=False) -> Run:
        self.order.append("B" if job.key else "A")
        if self.order == ["A", "B"]:
            raise PutOff
        return super().run(job)


def grade_again(course: Course, sandbox: ChosenSandbox, before: Shown | None) -> Outcome:
    assignment = load(course, "tiny")
    (submission,) = collect(course, assignment, "an")
    key = secret_key(b"any", assignment.name)
    return grade_module.grade(assignment, {"tiny": REFERENCE}, submission, sandbox, key, before)


def test_no_run_that_people_see_goes_after_one_with_hidden_tests(course: Course):
    """The kernel's counters outlive a run: the second could print what the first had counted."""
    submit(course, "an")
    sandbox = HangsFirst()
    with pytest.raises(PutOff) as put_off:
        grade_again(course, sandbox, None)
    outcome = grade_again(course, sandbox, pickle.loads(pickle.dumps(put_off.value)).shown)
    assert sandbox.order == ["A", "B", "B"]
    assert outcome.score == 5.0
    assert outcome.notebooks[0].run is not None


def test_what_was_handed_in_anew_while_it_was_put_off_is_run_whole(course: Course):
    submit(course, "an")
    sandbox = HangsFirst()
    with pytest.raises(PutOff) as put_off:
        grade_again(course, sandbox, None)
    submit(course, "an", {"number": "head_width = 64  # anew"})
    grade_again(course, sandbox, put_off.value.shown)
    assert sandbox.order == ["A", "B", "A", "B"]


class Killed(ChosenSandbox):
    """Breaks off the first run of a job with nothing to show, as a kill from outside does."""

    def __init__(self, ended, jobs) -> None:
        super().__init__()
        self.once, self.left, self.jobs = ended, jobs, []

    def run(self, job, *, alone=False) -> Run:
        assert not alone
        self.jobs.append(job)
        if bool(job.key) in self.left:
            self.left.remove(bool(job.key))
            return ChosenSandbox((), (), ended=self.once, reason="It was killed.").run(job)
        return super().run(job)


@pytest.mark.parametrize("ended", ["died", "malformed"])
@pytest.mark.parametrize("jobs", [[False], [True], [False, True]], ids=str)
def test_a_run_that_was_killed_from_outside_goes_once_more(course: Course, ended, jobs):
    submit(course, "an")
    sandbox = Killed(ended, [*jobs])
    outcome = graded(course, "an", sandbox)
    assert (outcome.status, outcome.score) == (Status.GRADED, 5.0)
    assert len(sandbox.jobs) == 2 + len(jobs)


def test_work_that_ends_its_own_process_costs_one_more_run(course: Course):
    submit(course, "an")
    sandbox = ChosenSandbox((), (), ended="died", reason="It died.")
    runs = count_runs(sandbox)
    assert graded(course, "an", sandbox).status is Status.ATTENTION
    assert len(runs) == 3


def test_a_test_cell_stopped_twice_in_run_a_needs_attention(course: Course):
    submit(course, "an")
    sandbox = ChosenSandbox(states={"function-test": "timed out"})
    outcome = graded(course, "an", sandbox)
    assert outcome.status is Status.ATTENTION
    assert outcome.reasons == ("Cell 'function-test' took longer than 10 seconds and was stopped.",)


@pytest.mark.parametrize("cell_id", ["function-test", "function"])
def test_a_cell_stopped_twice_in_run_b_alone_needs_attention_and_names_no_place(course, cell_id):
    submit(course, "an")
    sandbox = ChosenSandbox(hidden=RIGHT_B[:2], hidden_states={cell_id: "timed out"})
    runs = count_runs(sandbox)
    outcome = graded(course, "an", sandbox)
    assert outcome.status is Status.ATTENTION
    assert outcome.reasons == (HIDDEN_UNFINISHED,)
    assert f"stopped in cell '{cell_id}'" in outcome.details
    assert points(outcome)["function-test"] == 0.0
    assert len(runs) == 3


def test_a_broken_file_needs_attention(course: Course):
    folder = submit(course, "an")
    (folder / "tiny.ipynb").write_text("no notebook")
    outcome = graded(course, "an", ChosenSandbox((), ()))
    assert outcome.status is Status.ATTENTION
    assert outcome.score == 0.0


@pytest.mark.parametrize(
    "source",
    [
        "import torch.nn.functional as F\nF.log_softmax(x)",
        "from torch.nn.functional import log_softmax as ls",
        "from torch.nn.functional import *\nlog_softmax(x)",
        "getattr(F, 'log_softmax')(x)",
        "getattr(F, 'log_' + 'softmax')(x)",
        "getattr(F, f'log_{\"softmax\"}')(x)",
        "vars(F)['log_softmax']",
        "vars(F)[ (\\\n'log_' 'softmax')]",
        "vars(F)[  # a comment\n    f'log_' + 'softmax'\n]",
        "vars(F)['log\\x5fsoftmax']",
        "torch.\uff4cog_softmax(x)",
        "import operator\noperator.attrgetter('nn.functional.log_softmax')(torch)",
        "exec('import torch\\ntorch.log_softmax(x, 0)')",
        "exec('exec(\"torch.log_softmax(x, 0)\")')",
        "%time torch.log_softmax(x, 0)",
        "%%time\ntorch.log_softmax(x, 0)",
        "x = [torch.log_softmax]\n" + "# long\n" * 40_000,
        "-" * 20_000 + "log_softmax",
        "log_softmax(",
        "x = '\\d'\ntorch.log_softmax(x, 0)",
        "def f(:\n    pass\ntorch.log_softmax(x, 0)",
        "%matplotlib inline\nx = torch.log_softmax(x, 0)  # or what?",
        "!ls\nif x:\n    %time torch.log_softmax(x, 0)",
        "x = %time torch.log_softmax(x, 0)",
    ],
)
def test_a_forbidden_call_is_found(source):
    assert [use.name for use in forbidden.find([("a", source)], ["log_softmax"])] == ["log_softmax"]
    assert forbidden.may_hold(source, ["log_softmax"])


@pytest.mark.parametrize(
    "source",
    [
        "# F.log_softmax is not allowed\nx = 'log_softmax'",
        "def log_softmax(x):\n    return x\nlog_softmax(1)",
        "class A:\n    def log_softmax(self): ...\n    def f(self): self.log_softmax()",
        "my_log_softmax(x)",
        "# log_softmax: none of '\\d'\nx = '\\d'",
        "%matplotlib inline\n# Why is log_softmax not allowed?\nx = 1",
        "def log_softmax(x):\n    return x\n%time log_softmax(1)",
        "",
    ],
)
def test_what_is_no_forbidden_call_is_not_found(source):
    assert forbidden.find([("a", source)], ["log_softmax"]) == []


@pytest.mark.parametrize(
    "source",
    [
        "'a'" + "a" * 19_000 + " 'b c?\n",
        'f"' + "{a}" * 60_000 + '"',
        "\n" * 999_999,
        "%x\n" * 300_000,
        "log_softmax\n" * 80_000,
    ],
    ids=lambda source: repr(source[:6]),
)
def test_no_text_keeps_the_grader_busy(source, monkeypatch):
    """What Python reads is short, and IPython reads nothing: some texts would take it hours."""
    parsed = []
    parse = forbidden.ast.parse
    monkeypatch.setattr(forbidden.ast, "parse", lambda text: parsed.append(text) or parse(text))
    begin = time.process_time()
    uses = forbidden.find([(str(number), source) for number in range(5)], ["log_softmax"])
    assert len(uses) in (0, 5)
    assert sum(map(len, parsed)) <= 2 * forbidden.MAX_CHARACTERS
    assert time.process_time() - begin < 20  # It took minutes and more.


def test_warnings_as_errors_hide_no_forbidden_call():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert forbidden.find([("a", "x = '\\d'\nlog_softmax(x)")], ["log_softmax"])


def test_own_name_does_not_cover_the_library(course: Course):
    source = "def log_softmax(x):\n    return torch.log_softmax(x, 0)"
    assert forbidden.find([("a", source)], ["log_softmax"]) == [("a", 2, "log_softmax", 1)]


def test_a_forbidden_call_in_any_cell_needs_a_person_and_keeps_its_points(course: Course):
    cells = released_cells()
    for made in cells:
        made["source"] = RIGHT.get(made["id"], made["source"])
    cells.insert(1, cell("own", "code", "import torch\nsoft = torch.log_softmax"))
    submit(course, "an", cells=cells)
    outcome = graded(course, "an")
    assert outcome.status is Status.ATTENTION
    assert (
        outcome.reasons[0]
        == "Added cell 1, line 2, uses log_softmax, which this exercise does not allow."
    )
    assert outcome.score == 5.0


@pytest.mark.parametrize("source", ["import mha_lib", "from mha_lib.nn import layers"])
def test_the_courses_own_package_is_not_allowed_unless_the_settings_say_so(course, source):
    submit(course, "an", {**RIGHT, "number": f"{source}\nhead_width = 64"})
    said = "Cell 'number', line 1, uses mha_lib, which this exercise does not allow."
    assert graded(course, "an").reasons == (said,)
    (course.root / "mha_lib").mkdir()
    (course.root / "mha_lib" / "__init__.py").write_text("")
    settings = course.solutions / "tiny.toml"
    settings.write_text(settings.read_text().replace("modules = []", 'modules = ["mha_lib"]'))
    assert graded(course, "an").reasons == ()


def test_one_name_in_one_cell_is_one_reason(course: Course):
    source = "import torch\n" + "torch.log_softmax\n" * 1000 + "head_width = 64"
    submit(course, "an", {**RIGHT, "number": source})
    said = "Cell 'number', line 2 (and 999 more), uses log_softmax, which this exercise does not "
    assert graded(course, "an").reasons == (said + "allow.",)


def test_there_are_no_more_reasons_than_anybody_reads(course: Course):
    cells = released_cells()
    cells += [cell(f"own{number}", "code", "log_softmax") for number in range(500)]
    submit(course, "an", cells=cells)
    reasons = graded(course, "an", ChosenSandbox(ended="died", reason="x" * 9000)).reasons
    assert len(reasons) == 30
    assert reasons[-1] == "... and 473 more."
    assert max(len(reason) for reason in reasons) <= 301


def test_a_hole_in_the_grader_needs_attention_and_tells_students_nothing(course, monkeypatch):
    submit(course, "an")

    def broken(*_: object) -> None:
        raise KeyError("weights, other sizes")

    monkeypatch.setattr(grade_module, "compare", broken)
    outcome = graded(course, "an")
    assert outcome.status is Status.ATTENTION
    assert "KeyError" in outcome.reasons[0]
    assert "not your fault" in outcome.reasons[0]
    assert "other sizes" not in str(outcome.reasons)
    assert "other sizes" in outcome.details
    assert outcome.score == 0.0
    assert outcome.max_score == 7.0


def test_a_missing_wall_is_no_ones_mark(course: Course):
    submit(course, "an")

    class NoWalls(ChosenSandbox):
        def run(self, job, **_):
            raise SandboxError("no bubblewrap")

    with pytest.raises(SandboxError, match="no bubblewrap"):
        graded(course, "an", NoWalls())


def test_the_hidden_run_gets_the_secret_and_no_outputs(course: Course):
    submit(course, "an")
    jobs = []

    class Watching(ChosenSandbox):
        def run(self, job, **_) -> Run:
            jobs.append(job)
            return super().run(job)

    graded(course, "an", Watching())
    released, hidden = jobs
    key = secret_key(b"s" * 32, "tiny")
    assert (released.key, released.outputs) == ("", True)
    assert (hidden.key, hidden.outputs) == (key, False)
    assert not any(
        "HIDDEN" in each.source or "other sizes" in each.source for each in released.cells
    )
    assert any("other sizes" in each.source for each in hidden.cells)
    assert released.checks == hidden.checks
    assert ("function-test", "weights, other sizes") in hidden.checks
    solution = {made["id"]: made["source"] for made in solution_cells()}
    assert not any(solution["function"] in each.source for job in jobs for each in job.cells)


def test_names_are_judged_as_they_are(course: Course):
    submit(course, "an")
    odd = Message("function-test", "weights\x1b[31m", array((2, 5)))
    outcome = graded(course, "an", ChosenSandbox((*RIGHT_A, odd)))
    assert dataclasses.astuple(outcome)[2] is Status.GRADED
