"""The right values: the instructor's own solution, run in the same sandbox as the students'."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading import records
from grading.assignment import Assignment, AssignmentError, Check, Notebook
from grading.compare import compare
from grading.course import Course
from grading.job import Run
from grading.rebuild import jobs, solved
from grading.sandbox import Sandbox
from grading.values import Array, Malformed, Raised, Unsupported, Value, decode, encode

FORMAT = 1
# Two runs of one solution on one machine: only rounding in another order may differ.
AGREEMENT = 1e-6


@dataclass(frozen=True)
class Reference:
    """The solution's value of each check, by name: visible ones of run A, hidden ones of run B."""

    visible: Mapping[str, Value]
    hidden: Mapping[str, Value]


def secret_key(secret: bytes, assignment: str) -> str:
    """Return what run B mixes into its seeds: it differs between courses and assignments.

    >>> secret_key(b"course", "tiny") == secret_key(b"course", "small")
    False
    """
    return hmac.new(secret, f"seeds of {assignment}".encode(), hashlib.sha256).hexdigest()


def reference(
    course: Course, assignment: Assignment, notebook: Notebook, sandbox: Sandbox
) -> Reference:
    """Return what the instructor's solution gives, each run done twice and kept on disk.

    Raises:
        AssignmentError: The solution does not run, a check sends nothing, or two runs disagree.
        SandboxError: The machine lacks a wall.
    """
    secret = course.secret()
    path = course.state / "reference" / f"{_key(assignment, notebook, secret, sandbox)}.json"
    known = _read(path, notebook)
    if known is not None:
        return known
    job_a, job_b = jobs(
        solved(notebook), dict(assignment.files), secret_key(secret, assignment.name)
    )
    visible = [check for check in notebook.checks if not check.hidden]
    hidden = [check for check in notebook.checks if check.hidden]
    found = []
    for job, checks, what in ((job_a, visible, "released"), (job_b, hidden, "hidden")):
        first, again = sandbox.run(job), sandbox.run(job)
        where = f"notebook {notebook.id}, solution with the {what} tests"
        flaws = [*_flaws(where, first, checks), *_disagreements(where, first, again, checks)]
        if flaws:
            raise AssignmentError(assignment.name, flaws)
        found.append({check.name: received(first, check)[0] for check in checks})
    made = Reference(visible=found[0], hidden=found[1])
    content = {
        "format": FORMAT,
        "visible": {name: _wire(value) for name, value in made.visible.items()},
        "hidden": {name: _wire(value) for name, value in made.hidden.items()},
    }
    # Another process may make the same file at the same time; then one of the two stays.
    with contextlib.suppress(FileNotFoundError):
        records.write_file(path, json.dumps(content).encode("ascii"), mode=0o600)
    path.parent.chmod(0o700)
    return made


def received(run: Run, check: Check) -> list[Value]:
    """Return what arrived for a check from its own test cell; anything else does not count."""
    return [
        message.value
        for message in run.messages
        if message.cell == check.cell and message.name == check.name
    ]


def _flaws(where: str, run: Run, checks: list[Check]) -> list[str]:
    if run.ended != "finished":
        return [f"{where}: the run did not finish: {run.reason or run.ended}"]
    flaws = []
    for check in checks:
        values = received(run, check)
        place = f"{where}, cell {check.cell!r}, check {check.name!r}"
        if len(values) != 1:
            flaws.append(
                f"{place}: {len(values)} values arrived where one is expected; call check once, "
                "not in a loop, and see that the cell reaches it"
            )
        elif isinstance(bad := _unusable(values[0]), Raised):
            flaws.append(f"{place}: the solution raises {bad.kind}: {bad.message}")
        elif bad is not None:
            flaws.append(f"{place}: {bad.kind} cannot be compared; check an array or number")
    return flaws


def _unusable(value: Value) -> Raised | Unsupported | None:
    """Return what makes a value no reference, also where it stands inside a list."""
    if isinstance(value, list):
        return next((bad for item in value if (bad := _unusable(item))), None)
    return value if isinstance(value, Raised | Unsupported) else None


def _disagreements(where: str, first: Run, again: Run, checks: list[Check]) -> list[str]:
    flaws = []
    for check in checks:
        one, two = received(first, check), received(again, check)
        if len(one) != 1 or not two or _unusable(one[0]):
            continue  # `_flaws` names it.
        difference = "it arrived twice" if len(two) > 1 else compare(two[0], one[0], AGREEMENT)
        if difference is not None:
            flaws.append(
                f"{where}, cell {check.cell!r}, check {check.name!r}: two runs of the solution "
                f"disagree ({difference}); take every random number from seed(...)"
            )
    if again.ended != "finished" and first.ended == "finished":
        flaws.append(f"{where}: the second run did not finish: {again.reason or again.ended}")
    return flaws


def _key(assignment: Assignment, notebook: Notebook, secret: bytes, sandbox: Sandbox) -> str:
    """Name everything that the values hang on; the secret itself cannot be found from it."""
    content = {
        "format": FORMAT,
        "assignment": assignment.name,
        "notebook": notebook.id,
        "cells": [[cell.id, cell.type, cell.solution, cell.hidden] for cell in notebook.cells],
        "released": [cell.released for cell in notebook.cells],
        "checks": [dataclasses.astuple(check) for check in notebook.checks],
        "files": {
            name: hashlib.sha256(data).hexdigest() for name, data in assignment.files.items()
        },
        "modules": list(assignment.modules),
        "sandbox": sandbox.digest(),
    }
    text = json.dumps(content, sort_keys=True).encode("ascii")
    return hmac.new(secret, b"reference" + text, hashlib.sha256).hexdigest()


def _read(path: Path, notebook: Notebook) -> Reference | None:
    """Read a kept reference; a missing or damaged one is made anew."""
    try:
        content: Any = json.loads(path.read_bytes())
        if content["format"] != FORMAT:
            return None
        parts = {
            part: {name: decode(wire) for name, wire in content[part].items()}
            for part in ("visible", "hidden")
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, Malformed, RecursionError):
        return None
    wanted = {
        "visible": {check.name for check in notebook.checks if not check.hidden},
        "hidden": {check.name for check in notebook.checks if check.hidden},
    }
    if any(set(parts[part]) != wanted[part] for part in wanted):
        return None
    return Reference(visible=parts["visible"], hidden=parts["hidden"])


def _wire(value: Value) -> Any:
    """Return a value as `encode` would have written it inside."""
    if isinstance(value, Array):
        data = base64.b64encode(value.data).decode("ascii")
        return {"array": {"dtype": value.dtype, "shape": list(value.shape), "data": data}}
    if isinstance(value, list):
        return {"list": [_wire(item) for item in value]}
    return encode(value)
