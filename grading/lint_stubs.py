"""A solution with its functions taken out: what a check must not pass."""

from __future__ import annotations

import ast
from dataclasses import replace

from grading.assignment import Notebook
from grading.parsing import parse_python
from grading.rebuild import Rebuilt, solved


def stubbed(notebook: Notebook, *, raising: bool) -> Rebuilt:
    """Return the solution with each function's body replaced, its classes' ``__init__`` apart.

    It returns the first argument, or raises; a check that passes the first and fails the second
    rests on the functions and yet asks nothing of them.
    """
    whole = solved(notebook)
    cells = [
        replace(cell, source=source, hidden=source)
        if cell.role in ("solution", "written") and cell.type == "code"
        else cell
        for cell in whole.cells
        for source in [_stub(cell.source, raising)]
    ]
    return replace(whole, cells=tuple(cells))


def _stub(source: str, raising: bool) -> str:
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError):
        return source  # With a magic: left as it is.
    _Stubs(raising).visit(tree)
    return ast.unparse(tree)


class _Stubs(ast.NodeTransformer):
    def __init__(self, raising: bool) -> None:
        self.raising = raising
        self.in_class = False

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        outside, self.in_class = self.in_class, True
        self.generic_visit(node)
        self.in_class = outside
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if self.in_class and node.name == "__init__":
            return node
        arguments = [*node.args.posonlyargs, *node.args.args]
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        if self.in_class and "staticmethod" not in decorators:
            arguments = arguments[1:]
        first = arguments[0].arg if arguments else "None"
        body = "raise NotImplementedError()" if self.raising else f"return {first}"
        node.body = parse_python(body).body
        return node
