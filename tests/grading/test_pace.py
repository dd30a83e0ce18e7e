"""How long a run may keep others waiting."""

import threading
import time

import pytest

from grading.job import Job, JobCell, Limits
from grading.pace import LEAST_SECONDS, TIMES_THE_MEDIAN, Pace, PutOff
from grading.runs import Alone, InTurn
from grading.sandbox import Sandbox


def test_it_begins_with_little_patience_and_learns_what_is_usual() -> None:
    pace = Pace()
    assert pace.patience == LEAST_SECONDS
    for _ in range(5):
        pace.note(0.1)
    assert pace.patience == LEAST_SECONDS
    for seconds in (100.0,) * 7:
        pace.note(seconds)
    assert pace.patience == TIMES_THE_MEDIAN * 100
    # One that nearly hangs is no measure for others.
    pace.note(1e9)
    assert pace.patience == TIMES_THE_MEDIAN * 100


def test_a_run_that_takes_too_long_is_ended_and_one_that_does_not_is_noted(monkeypatch) -> None:
    monkeypatch.setattr("grading.pace.LEAST_SECONDS", 1.5)
    sandbox, pace, begun = Sandbox(limits=Limits(seconds=60)), Pace(), threading.Event()
    runs = InTurn(sandbox, begun.set, pace)
    run = runs.run(Job((JobCell("c0", "print('here')"),)))
    assert run.ended == "finished"
    assert begun.is_set()
    assert pace.patience >= 1.5
    start = time.monotonic()
    with pytest.raises(PutOff):
        runs.run(Job((JobCell("c0", "import time; time.sleep(50)"),)))
    assert time.monotonic() - start < 40
    with pytest.raises(PutOff):
        runs.run(Job((JobCell("c0", "print('here')"),)), alone=True)
    unhurried = Alone(sandbox, begun.set)
    slow = Job((JobCell("c0", "import time; time.sleep(2.5)"),))
    run = unhurried.run(slow)
    assert run.ended == "finished"
    assert unhurried.run(slow, alone=True) is run
    assert unhurried.run(slow) is not run


def test_a_run_that_hangs_has_its_own_limit_where_that_is_shorter() -> None:
    sandbox = Sandbox(limits=Limits(seconds=1, cell_seconds=1))
    run = InTurn(sandbox, lambda: None, Pace()).run(
        Job((JobCell("c0", "import time\nwhile True:\n    time.sleep(9)"),))
    )
    assert run.ended == "timed out"
