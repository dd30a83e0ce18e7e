"""What students get of a cell: nbgrader's marks for solutions and hidden tests, by its rules.

A test holds these rules equal to nbgrader's own ClearSolutions and ClearHiddenTests.
"""

from __future__ import annotations

from collections.abc import Iterator

CODE_STUB = "# YOUR CODE HERE\nraise NotImplementedError()"
TEXT_STUB = "YOUR ANSWER HERE"
SOLUTION_MARKS = ("BEGIN SOLUTION", "END SOLUTION")
HIDDEN_MARKS = ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")
# nbgrader acts on these too; nothing here does, so they are refused.
OTHER_MARKS = ("BEGIN MARK SCHEME", "END MARK SCHEME", "AUTOTEST")


def clear_solution(source: str, cell_type: str) -> str:
    """Return a solution cell's text as nbgrader releases it.

    Each region between the solution marks becomes a stub; a cell without a region becomes one.

    >>> clear_solution("x = 1\\n### BEGIN SOLUTION\\ny = 2\\n### END SOLUTION", "code")
    'x = 1\\n# YOUR CODE HERE\\nraise NotImplementedError()'
    """
    stub = CODE_STUB if cell_type == "code" else TEXT_STUB
    if SOLUTION_MARKS[0] not in source:
        return stub
    return _replace_regions(source, SOLUTION_MARKS, stub.split("\n"))


def clear_hidden(source: str) -> str:
    """Return a test cell's text without its hidden regions, as nbgrader releases it.

    >>> clear_hidden("a\\n### BEGIN HIDDEN TESTS\\nb\\n### END HIDDEN TESTS\\nc")
    'a\\nc'
    """
    return _replace_regions(source, HIDDEN_MARKS, [])


def _replace_regions(source: str, marks: tuple[str, str], stub: list[str]) -> str:
    begin, end = marks
    kept: list[str] = []
    inside = False
    for line in source.split("\n"):
        if begin in line:
            inside = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + stub_line for stub_line in stub]
        elif end in line:
            inside = False
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def mark_flaws(source: str, role: str) -> Iterator[str]:
    """Yield what is wrong with the marks in a cell of this role.

    nbgrader takes an END without a BEGIN silently.
    """
    for (begin, end), allowed, place in (
        (SOLUTION_MARKS, ("solution", "written"), "solution cells"),
        (HIDDEN_MARKS, ("test",), "test cells"),
    ):
        if (begin in source or end in source) and role not in allowed:
            yield f"it holds {begin!r} or {end!r}, which belong in {place} only; take them out"
            continue
        inside = False
        for line in source.split("\n"):
            if begin in line and end in line:
                yield f"one line holds both {begin!r} and {end!r}; give each a line of its own"
            if begin in line:
                if inside:
                    yield f"{begin!r} stands twice before {end!r}; close the first region"
                inside = True
            elif end in line:
                if not inside:
                    yield f"{end!r} has no {begin!r} before it; add it"
                inside = False
        if inside:
            yield f"{begin!r} is never closed; add a line with {end!r}"
    for mark in OTHER_MARKS:
        if mark in source:
            yield f"it holds {mark!r}, which nbgrader acts on and this grader does not; reword it"
