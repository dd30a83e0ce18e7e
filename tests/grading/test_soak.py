"""A tenth of `make soak`, and that it would notice what it looks for."""

import pytest
from nbgrader.api import Gradebook

from grading.autograde import autograde
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import submit
from tests.grading.soak import Point, curve_faults, differences, results, soak

SUBMISSIONS, ROUNDS = 20, 1


@pytest.mark.slow
def test_a_tenth_of_the_soak_comes_out_the_same(tmp_path, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    folder = tmp_path / "soak"
    folder.mkdir()
    said: list[str] = []
    assert soak(folder, SUBMISSIONS, ROUNDS, seed=7, say=said.append) == [], "\n".join(said)


def test_a_curve_that_bends_is_noticed():
    straight = [Point(250 * n, 100.0 * n, 200.0 + n % 2) for n in range(1, 9)]
    assert curve_faults(straight) == []
    leaking = [point._replace(megabytes=100.0 + 20 * point.done / 250) for point in straight]
    assert "memory grows" in curve_faults(leaking)[0]
    slowing = [point._replace(seconds=(point.done / 250) ** 2) for point in straight]
    assert "time is not linear" in curve_faults(slowing)[0]
    assert curve_faults(straight[:2]) == ["only 2 points were measured"]


@pytest.fixture
def graded(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    autograde(course, "tiny", progress=lambda _: None)
    with Gradebook(course.database_url) as book:
        book.find_comment("number", "tiny", "tiny", "an").manual_comment = "Seen."
        book.db.commit()
    return course


def test_what_got_lost_or_moved_is_noticed(graded):
    expected = results(graded)
    assert differences(expected, results(graded)) == []
    (page,) = graded.autograded.rglob("*.ipynb")
    page.write_text(page.read_text().replace("head_width", "head-width"))
    with Gradebook(graded.database_url) as book:
        student = book.students[0].id
        book.find_grade("answer", "tiny", "tiny", student).manual_score = 1.0
        book.find_comment("number", "tiny", "tiny", student).manual_comment = None
        book.find_submission_notebook("tiny", "tiny", student).flagged = True
        book.db.commit()
    found = differences(expected, results(graded))
    assert [line.split(" / ")[0] for line in found] == [
        *("comment", "grade", "page", "state", "submission"),
    ]
