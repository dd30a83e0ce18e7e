"""The two runs of one notebook, and what is said about cells that did not come to their end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from grading.assignment import Notebook
from grading.job import Job, Run, cell_name
from grading.pace import Pace, PutOff
from grading.rebuild import Rebuilt
from grading.sandbox import Sandbox
from grading.tasks import places, with_places

RUNS = 4  # at most, of one notebook in one go: each of two jobs, and each once more
# What a run looks like that was killed from outside, at any moment.
BROKEN_OFF = ("died", "malformed")
HIDDEN_UNFINISHED = "The hidden tests did not finish on your work; what arrived before that counts."


@dataclass(frozen=True)
class Findings:
    """What is found in one submission on the way; all three lists grow.

    Problems need a person, warnings are told, both to the student; details are for the instructor.
    """

    problems: list[str]
    warnings: list[str]
    details: list[str] = field(default_factory=list)


def _nothing() -> None:
    """Do nothing when a run has its turn."""


class Runs(Protocol):
    """What runs jobs: a `Sandbox`, or one for a submission among others."""

    def run(self, job: Job, *, alone: bool = False) -> Run:
        """Run a job as `Sandbox.run` does."""


@dataclass(frozen=True)
class InTurn:
    """A sandbox for one submission while others wait; ``begun`` is called when a run has its turn.

    PutOff is raised for what takes longer than its pace, and for what is to go alone.
    """

    sandbox: Sandbox
    pace: Pace
    begun: Callable[[], None] = _nothing

    def run(self, job: Job, *, alone: bool = False) -> Run:
        """Run a job as `Sandbox.run` does."""
        if alone and not self.pace.nobody_waits:
            raise PutOff
        return self.sandbox.run(job, alone=alone, pace=self.pace, begun=self.begun)


@dataclass(frozen=True)
class Unhurried:
    """A sandbox for one submission that nobody waits for; ``begun`` as with `InTurn`."""

    sandbox: Sandbox
    begun: Callable[[], None] = _nothing

    def run(self, job: Job, *, alone: bool = False) -> Run:
        """Run a job as `Sandbox.run` does."""
        return self.sandbox.run(job, alone=alone, begun=self.begun)


def run_shown(runs: Runs, released: Job, rebuilt: Rebuilt) -> Run:
    """Run a notebook as people see it; once more, alone, where a busy machine may have stopped it.

    What computed all the time was not kept waiting by the machine, and a student's own cell that
    takes long is no sign of it. What broke off goes once more too: whoever killed it, it was
    perhaps not the student. A student who ends the process gets the same again.
    """
    run = runs.run(released)
    if run.ended in BROKEN_OFF:
        return runs.run(released)
    if run.kept_waiting and (run.ended == "timed out" or _stopped(run) - _answers(rebuilt)):
        return runs.run(released, alone=True)
    return run


def run_hidden(runs: Runs, hidden: Job, shown: Run) -> Run:
    """Run it with the hidden tests, as `run_shown` does; what that came through is no slow cell."""
    run = runs.run(hidden)
    if run.ended in BROKEN_OFF and shown.ended not in BROKEN_OFF:
        return runs.run(hidden)
    if (run.kept_waiting and shown.ended != "timed out") and (
        run.ended == "timed out" or _stopped(run) - _stopped(shown)
    ):
        return runs.run(hidden, alone=True)
    return run


def find_stops(
    notebook: Notebook,
    rebuilt: Rebuilt,
    run_a: Run,
    run_b: Run,
    cell_seconds: float,
    found: Findings,
) -> None:
    """Note what did not run to its end: a student's own slow cell is a warning, all else more."""
    named = places(notebook, rebuilt)
    if run_a.ended != "finished":
        reason = with_places(run_a.reason or run_a.ended, named)
        found.problems.append(f"Running your notebook did not finish: {reason}")
    else:
        for cell in sorted(_stopped(run_a), key=list(run_a.cells).index):
            remarks = found.warnings if cell in _answers(rebuilt) else found.problems
            remarks.append(
                f"{named[cell]} took longer than {cell_seconds:g} seconds and was stopped."
            )
    # Where run B ends is the student's choice, and could carry hidden text out. So what a student
    # reads is one sentence, and the place is for the instructor alone.
    hidden = [] if run_b.ended == "finished" else [run_b.reason or run_b.ended]
    stopped = _stopped(run_b) - (_stopped(run_a) & _answers(rebuilt))
    hidden += [f"stopped in {cell_name(cell)}" for cell in run_b.cells if cell in stopped]
    if hidden:
        found.problems.append(HIDDEN_UNFINISHED)
        found.details.extend(f"hidden tests of {notebook.id}: {what}" for what in hidden)


def _stopped(run: Run) -> set[str]:
    return {cell for cell, cell_run in run.cells.items() if cell_run.state == "timed out"}


def _answers(rebuilt: Rebuilt) -> set[str]:
    """Return the ids of the cells whose text is the student's."""
    return {cell.id for cell in rebuilt.cells if cell.role not in ("given", "test", "demo")}
