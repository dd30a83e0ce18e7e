"""The calls of check in a test cell, and of demo in a demo cell, found in its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grading.parsing import parse_python

FROM_GRADING = ("check", "pick", "seed")


def find_checks(source: str) -> list[str | None]:
    r"""Return the name of each call of ``check`` in Python text, None where it is no literal.

    Raises:
        SyntaxError: The text is not Python.

    >>> find_checks("check('a', 1)\nif x:\n    check(name, 2)")
    ['a', None]
    """
    calls = [
        node
        for node in ast.walk(parse_python(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "check"
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    names: list[str | None] = []
    for call in calls:
        first = call.args[0] if call.args else None
        literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
        names.append(first.value if literal else None)  # type: ignore[union-attr]
    return names


def grading_import_flaws(tree: ast.Module) -> Iterator[str]:
    r"""Yield imports of grading under which a check would not be found: it is known by its name.

    >>> tree = parse_python("from grading import check, seed\nfrom grading import check as c")
    >>> [flaw.split(";")[0] for flaw in grading_import_flaws(tree)]
    ['line 2 imports grading in another way than from grading import check, seed']
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            good = not any(alias.name.split(".")[0] == "grading" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "grading":
            named = [alias.name in FROM_GRADING and alias.asname is None for alias in node.names]
            good = node.module == "grading" and node.level == 0 and all(named)
        else:
            continue
        if not good:
            yield (
                f"line {node.lineno} imports grading in another way than from grading import "
                "check, seed; write it so, as checks and picks are found by their names"
            )


def other_uses(tree: ast.Module, name: str) -> Iterator[str]:
    r"""Yield where a name of grading, such as check, is passed on, or given to something else.

    >>> tree = parse_python("c = check\ncheck('a', 1)")
    >>> [flaw.split(";")[0] for flaw in other_uses(tree, "check")]
    ['line 1 uses the name check for something else than a call']
    """
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        names: list[str | None] = []
        if isinstance(node, ast.Name) and id(node) not in called:
            names = [node.id]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and node.module != "grading"
        ):
            names = [alias.asname or alias.name for alias in node.names]
        if name in names:
            yield (
                f"line {getattr(node, 'lineno', '?')} uses the name {name} for something else "
                "than a call; choose another name"
            )


def demo_flaws(source: str) -> Iterator[str]:
    r"""Yield why a text is no demo cell: an import and one call, whose arguments are values.

    The cell is not run while grading, so nothing may rest on what else it does. And the book shows
    the demo without running the cell.

    >>> list(demo_flaws("from grading import demo\n\ndemo('Map', view='flat', at=[0, -1])"))
    []
    >>> len(list(demo_flaws("from grading import demo\n\nx = 2\ndemo('Map', at=x)")))
    1
    """
    try:
        statements = parse_python(source).body
    except (SyntaxError, ValueError):
        statements = []
    if len(statements) == 2 and _imports_demo(statements[0]) and _shows_demo(statements[1]):
        return
    yield (
        "a demo cell holds `from grading import demo` and one call such as "
        '`demo("NAME", input=1)`, whose arguments are values, and nothing else; take the rest out'
    )


def _imports_demo(node: ast.stmt) -> bool:
    return ast.unparse(node) == "from grading import demo"


def _shows_demo(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "demo" or len(call.args) != 1:
        return False
    given = [keyword.value for keyword in call.keywords if keyword.arg is not None]
    try:
        values = [ast.literal_eval(each) for each in (call.args[0], *given)]
    except (ValueError, TypeError):
        return False
    return isinstance(values[0], str) and len(given) == len(call.keywords)
