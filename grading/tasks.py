"""Where a cell stands, in words that a student finds: by the task it belongs to.

A cell belongs to the nearest heading above it. Only the instructor's headings count, and the very
first is the notebook's own.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from markdown_it import MarkdownIt

from grading.job import cell_name
from grading.notebook import Cell, Notebook
from grading.plain import one_line
from grading.rebuild import Rebuilt, RebuiltCell

MAX_TITLE = 80


def tasks(notebook: Notebook, rebuilt: Rebuilt | None = None) -> dict[str, str]:
    """Return each cell's task: the heading above it, "" where there is none.

    Without a rebuilt notebook it is the instructor's own.
    """
    cells: Sequence[Cell | RebuiltCell] = notebook.cells if rebuilt is None else rebuilt.cells
    originals = {cell.id: cell for cell in notebook.cells}
    found: dict[str, str] = {}
    titles: list[str] = []
    for cell in cells:
        original = originals.get(cell.id) if cell.role == "given" else None
        if original is not None and original.type == "markdown":
            titles += _headings(original.released)
        found[cell.id] = one_line(titles[-1], MAX_TITLE) if len(titles) > 1 else ""
    return found


@functools.cache  # The same few texts for every submission.
def _headings(markdown: str) -> tuple[str, ...]:
    r"""Return the headings of a text, without their markup. A comment in code shown is none.

    >>> _headings("## Task 1. `a * b`\n\n```python\n# A\n```")
    ('Task 1. a * b',)
    """
    tokens = MarkdownIt("commonmark").disable("html_inline").parse(markdown)
    return tuple(
        "".join(
            part.content for part in inside.children or () if part.type in ("text", "code_inline")
        )
        for opening, inside in pairwise(tokens)
        if opening.type == "heading_open"
    )


def places(notebook: Notebook, rebuilt: Rebuilt) -> dict[str, str]:
    """Name each code cell, to begin a sentence with: by its id or number, and its task.

    Given cells without an id are counted within their task, since the number that they have in
    the notebook is shown nowhere.
    """
    task_of = tasks(notebook, rebuilt)
    counted: Counter[str] = Counter()
    named: dict[str, str] = {}
    for cell in rebuilt.cells:
        if cell.type != "code":
            continue
        task = task_of[cell.id]
        name = cell_name(cell.id)
        if task and name.startswith("given cell"):
            counted[task] += 1
            name = f"given cell {counted[task]}"
        named[cell.id] = name[:1].upper() + name[1:] + (f' in "{task}"' if task else "")
    return named


def with_places(text: str, named: dict[str, str]) -> str:
    """Return a text of the grader's own in which cells are called by their ids, with places."""
    for cell, place in named.items():
        said = place[:1].lower() + place[1:]
        pattern = rf"\b{re.escape(cell_name(cell))}(?![\w-])"
        text = re.sub(pattern, said.replace("\\", r"\\"), text)
    return text
