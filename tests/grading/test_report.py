"""The instructor's results: counted right, told as text, and for nobody else's eyes."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from grading.__main__ import main
from grading.assignment import Assignment
from grading.autograde import autograde
from grading.commands.shared import FINE
from grading.course import Course
from grading.received import received_text
from grading.records import load as load_records
from grading.report import as_text, page, path_of
from grading.status import status
from grading.summary import histogram, summary
from grading.values import Array, Raised, Unsupported
from tests.grading.outcomes import (
    RIGHT_A,
    RIGHT_B,
    ChosenSandbox,
    registered_course,
    replaced,
    set_secret,
    use,
)
from tests.grading.small_course import cell, rewrite, submit

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>&\"'{{ 7 * 7 }}\x1b[31m\u202e"


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    return course


def grade_as(course: Course, monkeypatch, sandbox: ChosenSandbox, *students: str) -> None:
    use(monkeypatch, sandbox)
    for student in students:
        autograde(course, "tiny", student_id=student, progress=lambda text: None)


def wrong_width(*values) -> ChosenSandbox:
    """Give another width to both checks of it."""
    return ChosenSandbox(
        replaced(RIGHT_A, "head width", *values),
        replaced(RIGHT_B, "head width, once more", *values),
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Iterator[Path]:
    """Yield a graded course, which no test changes."""
    folder = tmp_path_factory.mktemp("graded")
    with pytest.MonkeyPatch.context() as patch:
        set_secret(patch, folder)
        yield grade_all(registered_course(tmp_path_factory, folder / "course"), patch).root


@pytest.fixture
def graded(template: Path, tmp_path) -> Course:
    return Course(shutil.copytree(template, tmp_path / "graded"))


def grade_all(course: Course, monkeypatch) -> Course:
    for student in ("an", "binh", "chi", "dung", "em", "gone"):
        submit(course, student)
    submit(course, "blank", {})
    grade_as(course, monkeypatch, ChosenSandbox(), "an", "gone")
    grade_as(course, monkeypatch, wrong_width(63), "binh", "chi")
    grade_as(course, monkeypatch, wrong_width(HOSTILE), "dung")
    nothing = ChosenSandbox((), (), ended="died", reason=f"It {HOSTILE} died.")
    grade_as(course, monkeypatch, nothing, "blank")
    (course.submitted / "gone" / "tiny" / "tiny.ipynb").unlink()
    (course.submitted / "gone" / "tiny").rmdir()
    return course


def test_everything_is_counted(graded: Course):
    found = summary(graded, "tiny")
    assert sorted(found.scores) == [0.0, 3.0, 3.0, 3.0, 5.0]
    assert (found.max_score, found.median, found.mean) == (7.0, 3.0, 2.8)
    number, function, answer = found.tasks
    assert (number.whole.name, number.whole.points) == ("number-test", 2)
    assert (number.whole.reached, function.whole.reached) == (0.2, 0.8)
    assert (answer.whole.reached, answer.whole.waiting) == (0.0, 4)  # The blank one's 0 is known.
    assert "answer              2  0 %, 4 wait        20 %" in as_text(found)
    assert (answer.blank, answer.known) == (1, 5)
    # What the hidden twins were given is the very same, and told once.
    width, weights = found.mistakes
    assert (width.check, weights.check) == ("head width", "weights")
    assert width.twin_alike
    assert not width.hidden
    assert (width.wrong, width.known, width.rest) == (4, 5, 0)
    assert width.common[0] == ("63", 2)
    assert ("no value", 1) in width.common


def test_a_hidden_twin_that_was_given_something_else_is_told(course: Course, monkeypatch):
    submit(course, "an")
    hidden = replaced(RIGHT_B, "head width, once more", 424242)
    grade_as(course, monkeypatch, ChosenSandbox(hidden=hidden), "an")
    (only,) = summary(course, "tiny").mistakes
    assert (only.check, only.hidden, only.twin_alike) == ("head width, once more", True, False)
    assert only.common == (("424242", 1),)


def test_marks_by_hand_count_and_open_ones_do_not(graded: Course):
    with closing(sqlite3.connect(graded.root / "gradebook.db")) as book, book:
        book.execute("update grade set manual_score = 1.5 where auto_score is null")
    found = summary(graded, "tiny")
    assert found.tasks[2].whole.reached == pytest.approx(4 * 1.5 / 10)
    assert max(found.scores) == 6.5


def test_a_late_penalty_is_taken_off_and_told(graded: Course):
    with closing(sqlite3.connect(graded.root / "gradebook.db")) as book, book:
        book.execute("update submitted_notebook set late_submission_penalty = 2")
    found = summary(graded, "tiny")
    assert sorted(found.scores) == [0.0, 1.0, 1.0, 1.0, 3.0]
    assert "3 of 7 (5 less 2 for being late), 2 points wait" in page(found, NOW)


def test_a_task_is_named_by_its_heading(graded: Course):
    def with_headings(cells):
        cells[1:1] = [cell("one", "markdown", "## Task 1. `Numbers`")]
        cells[4:4] = [cell("two", "markdown", "## Task 2. <b>Weights</b>")]

    rewrite(graded, with_headings)
    found = summary(graded, "tiny")
    assert [(task.whole.name, task.whole.points) for task in found.tasks] == [
        ("Task 1. Numbers", 2),
        ("Task 2. <b>Weights</b>", 5),
    ]
    assert [part.name for part in found.tasks[1].cells] == ["function-test", "answer"]
    assert (found.tasks[1].blank, found.tasks[1].known) == (1, 5)
    assert {each.task for each in found.mistakes} == {"Task 1. Numbers", "Task 2. <b>Weights</b>"}


def test_records_of_an_older_grader_are_read(graded: Course):
    path = graded.state / "results" / "tiny" / "binh.json"
    record = json.loads(path.read_text())
    del record["wrong"], record["blank"]
    path.write_text(json.dumps(record))
    assert load_records(graded, "tiny")["binh"].blank is None
    found = summary(graded, "tiny")
    assert found.tasks[0].known == 4
    assert found.mistakes[0].known == 4
    assert len(found.scores) == 5


@pytest.mark.parametrize(
    ("field", "damage"), [("wrong", []), ("wrong", {"a": 1}), ("blank", 3), ("blank", [1])]
)
def test_a_damaged_record_counts_as_missing(graded: Course, field, damage):
    path = graded.state / "results" / "tiny" / "binh.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: damage}))
    assert "binh" not in load_records(graded, "tiny")


def test_a_record_stays_small_whatever_is_sent(course: Course, monkeypatch):
    submit(course, "an")
    huge = ["\u202e" * 20_000] * 400
    grade_as(course, monkeypatch, wrong_width(huge), "an")
    assert (course.state / "results" / "tiny" / "an.json").stat().st_size < 4000


class Texts(HTMLParser):
    """Reads a page: its tags, its attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        self.addresses += [value or "" for name, value in attributes if name == "href"]

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_inert_and_escaped(graded: Course):
    submit(graded, "a<b")
    read = Texts(page(summary(graded, "tiny"), NOW))
    assert "script" not in read.tags
    assert not {name for name in read.attributes if name.startswith("on")}
    assert not {"src", "style", "action"} & read.attributes
    assert all(address.startswith("#") for address in read.addresses)
    assert "<script>alert(1)</script>" in read.text
    assert "{{ 7 * 7 }}" in read.text
    assert not re.search("[\x1b\u202e]", read.text)
    assert "a<b" in read.text
    for told in (
        "For instructors only",
        "0 to 0.7",
        "number-test",
        "2 × 63",
        "visible, and hidden alike; wrong in 4 of 5",
        "needs attention",
        "3 of 7, 2 points wait for a person",
    ):
        assert told in " ".join(read.text.split()), told
    assert read.text.rindex("blank") < read.text.index("binh")  # Who needs a person comes first.


def test_the_assignment_is_read_into_its_digest_once_for_all(graded: Course, monkeypatch):
    """With two thousand submissions it took longer than all else together."""
    made = []
    digest = Assignment.digest.fget
    counted = property(lambda each: made.append(1) or digest(each))
    monkeypatch.setattr(Assignment, "digest", counted)
    assert len(status(graded, "tiny")) == 7
    assert len(made) == 1


def test_an_empty_course_has_a_page_too(course: Course, capsys):
    assert main(["report", "tiny"]) == FINE
    assert capsys.readouterr().out.startswith("Nobody has points yet.\n")
    assert "Nobody has handed anything in." in path_of(course, "tiny").read_text()
    submit(course, "an")
    assert main(["report", "tiny"]) == FINE
    assert "waiting" in path_of(course, "tiny").read_text()


def test_the_end_of_a_run_tells_the_results(course: Course, monkeypatch, capsys):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    assert main(["autograde", "tiny"]) == FINE
    said = capsys.readouterr().out
    assert "Points of 1 submission, out of 7: median 5, mean 5\n" in said
    assert f"  4.9 to 5.6  {'█' * 40} 1\n" in said
    assert "  0 to 0.7  0\n" in said
    assert "\nnumber-test         2    100 %         0 %\n" in said
    path = path_of(course, "tiny")
    assert f"For instructors: {path}\n" in said
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["report", "tiny"]) == FINE
    assert capsys.readouterr().out in said


def test_a_page_that_cannot_be_written_loses_nothing(course: Course, monkeypatch, capsys):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    course.state.mkdir(exist_ok=True)
    (course.state / "reports").write_text("in the way")
    assert main(["autograde", "tiny"]) == FINE
    said = capsys.readouterr().out
    assert "The page of results could not be written" in said
    assert said.endswith("1 graded; in 1 of them points wait for a person\n")


def test_a_student_who_is_alone_in_a_bar_is_seen(graded: Course):
    text = as_text(summary(graded, "tiny"))
    bars = [line for line in text.splitlines() if " to " in line]
    assert len(bars) == 10
    assert all(("█" in line) is not line.endswith(" 0") for line in bars)
    counts = [bar.count for bar in histogram([0] * 1999 + [100], 100)]
    assert (counts[0], counts[9], sum(counts)) == (1999, 1, 2000)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (63, "63"),
        (True, "True"),
        (None, "None"),
        (0.1 + 0.2, "0.3"),
        (float("nan"), "nan"),
        (-float("inf"), "-inf"),
        ("Q\nK", "'Q\\nK'"),
        ([1, [2.0, "Q"]], "[1, [2, 'Q']]"),
        ([[[[1]]]], "[[[[1 items]]]]"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, …]"),
        (Raised("KeyError", "'d_k'"), "It raised KeyError: 'd_k'"),
        (Unsupported("a value of type dict"), "a value of type dict"),
        (Array("int64", (2,), np.array([1, -1]).tobytes()), "int64 of shape (2,): 1, -1"),
        (Array("float32", (), np.float32(0.5).tobytes()), "0.5 (float32)"),
        (Array("float64", (0, 3), b""), "float64 of shape (0, 3): "),
        (
            Array("float64", (2, 4), np.full((2, 4), 1e-9 + 0.25).tobytes()),
            "float64 of shape (2, 4): 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, …",
        ),
        (
            Array("complex128", (1,), np.array([1 - 2j]).tobytes()),
            "complex128 of shape (1,): 1 - 2j",
        ),
    ],
)
def test_what_was_received_is_told(value, text):
    assert received_text([value]) == text.strip()
    assert len(received_text(["x" * 20_000])) <= 121


def test_what_hidden_checks_received_is_kept_from_students(course: Course, monkeypatch):
    submit(course, "an")
    hidden = replaced(RIGHT_B, "head width, once more", 424242)
    grade_as(course, monkeypatch, ChosenSandbox(hidden=hidden), "an")
    assert "424242" in page(summary(course, "tiny"), NOW)
    for folder in (course.autograded, course.submitted, course.exercises, course.root):
        for path in folder.rglob("*"):
            if path.is_file() and course.state not in path.parents:
                assert b"424242" not in path.read_bytes(), path
