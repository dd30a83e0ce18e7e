"""The command line: what it says, its exit codes, and that a terminal survives a student's id."""

import subprocess
import sys

import pytest

from grading.__main__ import FINE, INTERRUPTED, LOOK, REFUSED, main
from grading.autograde import autograde
from grading.course import Course
from grading.sandbox import SandboxError
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import submit


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
    assert "[1/1] an: graded, 5 of 7\n" in said
    assert said.endswith("1 submissions of tiny: 1 graded\n")
    submit(course, "binh")
    assert main(["status", "tiny"]) == FINE
    assert capsys.readouterr().out == (
        "an  graded  5 of 7\nbinh  waiting\n2 submissions of tiny: 1 graded, 1 waiting\n"
    )


def test_what_needs_a_person_exits_with_1_and_the_reason(course: Course, monkeypatch, capsys):
    submit(course, "an")
    submit(course, "a<b")
    died(course, monkeypatch)
    assert main(["autograde", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an: needs attention\n    Running the notebook did not finish: It " in said
    assert "a<b: failed\n    The folder's name holds characters" in said
    assert "\x1b" not in said
    assert main(["status", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "an  needs attention  5 of 7\n    Running" in said
    assert "a<b  cannot be graded\n    The folder's name" in said
    assert "\x1b" not in said
    assert said.endswith("2 submissions of tiny: 1 needs attention, 1 cannot be graded\n")


def test_ids_cannot_write_on_the_terminal(course: Course, monkeypatch, capsys):
    submit(course, "an\x1b[2J\nroot: graded, 7 of 7")
    submit(course, "an\u202egnimod")
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
    words = ["autograde", "tiny", "--student", "a*", "--force", "--workers", "3"]
    assert main(["--course", str(course.root), *words]) == FINE
    assert seen == [(course.root, "tiny", {"student_id": "a*", "force": True, "workers": 3})]


def test_a_course_is_found_from_a_folder_inside_it(course: Course, monkeypatch, capsys):
    monkeypatch.chdir(course.solutions / "tiny")
    assert main(["status", "tiny"]) == FINE
    assert capsys.readouterr().out == "0 submissions of tiny: -\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["status", "nope"], "assignment 'nope' has 2 flaws"),
        (["status", "../tiny"], "letters, digits"),
        (["autograde", "tiny", "--student", "nobody"], "No submission of tiny by nobody"),
        (["--course", "/no/such", "status", "tiny"], "is no folder"),
        (["release", "nope"], "assignment 'nope' has 2 flaws"),
    ],
)
def test_refusals_say_the_way_out_and_exit_with_2(course: Course, monkeypatch, capsys, words, said):
    use(monkeypatch, ChosenSandbox())
    assert main(words) == REFUSED
    assert said in capsys.readouterr().err


def test_lint_tells_each_flaw_and_exits_with_1(course: Course, capsys):
    assert main(["lint", "nope"]) == LOOK
    assert "nope.toml is missing" in capsys.readouterr().out


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
    assert done.stdout.startswith("an  graded  5 of 7\n")
