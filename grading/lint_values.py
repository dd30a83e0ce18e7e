"""Rules on an assignment that can only be seen by running its solution, and false ones.

A value is worth points only if it can be wrong by itself: no stub may give it, no student's
global state and no second thread may move it, and a hidden one must hang on the course's secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grading.assignment import Assignment, Check, Notebook
from grading.assignment_sandbox import sandbox_for
from grading.compare import TOLERANCES, compare, simplify
from grading.course import Course
from grading.draws import Draws, first_draws, last_draws, with_options
from grading.job import Job, Run, cell_name
from grading.lint_options import idle_options
from grading.lint_stubs import stubbed
from grading.lint_times import time_flaws
from grading.rebuild import Rebuilt, jobs, solved
from grading.reference import received, reference, secret_key
from grading.sandbox import Sandbox
from grading.values import Array, Raised, Unsupported, Value

SMALL = 10
ANOTHER_SECRET = "not the course's secret: a hidden input must differ under it"
SIDE_BY_SIDE = 2
# A student may answer in any dtype, and the coarsest meets the widest tolerance.
COARSEST = max(TOLERANCES.values())


def value_flaws(course: Course, assignment: Assignment) -> list[str]:
    """Return the flaws of an assignment's values.

    Raises:
        AssignmentError: The solution does not run, or two runs of it disagree.
        SandboxError: The machine lacks a wall.
    """
    flaws = _flaws_with(course, assignment, first_draws(assignment))
    if assignment.variants:
        draws = last_draws(assignment)
        others = _flaws_with(course, assignment, draws)
        named = with_options(assignment, draws).removeprefix(", ")
        flaws += [f"{flaw} ({named})" for flaw in others if flaw not in flaws]
        flaws += idle_options(course, assignment)
    return flaws


def _flaws_with(course: Course, assignment: Assignment, draws: Draws) -> list[str]:
    """Return the flaws of the values that a student with these draws is compared with."""
    sandbox = sandbox_for(course, assignment)
    key = secret_key(course.secret(), assignment.name)
    flaws = []
    for notebook in assignment.notebooks:
        right = reference(course, assignment, notebook, sandbox, draws)
        altered = _altered(assignment, notebook, key, draws)
        runs = _run_all(sandbox, altered)
        unfinished = [flaw for (how, _), run in runs.items() if (flaw := _unfinished(how, run))]
        if unfinished:
            flaws += [f"{notebook.id}.ipynb: {flaw}" for flaw in dict.fromkeys(unfinished)]
            continue  # Values that are missing for want of time say nothing about the checks.
        disturbed = [runs["disturbed", hidden] for hidden in (False, True)]
        flaws += [f"{notebook.id}.ipynb{flaw}" for flaw in time_flaws(disturbed, assignment.limits)]
        for check in notebook.checks:
            values = {
                how: _value(received(runs[how, check.hidden], check))
                for how in altered
                if check.hidden in altered[how]
            }
            known = right.hidden if check.hidden else right.visible
            said = _check_flaws(check, known[check.name], values)
            place = f"{notebook.id}.ipynb, cell {check.cell!r}, check {check.name!r}"
            flaws += [f"{place}: {flaw}" for flaw in said]
    return flaws


def _altered(
    assignment: Assignment, notebook: Notebook, key: str, draws: Draws
) -> dict[str, dict[bool, Job]]:
    """Return the solution altered in several ways: jobs by how, then False for A, True for B."""

    def both(rebuilt: Rebuilt, secret: str = key) -> dict[bool, Job]:
        visible, hidden = jobs(rebuilt, assignment.files, secret, draws=draws)
        return {False: replace(visible, outputs=False), True: hidden}

    plain = both(solved(notebook))
    return {
        "disturbed": {hidden: replace(job, disturb=1) for hidden, job in plain.items()},
        "other secret": {True: both(solved(notebook), ANOTHER_SECRET)[True]},
        "first argument": both(stubbed(notebook, raising=False)),
        "raising": both(stubbed(notebook, raising=True)),
    }


def _run_all(
    sandbox: Sandbox, altered: Mapping[str, Mapping[bool, Job]]
) -> dict[tuple[str, bool], Run]:
    keyed = {(how, hidden): job for how, both in altered.items() for hidden, job in both.items()}
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip(keyed, pool.map(sandbox.run, keyed.values()), strict=True))


def _unfinished(how: str, run: Run) -> str | None:
    """Return what kept an altered run from its end; errors of its cells are none of it."""
    stopped = [cell for cell, done in run.cells.items() if done.state == "timed out"]
    if run.ended == "finished" and not stopped:
        return None
    reason = run.reason or f"{cell_name(stopped[0])} took too long"
    return (
        f"the solution's run {how!r} did not finish ({reason}), so its values were not looked "
        "at; if the machine is busy, lint again later"
    )


def _check_flaws(check: Check, right: Value, values: Mapping[str, Value]) -> Iterator[str]:
    """Yield what is wrong with one check. ``values`` holds its value in each altered run."""

    def same(value: Value) -> bool:
        return compare(value, right, check.tolerance) is None

    def passes(value: Value) -> bool:
        """Tell whether a false answer would count, given in whatever dtype suits it best."""
        return compare(value, right, max(check.tolerance or 0.0, COARSEST)) is None

    reason = refusal(right)
    if reason is not None:
        yield f"its value is {reason}; check the value it was computed from"
        return
    for name, constant in constants(right).items():
        if passes(constant):
            yield f"an answer of {name} passes it; choose inputs whose result is not constant"
    if passes(values["first argument"]) and not passes(values["raising"]):
        yield (
            "functions that return their first argument pass it; choose inputs that tell a right "
            "answer from none, or check a raw value of each function"
        )
    if not same(values["disturbed"]):
        yield (
            "its value moves with the global random generator, torch's default dtype or the number "
            "of threads; take inputs from a generator of their own, name every dtype, .to(dtype) "
            "for layers, and let no rounding decide"
        )
    other = values.get("other secret")
    if check.hidden and not _is_plain(right) and other is not None and passes(other):
        yield "its value does not hang on the course's secret; make its inputs with seed(...)"


def refusal(value: Value) -> str | None:
    """Return what makes a value unfit to earn points, or None.

    >>> refusal(64), refusal(True), refusal([3])
    (None, 'a truth value', 'a small whole number, which is guessed')
    """
    plain = simplify(value)
    if isinstance(plain, list) and len(plain) == 1:
        return refusal(plain[0])
    if isinstance(plain, list):
        # Numbers that are small alone are not so in a list.
        unfit = [
            item
            for item in plain
            if isinstance(item, bool) or not isinstance(item, int | float | str | Array)
        ]
        return next(filter(None, map(refusal, unfit)), None)
    if isinstance(plain, Array):
        array = plain.numpy()
        if array.dtype == bool and array.size < SMALL:
            return "a few truth values"
        if array.size == 0:
            return "an empty array"
        if array.size > 1 or array.dtype.kind not in "iuf":
            return None
        plain = array.item()
    if isinstance(plain, bool):
        return "a truth value"
    if plain is None:
        return "None"
    if isinstance(plain, Raised | Unsupported):
        return f"no value: {plain.kind}"
    if isinstance(plain, int | float) and math.isfinite(plain) and plain == int(plain):
        return "a small whole number, which is guessed" if abs(plain) < SMALL else None
    return None


def constants(value: Value) -> dict[str, Value]:
    """Return what lazy answers of a value's form would be: zeros, ones, the mean.

    >>> constants([64, 32])
    {'zeros': [0, 0], 'ones': [1, 1], 'the mean': [48.0, 48.0]}
    """
    leaves = _leaves(value)
    if not leaves:
        return {}
    made = {"zeros": _filled(value, 0), "ones": _filled(value, 1)}
    if sum(leaf.size for leaf in leaves) > 1:
        mean = np.concatenate([leaf.ravel() for leaf in leaves]).mean()
        made["the mean"] = _filled(value, mean.item())
    if len(leaves) > 1 and all(leaf.size > 1 for leaf in leaves):
        made["the mean of each array"] = _filled(value, None)
    return made


def _leaves(value: Value) -> list[NDArray[Any]]:
    """Return the numbers of a value as arrays; empty where something in it is no number."""
    if isinstance(value, list):
        found = [_leaves(item) for item in value]
        return [leaf for leaves in found for leaf in leaves] if all(found) else []
    if isinstance(value, Array):
        array = value.numpy()
        return [array] if array.size else []
    if isinstance(value, int | float) and abs(value) < 2**63:
        return [np.asarray(value)]
    return []


def _filled(value: Value, number: complex | None) -> Value:
    """Return a value of the same form, filled with a number; None is each array's own mean."""
    if isinstance(value, list):
        return [_filled(item, number) for item in value]
    if not isinstance(value, Array):
        return number  # type: ignore[return-value]  # complex only inside arrays
    array = value.numpy()
    filling = array.mean() if number is None else number
    kind = {"b": np.bool_, "i": np.int64, "u": np.int64, "c": np.complex128}.get(array.dtype.kind)
    filled: NDArray[Any] = np.full(array.shape, filling).astype(kind or np.float64)
    return Array(filled.dtype.name, filled.shape, filled.tobytes())


def _is_plain(value: Value) -> bool:
    """Tell whether a value is a number, a text or a list of them: it may stay the same."""
    plain = simplify(value)
    if isinstance(plain, list):
        return all(_is_plain(item) for item in plain)
    return isinstance(plain, int | float | str)


def _value(values: Sequence[Value]) -> Value:
    return values[0] if len(values) == 1 else Raised("NoValue", f"{len(values)} values arrived")
