"""Find forbidden names in a student's source: a hint for a person, never a verdict.

Grading hints to the instructor, and :mod:`grading.notice` to the student. What hides behind
computed text cannot be seen here; where a task depends on it, the sandbox does not contain the
thing at all.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from grading.parsing import parse_python

# Python takes some texts time that grows with the square of their length, so a cell is short.
MAX_CELL_CHARACTERS = 20_000
MAX_CHARACTERS = 100_000  # of all short cells together; the rest is searched for bare words
MAX_NESTED_TEXTS = 3
# Their text arguments name attributes, or are code.
NAMING = {"getattr", "attrgetter", "methodcaller", "__getattribute__", "import_module"}
NAMING |= {"__import__"}
RUNNING = {"eval", "exec", "compile", "run_cell", "run_cell_magic", "run_line_magic", "system"}
# Where a text may be a name: behind one of these words, or at the start of a subscript.
_IN_TEXTS = re.compile(
    rf"\b(?:{'|'.join(sorted(NAMING | RUNNING))})\b|\[[\s(\\]*(?:#|\w{{0,2}}['\"])"
)

_Place = tuple[int, str]  # line and name


class Use(NamedTuple):
    """A forbidden name in one cell: the first line it stands on, and on how many it does."""

    cell: str
    line: int
    name: str
    lines: int


class _Cell(NamedTuple):
    """A cell as it is read: its tree, or None, and its lines that are no Python, by number."""

    source: str
    tree: ast.Module | None
    others: tuple[tuple[int, str], ...]


def find(
    cells: Iterable[tuple[str, str]], names: Collection[str], own: Collection[str] = ()
) -> list[Use]:
    """Return the uses of forbidden names in (cell, source) pairs, one for each cell and name.

    A function or class of the student's own that bears the name is no use of it; ``own`` names
    more of them. Where a cell cannot be read as Python, the bare word counts, even in a comment.

    >>> find([("a", "import torch.nn.functional as F\\nF.relu(1)")], ["relu"])
    [Use(cell='a', line=2, name='relu', lines=1)]
    >>> find([("a", "def relu(x):\\n    return x\\nrelu(1)")], ["relu"])
    []
    """
    if not names:
        return []
    wanted = frozenset(names)
    room = MAX_CHARACTERS
    read: list[tuple[str, _Cell]] = []
    for name, source in cells:
        short = len(source) <= MAX_CELL_CHARACTERS
        room -= len(source) if short else 0
        read.append((name, _read(source) if short and room >= 0 else _Cell(source, None, ())))
    defined = frozenset(each for _, cell in read for each in _defined(cell.tree, wanted))
    all_own = defined.union(own)
    found: list[Use] = []
    for name, cell in read:
        lines: dict[str, set[int]] = {}
        for line, used in _places(cell, wanted, all_own):
            lines.setdefault(used, set()).add(line)
        found += sorted(Use(name, min(on), used, len(on)) for used, on in lines.items())
    return found


def may_hold(source: str, names: Collection[str]) -> bool:
    """Tell whether a cell need be read at all; where it need not be, `find` finds nothing.

    Far quicker than to read it. A name stands there as a word, or in texts, which only a subscript
    and a few functions take for names.

    >>> may_hold("x = torch.exp(x)", ["relu"]), may_hold("getattr(torch, 're' 'lu')", ["relu"])
    (False, True)
    """
    if not source.isascii():
        return True  # Python takes many a letter for another one.
    words = _any_of(frozenset(names))
    return words.search(source) is not None or _IN_TEXTS.search(source) is not None


@functools.cache
def _any_of(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")


def own_names(source: str, names: Collection[str]) -> frozenset[str]:
    """Return which of the names a cell gives to something of its own.

    >>> own_names("def relu(x):\\n    return x", ["relu", "gelu"])
    frozenset({'relu'})
    """
    return _defined(_read(source).tree, frozenset(names))


@functools.lru_cache(maxsize=256)  # The instructor's cells are the same in every submission.
def _places(cell: _Cell, wanted: frozenset[str], own: frozenset[str]) -> tuple[_Place, ...]:
    return tuple(_uses_in_cell(cell, wanted, own))


def _uses_in_cell(cell: _Cell, wanted: frozenset[str], own: frozenset[str]) -> Iterator[_Place]:
    if cell.tree is None:
        yield from _words(cell.source, wanted)
        return
    yield from _uses(cell.tree, wanted, own, MAX_NESTED_TEXTS)
    for number, text in cell.others:
        for _, name in _uses_in_text(text, wanted, own, MAX_NESTED_TEXTS):
            yield number, name


@functools.lru_cache(maxsize=256)
def _read(source: str) -> _Cell:
    tree = _parse(source)
    if tree is not None:
        return _Cell(source, tree, ())
    # Perhaps with IPython's own lines. IPython's way of reading them can take hours.
    lines = source.split("\n")
    others = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith(("%", "!", "?")) or text.endswith("?"):
            others[number] = re.sub(r"^(%%?\w*|[!?]+)|\?+$", "", text).strip()
            lines[number - 1] = line[: len(line) - len(line.lstrip())] + "pass"
    tree = _parse("\n".join(lines)) if others else None
    return _Cell(source, tree, tuple(others.items()))


def _parse(source: str) -> ast.Module | None:
    """Return the syntax tree; None for what cannot be read, or not in reasonable time."""
    if len(source) > MAX_CELL_CHARACTERS:
        return None
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@functools.lru_cache(maxsize=256)
def _defined(tree: ast.AST | None, wanted: frozenset[str]) -> frozenset[str]:
    """Return the wanted names that the student gives to something of their own."""
    own = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own.add(node.name)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return wanted & own


def _uses(
    tree: ast.AST, wanted: frozenset[str], own: frozenset[str], nested: int
) -> Iterator[_Place]:
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
    call: ast.Call, wanted: frozenset[str], own: frozenset[str], nested: int
) -> Iterator[_Place]:
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
            for line, name in _uses_in_text(text, wanted, own, nested):
                # The text of a %%magic starts on the line below it.
                yield call.lineno + (line if called == "run_cell_magic" else 0), name


def _uses_in_text(
    text: str, wanted: frozenset[str], own: frozenset[str], nested: int
) -> Iterator[_Place]:
    tree = _parse(text)
    return _words(text, wanted) if tree is None else _uses(tree, wanted, own, nested - 1)


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


def _words(source: str, wanted: frozenset[str]) -> Iterator[_Place]:
    present = [re.escape(name) for name in sorted(wanted) if name in source]
    if not present:
        return
    line, counted = 1, 0
    for match in re.finditer(rf"\b(?:{'|'.join(present)})\b", source):
        line += source.count("\n", counted, match.start())
        counted = match.start()
        yield line, match[0]
