"""Late penalties: nbgrader's own plugin decides, and a broken one neither forgives nor loses."""

import datetime
import json
import re
import shutil
import sys
from types import SimpleNamespace

import pytest
from nbgrader.api import Gradebook

from grading.__main__ import main
from grading.autograde import autograde
from grading.commands.shared import FINE, LOOK, REFUSED
from grading.course import Course
from grading.final import final_marks
from grading.grade import ALREADY, NOT_GRADED
from grading.late import LateError, LatePenalties
from grading.release import register
from grading.report import page
from grading.summary import summary
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.returned import nbgrader, plain_text
from tests.grading.small_course import submit

DUE = datetime.datetime(2026, 1, 2, 3, 4, 5)
ZERO = "c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"
OWN = "c = get_config()\nc.AssignLatePenalties.plugin_class = 'late_work.ByTheHour'\n"
PLUGIN = """\
from nbgrader.plugins import BasePlugin

class ByTheHour(BasePlugin):
    def late_submission_penalty(self, student_id, score, total_seconds_late):
        {body}
"""


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    monkeypatch.chdir(course.root)
    monkeypatch.syspath_prepend(course.root)  # Put back afterwards, with what was imported.
    configure(course, "")
    use(monkeypatch, ChosenSandbox())
    due(course, DUE)
    return course


def configure(course: Course, settings: str) -> None:
    (course.root / "nbgrader_config.py").write_text(settings)


def plugin(course: Course, body: str, monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "late_work", raising=False)
    (course.root / "late_work.py").write_text(PLUGIN.format(body=body))
    configure(course, OWN)


def due(course: Course, date: datetime.datetime | None) -> None:
    with Gradebook(course.database_url) as book:
        book.find_assignment("tiny").duedate = date
        book.db.commit()


def hand_in(course: Course, student: str, hours_late: float) -> None:
    stamp = submit(course, student) / "timestamp.txt"
    stamp.write_text(f"{DUE + datetime.timedelta(hours=hours_late)} UTC\n")


def grade(course: Course) -> dict:
    lines = autograde(course, "tiny", progress=lambda _: None)
    return {line.student_id: line for line in lines}


def penalty(course: Course, student: str) -> float | None:
    with Gradebook(course.database_url) as book:
        return book.find_submission_notebook("tiny", "tiny", student).late_submission_penalty


@pytest.mark.parametrize(
    ("settings", "hours_late", "expected"),
    [("", 1, None), (ZERO, 1, 5.0), (ZERO, 0, None), (ZERO, -1, None)],
)
def test_the_predefined_methods_do_what_nbgrader_documents(course, settings, hours_late, expected):
    configure(course, settings)
    hand_in(course, "an", hours_late)
    assert grade(course)["an"].penalty == (expected or 0.0)
    assert penalty(course, "an") == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return total_seconds_late / 3600", 1.5),
        ("return 1000", 5.0),
        ("return -1", 0.0),
        ("return None", None),
    ],
)
def test_a_plugin_of_the_courses_own_is_asked_and_kept_in_nbgraders_bounds(
    course, monkeypatch, body, expected
):
    plugin(course, body, monkeypatch)
    hand_in(course, "an", 1.5)
    grade(course)
    assert penalty(course, "an") == expected


def test_a_plugin_that_fails_grades_the_others_and_loses_nothing(course, monkeypatch):
    hand_in(course, "an", 1)
    hand_in(course, "binh", 0)
    plugin(course, "return 2", monkeypatch)
    grade(course)
    plugin(course, "raise KeyError(student_id)", monkeypatch)
    submit(course, "an", {"number": "head_width = 32 * 2"})
    lines = grade(course)
    assert (lines["an"].status, lines["binh"].status) == (NOT_GRADED, ALREADY)
    assert "the plugin ByTheHour raised KeyError: 'an'" in lines["an"].reasons[0]
    assert "nbgrader_config.py" in lines["an"].reasons[0]
    assert penalty(course, "an") == 2.0
    plugin(course, "return 1", monkeypatch)
    assert grade(course)["an"].penalty == 1.0


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise SystemExit(3)", "raised SystemExit: 3"),
        ("return float('nan')", "gave nan, expected a number"),
        ("return float('inf')", "gave inf, expected a number"),
        ("return 'ten'", "gave 'ten', expected a number"),
        ("return True", "gave True, expected a number"),
    ],
)
def test_what_is_no_penalty_is_refused(course, monkeypatch, body, said):
    plugin(course, body, monkeypatch)
    notebook = SimpleNamespace(score=5.0)
    submission = SimpleNamespace(
        assignment=SimpleNamespace(duedate=DUE),
        student=SimpleNamespace(id="an"),
        total_seconds_late=60.0,
    )
    with pytest.raises(LateError, match=re.escape(said)):
        LatePenalties(course).of(submission, notebook)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit", "SystemExit"),
        (OWN, "late_work"),
        ("c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'half'", "half"),
        (
            "c = get_config()\nc.AssignLatePenalties.plugin_class = 'nbgrader.plugins.BasePlugin'",
            "no method late_submission_penalty",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_anything_runs(
    course, monkeypatch, capsys, settings, said
):
    monkeypatch.delitem(sys.modules, "late_work", raising=False)
    hand_in(course, "an", 1)
    configure(course, settings)
    assert main(["autograde", "tiny"]) == REFUSED
    assert said in capsys.readouterr().err
    with Gradebook(course.database_url) as book:
        assert book.students == []


def test_without_a_due_date_nobody_is_late(course):
    due(course, None)
    configure(course, "1 / 0")
    hand_in(course, "an", 1)
    assert grade(course)["an"].penalty == 0.0


def test_penalties_follow_extensions_hand_marks_and_another_due_date(course):
    configure(course, ZERO)
    hand_in(course, "an", 1)
    grade(course)
    with Gradebook(course.database_url) as book:
        given = book.find_grade("answer", "tiny", "tiny", "an")
        given.manual_score, given.needs_manual_grade = 2.0, False
        book.db.commit()
    assert grade(course)["an"].status == ALREADY
    assert penalty(course, "an") == 7.0
    with Gradebook(course.database_url) as book:
        book.find_submission("tiny", "an").extension = datetime.timedelta(hours=2)
        book.db.commit()
    (mark,), waiting = final_marks(course, "tiny")
    assert (mark.points, mark.penalty, mark.score, waiting) == (7.0, 0.0, 7.0, {})
    due(course, DUE - datetime.timedelta(days=1))
    (mark,), _ = final_marks(course, "tiny")
    assert (mark.points, mark.penalty, mark.score) == (7.0, 7.0, 0.0)
    due(course, None)
    grade(course)
    assert penalty(course, "an") is None


def test_what_being_late_costs_is_shown_and_taken_off_what_is_exported(course, monkeypatch, capsys):
    plugin(course, "return 1.5", monkeypatch)
    hand_in(course, "an", 1)
    grade(course)
    main(["status", "tiny"])
    said = "an  graded  3.5 of 7 (5 less 1.5 for being late), 2 points wait for a person\n"
    assert said in capsys.readouterr().out
    main(["status", "tiny", "--json"])
    (told,) = json.loads(capsys.readouterr().out)["submissions"]
    assert (told["points"], told["late_penalty"], told["score"]) == (5.0, 1.5, 3.5)
    results = summary(course, "tiny")
    assert results.scores == (3.5,)
    assert "3.5 of 7 (5 less 1.5 for being late)" in page(results, DUE)
    with Gradebook(course.database_url) as book:
        given = book.find_grade("answer", "tiny", "tiny", "an")
        given.manual_score, given.needs_manual_grade = 1.0, False
        book.db.commit()
    assert main(["export", "tiny", "--format", "canvas", "--to", "marks.csv"]) == FINE
    assert (course.root / "marks.csv").read_text().splitlines()[2] == "an,,,an,,4.5"
    for folder in (course.submitted / "an", course.state / "results"):
        shutil.rmtree(folder)
    main(["status", "tiny"])
    said = "an  handed in no more  4.5 of 7 (6 less 1.5 for being late)\n"
    assert said in capsys.readouterr().out
    plugin(course, "return None + 1", monkeypatch)
    assert main(["export", "tiny", "--format", "canvas", "--to", "again.csv"]) == LOOK
    assert "an: left out: The late penalty is not known" in capsys.readouterr().out
    assert not (course.root / "again.csv").exists()


@pytest.mark.slow
def test_nbgraders_own_command_sets_the_due_date_and_its_page_tells(course):
    """A due date survives that the assignment is entered anew, as a changed one is."""
    due(course, None)
    configure(course, f"{ZERO}c.CourseDirectory.db_url = {course.database_url!r}\n")
    date = "2026-01-02 10:04:05 Asia/Ho_Chi_Minh"
    nbgrader(course.root, "db", "assignment", "add", "tiny", f"--duedate={date}")
    register(course, "tiny")
    hand_in(course, "an", 1)
    assert grade(course)["an"].penalty == 5.0
    nbgrader(course.root, "generate_feedback", "tiny")
    page = plain_text((course.feedback / "an" / "tiny" / "tiny.html").read_text())
    assert "(Score: 0.0 / 7.0)" in page


def test_a_broken_plugin_is_told_when_the_export_asks(course, monkeypatch):
    hand_in(course, "an", 1)
    grade(course)
    configure(course, "1 / 0")
    with pytest.raises(LateError, match="ZeroDivisionError"):
        final_marks(course, "tiny")
