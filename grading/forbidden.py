"""Find forbidden names in a student's source: a hint for a person, never a verdict.

What hides behind computed text cannot be seen here; where a task depends on it, the sandbox does
not contain the thing at all.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator

MAX_CHARACTERS = 200_000
MAX_MAGIC_CHARACTERS = 20_000
MAX_MAGICS = 50
MAX_NESTED_TEXTS = 3
# Their text arguments name attributes, or are code.
NAMING = {"getattr", "attrgetter", "methodcaller", "__getattribute__", "import_module"}
RUNNING = {"eval", "exec", "compile", "run_cell", "run_cell_magic", "run_line_magic", "system"}


def find(cells: Iterable[tuple[str, str]], names: Collection[str]) -> list[tuple[str, int, str]]:
    """Return (cell, line, name) for each use of a forbidden name in (cell, source) pairs.

    A function or class of the student's own that bears the name is no use of it.

    >>> find([("a", "import torch.nn.functional as F\\nF.relu(1)")], ["relu"])
    [('a', 2, 'relu')]
    >>> find([("a", "def relu(x):\\n    return x\\nrelu(1)")], ["relu"])
    []
    """
    if not names:
        return []
    wanted = frozenset(names)
    cells = list(cells)
    trees = {cell: _parse(source) for cell, source in cells}
    own = {name for tree in trees.values() if tree for name in _defined(tree, wanted)}
    found: set[tuple[str, int, str]] = set()
    for cell, source in cells:
        tree = trees[cell]
        if tree is None:
            uses: Iterable[tuple[int, str]] = _words(source, wanted)
        else:
            uses = _uses(tree, wanted, own, MAX_NESTED_TEXTS)
        found.update((cell, line, name) for line, name in uses)
    order = {cell: index for index, (cell, _) in enumerate(cells)}
    return sorted(found, key=lambda use: (order[use[0]], use[1], use[2]))


def _parse(source: str) -> ast.Module | None:
    """Return the syntax tree; an empty one for what is no Python, None for what is too much."""
    if len(source) > MAX_CHARACTERS:
        return None
    try:
        return ast.parse(source)
    except SyntaxError:
        return _parse_magics(source)
    except (ValueError, RecursionError, MemoryError):
        return None


def _parse_magics(source: str) -> ast.Module | None:
    from IPython.core.inputtransformer2 import TransformerManager

    # IPython reads the cell anew for each magic: without a limit a cell could keep us for hours.
    if len(source) > MAX_MAGIC_CHARACTERS or len(re.findall(r"[%!?]", source)) > MAX_MAGICS:
        return None
    try:
        manager = TransformerManager()  # type: ignore[no-untyped-call]
        return ast.parse(manager.transform_cell(source))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])  # It cannot run either.
    except (ValueError, RecursionError, MemoryError, RuntimeError):
        return None


def _defined(tree: ast.AST, wanted: frozenset[str]) -> set[str]:
    """Return the wanted names that the student gives to something of their own."""
    own = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return own & wanted


def _uses(
    tree: ast.AST, wanted: frozenset[str], own: set[str], nested: int
) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in wanted - own:
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and node.attr in wanted:
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not (of_self and node.attr in own):
                yield node.lineno, node.attr
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            for part in ".".join([module, *(alias.name for alias in node.names)]).split("."):
                if part in wanted:
                    yield node.lineno, part
        elif isinstance(node, ast.Subscript) and (text := _text(node.slice)) in wanted:
            yield node.lineno, text or ""
        elif isinstance(node, ast.Call):
            yield from _uses_in_texts(node, wanted, own, nested)


def _uses_in_texts(
    call: ast.Call, wanted: frozenset[str], own: set[str], nested: int
) -> Iterator[tuple[int, str]]:
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        text = _text(argument)
        if text is None:
            continue
        if called in NAMING:
            for part in text.split("."):
                if part in wanted:
                    yield call.lineno, part
        elif called in RUNNING and nested:
            tree = _parse(text)
            inside = _words(text, wanted) if tree is None else _uses(tree, wanted, own, nested - 1)
            for line, name in inside:
                # The text of a %%magic starts on the line below it.
                yield call.lineno + (line if called == "run_cell_magic" else 0), name


def _text(node: ast.AST) -> str | None:
    """Return the text of a literal, also of literals joined by + or written as an f-string."""
    parts: list[str] = []
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            parts.append(part.value)
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            todo += [part.right, part.left]
        elif isinstance(part, ast.JoinedStr):
            todo += reversed(part.values)
        elif isinstance(part, ast.FormattedValue):
            todo.append(part.value)
        else:
            return None
    # A left part was pushed last, so it was read first.
    return "".join(parts)


def _words(source: str, wanted: frozenset[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(source.split("\n"), 1):
        for name in wanted:
            if re.search(rf"\b{re.escape(name)}\b", line):
                yield number, name
