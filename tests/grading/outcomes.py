"""Grading without a sandbox: the tests choose what comes out of it."""

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from grading.assignment import load
from grading.course import Course
from grading.grade import Outcome, grade
from grading.job import CellRun, CellState, Job, Message, Run
from grading.pace import Pace
from grading.reference import Reference, secret_key
from grading.release import register
from grading.submission import collect
from grading.values import Array, Value
from tests.grading.small_course import small_course

SECRET = b"s" * 32


def array(shape: tuple[int, ...], value: float = 0.25) -> Array:
    return Array("float64", shape, np.full(shape, value).tobytes())


REFERENCE = Reference(
    visible={"head width": 64, "weights": array((2, 5))},
    hidden={"head width, once more": 64, "weights, other sizes": array((3, 7))},
)
RIGHT_A: tuple[Message, ...] = (
    Message("number-test", "head width", 64),
    Message("function-test", "weights", array((2, 5))),
)
RIGHT_B: tuple[Message, ...] = (
    Message("number-test", "head width", 64),
    Message("number-test", "head width, once more", 64),
    Message("function-test", "weights", array((2, 5))),
    Message("function-test", "weights, other sizes", array((3, 7))),
)


class ChosenSandbox:
    """Gives the runs that a test chose: one for run A, another for run B, which has a key.

    ``states`` are those of cells in run A, ``hidden_states`` in run B, where they are not "ok".
    """

    def __init__(
        self,
        messages: tuple[Message, ...] = RIGHT_A,
        hidden: tuple[Message, ...] = RIGHT_B,
        outputs: Mapping[str, Any] | None = None,
        states: Mapping[str, CellState] | None = None,
        hidden_states: Mapping[str, CellState] | None = None,
        **changes: Any,
    ) -> None:
        self.states, self.hidden_states = states or {}, hidden_states or {}
        self.messages, self.hidden = messages, hidden
        self.outputs, self.changes = outputs or {}, changes
        self.taken: frozenset[str] = frozenset()

    def get_ready(self) -> str:
        return ""

    def run(
        self,
        job: Job,
        *,
        alone: bool = False,
        cold: bool = False,
        pace: Pace | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> Run:
        begun()
        states = self.hidden_states if job.key else self.states
        cells = {
            cell.id: CellRun(
                states.get(cell.id, "ok"),
                tuple(self.outputs.get(cell.id, ())) if job.outputs else (),
            )
            for cell in job.cells
        }
        made = Run(self.hidden if job.key else self.messages, cells, "finished")
        return dataclasses.replace(made, **self.changes)

    def digest(self) -> str:
        return "chosen"


def graded(
    course: Course,
    student: str,
    sandbox: Any = None,
    change: Callable[[Outcome], Outcome] = lambda outcome: outcome,
) -> Outcome:
    """Grade what a student handed in, with a sandbox that a test chose."""
    assignment = load(course, "tiny")
    (submission,) = collect(course, assignment, student)
    references = {"tiny": REFERENCE}
    key = secret_key(SECRET, assignment.name)
    return change(grade(assignment, references, submission, sandbox or ChosenSandbox(), key))


def value(name: str, messages: tuple[Message, ...]) -> Value:
    return next(message.value for message in messages if message.name == name)


def replaced(
    messages: tuple[Message, ...], name: str, *values: Value, cell: str | None = None
) -> tuple[Message, ...]:
    """Return messages with those of one check replaced by others, perhaps from another cell."""
    old = next(message for message in messages if message.name == name)
    rest = tuple(message for message in messages if message.name != name)
    return rest + tuple(Message(cell or old.cell, name, each) for each in values)


def set_secret(monkeypatch: Any, folder: Path) -> None:
    monkeypatch.setenv("MHA_COURSE_SECRET", str(folder / "secret"))


def use(monkeypatch: Any, sandbox: Any) -> None:
    """Let autograde() grade with a chosen sandbox and reference."""
    monkeypatch.setattr("grading.autograde.Sandbox", lambda **_: sandbox)
    monkeypatch.setattr("grading.reference.reference", lambda *_: REFERENCE)


def registered_course(tmp_path_factory: Any, root: Path) -> Course:
    """Return a small course whose gradebook knows "tiny"; nbgrader makes it once for all tests."""
    template = tmp_path_factory.getbasetemp() / "registered"
    if not template.exists():
        register(small_course(template), "tiny")
    shutil.copytree(template, root)
    return Course(root)
