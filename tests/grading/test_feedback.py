"""Feedback goes back to whoever it is about: own pages alone, under names that systems take."""

import fcntl
import re
import zipfile
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from nbgrader.api import Gradebook

from grading.__main__ import main
from grading.assignment import load
from grading.autograde import autograde
from grading.commands.shared import FINE, LOOK, REFUSED
from grading.course import Course
from grading.feedback import FeedbackError, file_names, make_pages, moodle_folders, pack, pages_of
from grading.roster import RosterError, read_roster
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import FUNCTION_TEST, NUMBER_TEST, small_course, submit

REPOSITORY = Path(__file__).resolve().parents[2]
WORKSHEET = """\
Identifier,Full name,Email address,Grade
Participant 5001,"Nguyễn_An / X",an@uni.example,-
Participant 5002,Binh,binh@uni.example,-
No number,Cuc,cuc@uni.example,-
"""


@pytest.fixture
def paged(tmp_path):
    """Return a course with a page for each of some students, which says whose it is."""
    course = small_course(tmp_path / "course")
    assignment = load(course, "tiny")
    for student in ("an", "binh", "Nguyễn Văn An"):
        for page in pages_of(course, assignment, student):
            page.parent.mkdir(parents=True)
            page.write_text(f"for {student} only", encoding="utf-8")
            (page.parent / "else.html").write_text("not asked for")
    return course, assignment


def inside(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        return {name: file.read(name).decode("utf-8") for name in file.namelist()}


def participant(name: str) -> int | None:
    """Return whose file it is, by the rules of Moodle's import of feedback files."""
    for part in Path(name).parts:
        words = part.split("_", 4)
        if len(words) >= 4 and words[1].isdecimal() and words[2:4] == ["assignsubmission", "file"]:
            return int(words[1])
    return None


def test_each_archive_holds_the_pages_of_one(paged, tmp_path):
    course, assignment = paged
    students = ["an", "binh", "Nguyễn Văn An"]
    target = tmp_path / "out"
    pack(course, assignment, file_names(students), target, "tiny-plain.zip")
    archives = sorted(path.name for path in (target / "students").iterdir())
    assert archives == sorted(f"{student}.zip" for student in students)
    for student in students:
        own = inside(target / "students" / f"{student}.zip")
        assert own == {"tiny.html": f"for {student} only"}
    everybody = inside(target / "tiny-plain.zip")
    assert everybody == {f"{student}/tiny.html": f"for {student} only" for student in students}
    assert target.stat().st_mode & 0o077 == 0


def test_the_same_pages_give_the_same_bytes(paged, tmp_path):
    course, assignment = paged
    made = []
    for name, students in (("one", ["an", "binh"]), ("two", ["binh", "an"])):
        pack(course, assignment, file_names(students), tmp_path / name, "all.zip")
        made.append([path.read_bytes() for path in sorted((tmp_path / name).rglob("*.zip"))])
    assert made[0] == made[1]


def test_no_two_names_are_one_to_any_system():
    students = [
        "An",
        "an",
        "a/b",
        "a:b",
        "a\\..\\..\\b",
        "x.",
        "x",
        "n" * 300,
        "n" * 301,
        "..",
        "CON ",
        "con",
        "nul.txt",
        "LPT1.",
        "-rf",
        "張" * 84,
        "張" * 83 + "三",
        "binh",
        "binh\u200b",
        "gn\u202epiz.hnib",
    ]
    # Ids that are the names which others of these get.
    students += [*set(file_names(students).values()) - {*students}]
    names = file_names(students)
    folded = {name.casefold() for name in names.values()}
    assert len(folded) == len(students)
    for name in names.values():
        assert not re.search(r'[\\/:*?"<>|]', name)
        assert not name.startswith((".", "~", "-"))
        assert name.isprintable()
        assert name.partition(".")[0].strip().casefold() not in ("con", "nul", "lpt1")
        assert not name.endswith((".", " "))
        assert len(name.encode()) < 200
    assert names["binh"] == "binh"
    assert file_names(["an_nguyen", "binh"]) == {"an_nguyen": "an_nguyen", "binh": "binh"}


def test_moodle_knows_whose_each_folder_is(tmp_path):
    path = tmp_path / "worksheet.csv"
    path.write_text(WORKSHEET, encoding="utf-8")
    folders, failed = moodle_folders(read_roster(path), ["an", "binh", "cuc", "dung"])
    assert {student: participant(f"{name}/tiny.html") for student, name in folders.items()} == {
        "an": 5001,
        "binh": 5002,
    }
    assert "no participant's number" in failed["cuc"]
    assert "no row" in failed["dung"]
    path.write_text("Email address\nan@uni.example\n")
    with pytest.raises(RosterError, match="grading worksheet"):
        moodle_folders(read_roster(path), ["an"])


def test_a_folder_in_use_is_not_touched(paged, tmp_path, monkeypatch):
    course, assignment = paged
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(FeedbackError, match="--to DIR"):
        pack(course, assignment, {"an": "an"}, tmp_path / "mine", "all.zip")
    assert [path.name for path in tmp_path.iterdir()].count("mine") == 1
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    pack(course, assignment, {"an": "an"}, Path(), "all.zip")
    assert (tmp_path / "empty" / "all.zip").is_file()


def test_the_folder_one_stands_in_can_be_named_by_a_dot(paged, tmp_path, monkeypatch):
    course, assignment = paged
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    pack(course, assignment, {"an": "an"}, Path(), "all.zip")
    assert (tmp_path / "here" / "all.zip").is_file()


def test_an_old_page_never_stands_for_a_new_one(paged, monkeypatch):
    course, assignment = paged

    class Done:
        stderr = "no page of \x1b]0;title\x07an\x1b[2J"

    monkeypatch.setattr("grading.feedback.subprocess.run", lambda *_, **__: Done())
    with pytest.raises(FeedbackError, match=r"no page of an$"):
        make_pages(course, assignment, ["an"])
    assert not pages_of(course, assignment, "an")[0].exists()


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    for name in ("nbgrader_config.py", "nbgrader_config.json"):
        (course.root / name).write_text((REPOSITORY / name).read_text())
    (course.root / "grading").symlink_to(REPOSITORY / "grading")
    monkeypatch.chdir(course.root)
    for student, answer in (("an", "private word of An"), ("binh", "private word of Binh")):
        submit(course, student, {"number": f"head_width = 64  # {answer}", "answer": answer})
    use(monkeypatch, ChosenSandbox())
    autograde(course, "tiny", progress=lambda _: None)
    return course


def give(course: Course, student: str, comment: str) -> None:
    with Gradebook(course.database_url) as book:
        grade = book.find_grade("answer", "tiny", "tiny", student)
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.find_comment("answer", "tiny", "tiny", student).manual_comment = comment
        book.db.commit()


def test_it_says_who_waits_and_packs_nothing(course: Course, capsys):
    assert main(["feedback", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an: left out: 2 points wait for a person" in said
    assert "Nothing was packed: 2 of 2 students would be left out." in said
    assert not (course.root / "exports").exists()
    assert main(["feedback", "tiny", "--format", "moodle"]) == REFUSED
    assert "goes with --roster" in capsys.readouterr().err


def test_nobody_grades_while_pages_are_made_and_packed(course: Course, monkeypatch):
    give(course, "an", "Well seen.")
    give(course, "binh", "Nearly.")
    done: list[str] = []

    def note(what: str, came: object) -> object:
        with (course.state / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        done.append(what)
        return came

    monkeypatch.setattr("grading.feedback.make_pages", lambda *_: note("made", {}))
    monkeypatch.setattr("grading.feedback.pack", lambda *_, **__: note("packed", None))
    assert main(["feedback", "tiny"]) == FINE
    assert done == ["made", "packed"]


@pytest.mark.slow
def test_students_get_their_own_pages_and_nothing_hidden(course: Course, capsys):
    give(course, "an", "Well seen, An.")
    give(course, "binh", "Nearly, Binh.")
    target = course.root / "exports" / "tiny-feedback"
    assert main(["feedback", "tiny"]) == FINE
    assert f"{target}: students/ with 2 archives" in capsys.readouterr().out
    pages = {name: inside(target / "students" / f"{name}.zip") for name in ("an", "binh")}
    everybody = inside(target / "tiny-plain.zip")
    for student, other, name in (("an", "binh", "An"), ("binh", "an", "Binh")):
        (page,) = pages[student].values()
        assert everybody[f"{student}/tiny.html"] == page
        text = page + BeautifulSoup(page, "html.parser").get_text()
        assert f"private word of {name}" in text
        assert "(Score: 7.0 / 7.0)" in text
        assert f", {name}." in text
        assert other.capitalize() not in text
        for test in (NUMBER_TEST, FUNCTION_TEST):
            hidden = test.split("### BEGIN HIDDEN TESTS")[1].splitlines()[1:-1]
            assert hidden
            assert not [line for line in hidden if line in text]
        assert "once more" not in text
        assert "other sizes" not in text

    # One page cannot be made, and Moodle knows people by other names.
    (course.root / "worksheet.csv").write_text(WORKSHEET, encoding="utf-8")
    damaged = course.autograded / "binh" / "tiny" / "tiny.ipynb"
    damaged.write_text("{}")
    words = ["feedback", "tiny", "--format", "moodle", "--roster", "worksheet.csv"]
    assert main([*words, "--partial"]) == LOOK
    assert "binh: left out: nbgrader made no page" in capsys.readouterr().out
    assert sorted(path.name for path in target.rglob("*.zip")) == ["an.zip", "tiny-moodle.zip"]
    (name,) = inside(target / "tiny-moodle.zip")
    assert participant(name) == 5001
