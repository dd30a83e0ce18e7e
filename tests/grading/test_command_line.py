"""The command line: what it says, its exit codes, and that a terminal survives a student's id."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from grading.__main__ import main
from grading.autograde import autograde
from grading.commands.shared import FINE, INTERRUPTED, LOOK, REFUSED, UNREAD
from grading.course import Course
from grading.pace import PutOff
from grading.sandbox import SandboxError
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import RIGHT, submit


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    return course


def died(course: Course, monkeypatch) -> None:
    use(monkeypatch, ChosenSandbox(ended="died", reason="It \x1b[31mdied."))


def test_autograde_and_status_say_what_happened(course: Course, monkeypatch, capsys):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    assert main(["autograde", "tiny"]) == FINE
    said = capsys.readouterr().out
    assert "[1/1] an: graded, 5 of 7, 2 points wait for a person\n" in said
    assert said.endswith("1 submission of tiny: 1 graded; in 1 of them points wait for a person\n")
    submit(course, "binh")
    assert main(["status", "tiny"]) == FINE
    assert capsys.readouterr().out == (
        "an  graded  5 of 7, 2 points wait for a person\nbinh  waiting\n"
        "2 submissions of tiny: 1 graded, 1 waiting; in 1 of them points wait for a person\n"
    )


def test_what_needs_a_person_exits_with_1_and_the_reason(course: Course, monkeypatch, capsys):
    submit(course, "an")
    submit(course, "a<b")
    died(course, monkeypatch)
    assert main(["autograde", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an: needs attention\n    Running your notebook did not finish: It " in said
    assert "a<b: not graded\n    The folder's name holds characters" in said
    assert "\x1b" not in said
    assert "2 submissions of tiny: 1 needs attention, 1 not graded; in 1 of them" in said
    assert "its marks so far stand" in said
    assert "What was not graded keeps what it had" in said
    assert main(["status", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an  needs attention  5 of 7, 2 points wait for a person\n    Running" in said
    assert "a<b  not graded\n    The folder's name" in said
    assert "\x1b" not in said
    assert "2 submissions of tiny: 1 needs attention, 1 not graded; in 1 of them" in said


def test_a_sandbox_that_fails_exits_with_1_and_promises_nothing(course, monkeypatch, capsys):
    submit(course, "an")

    class Breaks(ChosenSandbox):
        def run(self, job, **_):
            raise SandboxError("bwrap: Resource temporarily unavailable")

    use(monkeypatch, Breaks())
    assert main(["autograde", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an: not graded\n    It could not be graded: bwrap: Resource temporarily" in said
    assert "1 submission of tiny: 1 not graded\n" in said
    assert "stand" not in said
    assert "formgrader" not in said


def test_ids_cannot_write_on_the_terminal(course: Course, monkeypatch, capsys):
    submit(course, "an\x1b[2J\nroot: graded, 7 of 7")
    submit(course, "an\u202egnimod")
    submit(course, "a\u202eb").rename(course.submitted / "a\u202eb" / "x\u202ey")
    use(monkeypatch, ChosenSandbox())
    main(["autograde", "tiny"])
    main(["status", "tiny"])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert not [line for line in said.splitlines() if line.startswith("root")]


def test_options_reach_the_grader(course: Course, monkeypatch):
    seen = []

    def watch(course, name, **options):
        seen.append((course.root, name, options))
        return []

    monkeypatch.setattr("grading.autograde.autograde", watch)
    words = ["autograde", "tiny", "--student", "a*", "--force", "--workers", "3", "--cold"]
    words += ["--accept-risk", "no-sandbox", "--task", "one", "two", "--cluster", "tcp://here:1"]
    assert main(["--course", str(course.root), *words]) == FINE
    options = {
        "student_id": "a*",
        "force": True,
        "only": ["one", "two"],
        "workers": 3,
        "cluster": "tcp://here:1",
        "cold": True,
        "accepted": ["no-sandbox"],
    }
    assert seen == [(course.root, "tiny", options)]


def test_a_course_is_found_from_a_folder_inside_it(course: Course, monkeypatch, capsys):
    monkeypatch.chdir(course.solutions / "tiny")
    assert main(["status", "tiny"]) == FINE
    assert capsys.readouterr().out == "0 submissions of tiny: -\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "nope"], "no assignment nope; there is: tiny"),
        (["status", "../tiny"], "letters, digits"),
        (["autograde", "tiny", "--student", "nobody"], "No submission of tiny by nobody"),
        (["--course", "/no/such", "status", "tiny"], "is no folder"),
        (["release", "nope"], "no assignment nope; there is: tiny"),
    ],
)
def test_refusals_say_the_way_out_and_exit_with_2(course: Course, monkeypatch, capsys, words, said):
    use(monkeypatch, ChosenSandbox())
    assert main(words) == REFUSED
    assert said in capsys.readouterr().err


def test_lint_tells_each_flaw_and_exits_with_1(course: Course, capsys):
    assert main(["lint", "nope"]) == LOOK
    said = capsys.readouterr().out
    assert "- no assignment nope; there is: tiny\nnope: 1 flaw\n" in said
    (course.solutions / "tiny.toml").write_text("title = ")
    assert main(["lint", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert said.startswith("Checking tiny")
    assert "tiny.toml is not valid TOML" in said
    assert said.endswith("tiny: 1 flaw\n")


def test_outside_a_course_it_says_where_to_go(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["status", "tiny"]) == REFUSED
    assert "--course DIR" in capsys.readouterr().err


def test_a_missing_wall_is_refused_and_nothing_is_stored(course: Course, monkeypatch, capsys):
    submit(course, "an")

    def no_walls(**_: object):
        raise SandboxError("The program bwrap is missing.")

    monkeypatch.setattr("grading.autograde.Sandbox", no_walls)
    assert main(["autograde", "tiny"]) == REFUSED
    assert "bwrap is missing" in capsys.readouterr().err
    assert not course.autograded.exists()


def test_a_flaw_of_the_grader_itself_is_not_hidden(course: Course, monkeypatch):
    monkeypatch.setattr("grading.status.status", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["status", "tiny"])


def test_ctrl_c_has_its_own_code(course: Course, monkeypatch, capsys):
    def stop(*_: object, **__: object):
        raise KeyboardInterrupt

    monkeypatch.setattr("grading.autograde.autograde", stop)
    assert main(["autograde", "tiny"]) == INTERRUPTED


@pytest.mark.parametrize(
    "words",
    [[], ["autograde"], ["grade", "tiny"], ["autograde", "tiny", "--workers", "0"]],
)
def test_wrong_usage_exits_with_2(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == REFUSED
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["release"], ["autograde"], ["status"], ["lint"]])
def test_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert "NAME" in said
    assert len(said.splitlines()) >= 8


def test_it_starts_as_a_module(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    autograde(course, "tiny", progress=lambda text: None)
    command = [sys.executable, "-m", "grading", "status", "tiny"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (FINE, "")
    assert done.stdout.startswith("an  graded  5 of 7, 2 points wait for a person\n")


@pytest.mark.slow
def test_a_terminal_without_the_letters_of_a_name_ends_no_run(course: Course, monkeypatch):
    submit(course, "Nguyễn")
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    command = [sys.executable, "-m", "grading", "status", "tiny"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (FINE, "")
    assert done.stdout.startswith("Nguy\\u1ec5n  waiting\n")


@pytest.mark.slow
def test_it_ends_quietly_when_nobody_reads(course: Course):
    submit(course, "an")
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "grading", "status", "tiny"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (UNREAD, "")


def change(course: Course, command: str) -> None:
    """Do in the gradebook what a person does in formgrader."""
    with sqlite3.connect(course.root / "gradebook.db") as book:
        book.execute(command)


def test_status_follows_what_a_person_did(course: Course, monkeypatch, capsys):
    submit(course, "an")
    folder = submit(course, "binh")
    died(course, monkeypatch)
    assert main(["autograde", "tiny"]) == LOOK
    change(course, "update grade set manual_score = 1.5 where auto_score is null")
    capsys.readouterr()
    assert main(["status", "tiny"]) == LOOK
    assert "an  needs attention  6.5 of 7\n" in capsys.readouterr().out
    change(course, "update grade set needs_manual_grade = 0")
    change(course, "update submitted_notebook set flagged = 0")
    shutil.rmtree(folder.parent)
    assert main(["status", "tiny"]) == FINE
    said = capsys.readouterr().out
    assert said.startswith("an  settled by a person  6.5 of 7\n")
    assert "binh  handed in no more  6.5 of 7\n" in said
    assert main(["autograde", "tiny"]) == FINE
    assert "person" not in capsys.readouterr().out


def test_status_needs_no_gradebook_but_says_when_it_is_broken(course: Course, capsys):
    submit(course, "an")
    book = course.root / "gradebook.db"
    book.write_text("no gradebook at all, but a text that is long enough" * 100)
    assert main(["status", "tiny"]) == REFUSED
    assert "cannot be read" in capsys.readouterr().err
    book.unlink()
    assert main(["status", "tiny"]) == FINE
    assert not book.exists()


def test_what_lies_in_the_wrong_place_is_told(course: Course, monkeypatch, capsys):
    submit(course, "an")
    handed_in = submit(course, "hoa")
    (handed_in / "tiny.ipynb").rename(handed_in.parent / "tiny.ipynb")
    handed_in.rmdir()
    submit(course, "novn").rename(course.submitted / "novn" / "Tiny")
    (course.submitted / "lan.zip").write_text("")
    (course.submitted / ".DS_Store").write_text("")
    (course.submitted / "quang" / "other").mkdir(parents=True)
    (course.solutions / "other.toml").write_text("")
    use(monkeypatch, ChosenSandbox())
    for command in ("autograde", "status"):
        assert main([command, "tiny"]) == FINE
        said = [line for line in capsys.readouterr().out.splitlines() if "ignored" in line]
        assert said == [
            "ignored: hoa has no folder tiny, but tiny.ipynb; what belongs to it has "
            "to be in submitted/hoa/tiny/",
            "ignored: lan.zip lies in submitted/ itself; put what belongs to a student into "
            "submitted/ID/tiny/",
            "ignored: novn has no folder tiny, but Tiny; what belongs to it has to "
            "be in submitted/novn/tiny/",
        ]


def test_progress_says_what_is_left_and_how_long_what_was_put_off_may_take(
    course: Course, monkeypatch, capsys
):
    class PutsOff(ChosenSandbox):
        def run(self, job, *, pace=None, **how):
            if pace and "# long" in job.cells[0].source:
                raise PutOff
            time.sleep(0.3)  # so that the other is put off first
            return super().run(job, **how)

    submit(course, "an", {**RIGHT, "number": "head_width = 64  # long"})
    submit(course, "binh")
    use(monkeypatch, PutsOff())
    main(["autograde", "tiny", "--workers", "1"])
    first, second = [line for line in capsys.readouterr().out.splitlines() if "/2]" in line]
    assert first.startswith("[1/2] binh: graded")
    assert first.endswith(" s left, and for 1 put off up to 240 s each")
    assert "left" not in second
