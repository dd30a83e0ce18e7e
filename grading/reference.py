"""The right values: the instructor's own solution, run in the same sandbox as the students'."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading import records
from grading.assignment import Assignment, AssignmentError, Check, Notebook
from grading.compare import compare
from grading.course import Course
from grading.draws import Draws, DrawsKey, drawn, first_draws, key, with_options
from grading.job import CellRun, Run, cell_name
from grading.plain import one_line
from grading.rebuild import jobs, solved
from grading.sandbox import Sandbox
from grading.values import Malformed, Raised, Unsupported, Value, decode, encode

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
    course: Course,
    assignment: Assignment,
    notebook: Notebook,
    sandbox: Sandbox,
    draws: Draws | None = None,
) -> Reference:
    """Return what the instructor's solution gives, each run done twice and kept on disk.

    ``draws`` are those of the student whose work is compared with it; the first options if None.

    Raises:
        AssignmentError: The solution does not run, a check sends nothing, or two runs disagree.
        SandboxError: The machine lacks a wall.
    """
    secret = course.secret()
    draws = first_draws(assignment) if draws is None else draws
    name = _key(assignment, notebook, secret, sandbox, draws)
    path = course.state / "reference" / f"{name}.json"
    known = _read(path, notebook)
    if known is not None:
        return known
    job_a, job_b = jobs(
        solved(notebook),
        dict(assignment.files),
        secret_key(secret, assignment.name),
        draws=draws,
    )
    visible = [check for check in notebook.checks if not check.hidden]
    hidden = [check for check in notebook.checks if check.hidden]
    found = []
    for job, checks, what in ((job_a, visible, "released"), (job_b, hidden, "hidden")):
        # The solution's outputs hold no secret, and say what went wrong.
        job = dataclasses.replace(job, outputs=True)
        # The second starts Python anew, so that what hangs on the one that others share is noticed.
        first, again = sandbox.run(job), sandbox.run(job, cold=True)
        where = f"notebook {notebook.id}, solution with the {what} tests"
        where += with_options(assignment, draws)
        flaws = _flaws(where, first, checks) or [
            f"{flaw} (in the second run of the same text)" for flaw in _flaws(where, again, checks)
        ]
        flaws = flaws or _disagreements(where, first, again, checks)
        if flaws:
            raise AssignmentError(assignment.name, flaws)
        found.append({check.name: received(first, check)[0] for check in checks})
    made = Reference(visible=found[0], hidden=found[1])
    content = {
        "format": FORMAT,
        "visible": {name: encode(value) for name, value in made.visible.items()},
        "hidden": {name: encode(value) for name, value in made.hidden.items()},
    }
    records.private_folder(course)
    records.write_file(path, json.dumps(content).encode("ascii"), mode=records.PRIVATE)
    return made


def references_of(
    course: Course,
    assignment: Assignment,
    sandbox: Sandbox,
    students: Iterable[str],
    workers: int,
) -> dict[DrawsKey, dict[str, Reference] | AssignmentError]:
    """Return the references of every notebook by id, for all that any of these students drew.

    A release tries each option, and not each with each other. So where the solution fails by some
    draws, the error stands in place of their references, and all others can be graded.

    Raises:
        AssignmentError: It fails by all of them.
        SandboxError: The machine lacks a wall.
    """
    wanted = {key(draws): draws for draws in (drawn(assignment, each) for each in students)}

    def run(draws: Draws) -> dict[str, Reference] | AssignmentError:
        try:
            return {
                notebook.id: reference(course, assignment, notebook, sandbox, draws)
                for notebook in assignment.notebooks
            }
        except AssignmentError as error:
            return error

    with ThreadPoolExecutor(workers) as pool:
        found = dict(zip(wanted, pool.map(run, wanted.values()), strict=True))
    errors = [each for each in found.values() if isinstance(each, AssignmentError)]
    if errors and len(errors) == len(found):
        raise errors[0]
    return found


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
    for cell, cell_run in run.cells.items():
        if cell_run.state != "ok":
            return [f"{where}: {cell_name(cell)} {_how_it_ended(cell_run)}"]
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


def _how_it_ended(run: CellRun) -> str:
    if run.state == "error":
        told = (
            f"{output.get('ename', '')}: {output.get('evalue', '')}"
            for output in run.outputs
            if output.get("output_type") == "error"
        )
        return f"raises {one_line(next(told, 'an error'))}"
    if run.state == "timed out":
        return (
            "was stopped, since it took too long; if the machine is busy, try again when it is "
            "not, else give it more cell_seconds"
        )
    return "was not run"


def _unusable(value: Value) -> Raised | Unsupported | None:
    """Return what makes a value no reference, also where it stands inside a list."""
    if isinstance(value, list):
        return next((bad for item in value if (bad := _unusable(item))), None)
    return value if isinstance(value, Raised | Unsupported) else None


def _disagreements(where: str, first: Run, again: Run, checks: list[Check]) -> list[str]:
    """Compare two runs that have no flaws: one value of each check arrived in both."""
    flaws = []
    for check in checks:
        one, two = received(first, check), received(again, check)
        difference = compare(two[0], one[0], AGREEMENT)
        if difference is not None:
            flaws.append(
                f"{where}, cell {check.cell!r}, check {check.name!r}: two runs of the solution "
                f"disagree ({difference}); take every random number from seed(...)"
            )
    return flaws


def _key(
    assignment: Assignment, notebook: Notebook, secret: bytes, sandbox: Sandbox, draws: Draws
) -> str:
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
        "draws": dict(draws),
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
