"""The course's folders and its secret, with real files."""

import os
from pathlib import Path

import pytest

from grading.course import Course, CourseError


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    """A course whose secret lies beside it, not in it."""
    monkeypatch.setenv("MHA_COURSE_SECRET", str(tmp_path / "outside" / "secret"))
    return Course(tmp_path / "course")


def test_relative_root_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Course(Path("course")).solutions == tmp_path / "course" / "solutions"
    assert Course(Path("course")).database_url == f"sqlite:///{tmp_path}/course/gradebook.db"


def test_assignments_come_in_the_order_of_the_book(course: Course) -> None:
    course.solutions.mkdir(parents=True)
    for name in ("apples", "heads", "vectors"):
        (course.solutions / f"{name}.toml").touch()
        (course.solutions / f"{name}.answers.toml").touch()
    assert course.assignments == ["apples", "heads", "vectors"]
    # exercises/later has no settings yet, so it is none; what the book leaves out comes last.
    (course.root / "_toc.yml").write_text(
        "chapters:\n"
        "  - file: book/en/exercises/vectors/vectors # laid in from exercises/\n"
        "  - file: book/en/exercises/later/later\n"
        "  - file: book/en/exercises/heads/heads\n"
    )
    assert course.assignments == ["vectors", "heads", "apples"]


def test_the_secret_is_made_once_for_its_owner_alone(course: Course, tmp_path: Path) -> None:
    made = course.secret()
    path = tmp_path / "outside" / "secret"
    assert len(made) == 32
    assert course.secret() == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]


def test_two_courses_elsewhere_have_two_secrets(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = course.secret()
    monkeypatch.setenv("MHA_COURSE_SECRET", str(tmp_path / "another"))
    assert course.secret() != made


def test_without_the_variable_it_lies_in_the_home(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MHA_COURSE_SECRET")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    course.secret()
    assert (tmp_path / "home" / ".config" / "mha-course" / "secret").is_file()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_secret_that_others_may_open_is_refused(
    course: Course, tmp_path: Path, mode: int
) -> None:
    course.secret()
    (tmp_path / "outside" / "secret").chmod(mode)
    with pytest.raises(CourseError, match="chmod 600"):
        course.secret()


def test_a_secret_inside_the_course_is_refused(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.root.mkdir()
    monkeypatch.setenv("MHA_COURSE_SECRET", str(course.root / "secret"))
    with pytest.raises(CourseError, match="inside the course"):
        course.secret()
    (tmp_path / "door").symlink_to(course.root)
    monkeypatch.setenv("MHA_COURSE_SECRET", str(tmp_path / "door" / "secret"))
    with pytest.raises(CourseError, match="inside the course"):
        course.secret()
    assert list(course.root.iterdir()) == []


@pytest.mark.parametrize("content", ["", "abc", "00" * 31, "zz" * 32, "é" * 64])
def test_a_damaged_secret_is_refused_and_kept(course: Course, tmp_path: Path, content: str) -> None:
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(CourseError, match="damaged"):
        course.secret()
    assert path.read_text(encoding="utf-8") == content


def test_a_secret_that_is_no_file_is_refused(course: Course, tmp_path: Path) -> None:
    path = tmp_path / "outside" / "secret"
    path.parent.mkdir()
    os.mkfifo(path, 0o600)
    with pytest.raises(CourseError, match="damaged"):
        course.secret()
