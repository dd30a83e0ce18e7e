"""Rules on a bank of answers that can be seen without handing any of them in.

What each answer comes to, :mod:`grading.trials` finds out, which takes its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grading.answers import Answer, answers_file
from grading.assignment import Assignment, Notebook
from grading.course import Course
from grading.trials import judging_cells


def bank_flaws(course: Course, assignment: Assignment, answers: Sequence[Answer]) -> list[str]:
    """Return a sentence for each flaw of the bank that was read; an assignment may have none."""
    path = answers_file(course, assignment.name)
    if not path.exists():
        return []
    if not any(answer.wrong for answer in answers):
        return [f"{path.name} holds no [[mistake]]; add one for each task at least"]
    return [
        f"{path.name}: {flaw}"
        for notebook in assignment.notebooks
        for flaw in _hopes(notebook, answers)
    ]


def _hopes(notebook: Notebook, answers: Sequence[Answer]) -> Iterator[str]:
    """Yield where what the mistakes should fail cannot be, or leaves a hidden check out."""
    meant: set[str] = set()
    own_cells = {cell.id for cell in notebook.cells}
    for answer in answers:
        if not answer.wrong or answer.cell not in own_cells:
            continue
        cells = judging_cells(notebook, answer.cell)
        judged = {check.name for check in notebook.checks if check.hidden and check.cell in cells}
        fails = judged if answer.fails is None else {*answer.fails}
        if strange := sorted(fails - judged):
            yield (
                f"the wrong {answer.place} cannot fail {', '.join(map(repr, strange))}, which "
                "another answer is judged by; mend its fails"
            )
        meant |= fails & judged
    for check in notebook.checks:
        if check.hidden and check.name not in meant:
            yield (
                f"no [[mistake]] is meant to fail the hidden check {check.name!r}; add one that "
                "does, or take the check out"
            )
