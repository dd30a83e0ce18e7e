"""What a release's checks.json holds: an entry for each visible check, from the solution's values.

A check that hangs on a pick has an entry for each option. To find which do, the solution is run
with each option once, all other picks having their first; so one check may hang on one pick only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grading import expected
from grading.answers import Answer, read_answers
from grading.assignment import Assignment, AssignmentError, Check, Notebook
from grading.assignment_sandbox import sandbox_for
from grading.compare import compare
from grading.course import Course
from grading.draws import Draws, first_draws, last_draws, one_changed
from grading.reference import reference
from grading.trials import judging_cells, said_to_nobody, try_answers
from grading.values import Value

Values = Mapping[str, Value]
# The values of known mistakes in each check, and what is said of them.
Mistakes = Mapping[str, Sequence[tuple[Value, str]]]


def entries(course: Course, assignment: Assignment, salt: str) -> dict[str, dict[str, Any]]:
    """Return the entries of checks.json by the check's name.

    Raises:
        AssignmentError: The solution does not run, or a check hangs on two picks.
    """
    told = [answer for answer in read_answers(course, assignment) if answer.says]
    usual = _mistakes(course, assignment, told, first_draws(assignment))
    made: dict[str, dict[str, Any]] = {}
    for notebook in assignment.notebooks:
        values, by_option = _visible_values(course, assignment, notebook)
        picks = _picks_of_checks(assignment, values, by_option)
        if assignment.variants:
            _refuse_joint_checks(course, assignment, notebook, values, by_option, picks)
        visible = [check for check in notebook.checks if not check.hidden]
        drawn_cells = {check.cell for check in visible if check.name in picks}
        drawn_told = [answer for answer in told if drawn_cells & {*_judges(notebook, answer)}]
        wrong = {
            (pick, option): _mistakes(course, assignment, drawn_told, draws)
            for pick, option, draws in one_changed(assignment)
        }
        for check in visible:
            one = _entry(notebook, check, values, usual, salt)
            if (pick := picks.get(check.name)) is not None:
                each = [one]
                for option in range(1, len(assignment.picks[pick])):
                    key = pick, option
                    each.append(_entry(notebook, check, by_option[key], wrong[key], salt))
                if any(other != one for other in each):  # A form alone is often the same.
                    one = {"kind": "drawn", "pick": pick, "entries": each}
            made[check.name] = one
    return made


def _visible_values(
    course: Course, assignment: Assignment, notebook: Notebook
) -> tuple[Values, dict[tuple[str, int], Values]]:
    """Return what visible checks get with the first options, and with each other one."""
    sandbox = sandbox_for(course, assignment)

    def values(draws: Draws) -> Values:
        return reference(course, assignment, notebook, sandbox, draws).visible

    by_option = {(pick, option): values(draws) for pick, option, draws in one_changed(assignment)}
    return values(first_draws(assignment)), by_option


def _picks_of_checks(
    assignment: Assignment, values: Values, by_option: Mapping[tuple[str, int], Values]
) -> dict[str, str]:
    """Return the pick that a check hangs on, by the check's name.

    Raises:
        AssignmentError: A check hangs on two.
    """
    found: dict[str, set[str]] = {}
    for (pick, _), others in by_option.items():
        for name, value in values.items():
            if compare(others[name], value) is not None:
                found.setdefault(name, set()).add(pick)
    flaws = [_two_picks(name, picks) for name, picks in found.items() if len(picks) > 1]
    if flaws:
        raise AssignmentError(assignment.name, flaws)
    return {name: picks.pop() for name, picks in found.items()}


def _refuse_joint_checks(
    course: Course,
    assignment: Assignment,
    notebook: Notebook,
    values: Values,
    by_option: Mapping[tuple[str, int], Values],
    picks: Mapping[str, str],
) -> None:
    """Refuse checks that hang on one pick only where another has not its first option.

    It is looked for with the last options of all: that finds most, and no mark hangs on it.
    """
    draws = last_draws(assignment)
    sandbox = sandbox_for(course, assignment)
    together = reference(course, assignment, notebook, sandbox, draws).visible
    flaws = []
    for name, value in together.items():
        pick = picks.get(name)
        alone = values if pick is None else by_option[pick, draws[pick]]
        if compare(value, alone[name]) is not None:
            flaws.append(_two_picks(name, draws))
    if flaws:
        raise AssignmentError(assignment.name, flaws)


def _two_picks(check: str, picks: Iterable[str]) -> str:
    named = " and ".join(map(repr, sorted(picks)))
    return (
        f"check {check!r}: its value hangs on the picks {named} together, and checks.json holds "
        "values for one pick at a time; let one pick draw both, as [(8, 64), (12, 96)], or make "
        "two checks of it"
    )


def _entry(
    notebook: Notebook, check: Check, values: Values, mistakes: Mistakes, salt: str
) -> dict[str, Any]:
    points = next(cell.points for cell in notebook.cells if cell.id == check.cell)
    return expected.entry(
        values[check.name],
        hint=check.hint,
        tolerance=check.tolerance,
        earns_points=points > 0,
        salt=salt,
        mistakes=mistakes.get(check.name, ()),
    )


def _mistakes(
    course: Course, assignment: Assignment, told: Sequence[Answer], draws: Draws
) -> Mistakes:
    """Hand in the answers of which something is said; return what visible checks then get."""
    found: dict[str, list[tuple[Value, str]]] = {}
    if told:
        trials = try_answers(course, assignment, told, hidden=False, draws=draws)
        flaws = [flaw for trial in trials if (flaw := said_to_nobody(trial)) is not None]
        if flaws and draws == first_draws(assignment):
            raise AssignmentError(assignment.name, flaws)
        for trial in trials:
            for name, value in trial.seen.items():
                if not trial.results[name].passed:
                    found.setdefault(name, []).append((value, trial.answer.says))
    return found


def _judges(notebook: Notebook, answer: Answer) -> list[str]:
    if answer.cell not in {cell.id for cell in notebook.cells}:
        return []
    return judging_cells(notebook, answer.cell)
