"""Where a cell stands, in words that a student finds: by the task it belongs to.

A cell belongs to the nearest heading above it. Only the instructor's headings count, and the very
first is the notebook's own.
"""

from __future__ import annotations

import re
from collections import Counter

from grading.job import cell_name
from grading.notebook import Notebook
from grading.plain import one_line
from grading.rebuild import Rebuilt

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
MAX_TITLE = 80


def tasks(notebook: Notebook, rebuilt: Rebuilt) -> dict[str, str]:
    """Return each cell's task: the heading above it, "" where there is none."""
    originals = {cell.id: cell for cell in notebook.cells}
    found: dict[str, str] = {}
    titles: list[str] = []
    for cell in rebuilt.cells:
        original = originals.get(cell.id) if cell.role == "given" else None
        if original is not None and original.type == "markdown":
            titles += _HEADING.findall(original.released)
        task = re.sub("[*`]", "", titles[-1]) if len(titles) > 1 else ""
        found[cell.id] = one_line(task, MAX_TITLE)
    return found


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
