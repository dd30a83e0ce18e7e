"""Grading one task anew for everybody: its marks change, and not one thing beside them."""

import json
import multiprocessing
import os
import re
import sqlite3
from contextlib import closing

import pytest

from grading.__main__ import main
from grading.autograde import autograde
from grading.backups import backups
from grading.commands.shared import FINE, LOOK, REFUSED
from grading.course import Course, CourseError
from grading.grade import ALREADY, NOT_GRADED
from grading.in_part import LEFT, patched
from grading.journal import runs
from grading.records import load as load_records
from grading.standings import marks
from grading.status import status
from tests.grading.outcomes import (
    RIGHT_A,
    RIGHT_B,
    ChosenSandbox,
    array,
    registered_course,
    replaced,
    set_secret,
    use,
)
from tests.grading.small_course import RIGHT, submit

TASK = "function-test"
NOTHING = ChosenSandbox((), ())


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    return course


def run(course: Course, **options):
    return autograde(course, "tiny", progress=lambda text: None, **options)


def tables(course: Course) -> dict[str, list[tuple]]:
    """Return all that the gradebook holds."""
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        names = [name for (name,) in book.execute("select name from sqlite_master")]
        return {
            name: sorted(book.execute(f"select * from {name}"), key=repr)
            for name in names
            if not name.startswith(("sqlite", "ix"))
        }


def change(course: Course, command: str) -> None:
    """Do in the gradebook what a person does in formgrader."""
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book, book:
        book.execute(command)


def cell_id(course: Course, name: str) -> str:
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        return book.execute("select id from base_cell where name = ?", (name,)).fetchone()[0]


def points(course: Course, student: str = "an") -> dict[str, float | None]:
    return {mark.cell: mark.points for mark in marks(course, "tiny", student)}


def cells_of_page(course: Course, student: str = "an") -> list[dict]:
    path = course.autograded / student / "tiny" / "tiny.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def settle(course: Course) -> None:
    """Give marks and comments by hand, and flag the notebook."""
    change(
        course,
        "update grade set manual_score = 1.5, needs_manual_grade = 0 where auto_score is null",
    )
    change(course, "update grade set extra_credit = 0.5 where manual_score is null")
    change(course, "update comment set manual_comment = 'Look at the axis.'")
    change(course, "update submitted_notebook set flagged = 1")


def test_the_named_cells_mark_changes_and_nothing_else(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "binh")
    use(monkeypatch, ChosenSandbox())
    run(course)
    settle(course)
    before, page = tables(course), cells_of_page(course)
    record = load_records(course, "tiny")["an"]
    use(monkeypatch, NOTHING)  # Everything would be 0 now.
    lines = run(course, only=[TASK])
    assert {(line.student_id, str(line.status)) for line in lines} == {
        ("an", "graded"),
        ("binh", "graded"),
    }
    assert points(course) == {"number-test": 2.0, TASK: 0.0, "answer": 1.5}
    after = tables(course)
    test = cell_id(course, TASK)
    assert before.keys() == after.keys()
    for name, rows in before.items():
        changed = [row for row in rows if row not in after[name]]
        assert len(rows) == len(after[name])
        if name == "grade":
            assert len(changed) == 2
            assert all(test in row for row in changed)
        else:
            assert changed == [], name
    # On the page its report is new; every other cell is as it was.
    for old, new in zip(page, cells_of_page(course), strict=True):
        if old["metadata"].get("nbgrader", {}).get("grade_id") == TASK:
            assert "3 of 3 points" in old["outputs"][0]["text"]
            assert "0 of 3 points" in new["outputs"][0]["text"]
            assert old["id"] == new["id"]
        else:
            assert old == new
    later = load_records(course, "tiny")["an"]
    assert (later.status, later.reasons, later.blank) == (record.status, (), record.blank)
    assert (later.score, later.max_score) == (2.0, 7.0)
    assert set(later.wrong) == {"weights", "weights, other sizes"}
    assert len(backups(course)) == 1
    assert next(runs(course, "tiny")).options["task"] == [TASK]


def test_a_mended_test_reaches_everybody_and_counts_as_this_version(course: Course, monkeypatch):
    """What it is for: a hidden test was wrong, and only its task is to be graded anew."""
    submit(course, "an")
    wrong = replaced(RIGHT_B, "weights, other sizes", array((3, 7), 0.5))
    use(monkeypatch, ChosenSandbox(hidden=wrong))
    run(course)
    assert points(course)[TASK] == 0.0
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    notebook.write_text(notebook.read_text().replace("(3, 7)", "(4, 7)"))
    assert [state.state for state in status(course, "tiny")] == [
        "graded by an older version of the assignment"
    ]
    use(monkeypatch, ChosenSandbox(replaced(RIGHT_A, "head width", 63)))
    run(course, only=[TASK])
    assert points(course)[TASK] == 3.0
    assert points(course)["number-test"] == 2.0
    assert [state.state for state in status(course, "tiny")] == ["graded"]
    assert [line.status for line in run(course)] == [ALREADY]


def test_what_is_not_graded_as_it_is_handed_in_is_left(course: Course, monkeypatch, capsys):
    for student in ("an", "binh"):
        submit(course, student)
    use(monkeypatch, ChosenSandbox())
    run(course)
    submit(course, "binh", {**RIGHT, "number": "head_width = 63"})
    submit(course, "chi")
    before = tables(course)
    assert main(["autograde", "tiny", "--task", TASK]) == FINE
    said = capsys.readouterr().out
    assert f"binh: {LEFT}\n    It was never graded as it is handed in now" in said
    assert f"chi: {LEFT}\n" in said
    assert f"3 submissions of tiny: 1 graded, 2 {LEFT}" in said
    assert tables(course) == before
    assert {state.student_id: state.state for state in status(course, "tiny")} == {
        "an": "graded",
        "binh": "changed since graded",
        "chi": "waiting",
    }


def test_a_mark_by_hand_stays_and_is_looked_at_again_if_the_automatic_one_moved(
    course: Course, monkeypatch
):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    change(course, f"update grade set manual_score = 2.5 where cell_id = '{cell_id(course, TASK)}'")
    run(course, only=[TASK])
    assert not [mark for mark in marks(course, "tiny") if mark.cell == TASK and mark.looked_for]
    use(monkeypatch, NOTHING)
    run(course, only=[TASK])
    (mark,) = [mark for mark in marks(course, "tiny") if mark.cell == TASK]
    assert (mark.points, mark.auto, mark.looked_for) == (2.5, 0.0, True)


def test_new_trouble_asks_for_a_person_and_old_does_not(course: Course, monkeypatch, capsys):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    use(monkeypatch, ChosenSandbox((), (), ended="died", reason="It died."))
    assert main(["autograde", "tiny", "--task", TASK]) == LOOK
    assert (
        "an: needs attention\n    Running your notebook did not finish" in capsys.readouterr().out
    )
    looked_for = {mark.cell: mark.looked_for for mark in marks(course, "tiny")}
    assert looked_for[TASK]
    assert not looked_for["number-test"]
    reasons = load_records(course, "tiny")["an"].reasons
    change(course, "update grade set needs_manual_grade = 0")
    run(course, only=[TASK])
    assert not any(mark.looked_for for mark in marks(course, "tiny"))
    assert load_records(course, "tiny")["an"].reasons == reasons


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nope", "tiny has no test cell of this name; there are: number-test, function-test"),
        ("function", "tiny has no test cell of this name"),
        ("answer", "a person gives its points, in formgrader"),
    ],
)
def test_other_names_are_refused_before_anything(course: Course, monkeypatch, capsys, name, said):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    assert main(["autograde", "tiny", "--task", TASK, "--task", name]) == REFUSED
    assert said in capsys.readouterr().err
    assert not course.autograded.exists()
    with pytest.raises(CourseError, match=re.escape(f"--task {name}")):
        run(course, only=[name])


def _die_in(root, name: str) -> None:
    """Regrade a task in a child process that ends at the first call of something, as if killed."""
    patch = pytest.MonkeyPatch()
    use(patch, NOTHING)
    patch.setattr(name, lambda *_, **__: os._exit(9))
    autograde(Course(root), "tiny", only=[TASK], workers=1, progress=lambda text: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["grading.in_part.patched", "grading.records.write_file", "grading.in_part.merged"]
)
def test_killed_anywhere_the_same_command_gives_the_same(course: Course, monkeypatch, step):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    settle(course)
    child = multiprocessing.get_context("fork").Process(target=_die_in, args=(course.root, step))
    child.start()
    child.join(60)
    assert child.exitcode == 9
    use(monkeypatch, NOTHING)
    run(course, only=[TASK])
    assert points(course) == {"number-test": 2.0, TASK: 0.0, "answer": 1.5}
    assert load_records(course, "tiny")["an"].score == 2.0
    texts = [str(cell.get("outputs")) for cell in cells_of_page(course)]
    assert any("0 of 3 points" in text for text in texts)
    assert any("2 of 2 points" in text for text in texts)


def test_a_page_that_is_none_of_ours_fails_alone(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "binh")
    use(monkeypatch, ChosenSandbox())
    run(course)
    before = tables(course)
    (course.autograded / "an" / "tiny" / "tiny.ipynb").write_text("{}")
    (course.autograded / "binh" / "tiny" / "tiny.ipynb").write_text("")
    use(monkeypatch, NOTHING)
    for line in run(course, only=[TASK]):
        assert line.status == NOT_GRADED
        assert line.reasons[0].startswith("It could not be stored: ")
    assert tables(course) == before


@pytest.mark.parametrize("damage", ["", "[]", '{"cells": [3]}', '{"cells": [{"id": "a"}]}'])
def test_a_page_of_another_form_is_refused(damage):
    with pytest.raises(ValueError, match=r"none of ours|Expecting value"):
        patched(damage, '{"cells": []}', [TASK])


def test_cells_are_patched_by_their_grade_id():
    def page(*cells: tuple[str, str]) -> str:
        made = [
            {"id": f"cell-{index}", "metadata": {"nbgrader": {"grade_id": name}}, "source": text}
            for index, (name, text) in enumerate(cells)
        ]
        return json.dumps({"cells": [{"id": "own", "metadata": {}, "source": ""}, *made]})

    old = page(("a", "old"), ("b", "old"), ("c", "old"))
    new = page(("b", "new"), ("a", "new"))
    found = json.loads(patched(old, new, ["b", "c"]))["cells"]
    assert [(cell["id"], cell["source"]) for cell in found] == [
        ("own", ""),
        ("cell-0", "old"),
        ("cell-1", "new"),
        ("cell-2", "old"),
    ]
