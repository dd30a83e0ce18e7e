"""The one writer to nbgrader's real gradebook: whole or not at all, and hand marks are kept."""

import csv
import dataclasses
import datetime
import sqlite3
import subprocess
import sys
import threading

import nbgrader.api
import pytest
from nbgrader.api import Gradebook

from grading import gradebook as gradebook_module
from grading import patience
from grading.assignment import load
from grading.course import Course
from grading.gradebook import GradebookError, GradebookWriter, checksums, refuse_id
from tests.grading.outcomes import (
    RIGHT_A,
    ChosenSandbox,
    graded,
    registered_course,
    replaced,
    set_secret,
)
from tests.grading.small_course import submit


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    submit(course, "an")
    return course


def write(course: Course, outcome, same_work=False) -> None:
    with GradebookWriter(course) as writer:
        writer.write(outcome, same_work=same_work)


def failing(course: Course):
    return graded(course, "an", ChosenSandbox(ended="died", reason="It <b>died</b>."))


def half(course: Course):
    return graded(course, "an", ChosenSandbox(replaced(RIGHT_A, "head width", 63)))


def stored(course: Course, student="an") -> dict:
    """Return everything that the gradebook says of one submission."""
    with Gradebook(course.database_url) as book:
        submission = book.find_submission("tiny", student)
        (notebook,) = submission.notebooks
        return {
            "score": submission.score,
            "timestamp": submission.timestamp,
            "flagged": notebook.flagged,
            "grades": {
                grade.name: (grade.auto_score, grade.manual_score, grade.needs_manual_grade)
                for grade in notebook.grades
            },
            "extra": {grade.name: grade.extra_credit for grade in notebook.grades},
            "auto": {comment.name: comment.auto_comment for comment in notebook.comments},
            "manual": {comment.name: comment.manual_comment for comment in notebook.comments},
        }


def by_hand(course: Course, cell: str, **changes) -> None:
    with Gradebook(course.database_url) as book:
        grade = book.find_grade(cell, "tiny", "tiny", "an")
        for name, value in changes.items():
            setattr(grade, name, value)
        book.db.commit()


@pytest.mark.slow
def test_marks_are_stored_as_stock_nbgrader_stores_them(course: Course):
    write(course, graded(course, "an"))
    assert stored(course) == {
        "score": 5.0,
        "timestamp": None,
        "flagged": False,
        "grades": {
            "number-test": (2.0, None, False),
            "function-test": (3.0, None, False),
            "answer": (None, None, True),
        },
        "extra": {"number-test": None, "function-test": None, "answer": None},
        "auto": {"number": None, "function": None, "answer": None},
        "manual": {"number": None, "function": None, "answer": None},
    }


def test_no_response_is_0_and_says_so(course: Course):
    submit(course, "an", {})
    write(course, graded(course, "an", ChosenSandbox((), ())))
    found = stored(course)
    assert found["grades"]["answer"] == (0.0, None, False)
    assert set(found["auto"].values()) == {"No response."}


def test_hand_marks_survive_and_are_looked_at_again_only_when_something_moved(course: Course):
    write(course, graded(course, "an"))
    by_hand(course, "answer", manual_score=1.5, extra_credit=0.5, needs_manual_grade=False)
    by_hand(course, "number-test", manual_score=1.0, needs_manual_grade=False)
    with Gradebook(course.database_url) as book:
        book.find_comment("answer", "tiny", "tiny", "an").manual_comment = "Good."
        book.db.commit()
    before = stored(course)
    write(course, graded(course, "an"), same_work=True)
    assert stored(course) == before
    write(course, half(course), same_work=True)
    after = stored(course)
    assert after["grades"]["number-test"] == (1.0, 1.0, True)
    assert after["grades"]["answer"] == (None, 1.5, False)
    assert (after["extra"], after["manual"]) == (before["extra"], before["manual"])
    write(course, graded(course, "an"), same_work=False)
    assert stored(course)["grades"]["answer"] == (None, 1.5, True)


def test_attention_is_numeric_flagged_and_says_why_as_text(course: Course):
    write(course, failing(course))
    found = stored(course)
    assert found["flagged"]
    assert all(needs for _, _, needs in found["grades"].values())
    assert found["grades"]["number-test"][0] == 2.0
    assert found["auto"]["number"].startswith("Needs attention: Running your notebook did not")
    assert "<" not in found["auto"]["number"]


def settle(course: Course) -> None:
    """Do what a grader does in formgrader: give every mark, and take the flag away."""
    for cell, mark in {"number-test": 2.0, "function-test": 1.0, "answer": 1.5}.items():
        by_hand(course, cell, manual_score=mark, needs_manual_grade=False)
    with Gradebook(course.database_url) as book:
        book.find_submission_notebook("tiny", "tiny", "an").flagged = False
        book.db.commit()


def test_a_forced_regrade_asks_no_second_time_for_what_a_person_settled(course: Course):
    write(course, failing(course))
    settle(course)
    before = stored(course)
    for _ in range(2):
        write(course, failing(course), same_work=True)
        assert stored(course) == before


def test_a_mark_left_as_it_is_stays_settled_too(course: Course):
    write(course, failing(course))
    by_hand(course, "number-test", needs_manual_grade=False)
    write(course, failing(course), same_work=True)
    grades = stored(course)["grades"]
    assert grades["number-test"] == (2.0, None, False)
    assert grades["answer"] == (None, None, True)


@pytest.mark.parametrize("news", ["other work", "another reason", "it was fine before"])
def test_new_reasons_for_attention_are_asked_again(course: Course, news):
    write(course, graded(course, "an") if news == "it was fine before" else failing(course))
    settle(course)
    reason = "It took long." if news == "another reason" else "It <b>died</b>."
    outcome = graded(course, "an", ChosenSandbox(ended="died", reason=reason))
    write(course, outcome, same_work=news != "other work")
    found = stored(course)
    assert found["flagged"]
    assert all(needs for _, _, needs in found["grades"].values())


def test_a_moved_score_is_asked_again_where_it_moved(course: Course):
    write(course, failing(course))
    settle(course)
    moved = replaced(RIGHT_A, "head width", 63)
    outcome = graded(course, "an", ChosenSandbox(moved, ended="died", reason="It <b>died</b>."))
    write(course, outcome, same_work=True)
    grades = stored(course)["grades"]
    assert grades["number-test"] == (1.0, 2.0, True)
    assert grades["function-test"] == (3.0, 1.0, False)


def test_a_clean_regrade_clears_the_graders_flag(course: Course):
    write(course, failing(course))
    write(course, failing(course))
    write(course, graded(course, "an"))
    found = stored(course)
    assert not found["flagged"]
    assert found["auto"]["number"] is None
    assert not found["grades"]["number-test"][2]


def test_a_persons_flag_stays(course: Course):
    write(course, graded(course, "an"))
    with Gradebook(course.database_url) as book:
        book.find_submission_notebook("tiny", "tiny", "an").flagged = True
        book.db.commit()
    write(course, graded(course, "an"))
    assert stored(course)["flagged"]
    for _ in range(2):
        write(course, failing(course))
        assert stored(course)["auto"]["number"].startswith("Needs attention as well: ")
    write(course, graded(course, "an"))
    found = stored(course)
    assert found["flagged"]
    assert found["auto"]["number"] is None


def test_the_time_of_submission_is_stored(course: Course):
    folder = course.submitted / "an" / "tiny"
    (folder / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC\n")
    write(course, graded(course, "an"))
    assert stored(course)["timestamp"] == datetime.datetime(2026, 1, 2, 3, 4, 5)


def test_it_is_all_or_nothing(course: Course, monkeypatch):
    write(course, graded(course, "an"))
    before = stored(course)

    def broken(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(gradebook_module, "_store_comments", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        write(course, half(course))
    submit(course, "binh")
    with pytest.raises(RuntimeError, match="in the middle"):
        write(course, graded(course, "binh"))
    assert stored(course) == before
    with Gradebook(course.database_url) as book:
        assert [student.id for student in book.students] == ["an"]


def test_nobody_elses_marks_move(course: Course):
    submit(course, "binh")
    write(course, graded(course, "an"))
    before = stored(course)
    write(course, graded(course, "binh", ChosenSandbox((), ())))
    assert stored(course) == before
    with GradebookWriter(course) as writer:
        assert writer.students("tiny") == {"an", "binh"}
        assert writer.students("other") == set()


def test_it_waits_while_another_program_writes(course: Course):
    blocker = sqlite3.connect(course.root / "gradebook.db", check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    threading.Timer(1.0, blocker.commit).start()
    write(course, graded(course, "an"))
    assert stored(course)["score"] == 5.0
    blocker.close()


def test_it_gives_up_with_a_way_out(course: Course, monkeypatch):
    monkeypatch.setattr(patience, "BUSY_SECONDS", 0.0)
    monkeypatch.setattr(patience, "BUSY_MILLISECONDS", 10)
    blocker = sqlite3.connect(course.root / "gradebook.db")
    outcome = graded(course, "an")
    with GradebookWriter(course) as writer:
        blocker.execute("BEGIN EXCLUSIVE")
        with pytest.raises(GradebookError, match="another program"):
            writer.write(outcome, same_work=False)
        blocker.rollback()
        writer.write(outcome, same_work=False)
    blocker.close()
    assert stored(course)["score"] == 5.0


def test_a_gradebook_that_is_none_is_refused(course: Course):
    (course.root / "gradebook.db").write_bytes(b"x" * 5000)
    with pytest.raises(GradebookError, match="not a database"):
        GradebookWriter(course)


def test_it_knows_whether_the_cells_are_those_of_the_assignment(course: Course):
    with GradebookWriter(course) as writer:
        assert writer.knows(load(course, "tiny"))
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    notebook.write_text(notebook.read_text().replace('"points": 3', '"points": 4'))
    with GradebookWriter(course) as writer:
        assert not writer.knows(load(course, "tiny"))


@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_notebook_without_marked_cells_counts_too(course: Course, change):
    """One that only shows something has no cells that nbgrader keeps, but a row."""
    assignment = load(course, "tiny")
    (notebook,) = assignment.notebooks
    bare = dataclasses.replace(notebook, id="only-text", cells=notebook.cells[:1], checks=())
    both = dataclasses.replace(assignment, notebooks=(notebook, bare))
    if change == "removed":
        with Gradebook(course.database_url) as book:
            book.add_notebook("only-text", "tiny")
    with GradebookWriter(course) as writer:
        assert writer.knows(both) is (change == "removed")
        assert writer.knows(assignment) is (change == "added")


def test_checksums_are_nbgraders(course: Course):
    """nbgrader's gradebook keeps those of the source, which differ where hidden tests stand."""
    with Gradebook(course.database_url) as book:
        cells = book.find_notebook("tiny", "tiny").source_cells
        theirs = {cell.name: cell.checksum for cell in cells if "-test" not in cell.name}
    ours = checksums(load(course, "tiny").notebooks[0])
    assert set(theirs) == {"number", "function", "question", "answer"}
    assert {name: ours[name] for name in theirs} == theirs
    assert {"number-test", "function-test"} < set(ours)


@pytest.mark.parametrize(
    "student",
    ['a"b', "<img src=x>", "a>b", "end\\", "a\nb", "\ud800", "", "a" * 129, "[b]inh", "*", "b?nh"],
)
def test_ids_that_pages_would_run_are_refused(course: Course, student):
    with pytest.raises(GradebookError, match="Rename the folder"):
        refuse_id(student)


@pytest.mark.parametrize("student", ["Nguyễn Văn An", "o'brien", "a b", "R&D", "张伟", "a.b-c_d@e"])
def test_ordinary_ids_are_fine(course: Course, student):
    submit(course, student)
    write(course, graded(course, student))
    assert stored(course, student)["score"] == 5.0


@pytest.mark.slow
def test_nbgraders_export_works(course: Course):
    submit(course, "Nguyễn Văn An")
    write(course, failing(course))
    write(course, graded(course, "Nguyễn Văn An"))
    command = [sys.executable, "-m", "nbgrader", "export", f"--db={course.database_url}"]
    done = subprocess.run(command, cwd=course.root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    with (course.root / "grades.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert rows == {"an": "5.0", "Nguyễn Văn An": "5.0"}


def test_missing_rows_are_made(course: Course):
    with Gradebook(course.database_url) as book:
        book.add_student("an")
        submission = nbgrader.api.SubmittedAssignment(
            assignment=book.find_assignment("tiny"), student=book.find_student("an")
        )
        book.db.add(submission)
        book.db.commit()
    write(course, graded(course, "an"))
    assert stored(course)["score"] == 5.0
