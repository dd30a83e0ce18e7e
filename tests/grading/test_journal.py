"""The log of runs: whole lines whatever is killed, nothing hidden; and what `status` says."""

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grading import journal
from grading.__main__ import main
from grading.assignment import AssignmentError
from grading.autograde import autograde
from grading.commands.shared import FINE, LOOK
from grading.course import Course
from grading.grade import NOT_GRADED
from grading.sandbox import SandboxError
from grading.status import CUT_OFF, PUT_OFF, status
from grading.writer import Line
from tests.grading.outcomes import RIGHT_B, ChosenSandbox, registered_course, set_secret, use
from tests.grading.outcomes import replaced as changed_message
from tests.grading.small_course import submit


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    return course


def quiet(text: str) -> None:
    pass


def run(course: Course, **options):
    return autograde(course, "tiny", progress=quiet, **options)


def logs(course: Course):
    return sorted(journal.folder(course, "tiny").glob("*.jsonl"))


def events(course: Course) -> list[dict]:
    return [json.loads(line) for line in logs(course)[-1].read_text().splitlines()]


def last(course: Course) -> journal.Run:
    return next(journal.runs(course, "tiny"))


def test_each_event_is_a_line(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "a<b")
    use(monkeypatch, ChosenSandbox())
    run(course, workers=1, student_id="a*", force=True)
    told = events(course)
    assert [each["event"] for each in told] == [
        "run begun",
        "submissions",
        "submission ended",
        "submission begun",
        "submission ended",
        "run ended",
    ]
    assert told[0]["options"] == {
        "student": "a*",
        "force": True,
        "task": [],
        "workers": 1,
        "cluster": False,
        "cold": False,
        "risks": [],
    }
    assert told[1]["waiting"] == 1
    refused, graded = told[2], told[4]
    assert (refused["student"], refused["status"]) == ("a<b", NOT_GRADED)
    assert "Rename the folder" in refused["reasons"][0]
    assert (graded["student"], graded["status"]) == ("an", "graded")
    assert (graded["points"], graded["max_score"]) == (5.0, 7.0)
    assert graded["seconds"] >= 0
    assert logs(course)[0].stat().st_mode & 0o777 == 0o600


def test_no_hidden_value_and_no_secret_reach_the_log(course: Course, monkeypatch):
    """Also where the solution itself fails, whose values the message to the instructor holds."""
    submit(course, "an")
    wrong = changed_message(RIGHT_B, "head width, once more", 424242)
    use(monkeypatch, ChosenSandbox(hidden=wrong))
    run(course)
    failing = AssignmentError("tiny", ["yours is 0.515151, expected 0.616161"])
    monkeypatch.setattr("grading.autograde.references_of", lambda *_: {(): failing})
    (line,) = run(course, force=True)
    assert "0.515151" in line.reasons[0]
    assert last(course).results["an"].reasons == (journal.PRIVATE_REASON,)

    def refuse(*_):
        raise failing

    monkeypatch.setattr("grading.autograde.references_of", refuse)
    with pytest.raises(AssignmentError):
        run(course, force=True)
    assert (last(course).end, last(course).why) == ("stopped", "AssignmentError")
    text = "".join(path.read_text() for path in logs(course))
    assert len(logs(course)) == 3
    for hidden in ("424242", "0.515151", "0.616161", course.secret().hex()):
        assert hidden not in text


@pytest.mark.parametrize(
    "torn",
    [
        *('{"time": "2026-', "\0\0\0\0", "[1]\n", '{"event": 3}\n', "\xff", "[" * 100_000),
        '{"time": "2026-01-01T00:00:00+00:00", "event": "submissions", "waiting": Infinity}\n',
    ],
    ids=range(7),
)
def test_torn_and_strange_lines_are_skipped(course: Course, monkeypatch, torn):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    (path,) = logs(course)
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-1]) + torn.encode("latin-1"))
    assert last(course).end == "killed"
    assert last(course).results["an"].status == "graded"
    path.write_bytes(torn.encode("latin-1"))
    assert list(journal.runs(course, "tiny")) == []


def test_what_a_full_disk_tears_costs_one_line(course: Course, tmp_path, monkeypatch):
    log = journal.Journal(tmp_path / "log.jsonl")
    write = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, text: write(file, text[:10]))
        log.begun("an")
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        log.begun("binh")
    log.begun("chi")
    log.close()
    torn, whole = (tmp_path / "log.jsonl").read_text().splitlines()
    assert len(torn) == 10
    assert json.loads(whole)["student"] == "chi"


def test_lines_of_many_threads_stay_whole(tmp_path):
    log = journal.Journal(tmp_path / "log.jsonl")
    threads = [
        threading.Thread(target=lambda: [log.put_off("ă" * 3000) for _ in range(30)])
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    log.close()
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert {json.loads(line)["student"] for line in lines} == {"ă" * 3000}
    assert len(lines) == 240


def test_old_logs_are_removed(course: Course, monkeypatch):
    use(monkeypatch, ChosenSandbox())
    monkeypatch.setattr(journal, "KEPT", 3)
    for _ in range(5):
        run(course)
    assert len(logs(course)) == 3


def wait_for_the_first(course: Course) -> None:
    """Wait until the first submission is stored, which another thread does."""
    end = time.monotonic() + 60
    while last(course).done < 1:
        assert time.monotonic() < end
        time.sleep(0.01)


class Halts(ChosenSandbox):
    """Stops at the second student's first run, when the first is stored, until it is let go."""

    def __init__(self, course: Course) -> None:
        super().__init__()
        self.course = course
        self.runs = 0
        self.halted, self.go_on = threading.Event(), threading.Event()

    def run(self, job, begun, **how):
        self.runs += 1
        if self.runs == 3:
            begun()
            wait_for_the_first(self.course)
            self.halted.set()
            assert self.go_on.wait(60)
        return super().run(job, begun=begun, **how)


def test_status_follows_a_run_that_goes_on(course: Course, monkeypatch, capsys):
    for student in ("an", "binh", "chi"):
        submit(course, student)
    sandbox = Halts(course)
    use(monkeypatch, sandbox)
    # One thread for the one run that may go: else the others are at work too, waiting for a turn.
    monkeypatch.setattr("grading.crew.THREADS", 1)
    worker = threading.Thread(target=lambda: run(course, workers=1), daemon=True)
    worker.start()
    try:
        assert sandbox.halted.wait(60)
        states = {state.student_id: state for state in status(course, "tiny")}
        assert [states[student].state for student in ("an", "binh", "chi")] == [
            "graded",
            "doing",
            "waiting",
        ]
        assert abs(datetime.now(UTC) - states["binh"].since) < timedelta(minutes=5)
        assert main(["status", "tiny"]) == FINE
        said = capsys.readouterr().out
        assert "binh  doing since " in said
        assert "is going on: 1 of 3 done, 1 at work; about " in said
        assert main(["status", "tiny", "--json"]) == FINE
        told = json.loads(capsys.readouterr().out)
        assert told["last_run"]["state"] == "going on"
        assert told["last_run"]["seconds_left"] > 0
        assert told["totals"] == {"graded": 1, "doing": 1, "waiting": 1}
        assert told["submissions"][0]["score"] == 5.0
        assert told["submissions"][1]["since"] is not None
    finally:
        sandbox.go_on.set()
        worker.join(60)
    assert {state.state for state in status(course, "tiny")} == {"graded"}
    assert last(course).end == "ended"
    main(["status", "tiny"])
    assert "run" not in capsys.readouterr().out


def test_status_tells_what_is_put_off_and_how_long_the_others_take(course: Course, capsys):
    for student in ("an", "binh", "chi"):
        submit(course, student)
    line = Line("an", "not graded", None, 5.0)
    with journal.opened(course, "tiny", "", {}) as log:
        log.found(3, [])
        for student in ("an", "binh"):
            log.begun(student)
        log.ended(line)
        log.put_off("binh")
        main(["status", "tiny"])
        said = capsys.readouterr().out
        assert f"binh  waiting\n    {PUT_OFF}\nchi  waiting\n" in said
        assert "1 of 3 done, 0 at work; about " in said
        assert " left, and what takes long goes last: 1.\n" in said
        log.begun("chi")
        log.ended(replace(line, student_id="chi"))
        log.begun("binh")
        main(["status", "tiny"])
        said = capsys.readouterr().out
        assert "binh  doing since " in said
        assert "2 of 3 done, 1 at work; no time is known, and what takes long goes last: 1." in said
        main(["status", "tiny", "--json"])
        told = json.loads(capsys.readouterr().out)["last_run"]
        assert (told["put_off"], told["seconds_left"]) == (1, None)
        log.ended(replace(line, student_id="binh"))
        assert last(course).put_off == set()


def _grade_until_killed(root) -> None:
    class Dies(Halts):
        def run(self, job, begun, **how):
            if self.runs == 2:
                begun()
                wait_for_the_first(self.course)
                os.kill(os.getpid(), signal.SIGKILL)
            return super().run(job, begun, **how)

    course = Course(root)
    patch = pytest.MonkeyPatch()
    use(patch, Dies(course))
    patch.setattr("grading.crew.THREADS", 1)
    autograde(course, "tiny", progress=quiet, workers=1)


def test_a_killed_run_is_told_as_one(course: Course, monkeypatch, capsys):
    submit(course, "an")
    submit(course, "binh")
    child = multiprocessing.get_context("fork").Process(
        target=_grade_until_killed, args=(course.root,)
    )
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    states = {state.student_id: state for state in status(course, "tiny")}
    assert (states["binh"].state, states["binh"].reasons) == ("waiting", (CUT_OFF,))
    assert states["binh"].since is None
    assert main(["status", "tiny"]) == FINE
    assert "was stopped (killed) when 1 of 2 was graded; the same" in capsys.readouterr().out
    use(monkeypatch, ChosenSandbox())
    run(course)
    assert {state.reasons for state in status(course, "tiny")} == {()}


def test_stopped_by_hand_is_told_as_such(course: Course, monkeypatch, capsys):
    submit(course, "an")
    submit(course, "binh")
    use(monkeypatch, ChosenSandbox())

    def stop(text: str) -> None:
        if text.startswith("[1/2]"):
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        autograde(course, "tiny", workers=1, progress=stop)
    assert main(["status", "tiny"]) == FINE
    assert "was stopped (Ctrl-C) when 1 of 2 was graded; the same command carries on" in (
        capsys.readouterr().out
    )
    with contextlib.suppress(KeyboardInterrupt):
        autograde(course, "tiny", workers=1, force=True, progress=stop)
    main(["status", "tiny"])
    assert "1 of 2 was graded; the same command begins anew" in capsys.readouterr().out


def test_status_says_why_something_was_not_graded(course: Course, monkeypatch, capsys):
    submit(course, "an")
    submit(course, "binh")

    class Breaks(ChosenSandbox):
        def run(self, job, **_):
            raise SandboxError("bwrap: Resource temporarily unavailable")

    use(monkeypatch, Breaks())
    run(course)
    use(monkeypatch, ChosenSandbox())
    run(course, student_id="an")
    assert main(["status", "tiny"]) == LOOK
    said = capsys.readouterr().out
    assert "binh  not graded\n    It could not be graded: bwrap: Resource temporarily" in said
    assert "an  graded" in said
    assert [state.state for state in status(course, "tiny")] == ["graded", "not graded"]
    run(course)
    assert [state.state for state in status(course, "tiny")] == ["graded", "graded"]
