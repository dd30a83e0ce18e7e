"""Copies of the gradebook: made before marks change, whole, kept a while, and the way back."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from grading import backups as backups_module
from grading.__main__ import main
from grading.autograde import autograde
from grading.backups import back_up, backups, folder, restore
from grading.commands.shared import FINE, REFUSED
from grading.course import Course
from grading.gradebook import GradebookError
from grading.standings import standings
from tests.grading.outcomes import RIGHT_A, ChosenSandbox, registered_course, set_secret, use
from tests.grading.outcomes import replaced as changed_message
from tests.grading.small_course import RIGHT, submit


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    return course


def run(course: Course, **options) -> list[str]:
    told: list[str] = []
    autograde(course, "tiny", progress=told.append, **options)
    return told


def content(path) -> list[str]:
    with closing(sqlite3.connect(path)) as book:
        return list(book.iterdump())


def give_by_hand(course: Course, points: float) -> None:
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book, book:
        book.execute("update grade set manual_score = ? where auto_score is null", (points,))


def test_a_copy_is_made_before_marks_change_and_not_otherwise(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    submit(course, "binh")  # New work changes no mark that exists.
    run(course)
    assert backups(course) == []
    for change in ("forced", "other work", "other version"):
        before = content(course.root / "gradebook.db")
        count = len(backups(course))
        if change == "other work":
            submit(course, "an", {**RIGHT, "number": "head_width = 63"})
        if change == "other version":
            settings = course.solutions / "tiny.toml"
            settings.write_text(
                settings.read_text().replace("[limits]", "[limits]\ncpu_seconds = 7")
            )
        told = run(course, force=change == "forced")
        assert len(backups(course)) == count + 1, change
        newest = backups(course)[0]
        assert content(newest) == before
        assert any(str(newest) in line for line in told)
        assert newest.stat().st_mode & 0o777 == 0o600
    run(course)
    assert len(backups(course)) == 3


def test_the_copy_comes_before_other_points_are_entered(course: Course, monkeypatch):
    """nbgrader's own step changes what a cell is worth, and so each mark's share of it."""
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    before = content(course.root / "gradebook.db")
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    text = notebook.read_text().replace('"points": 3', '"points": 4')
    notebook.write_text(text.replace("**Points** 7", "**Points** 8"))
    run(course)
    assert standings(course, "tiny")["an"].max_score == 8
    (copy,) = backups(course)
    assert content(copy) == before


def test_the_last_copies_are_kept(course: Course, monkeypatch):
    monkeypatch.setattr(backups_module, "KEPT", 3)
    folder(course).mkdir(parents=True)
    (folder(course) / "gradebook-mine.db").write_text("somebody's own")
    (folder(course) / "gradebook-20260101T000000000000Z.db.0.new").write_text("killed")
    made = [back_up(course) for _ in range(5)]
    assert backups(course) == made[:1:-1]
    assert {path.name for path in folder(course).iterdir()} == {
        *(path.name for path in made[2:]),
        "gradebook-mine.db",
    }


def test_a_copy_is_whole_while_another_program_writes(course: Course):
    """Formgrader may write at any moment: a copy has all of what it wrote together, or nothing."""
    path = course.root / "gradebook.db"
    with closing(sqlite3.connect(path)) as book, book:
        book.execute("create table pair (one integer, two integer)")
        book.executemany("insert into pair values (?, ?)", [(0, 0)] * 2000)
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(path, timeout=30)) as book:
            while not stop.is_set():
                with book:
                    book.execute("update pair set one = one + 1")
                    book.execute("update pair set two = two + 1")
                time.sleep(0.002)  # Else nobody else gets a turn.

    writer = threading.Thread(target=write)
    writer.start()
    try:
        copies = [back_up(course) for _ in range(5)]
    finally:
        stop.set()
        writer.join(30)
    for copy in copies:
        with closing(sqlite3.connect(copy)) as book:
            found = book.execute("select distinct one, two from pair").fetchall()
        assert len(found) == 1
        assert found[0][0] == found[0][1]


def test_back_to_the_marks_from_before_a_regrade(course: Course, monkeypatch, capsys):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    give_by_hand(course, 1.5)
    before = content(course.root / "gradebook.db")
    use(monkeypatch, ChosenSandbox(changed_message(RIGHT_A, "head width", 63)))
    run(course, force=True)
    after = content(course.root / "gradebook.db")
    assert standings(course, "tiny")["an"].score == 5.5
    assert main(["restore"]) == FINE
    (name,) = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    with closing(sqlite3.connect(course.root / "gradebook.db")) as formgrader:
        formgrader.execute("select * from grade").fetchall()  # Open, as in JupyterLab.
        assert main(["restore", name]) == FINE
    assert content(course.root / "gradebook.db") == before
    assert standings(course, "tiny")["an"].score == 6.5
    said = capsys.readouterr().out
    assert f"The gradebook is that of {name}." in said
    assert content(backups(course)[0]) == after
    assert main(["restore", str(backups(course)[0])]) == FINE
    assert content(course.root / "gradebook.db") == after
    # What is new is graded into the gradebook that was put back.
    submit(course, "binh")
    run(course)
    assert {*standings(course, "tiny")} == {"an", "binh"}


def test_the_oldest_copy_can_be_put_back_too(course: Course, monkeypatch):
    """Although the copy that is made first takes its place."""
    monkeypatch.setattr(backups_module, "KEPT", 2)
    oldest, _ = back_up(course), back_up(course)
    before = content(oldest)
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book, book:
        book.execute("create table later (one integer)")
    restore(course, oldest)
    assert content(course.root / "gradebook.db") == before
    assert not list(folder(course).glob("*.new"))


@pytest.mark.parametrize("damage", ["text", "empty", "another database", "cut"])
def test_what_is_no_gradebook_is_refused(course: Course, capsys, damage):
    path = back_up(course)
    if damage == "another database":
        path.unlink()
        with closing(sqlite3.connect(path)) as book, book:
            book.execute("create table grade (one integer)")
    else:
        whole = path.read_bytes()
        path.write_bytes(
            {"text": b"no database", "empty": b"", "cut": whole[: len(whole) // 2]}[damage]
        )
    before = content(course.root / "gradebook.db")
    assert main(["restore", path.name]) == REFUSED
    assert path.name in capsys.readouterr().err
    assert content(course.root / "gradebook.db") == before


@pytest.mark.parametrize("damage", ["text", "cut"])
def test_a_damaged_gradebook_is_set_aside_and_the_copy_takes_its_place(
    course: Course, capsys, damage
):
    copy, gradebook = back_up(course), course.root / "gradebook.db"
    whole = gradebook.read_bytes()
    broken = {"text": b"no database" * 1000, "cut": whole[: len(whole) // 2]}[damage]
    gradebook.write_bytes(broken)
    journal = gradebook.with_name("gradebook.db-journal")
    journal.write_bytes(b"of what is damaged")
    assert main(["restore", copy.name]) == FINE
    assert content(gradebook) == content(copy)
    (aside,) = folder(course).glob("damaged-*.db")
    assert aside.read_bytes() == broken
    assert f"What it was until now: {aside.name}" in capsys.readouterr().out
    assert not journal.exists()


def test_a_damaged_gradebook_stays_where_the_copy_cannot_be_put_back(course: Course, monkeypatch):
    copy, gradebook = back_up(course), course.root / "gradebook.db"
    gradebook.write_bytes(b"no database" * 1000)
    copied = backups_module._copy

    def full(source, target) -> None:
        if source == gradebook:
            copied(source, target)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(backups_module, "_copy", full)
    with pytest.raises(GradebookError, match="could not be put back"):
        restore(course, copy)
    assert gradebook.read_bytes() == b"no database" * 1000


def test_a_gradebook_that_stays_locked_is_told_and_not_waited_for_for_ever(
    course: Course, monkeypatch
):
    monkeypatch.setattr(backups_module, "BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(course.root / "gradebook.db", isolation_level=None)) as formgrader:
        formgrader.execute("begin exclusive")
        with pytest.raises(GradebookError, match="has it open and writes"):
            back_up(course)
    assert list(folder(course).iterdir()) == []
    copy = back_up(course)
    with closing(sqlite3.connect(course.root / "gradebook.db", isolation_level=None)) as formgrader:
        formgrader.execute("begin immediate")
        with pytest.raises(GradebookError, match="Close what uses the gradebook"):
            restore(course, copy)


def test_what_a_killed_program_began_is_undone_by_whoever_reads_first(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    gradebook = course.root / "gradebook.db"
    before, marked = content(gradebook), standings(course, "tiny")
    killed = """
import os, sqlite3, sys
book = sqlite3.connect(sys.argv[1])
book.execute("pragma cache_size = 1")  # So that pages are written before the end.
book.execute("begin")
book.execute("update grade set auto_score = 0, manual_score = 0")
book.execute("create table filler (text)")
book.execute("insert into filler select hex(zeroblob(1000)) from sqlite_master")
os._exit(9)
"""
    for read in (lambda: standings(course, "tiny"), lambda: content(back_up(course))):
        subprocess.run([sys.executable, "-c", killed, gradebook], check=False)
        assert gradebook.with_name("gradebook.db-journal").exists()
        assert read() in (marked, before)


def test_an_unknown_copy_is_refused_with_a_way_out(course: Course, capsys):
    assert main(["restore"]) == FINE
    assert "There is no copy" in capsys.readouterr().out
    assert main(["restore", "gradebook-1.db"]) == REFUSED
    assert "`restore` alone lists" in capsys.readouterr().err


def test_without_a_copy_no_mark_is_changed(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    before = content(course.root / "gradebook.db")
    folder(course).mkdir(parents=True, exist_ok=True)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(backups_module, "_copy", full)
    with pytest.raises(GradebookError, match="no mark was changed"):
        run(course, force=True)
    assert content(course.root / "gradebook.db") == before
    assert list(folder(course).iterdir()) == []


def test_a_gradebook_that_is_never_let_go_is_told(course: Course, monkeypatch):
    copy = back_up(course)
    monkeypatch.setattr(backups_module, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(course.root / "gradebook.db")) as book:
        book.execute("begin exclusive")
        with pytest.raises(GradebookError, match="could not be copied"):
            back_up(course)
        with pytest.raises(GradebookError, match="could not be"):
            restore(course, copy)
    assert backups(course) == [copy]


def test_a_gradebook_elsewhere_is_not_copied_here(course: Course, monkeypatch):
    address = property(lambda self: "postgresql://marks.example/gradebook")
    monkeypatch.setattr(Course, "database_url", address)
    assert back_up(course) is None
    with pytest.raises(GradebookError, match="pg_dump"):
        restore(course, course.root / "gradebook.db")
