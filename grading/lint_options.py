"""Options of a pick that change nothing: whoever has one may copy from whoever has the other."""

from __future__ import annotations

from itertools import combinations

from grading.assignment import Assignment
from grading.assignment_sandbox import sandbox_for
from grading.compare import compare
from grading.course import Course
from grading.draws import first_draws, one_changed
from grading.reference import reference
from grading.values import Value


def idle_options(course: Course, assignment: Assignment) -> list[str]:
    """Return a flaw for each two options of a pick with which every check has the same value."""
    sandbox = sandbox_for(course, assignment)
    values: dict[str, dict[int, list[Value]]] = {}
    usual = first_draws(assignment)
    each = [(pick, 0, usual) for pick in assignment.picks] + [*one_changed(assignment)]
    for pick, option, draws in each:
        values.setdefault(pick, {})[option] = [
            value
            for notebook in assignment.notebooks
            for right in [reference(course, assignment, notebook, sandbox, draws)]
            for value in (*right.visible.values(), *right.hidden.values())
        ]
    return [
        f"pick {pick!r}: its options {assignment.picks[pick][one]} and "
        f"{assignment.picks[pick][two]} have the same answer in every check, so they are one for a "
        "neighbour; change one of them"
        for pick, by_option in values.items()
        for one, two in combinations(by_option, 2)
        if all(
            compare(first, second) is None
            for first, second in zip(by_option[one], by_option[two], strict=True)
        )
    ]
