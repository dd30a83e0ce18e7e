"""Is an assignment safe to grade by? Rules on its text, each broken one a sentence.

They keep verdicts out of the student's reach: test cells hold inputs only, inputs come from
local generators, and nothing that is hidden stands in what is released. What can only be seen by
running the solution is in :mod:`grading.lint_values`.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from grading.assignment import Assignment, AssignmentError, Cell, Notebook, load
from grading.course import Course
from grading.lint_values import value_flaws

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
FROM_GRADING = {"check", "seed"}
# Shorter lines of a solution, such as `return x`, may stand anywhere.
TELLING_LINE = 30

TASK_LINE = re.compile(r"(\d+) points? · (\d+) minutes")


def lint(course: Course, name: str) -> list[str]:
    """Return a sentence for each flaw of an assignment; an empty list means it may be released.

    Raises:
        SandboxError: The machine lacks a wall, so the solution cannot be run.
    """
    flaws: list[str] = []
    try:
        assignment = load(course, name)
        flaws += text_flaws(course, assignment)
        flaws += value_flaws(course, assignment)
    except AssignmentError as error:
        flaws += error.flaws
    return flaws


def text_flaws(course: Course, assignment: Assignment) -> list[str]:
    """Return the flaws that can be seen without running anything."""
    flaws = list(_leaks(assignment))
    flaws += _idle_files(assignment)
    flaws += _head_flaws(assignment)
    packages = _closed_packages(course, assignment)
    for notebook in assignment.notebooks:
        provided: set[str] = set()
        for cell in notebook.cells:
            place = f"{notebook.id}.ipynb, cell {cell.id!r}"
            if cell.role == "test":
                said = [*_test_cell_flaws(cell, packages, provided)]
                flaws += [f"{place}: {flaw}" for flaw in dict.fromkeys(said)]
            elif cell.type == "code":
                if cell.role in ("solution", "written"):
                    provided |= _bound(_parse(cell.solution))
                if _calls_check(cell):
                    flaws.append(
                        f"{place}: it calls check, which finds what it needs only for checks in "
                        "test cells; move the call there"
                    )
    return flaws


# --- test cells -------------------------------------------------------------------------------


def _test_cell_flaws(cell: Cell, packages: set[str], provided: set[str]) -> Iterator[str]:
    for source in (cell.released, cell.solution):
        tree = ast.parse(source)
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
        if isinstance(statement, ast.Expr) and _is_check(statement.value)
    }
    for node in ast.walk(tree):
        if _is_check(node) and id(node) not in plain:
            yield (
                f"the check in line {getattr(node, 'lineno', '?')} is not a statement of its own "
                "at the left margin; take it out of the loop, condition or expression"
            )


def _is_check(node: ast.AST) -> bool:
    function = node.func if isinstance(node, ast.Call) else None
    return isinstance(function, ast.Name) and function.id == "check"


def _imports(tree: ast.Module, packages: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [(alias.name.split(".")[0], "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [((node.module or ".").split(".")[0], alias.name) for alias in node.names]
        else:
            continue
        for package, name in names:
            if package == "grading" and name not in FROM_GRADING:
                yield "of grading it may import check and seed only"
            elif package in packages:
                yield (
                    f"it imports {package}, which the sandbox does not hold; make the input here, "
                    "or add the package to modules"
                )


def _closed_packages(course: Course, assignment: Assignment) -> set[str]:
    """Return this course's own packages, less those that the settings open."""
    own = {path.parent.name for path in course.root.glob("*/__init__.py")}
    return (own | {"mha_lib"}) - {"grading", *assignment.modules}


def _foreign_names(tree: ast.Module, provided: set[str]) -> Iterator[str]:
    """Yield names that come from neither this cell nor an answer: students reuse names."""
    known = _bound(tree, nested=True) | provided | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in known:
            yield (
                f"the name {node.id!r} comes from neither this cell nor an earlier answer, and "
                "students reuse names; import or make it in this cell"
            )


def _bound(tree: ast.Module | None, *, nested: bool = False) -> set[str]:
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


def _calls_check(cell: Cell) -> bool:
    tree = _parse(cell.released)
    return tree is not None and any(_is_check(node) for node in ast.walk(tree))


def _parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # With a magic, or a stub that is no code yet.


# --- what is released -------------------------------------------------------------------------


def _leaks(assignment: Assignment) -> Iterator[str]:
    """Yield hidden text that stands in the release."""
    released = _released_texts(assignment)
    for notebook in assignment.notebooks:
        for what, secret in _secrets(notebook):
            for place, text in released.items():
                if secret in text:
                    yield (
                        f"{place} holds {what}: {_short(secret)}; students would read it, so word "
                        "one of the two differently"
                    )


def _released_texts(assignment: Assignment) -> dict[str, str]:
    texts = {"the title": assignment.title}
    for notebook in assignment.notebooks:
        for cell in notebook.cells:
            texts[f"{notebook.id}.ipynb, cell {cell.id!r} as released,"] = cell.released
        for check in notebook.checks:
            if not check.hidden:
                texts[f"the visible check {check.name!r} or its hint"] = (
                    f"{check.name}\n{check.hint}"
                )
    for name, content in assignment.files.items():
        texts[f"the file {name}"] = content.decode("utf-8", errors="replace")
    return texts


def _secrets(notebook: Notebook) -> Iterator[tuple[str, str]]:
    for check in notebook.checks:
        if check.hidden:
            yield f"the name of the hidden check {check.name!r}", check.name
            yield f"the feedback of the hidden check {check.name!r}", check.feedback
    for cell in notebook.cells:
        if cell.solution == cell.released:
            continue
        what = "hidden tests" if cell.role == "test" else "the solution"
        for line in _telling_lines(cell.solution) - _telling_lines(cell.released):
            yield f"a line of {what} of cell {cell.id!r}", line


def _telling_lines(text: str) -> set[str]:
    """Return the lines that give something away, however they are indented."""
    return {
        line.strip()
        for line in text.split("\n")
        if len(line.strip()) >= TELLING_LINE
        and not line.strip().startswith(("import ", "from ", "def ", "class ", "#"))
    }


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _idle_files(assignment: Assignment) -> list[str]:
    """Return a flaw for each file that no notebook speaks of: all of them are released."""
    text = "\n".join(cell.released for book in assignment.notebooks for cell in book.cells)
    return [
        f"{assignment.name}/{name} is named in no notebook, yet all in that folder is released; "
        f"move it out of {Path('solutions', assignment.name)}, or name it where it is used"
        for name in assignment.files
        if name not in text
    ]


def _head_flaws(assignment: Assignment) -> list[str]:
    """Return what the first markdown cell of each notebook should say and does not."""
    flaws = []
    difficulty = "●" * assignment.difficulty + "○" * (3 - assignment.difficulty)
    minutes_of_tasks = 0
    any_task = False
    for notebook in assignment.notebooks:
        place = f"{notebook.id}.ipynb"
        points = sum(cell.points for cell in notebook.cells)
        heads = [cell.released for cell in notebook.cells if cell.type == "markdown"]
        head = re.sub(r"[*_]|&nbsp;", "", heads[0]) if heads else ""
        wanted = {
            f"its difficulty, {difficulty}": re.escape(difficulty),
            f"its minutes, '{assignment.minutes} minutes'": rf"\b{assignment.minutes} minutes\b",
            f"its points, 'Points {points:g}'": rf"\bPoints {points:g}\b",
        }
        for what, pattern in wanted.items():
            if not re.search(pattern, head):
                flaws.append(f"{place}: its first markdown cell does not state {what}; add it")
        for cell_id, stated, minutes, earned in _tasks(notebook):
            any_task = True
            minutes_of_tasks += minutes
            if stated != earned:
                flaws.append(
                    f"{place}, cell {cell_id!r}: it states {stated} points, but its cells earn "
                    f"{earned:g}; mend one of the two"
                )
    if any_task and minutes_of_tasks > assignment.minutes:
        flaws.append(
            f"the tasks take {minutes_of_tasks} minutes together, but the settings say "
            f"{assignment.minutes}; mend one of the two"
        )
    return flaws


def _tasks(notebook: Notebook) -> list[tuple[str, int, int, float]]:
    """Return (cell, points stated, minutes, points earned) of each cell that opens a task.

    A task is opened by a line such as "10 points · 5 minutes" and goes on to the next.
    """
    tasks: list[tuple[str, int, int, float]] = []
    for cell in notebook.cells:
        opened = TASK_LINE.search(cell.released) if cell.type == "markdown" else None
        if opened and cell.role == "given":
            tasks.append((cell.id, int(opened[1]), int(opened[2]), 0.0))
        elif tasks:
            cell_id, stated, minutes, earned = tasks[-1]
            tasks[-1] = (cell_id, stated, minutes, earned + cell.points)
    return tasks
