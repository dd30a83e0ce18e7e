"""What the cells import that every submission runs: a warm process imports it ahead."""

from __future__ import annotations

import ast

from grading.assignment import Assignment
from grading.parsing import parse_python


def imports_of(assignment: Assignment) -> tuple[str, ...]:
    """Return the names of modules that given cells and tests import, in their order.

    Not those of answers: a student who forgets an import must miss it. What follows ``from`` may
    be a module too; who imports it ahead finds out.
    """
    found: dict[str, None] = {}
    for notebook in assignment.notebooks:
        for cell in notebook.cells:
            if cell.type == "code" and cell.role in ("given", "test"):
                found.update(dict.fromkeys(_imports(cell.hidden)))
    return tuple(found)


def _imports(source: str) -> list[str]:
    r"""List what a cell's text imports, whatever magics stand in it.

    >>> _imports("%matplotlib inline\nimport torch.nn as nn\nfrom math import pi")
    ['torch.nn', 'math', 'math.pi']
    """
    plain = [line for line in source.splitlines() if not line.lstrip().startswith(("%", "!"))]
    try:
        tree = parse_python("\n".join(plain))
    except (SyntaxError, ValueError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return names
