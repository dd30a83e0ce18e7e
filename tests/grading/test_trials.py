"""The bank of answers: what each comes to, and what is said when that is not what it should."""

import json
from pathlib import Path

import pytest

from grading.__main__ import main
from grading.answers import answers_file, read_answers
from grading.assignment import AssignmentError, load
from grading.commands.shared import FINE, LOOK, REFUSED
from grading.course import Course
from grading.lint import lint, text_flaws
from grading.release import release
from grading.trials import answer_flaws, judging_cells, table, try_answers
from tests.grading.small_course import small_course

ANSWERS = """\
[[honest]]
name = "torch"
cell = "function"
source = '''
import torch

def weights(scores):
    return torch.as_tensor(scores).softmax(-1)
'''

[[mistake]]
name = "the other way"
cell = "number"
source = "head_width = 12"

[[mistake]]
name = "columns"
cell = "function"
says = "Each column adds up to 1."
source = '''
def weights(scores):
    raised = np.exp(scores)
    return raised / raised.sum(axis=0)
'''

[[mistake]]
name = "by heart"
cell = "function"
seen = false
source = '''
right = weights

def weights(scores):
    return right(scores) if scores.shape == (2, 5) else scores
'''

[[mistake]]
name = "endless"
cell = "function"
source = '''
def weights(scores):
    while True:
        pass
'''
"""


@pytest.fixture
def course(tmp_path: Path, course_secret: Path) -> Course:
    course = small_course(tmp_path)
    settings = course.solutions / "tiny.toml"
    text = settings.read_text("utf-8").replace("cell_seconds = 10", "cell_seconds = 3")
    settings.write_text(text, "utf-8")
    write(course, ANSWERS)
    return course


def write(course: Course, text: str) -> None:
    answers_file(course, "tiny").write_text(text, encoding="utf-8")


def flaws_of_file(course: Course, text: str) -> str:
    write(course, text)
    with pytest.raises(AssignmentError) as caught:
        read_answers(course, load(course, "tiny"))
    return str(caught.value)


@pytest.mark.slow
def test_each_answer_earns_what_it_should(course: Course, capsys: pytest.CaptureFixture[str]):
    tiny = load(course, "tiny")
    answers = read_answers(course, tiny)
    trials = {trial.answer.name: trial for trial in try_answers(course, tiny, answers)}
    assert {name: trial.points for name, trial in trials.items()} == {
        "torch": (3, 3),
        "the other way": (0, 2),
        "columns": (0, 3),
        "by heart": (0, 3),
        "endless": (0, 3),
    }
    seen = {name for name, trial in trials.items() if trial.is_seen}
    assert seen == {"the other way", "columns", "endless"}
    assert "by heart" in table(trials.values())
    assert main(["--course", str(course.root), "answers", "tiny"]) == FINE
    assert "(right) torch" in capsys.readouterr().out


@pytest.mark.slow
def test_a_bank_that_is_right_has_no_flaw_and_what_it_says_reaches_the_release(course: Course):
    assert answer_flaws(course, load(course, "tiny")) == []
    made = release(course, "tiny", register=False)
    checks = json.loads((made / "checks.json").read_text())["checks"]
    assert [one["says"] for one in checks["weights"]["known"]] == ["Each column adds up to 1."]
    assert not [path for path in made.iterdir() if "answers" in path.name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('[[honest]]\nname = "torch"', '[[mistake]]\nname = "torch"', "earns all 3 points"),
        ('[[mistake]]\nname = "columns"', '[[honest]]\nname = "columns"', "no key 'says'"),
        ("softmax(-1)", "softmax(0)", "the honest answer 'torch' to 'function' fails"),
        ("seen = false\n", "", "is not noticed by a visible check"),
        ("head_width = 12", "head_width = 64", "passes 'head width, once more'; mend"),
        ("seen = false\n", 'seen = false\nsays = "By heart."\n', "no visible check notices it"),
        (
            'says = "Each',
            'fails = ["head width, once more"]\nsays = "Each',
            "passes 'head width, once more' and fails 'weights, other sizes' too",
        ),
    ],
)
def test_each_flaw_of_a_bank_is_told(course: Course, old: str, new: str, said: str):
    assert old in ANSWERS
    write(course, ANSWERS.replace(old, new))
    try:
        told = answer_flaws(course, load(course, "tiny"))
    except AssignmentError as error:
        told = list(error.flaws)
    assert any(said in flaw for flaw in told), told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[mistake", "is not valid TOML"),
        ("[mistake]", "'mistake' is no list of answers"),
        ("[[wrong]]", "'wrong' is no list of answers"),
        ('[[mistake]]\nname = "a"\ncell = "number"', "source = None; give a text"),
        ('[[mistake]]\nname = "a"\ncell = "nope"\nsource = "x"', "there are function, number"),
        ('[[mistake]]\nname = "a"\ncell = "number"\nsource = "x"\nfails = []', "fails = []"),
        (
            '[[mistake]]\nname = "a"\ncell = "number"\nsource = "x"\nfails = ["b"]',
            "'b', which is no hidden check",
        ),
        ('[[honest]]\nname = "a"\ncell = "number"\nsource = "x"\nfails = ["b"]', "no key 'fails'"),
        ('[[mistake]]\nname = "a"\ncell = "number"\nsource = "x"\n' * 2, "another answer of this"),
        ('[[mistake]]\nname = "a"\ncell = "number"\nsource = "x"\nseen = 1', "give true or false"),
    ],
)
def test_each_flaw_of_the_file_is_told(course: Course, text: str, said: str):
    assert said in flaws_of_file(course, text)


@pytest.mark.slow
def test_what_a_mistake_says_may_give_nothing_away(course: Course):
    secret = "The width of one head is not right."
    write(course, ANSWERS.replace("Each column adds up to 1.", secret))
    assert any("holds the feedback of the hidden check" in flaw for flaw in lint(course, "tiny"))


def test_without_a_bank_there_is_nothing_to_try(course: Course, monkeypatch: pytest.MonkeyPatch):
    """Nor is the solution run for it."""
    answers_file(course, "tiny").unlink()
    monkeypatch.setattr("grading.trials.sandbox_for", None)
    assert answer_flaws(course, load(course, "tiny")) == []
    assert text_flaws(course, load(course, "tiny")) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (ANSWERS, "", ["holds no [[mistake]]; add one for each task"]),
        (
            'cell = "number"',
            'cell = "function"',
            ["no [[mistake]] is meant to fail the hidden check 'head width, once more'"],
        ),
        (
            'head_width = 12"',
            "head_width = 12\"\nfails = ['weights, other sizes']",
            [
                "'the other way' to 'number' cannot fail 'weights, other sizes', which another",
                "no [[mistake]] is meant to fail the hidden check 'head width, once more'",
            ],
        ),
        (
            "torch.as_tensor(scores).softmax(-1)",
            "torch.as_tensor(scores).log_softmax(-1).exp()",
            ["the honest answer 'torch' to 'function' uses log_softmax, which students may not"],
        ),
    ],
)
def test_flaws_that_are_seen_without_handing_in(
    course: Course, old: str, new: str, said: list[str]
):
    assert text_flaws(course, load(course, "tiny")) == []
    write(course, ANSWERS.replace(old, new, 1))
    flaws = text_flaws(course, load(course, "tiny"))
    assert len(flaws) == len(said)
    assert all(what in flaw for what, flaw in zip(said, flaws, strict=True)), flaws


@pytest.mark.slow
def test_a_bank_with_a_flaw_is_not_released(course: Course, capsys: pytest.CaptureFixture[str]):
    here = ["--course", str(course.root), "release", "tiny"]
    write(course, ANSWERS.replace(".softmax(-1)", ".log_softmax(-1).exp()"))
    assert main(here) == REFUSED
    assert "the honest answer 'torch' to 'function' uses log_softmax" in capsys.readouterr().err
    write(course, ANSWERS.replace("seen = false\n", 'seen = false\nsays = "By heart."\n'))
    assert main(here) == REFUSED
    assert "says something, but no visible check notices it" in capsys.readouterr().err
    assert not (course.exercises / "tiny").exists()
    write(course, ANSWERS)
    assert main(here) == FINE
    assert "not handed in, which takes longer" in capsys.readouterr().out


@pytest.mark.slow
def test_lint_takes_one_name_or_all(course: Course, capsys: pytest.CaptureFixture[str]):
    here = ["--course", str(course.root), "lint"]
    assert main(here) == main([*here, "tiny", "--all"]) == REFUSED
    assert "one assignment, or --all" in capsys.readouterr().err
    write(course, ANSWERS.replace("seen = false\n", ""))
    assert main([*here, "--all"]) == LOOK
    assert "tiny: 1 flaw" in capsys.readouterr().out


def test_an_answer_is_judged_by_the_tests_that_follow_it(course: Course):
    notebook = load(course, "tiny").notebooks[0]
    assert judging_cells(notebook, "number") == ["number-test"]
    assert judging_cells(notebook, "function") == ["function-test"]
