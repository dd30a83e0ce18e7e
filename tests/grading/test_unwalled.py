"""Grading where a wall is missing: refused, unless the risk is named; and then what still holds."""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grading import guards
from grading import missing as missing_module
from grading.__main__ import main
from grading.autograde import autograde
from grading.cluster import ClusterError
from grading.commands.shared import FINE, REFUSED
from grading.course import Course
from grading.job import Job, JobCell, Limits
from grading.journal import runs
from grading.risks import MEANINGS, NO_MEMORY_LIMIT, NO_SANDBOX, Missing, refusal
from grading.sandbox import Sandbox, SandboxError, missing_walls
from grading.unwalled import Unwalled
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import RIGHT, small_course, submit
from tests.grading.test_autograde import everything
from tests.grading.test_nbgrader_plugin import BUTTON, ROOT, scores

WHICH = shutil.which
SMALL = Limits(cell_seconds=5, seconds=60, memory_bytes=400 << 20)
TELL = "import os\nprint(os.environ['HOME'], flush=True)\n"


@pytest.fixture
def untried(monkeypatch):
    missing_module._find_walls.cache_clear()
    yield monkeypatch
    missing_module._find_walls.cache_clear()


@pytest.fixture
def no_bwrap(untried):
    untried.setattr(shutil, "which", lambda name: None if name == "bwrap" else WHICH(name))
    return untried


@pytest.fixture
def no_memory_limit(untried):
    untried.setattr(guards, "cgroup_parent", lambda: None)
    untried.setattr(guards, "can_watch", lambda: False)


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch) -> Course:
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    shutil.copy(ROOT / "nbgrader_config.py", course.root)
    monkeypatch.chdir(course.root)
    submit(course, "an")
    return course


def run(*sources, limits=SMALL, **job):
    cells = tuple(JobCell(f"c{number}", source) for number, source in enumerate(sources))
    return Sandbox(limits=limits, accepted=[NO_SANDBOX]).run(Job(cells, **job))


def said(result, cell="c0"):
    return "".join(output.get("text", "") for output in result.cells[cell].outputs)


def left_over(result):
    """Give what is still there of a run whose first cell told where it was at home."""
    root = Path(said(result).split()[0]).parents[1]
    found = [str(root)] if root.exists() else []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if str(root).encode() in (entry / "environ").read_bytes():
                    found.append(entry.name)
    return found


# Naming a risk


def test_a_refusal_says_what_is_missing_what_it_means_and_last_the_words_to_add(no_bwrap):
    for accepted in ((), [NO_MEMORY_LIMIT]):
        with pytest.raises(SandboxError) as refused:
            Sandbox(accepted=accepted)
        missing, words = str(refused.value).splitlines()
        assert missing == (
            f"The program bwrap is missing. Without that, {MEANINGS[NO_SANDBOX]}. "
            "Install it: apt-get install bubblewrap."
        )
        assert words.endswith("python -m grading autograde NAME: --accept-risk no-sandbox")


def test_what_nothing_can_replace_is_refused_whatever_is_named(untried):
    for lacking in (["prlimit"], ["prlimit", "bwrap"]):
        untried.setattr(
            shutil, "which", lambda name, no=lacking: None if name in no else WHICH(name)
        )
        with pytest.raises(SandboxError, match=r"prlimit is missing\. Nothing can take its place"):
            Sandbox(accepted=MEANINGS)
    with pytest.raises(SandboxError) as refused:
        Sandbox()
    assert "--accept-risk" not in str(refused.value)


def test_two_risks_are_named_together():
    walls = [Missing("A.", "Do.", NO_SANDBOX), Missing("B.", "Do.", NO_MEMORY_LIMIT)]
    assert refusal(walls).endswith(": --accept-risk no-sandbox --accept-risk no-memory-limit")


@pytest.mark.parametrize("words", ["Unknown option --size", "No permissions to create namespace"])
def test_a_bwrap_that_makes_no_sandbox_is_the_same_risk(untried, tmp_path, words):
    fake = tmp_path / "bwrap"
    fake.write_text(f"#!/bin/sh\necho 'bwrap: {words}' >&2\nexit 1\n")
    fake.chmod(0o755)
    untried.setattr(shutil, "which", lambda name: str(fake) if name == "bwrap" else WHICH(name))
    with pytest.raises(SandboxError, match=r"(?s)could not make.*--accept-risk no-sandbox$"):
        Sandbox()
    sandbox = Sandbox(accepted=MEANINGS, warm=[])
    assert sandbox.taken == {NO_SANDBOX}
    assert "no sandbox" in sandbox.get_ready()


def test_without_a_memory_limit_the_walls_are_tried_and_used(no_memory_limit):
    (missing,) = missing_walls()
    assert missing.risk == NO_MEMORY_LIMIT
    with pytest.raises(SandboxError, match=r"CONFIG_PROC_CHILDREN.*\n.*--accept-risk no-mem"):
        Sandbox(accepted=[NO_SANDBOX])
    assert isinstance(guards.memory_guard(1 << 30), guards.NoGuard)
    sandbox = Sandbox(accepted=MEANINGS, limits=SMALL)
    assert sandbox.taken == {NO_MEMORY_LIMIT}
    source = TELL + "try:\n    bytearray(500 << 20)\nexcept MemoryError:\n    print('too much')"
    result = sandbox.run(Job((JobCell("c0", source),)))
    assert said(result) == "/home/student\ntoo much\n"


def test_a_risk_that_need_not_be_taken_is_not(course, monkeypatch, capsys):
    monkeypatch.setattr(Unwalled, "__init__", None)
    sandbox = Sandbox(accepted=MEANINGS)
    assert sandbox.taken == frozenset()
    assert said(sandbox.run(Job((JobCell("c0", TELL),)))) == "/home/student\n"
    use(monkeypatch, ChosenSandbox())
    assert main(["autograde", "tiny", "--accept-risk", "no-sandbox"]) == FINE
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == (
        "The risk no-sandbox is not taken: the wall stands on this machine, and is used."
    )
    assert not any("no-sandbox" in line for line in rest)
    assert next(runs(course, "tiny")).options["risks"] == []


def test_a_risk_that_is_taken_is_told_first_and_last_and_kept(course, monkeypatch, capsys):
    chosen = ChosenSandbox()
    chosen.taken = frozenset([NO_SANDBOX])
    use(monkeypatch, chosen)
    words = ["--accept-risk", "no-sandbox", "--accept-risk", "no-memory-limit"]
    assert main(["autograde", "tiny", *words]) == FINE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The risk no-memory-limit is not taken")
    assert lines[1] == f"Grading without a wall (no-sandbox): {MEANINGS[NO_SANDBOX]}."
    end = lines.index(f"This run went without a wall (no-sandbox): {MEANINGS[NO_SANDBOX]}.")
    assert "[1/1] an: graded" in lines[end - 1]
    assert next(runs(course, "tiny")).options["risks"] == [NO_SANDBOX]


def test_a_run_that_is_stopped_tells_its_risk_too(course, monkeypatch):
    chosen = ChosenSandbox()
    chosen.taken = frozenset([NO_SANDBOX])
    chosen.get_ready = lambda: 1 / 0
    use(monkeypatch, chosen)
    told = []
    with pytest.raises(ZeroDivisionError):
        autograde(course, "tiny", accepted=[NO_SANDBOX], progress=told.append)
    assert told[-1].startswith("This run went without a wall (no-sandbox)")


def test_a_risk_has_one_of_two_names(capsys):
    with pytest.raises(SystemExit):
        main(["autograde", "tiny", "--accept-risk", "everything"])
    assert "no-memory-limit" in capsys.readouterr().err


def test_a_cluster_takes_no_risk(tmp_path, capsys):
    course = small_course(tmp_path)
    words = ["--accept-risk", "no-sandbox", "--cluster", "tcp://127.0.0.1:1"]
    assert main(["--course", str(tmp_path), "autograde", "tiny", *words]) == REFUSED
    assert "each worker of a cluster needs all walls" in capsys.readouterr().err
    with pytest.raises(ClusterError, match="Leave out --accept-risk"):
        autograde(course, "tiny", accepted=[NO_SANDBOX], cluster="tcp://127.0.0.1:1")


@pytest.mark.slow
def test_the_button_takes_no_risk(course, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in ("prlimit", "setpriv"):
        (programs / tool).symlink_to(shutil.which(tool))
    shutil.copytree(ROOT / "grading", course.root / "grading")
    done = subprocess.run(
        [sys.executable, "-c", BUTTON],
        cwd=course.root,
        env=os.environ | {"PATH": str(programs)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 1
    assert "The program bwrap is missing" in done.stdout
    assert scores(course) == {}


# What still holds without a sandbox


def test_a_run_finds_what_it_would_find_in_a_sandbox_and_leaves_nothing(no_bwrap, monkeypatch):
    monkeypatch.setenv("MHA_COURSE_SECRET", "hunter2")
    source = """
import os, tempfile
from pathlib import Path
import numpy
print(sorted(os.environ), os.getcwd() == os.environ["HOME"], tempfile.gettempdir()[-4:])
Path("locked").mkdir()
Path("locked", "file").write_text("x")
Path("locked").chmod(0)
print(open("notes.txt").read(), sum(name.isdecimal() for name in os.listdir("/proc/self/fd")) < 8)
"""
    broken = "import numpy\nnumpy.zeros(3).reshape(2)\n"
    too_much = "bytearray(500 << 20)"
    result = run(TELL + source, broken, too_much, files={"notes.txt": b"here"})
    assert (result.ended, result.cells["c0"].state) == ("finished", "ok"), result
    _, environment, notes = said(result).splitlines()
    assert "SECRET" not in environment
    assert environment.endswith("] True /tmp")
    assert notes == "here True"
    shown = "\n".join(result.cells["c1"].outputs[0]["traceback"])
    assert shown.startswith("Traceback (most recent call last):\n  cell 'c1', line 2, in <module>")
    assert "/" not in shown
    assert result.cells["c2"].outputs[0]["ename"] == "MemoryError"
    assert left_over(result) == []


STOP_THE_FIRST = "os.kill(os.getppid(), signal.SIGSTOP)\nos._exit(0)"


@pytest.mark.parametrize(
    "end", ["while True: pass", pytest.param(STOP_THE_FIRST, marks=pytest.mark.slow)]
)
def test_what_hangs_or_ends_is_ended_with_all_its_children(no_bwrap, end):
    limits = dataclasses.replace(SMALL, cell_seconds=60, seconds=1)
    source = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for begin in (lambda: None, os.setsid):
    if os.fork() == 0:
        begin()
        if os.fork() == 0:
            while True: time.sleep(1)
        os._exit(0)
"""
    start = time.monotonic()
    result = run(TELL + source + end, limits=limits)
    assert time.monotonic() - start < 15
    assert result.ended == ("timed out" if "while" in end else "died")
    assert left_over(result) == []


def test_too_many_processes_are_the_end(no_bwrap):
    source = """
import time
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
time.sleep(60)
"""
    result = run(TELL + source)
    assert result.ended == "died"
    assert "started more than 64 processes and was stopped in cell 'c0'" in result.reason
    assert left_over(result) == []


@pytest.mark.slow
def test_memory_and_computing_of_all_its_processes_are_limited(no_bwrap):
    hungry = """
import time
for _ in range(4):
    if os.fork() == 0:
        kept = bytearray(150 << 20)
        kept[::4096] = b"x" * len(kept[::4096])
        time.sleep(30)
time.sleep(30)
"""
    result = run(TELL + hungry, limits=dataclasses.replace(SMALL, cell_seconds=40))
    assert result.ended in ("out of memory", "died")
    assert left_over(result) == []
    busy = "for _ in range(8):\n    if os.fork() == 0: break\nwhile True: pass"
    limits = dataclasses.replace(SMALL, cpu_seconds=2, cell_seconds=30)
    result = run(TELL + busy, limits=limits)
    assert (result.ended, "2 seconds of computing" in result.reason) == ("timed out", True)
    assert left_over(result) == []


@pytest.mark.slow
def test_a_runner_that_does_not_start_is_not_the_students_fault(no_bwrap, monkeypatch):
    monkeypatch.setattr("grading.walls.RUNNER", "/inside/grading/missing.py")
    with pytest.raises(SandboxError, match="can't open file"):
        run("1")


@pytest.mark.slow
def test_honest_work_gets_the_marks_that_it_gets_behind_walls(course, no_bwrap, capsys):
    submit(course, "binh", {**RIGHT, "number": "head_width = 63"})
    submit(course, "ends", {**RIGHT, "function": "import os; os._exit(0)"})
    assert main(["autograde", "tiny"]) == REFUSED
    assert capsys.readouterr().err.endswith("--accept-risk no-sandbox\n")
    main(["autograde", "tiny", "--accept-risk", "no-sandbox"])
    told = capsys.readouterr().out
    assert told.startswith(f"Grading without a wall (no-sandbox): {MEANINGS[NO_SANDBOX]}.\n")
    assert "Each run starts Python anew, which takes longer: there is no sandbox" in told
    assert "an: graded, 5 of 7" in told
    unwalled = everything(course)
    no_bwrap.setattr(shutil, "which", WHICH)
    main(["autograde", "tiny", "--accept-risk", "no-sandbox", "--force"])
    assert "is not taken: the wall stands" in capsys.readouterr().out
    assert everything(course) == unwalled
    assert {name: record[2] for name, record in unwalled["records"].items()} == {
        "an": 5.0,
        "binh": 3.0,
        "ends": 2.0,
    }
