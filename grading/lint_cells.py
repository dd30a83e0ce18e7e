"""Rules on the text of test cells, each broken one a sentence.

A test cell holds inputs only, which come from local generators; a verdict inside it would be in
the student's reach, and what hangs on global state would hang on the student's code.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping

from grading.assignment import Cell
from grading.parsing import parse_python

# Names that tell of a comparison: it belongs outside, where no student can change it.
COMPARING = {
    "allclose",
    "approx",
    "array_equal",
    "assert_allclose",
    "assert_array_equal",
    "assert_close",
    "assert_equal",
    "atol",
    "expected",
    "isclose",
    "rtol",
    "testing",
    "tolerance",
}
TORCH_RANDOM = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial"}
TORCH_GLOBAL = {"manual_seed", "seed", "rand_like", "randn_like", "randint_like"}
# What tensors fill themselves with; without generator= it comes from the global one.
IN_PLACE = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_"}
LOCAL = {
    "numpy.random": {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "SFC64"},
    "random": {"Random"},
}
MAKE_LOCAL = {"numpy.random": "numpy.random.default_rng", "random": "random.Random"}


def cell_flaws(cell: Cell, packages: set[str], provided: set[str]) -> Iterator[str]:
    """Yield what a test cell may not hold.

    ``packages`` cannot be imported in its sandbox; ``provided`` are names that answers define.
    """
    for source in (cell.released, cell.solution):
        tree = parse_python(source)
        yield from _verdicts(tree)
        yield from _nested_checks(tree)
        yield from _imports(tree, packages)
        yield from _foreign_names(tree, provided)
        yield from _global_randomness(tree)


def _verdicts(tree: ast.Module) -> Iterator[str]:
    """Yield what compares or judges: a test cell holds inputs only."""
    way_out = "a test cell holds inputs only, and check() sends the raw value out"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield f"line {node.lineno} asserts; {way_out}"
        elif isinstance(node, ast.Compare):
            yield f"line {node.lineno} compares; {way_out}"
        for name in _names_of(node):
            if name in COMPARING or name.startswith("expected"):
                yield f"it uses the name {name!r}, which tells of a comparison; {way_out}"


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.arg | ast.keyword):
        return [node.arg or ""]
    if isinstance(node, ast.alias):
        return [*node.name.split("."), node.asname or ""]
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return []


def _nested_checks(tree: ast.Module) -> Iterator[str]:
    plain = {
        id(statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Expr) and is_check(statement.value)
    }
    for node in ast.walk(tree):
        if is_check(node) and id(node) not in plain:
            yield (
                f"the check in line {getattr(node, 'lineno', '?')} is not a statement of its own "
                "at the left margin; take it out of the loop, condition or expression"
            )


def is_check(node: ast.AST) -> bool:
    """Tell whether a piece of a syntax tree is a call of check."""
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Name) and function.id == "check"


def _imports(tree: ast.Module, packages: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        else:
            continue
        for name in names:
            package = name.split(".")[0]
            if package in packages:
                yield (
                    f"it imports {package}, which the sandbox does not hold; make the input here, "
                    "or add the package to modules"
                )


def _foreign_names(tree: ast.Module, provided: set[str]) -> Iterator[str]:
    """Yield names that come from neither this cell nor an answer: students reuse names."""
    known = bound(tree, nested=True) | provided | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known:
            yield (
                f"the name {node.id!r} comes from neither this cell nor an earlier answer, and "
                "students reuse names; import or make it in this cell"
            )


def bound(tree: ast.Module | None, *, nested: bool = False) -> set[str]:
    """Return the names that code binds, by default at its top level only."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body) if tree is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_scope:
            names.add(node.name)  # type: ignore[attr-defined]
        if nested or not (is_scope or isinstance(node, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return names


def _global_randomness(tree: ast.Module) -> Iterator[str]:
    """Yield random numbers that hang on what ran before: on global generators and defaults."""
    aliases = _aliases(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        given = {keyword.arg for keyword in node.keywords}
        name = _dotted(node.func, aliases)
        module, _, function = name.rpartition(".")
        place = f"line {node.lineno} calls {name or ast.unparse(node.func)}"
        if module == "torch" and function in TORCH_RANDOM:
            for needed in sorted({"generator", "dtype"} - given):
                if (function, needed) not in (("bernoulli", "dtype"), ("multinomial", "dtype")):
                    yield f"{place} without {needed}=; give it, or a student's code decides"
        elif module == "torch" and function in TORCH_GLOBAL:
            yield f"{place}, the global generator; use torch.Generator().manual_seed(seed(...))"
        elif module == "torch.random" or module == "torch.cuda":
            yield f"{place}, a global state; use torch.Generator().manual_seed(seed(...))"
        elif module in LOCAL and function not in LOCAL[module]:
            yield f"{place}, the global generator; use {MAKE_LOCAL[module]}(seed(...))"
        elif module in LOCAL and not (node.args or node.keywords):
            yield f"{place} without a seed; give it seed(...)"
        elif _method(node) in IN_PLACE and "generator" not in given:
            yield f"{place} without generator=; give it, or a student's code decides"


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return what each imported name stands for: {"np": "numpy", "randn": "torch.randn"}."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    first = alias.name.split(".")[0]
                    names[first] = first
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> str:
    """Return the full name of what is called: "numpy.random.rand"; "" where it has none."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return ""
    return ".".join([aliases[node.id], *reversed(parts)])


def parse(source: str) -> ast.Module | None:
    """Return a text's syntax tree, or None where it is not plain Python."""
    try:
        return parse_python(source)
    except (SyntaxError, ValueError):
        return None  # With a magic, or a stub that is no code yet.
