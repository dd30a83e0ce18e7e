"""The calls of pick in a cell, found in its syntax tree: the grader draws without running code."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from grading.parsing import parse_python


@dataclass(frozen=True)
class PickCall:
    """One call of ``pick``. Its options are as they are written; None is what is no literal."""

    line: int
    name: str | None
    options: tuple[str, ...] | None


def imports_pick(source: str) -> bool:
    r"""Tell whether Python text takes the name pick from grading; another pick is none of ours.

    >>> imports_pick("from grading import check, pick"), imports_pick("def pick(): pass")
    (True, False)
    """
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module == "grading"
        and any(alias.name == "pick" for alias in node.names)
        for node in ast.walk(parse_python(source))
    )


def find_picks(source: str) -> list[PickCall]:
    r"""Return each call of ``pick`` in Python text, in order.

    Raises:
        SyntaxError: The text is not Python.

    >>> find_picks("h = pick('heads', [8, 12])\npick(name, range(2))")[0]
    PickCall(line=1, name='heads', options=('8', '12'))
    >>> find_picks("h = pick('heads', [8, 12])\npick(name, range(2))")[1]
    PickCall(line=2, name=None, options=None)
    """
    calls = [
        node
        for node in ast.walk(parse_python(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "pick"
    ]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    return [PickCall(call.lineno, _name(call), _options(call)) for call in calls]


def _name(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    literal = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return first.value if literal else None  # type: ignore[union-attr]


def _options(call: ast.Call) -> tuple[str, ...] | None:
    if len(call.args) != 2 or call.keywords or not isinstance(call.args[1], ast.List):
        return None
    try:
        for item in call.args[1].elts:
            ast.literal_eval(item)
        # Not the value's repr: that of a set of texts differs from one run of Python to the next.
        return tuple(map(ast.unparse, call.args[1].elts))
    except (ValueError, TypeError):  # TypeError: a set or a dictionary's key that cannot be one.
        return None
