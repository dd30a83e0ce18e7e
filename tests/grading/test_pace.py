"""How long a run may keep others waiting."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from grading import guards
from grading.job import Job, JobCell, Limits
from grading.pace import LEAST_SECONDS, TIMES_THE_MEDIAN, Pace, PutOff
from grading.runs import InTurn, Unhurried
from grading.sandbox import Sandbox


def test_it_begins_with_little_patience_and_learns_what_is_usual() -> None:
    pace = Pace()
    assert not pace.is_over(LEAST_SECONDS - 1)
    assert pace.is_over(LEAST_SECONDS)
    for _ in range(5):
        pace.note(0.1)
    assert pace.is_over(LEAST_SECONDS)
    for _ in range(7):
        pace.note(100.0)
    # One that hangs is no measure for others.
    pace.note(1e9)
    assert not pace.is_over(TIMES_THE_MEDIAN * 100 - 1)
    assert pace.is_over(TIMES_THE_MEDIAN * 100)
    pace.nobody_waits = True
    assert not pace.is_over(1e9)


def test_a_run_that_takes_too_long_is_ended_and_both_are_noted(monkeypatch) -> None:
    monkeypatch.setattr("grading.pace.LEAST_SECONDS", 1.5)
    sandbox, pace, begun = Sandbox(limits=Limits(seconds=60)), Pace(), threading.Event()
    runs = InTurn(sandbox, pace, begun.set)
    run = runs.run(Job((JobCell("c0", "print('here')"),)))
    assert run.ended == "finished"
    assert begun.is_set()
    start = time.monotonic()
    with pytest.raises(PutOff):
        runs.run(Job((JobCell("c0", "import time; time.sleep(50)"),)))
    assert time.monotonic() - start < 40
    quick, long = pace._seconds
    assert 0 < quick < 1.5 <= long < 40
    with pytest.raises(PutOff):
        runs.run(Job((JobCell("c0", "print('here')"),)), alone=True)
    pace.nobody_waits = True
    assert runs.run(Job((JobCell("c0", "print('here')"),)), alone=True).ended == "finished"


def test_where_all_take_long_only_the_first_ones_are_put_off(monkeypatch) -> None:
    monkeypatch.setattr("grading.pace.LEAST_SECONDS", 0.7)
    runs = InTurn(Sandbox(limits=Limits(seconds=60)), Pace())
    ends = []
    for _ in range(3):
        try:
            ends.append(runs.run(Job((JobCell("c0", "import time; time.sleep(1.5)"),))).ended)
        except PutOff:
            ends.append("put off")
    assert ends == ["put off", "finished", "finished"]


def test_those_that_nobody_waits_for_go_side_by_side() -> None:
    unhurried = Unhurried(Sandbox(limits=Limits(seconds=60)))
    job = Job((JobCell("c0", "import time\nprint(time.monotonic()); time.sleep(2)"),))
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(unhurried.run, [job, job]))
    first, second = (float(run.cells["c0"].outputs[0]["text"]) for run in runs)
    assert abs(first - second) < 2
    assert unhurried.run(job, alone=True).ended == "finished"


def test_what_sleeps_may_have_been_kept_waiting_and_what_computes_was_not(monkeypatch) -> None:
    sandbox = Sandbox(limits=Limits(seconds=3, cell_seconds=3))
    assert sandbox.run(Job((JobCell("c0", "import time; time.sleep(2)"),))).kept_waiting
    assert sandbox.run(Job((JobCell("c0", "print('too short to say')"),))).kept_waiting
    computes = Job((JobCell("c0", "while True: pass"),))
    asked: list[float] = []

    def computed(*roots: int) -> float:  # as the kernel would say where nothing else runs
        begin.append(time.monotonic())
        asked.append(kernel(*roots))
        return begin[-1] - begin[0] + 1.0

    kernel, begin = guards.computed, list[float]()
    monkeypatch.setattr(guards, "computed", computed)
    assert not sandbox.run(computes).kept_waiting
    assert 0 < asked[0] < asked[-1] < 4


def test_a_run_that_hangs_has_its_own_limit_where_that_is_shorter() -> None:
    sandbox = Sandbox(limits=Limits(seconds=1, cell_seconds=1))
    hangs = Job((JobCell("c0", "import time\nwhile True:\n    time.sleep(9)"),))
    assert InTurn(sandbox, Pace()).run(hangs).ended == "timed out"
