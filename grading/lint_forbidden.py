"""What students may not use, the instructor uses neither: no cell of theirs, no honest answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grading.answers import Answer
from grading.assignment import Assignment
from grading.forbidden import find, own_names


def forbidden_uses(
    assignment: Assignment, packages: set[str], answers: Sequence[Answer]
) -> Iterator[str]:
    """Yield where something is used that students may not; ``packages`` only outside test cells.

    What test cells import is :mod:`grading.lint_cells`'s.
    """
    names = assignment.forbidden_names
    for notebook in assignment.notebooks:
        cells = [cell for cell in notebook.cells if cell.type == "code"]
        own = {name for cell in cells for name in own_names(cell.solution, names)}
        texts = [
            (f"{notebook.id}.ipynb, cell {cell.id!r}: it uses", source, cell.role == "test")
            for cell in cells
            for source in (cell.released, cell.solution)
        ]
        texts += [
            (f"the honest {answer.place} uses", answer.source, False)
            for answer in answers
            if not answer.wrong and answer.cell in {cell.id for cell in cells}
        ]
        for place, source, is_test in texts:
            for use in find([("", source)], names - packages if is_test else names, own):
                setting = "forbidden_calls" if use.name in assignment.forbidden_calls else "modules"
                change = "take it out of" if setting == "forbidden_calls" else "add it to"
                yield (
                    f"{place} {use.name}, which students may not; write it in another way, or "
                    f"{change} {setting} in {assignment.name}.toml"
                )
