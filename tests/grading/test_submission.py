"""Collecting what lies in submitted/: with real links, pipes, hard links and odd names."""

import ast
import os
import socket
import unicodedata
from datetime import datetime
from pathlib import Path

import pytest

from grading.assignment import Assignment, load
from grading.course import Course
from grading.submission import MAX_BYTES, Submission, collect, student_id_of
from grading.timestamps import parse_timestamp
from tests.grading.small_course import released_cells, small_course, submit, write_notebook

NAME = "Nguyễn Thị Hương"
NFC = unicodedata.normalize("NFC", NAME)
NFD = unicodedata.normalize("NFD", NAME)


@pytest.fixture
def course(tmp_path: Path) -> Course:
    return small_course(tmp_path / "course")


@pytest.fixture
def assignment(course: Course) -> Assignment:
    return load(course, "tiny")


def only(course: Course, assignment: Assignment) -> Submission:
    submissions = collect(course, assignment)
    assert len(submissions) == 1
    return submissions[0]


def problem_of(course: Course, assignment: Assignment) -> str:
    """The one problem of the one submission, of which no notebook may be taken."""
    submission = only(course, assignment)
    assert submission.notebooks == {}
    assert len(submission.problems) == 1
    return submission.problems[0]


def test_an_honest_submission(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "notes.txt").write_text("mine")
    (folder / "timestamp.txt").write_text("2026-01-31 23:30:00.123456 UTC")
    submission = only(course, assignment)
    assert submission.student_id == "an"
    assert submission.folder == folder
    assert submission.notebooks == {"tiny": (folder / "tiny.ipynb").read_bytes()}
    assert submission.files == {"notes.txt": b"mine"}
    assert submission.timestamp == datetime(2026, 1, 31, 23, 30, 0, 123456)
    assert submission.warnings == submission.problems == ()


def test_without_the_folder_there_are_none(course: Course, assignment: Assignment) -> None:
    assert collect(course, assignment) == []


def test_only_named_files_are_taken(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    for name in ("helper.py", "sitecustomize.py", ".hidden", "checks.json", "more.txt"):
        (folder / name).write_text("x")
    (folder / ".tiny.ipynb").write_text("x")
    (folder / ".ipynb_checkpoints").mkdir()
    submission = only(course, assignment)
    assert submission.files == {}
    assert set(submission.notebooks) == {"tiny"}
    assert submission.warnings == submission.problems == ()


def test_what_is_no_submission(course: Course, assignment: Assignment) -> None:
    (course.submitted / "another" / "other-assignment").mkdir(parents=True)
    (course.submitted / "archive.zip").write_bytes(b"x")
    (course.submitted / ".cache" / "tiny").mkdir(parents=True)
    assert collect(course, assignment) == []


def test_one_student_alone_in_any_spelling(course: Course, assignment: Assignment) -> None:
    submit(course, NFD)
    submit(course, "an")
    assert [s.student_id for s in collect(course, assignment)] == sorted(["an", NFC])
    for spelling in (NFC, NFD):
        assert [s.student_id for s in collect(course, assignment, spelling)] == [NFC]
    assert collect(course, assignment, "nobody") == []


def test_vietnamese_file_names(course: Course) -> None:
    settings = course.solutions / "tiny.toml"
    wanted = unicodedata.normalize("NFD", "bài làm.txt")
    settings.write_text(settings.read_text().replace("notes.txt", wanted), encoding="utf-8")
    assignment = load(course, "tiny")
    folder = submit(course, NFC)
    (folder / wanted).write_text("bài")
    submission = only(course, assignment)
    assert submission.files == {unicodedata.normalize("NFC", wanted): "bài".encode()}
    (folder / unicodedata.normalize("NFC", wanted)).write_text("another")
    submission = only(course, assignment)
    assert submission.files == {}
    assert "2 times" in submission.problems[0]


def test_a_renamed_notebook_is_taken_with_a_warning(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").rename(folder / "tiny (1).IPYNB")
    submission = only(course, assignment)
    assert set(submission.notebooks) == {"tiny"}
    assert "tiny (1).IPYNB" in submission.warnings[0]
    assert submission.problems == ()


def test_which_of_two_is_not_guessed(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").rename(folder / "a.ipynb")
    write_notebook(folder / "b.ipynb", released_cells())
    assert "a.ipynb, b.ipynb" in problem_of(course, assignment)


def test_a_copy_beside_the_notebook_is_told(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    write_notebook(folder / "tiny-Copy1.ipynb", released_cells())
    submission = only(course, assignment)
    assert submission.notebooks["tiny"] == (folder / "tiny.ipynb").read_bytes()
    assert "tiny-Copy1.ipynb" in submission.warnings[0]
    assert submission.problems == ()


def test_a_renamed_link_is_not_taken(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    (folder / "mine.ipynb").symlink_to(course.solutions / "tiny" / "tiny.ipynb")
    assert "is a link" in problem_of(course, assignment)


def test_a_missing_notebook(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    assert "no other notebook" in problem_of(course, assignment)


def test_a_link_to_the_solution(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").symlink_to(course.solutions / "tiny" / "tiny.ipynb")
    assert "is a link" in problem_of(course, assignment)


def test_a_link_does_not_make_way_for_another_notebook(
    course: Course, assignment: Assignment
) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").rename(folder / "b.ipynb")
    (folder / "tiny.ipynb").symlink_to(folder / "b.ipynb")
    submission = only(course, assignment)
    assert submission.notebooks == {}
    assert "is a link" in submission.problems[0]


def test_a_hard_link_to_the_solution(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").hardlink_to(course.solutions / "tiny" / "tiny.ipynb")
    assert "hard link" in problem_of(course, assignment)


def test_a_pipe_does_not_block(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    os.mkfifo(folder / "tiny.ipynb")
    os.mkfifo(folder / "timestamp.txt")
    os.mkfifo(folder / "notes.txt")
    submission = only(course, assignment)
    assert submission.notebooks == submission.files == {}
    assert all("not a plain file" in problem for problem in submission.problems)
    assert len(submission.problems) == 2
    assert "timestamp.txt" in submission.warnings[0]


def test_sockets_folders_and_devices(
    course: Course, assignment: Assignment, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").mkdir()
    (folder / "tiny.ipynb" / "tiny.ipynb").write_text("x")
    assert "not a plain file" in problem_of(course, assignment)
    (folder / "tiny.ipynb" / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").rmdir()
    monkeypatch.chdir(folder)  # A socket's path must be short.
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("tiny.ipynb")
        assert "not a plain file" in problem_of(course, assignment)


def test_linked_folders(course: Course, assignment: Assignment, tmp_path: Path) -> None:
    folder = submit(course, "an")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert "link is not followed" in problem_of(course, assignment)
    folder.unlink()
    folder.parent.rmdir()
    (tmp_path / "student" / "tiny").mkdir(parents=True)
    write_notebook(tmp_path / "student" / "tiny" / "tiny.ipynb", released_cells())
    folder.parent.symlink_to(tmp_path / "student")
    assert "Your folder is a link" in problem_of(course, assignment)


def test_a_file_in_place_of_the_folder(course: Course, assignment: Assignment) -> None:
    (course.submitted / "an").mkdir(parents=True)
    (course.submitted / "an" / "tiny").write_text("x")
    assert "not a plain folder" in problem_of(course, assignment)


def test_a_dangling_link_is_told(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "tiny.ipynb").unlink()
    (folder / "tiny.ipynb").symlink_to("/nowhere")
    assert "is a link" in problem_of(course, assignment)


def test_submitted_itself_may_be_a_link(
    course: Course, assignment: Assignment, tmp_path: Path
) -> None:
    submit(course, "an")
    course.submitted.rename(tmp_path / "big-disk")
    course.submitted.symlink_to(tmp_path / "big-disk")
    assert set(only(course, assignment).notebooks) == {"tiny"}


def test_too_big(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    with (folder / "tiny.ipynb").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "20,971,521 bytes" in problem_of(course, assignment)


def test_files_that_do_not_fit_beside_the_notebook_are_left_out(course: Course) -> None:
    settings = course.solutions / "tiny.toml"
    names = ["a.bin", "b.bin", "c.bin", "d.bin"]
    settings.write_text(settings.read_text().replace('["notes.txt"]', str(names)))
    assignment = load(course, "tiny")
    folder = submit(course, "an")
    for name in names[:3]:
        (folder / name).write_bytes(bytes(20 << 20))
    submission = only(course, assignment)
    assert sorted(submission.files) == names[:3]
    assert submission.problems == ()
    (folder / "d.bin").write_bytes(bytes(20 << 20))
    submission = only(course, assignment)
    assert submission.files == {}
    assert set(submission.notebooks) == {"tiny"}
    assert len(submission.problems) == 1
    assert "None of the files beside your notebook was taken" in submission.problems[0]


def test_more_names_than_anyone_makes(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    for number in range(1001):
        (folder / f"a{number}.ipynb").touch()
    submission = only(course, assignment)
    assert any("1,002 names" in problem for problem in submission.problems)


def test_an_ordinary_user_is_told_what_cannot_be_read(
    course: Course, assignment: Assignment
) -> None:
    for student in ("an", "bo", "cu"):
        submit(course, student)
    closed = [course.submitted / "an" / "tiny", course.submitted / "bo" / "tiny" / "tiny.ipynb"]
    modes = [path.stat().st_mode for path in closed]
    for path in closed:
        path.chmod(0)
    # As root everything can be read: then a child process becomes an ordinary user. It gets the
    # folder by a descriptor, since it may not walk to a temporary folder of root's.
    folder = os.open(course.submitted, os.O_RDONLY)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if os.geteuid() == 0:
            os.setresuid(65534, 65534, 65534)
        os.fchdir(folder)
        here = SubmittedHere(Path("/"))
        found = [(s.student_id, sorted(s.notebooks), s.problems) for s in collect(here, assignment)]
        os.write(writing, repr(found).encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = ast.literal_eval(os.read(reading, 100_000).decode())
    for descriptor in (folder, reading, writing):
        os.close(descriptor)
    for path, mode in zip(closed, modes, strict=True):
        path.chmod(mode)
    an, bo, cu = said
    assert an[:2] == ("an", [])
    assert "Permission denied" in an[2][0]
    assert bo[:2] == ("bo", [])
    assert "Permission denied" in bo[2][0]
    assert cu == ("cu", ["tiny"], ())


class SubmittedHere(Course):
    """A course whose submitted/ is the working folder."""

    @property
    def submitted(self) -> Path:
        return Path()


def test_two_folders_with_one_id_get_nothing_of_each_other(
    course: Course, assignment: Assignment
) -> None:
    submit(course, NFC)
    submit(course, NFD, answers={})
    submit(course, "an")
    shared, other = collect(course, assignment)
    assert (shared.student_id, other.student_id) == (NFC, "an")
    assert shared.notebooks == {}
    assert ascii(NFC) in shared.problems[0]
    assert ascii(NFD) in shared.problems[0]
    assert set(other.notebooks) == {"tiny"}
    assert other.problems == ()


def test_odd_ids_are_made_printable(course: Course, assignment: Assignment) -> None:
    submit(course, "an\nbo")
    (course.submitted / os.fsdecode(b"c\xffd") / "tiny").mkdir(parents=True)
    submissions = collect(course, assignment)
    assert [s.student_id for s in submissions] == ["an\\x0abo", "c\\udcffd"]
    assert set(submissions[0].notebooks) == {"tiny"}
    assert all("cannot be shown" in s.problems[-1] for s in submissions)
    for submission in submissions:
        submission.student_id.encode("utf-8")


def test_an_escaped_id_can_collide_and_is_told(course: Course, assignment: Assignment) -> None:
    submit(course, "a\nb")
    submit(course, "a\\x0ab")
    assert "2 folders" in problem_of(course, assignment)


def test_dots_and_spaces(course: Course, assignment: Assignment) -> None:
    submit(course, "...")
    submit(course, " an")
    assert [s.student_id for s in collect(course, assignment)] == [" an"]
    assert student_id_of("e\u0301") == "é"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31 23:30:00.123456 UTC", datetime(2026, 1, 31, 23, 30, 0, 123456)),
        ("2026-01-31 23:30:00 UTC\n", datetime(2026, 1, 31, 23, 30)),
        ("2026-01-31 23:30:00", datetime(2026, 1, 31, 23, 30)),
        ("2026-01-31T23:30:00Z", datetime(2026, 1, 31, 23, 30)),
        ("2026-01-31 23:30:00 +0700", datetime(2026, 1, 31, 16, 30)),
        ("2026-01-31 23:30:00 -07:30", datetime(2026, 2, 1, 7, 0)),
        ("2026-01-31 23:30:00.5 Asia/Kuala_Lumpur", datetime(2026, 1, 31, 15, 30, 0, 500000)),
    ],
)
def test_timestamps(text: str, moment: datetime) -> None:
    assert parse_timestamp(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01 00:00:00 UTC",
        "2026-01-31 23:30:00 ../../etc/passwd",
        "0001-01-01 00:00:00 +0700",
        "2026-01-31 23:30:00 +9900",
        "2026-01-31 00:00:00 Nowhere",
    ],
)
def test_bad_timestamps_are_warnings(course: Course, assignment: Assignment, text: str) -> None:
    folder = submit(course, "an")
    (folder / "timestamp.txt").write_text(text)
    submission = only(course, assignment)
    assert submission.timestamp is None
    assert "timestamp.txt was not used" in submission.warnings[0]
    assert submission.problems == ()


def test_a_timestamp_of_bytes(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    (folder / "timestamp.txt").write_bytes(b"\xff\xfe\x00")
    assert only(course, assignment).timestamp is None


def test_the_digest_follows_all_that_is_taken(course: Course, assignment: Assignment) -> None:
    folder = submit(course, "an")
    seen = [only(course, assignment).digest]
    assert only(course, assignment).digest == seen[0]
    (folder / "not-taken.txt").write_text("x")
    assert only(course, assignment).digest == seen[0]
    (folder / "notes.txt").write_text("x")
    seen.append(only(course, assignment).digest)
    (folder / "timestamp.txt").write_text("2026-01-31 23:30:00 UTC")
    seen.append(only(course, assignment).digest)
    submit(course, "an", answers={"number": "head_width = 1"})
    seen.append(only(course, assignment).digest)
    (folder / "tiny.ipynb").unlink()
    seen.append(only(course, assignment).digest)
    (folder / "tiny.ipynb").symlink_to("/nowhere")
    seen.append(only(course, assignment).digest)
    assert len(set(seen)) == len(seen)
