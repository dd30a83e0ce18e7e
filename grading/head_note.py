"""What a notebook's head says where the exercise has variants: where students write their id.

It is put there as the assignment is read, so that one line of the settings switches all of it.
"""

from __future__ import annotations

from dataclasses import replace

from grading.notebook import Notebook
from grading.variants import ID_FILE

NOTE = f"""

**Your own numbers** Some numbers in this exercise are drawn for you, from your student id. Before \
you begin, open the file `{ID_FILE}` beside this notebook, write your id into it, just as your \
course has it, and save. You are graded by the numbers of your own id, so a neighbour's answers \
will not fit."""


def with_id_note(notebook: Notebook) -> Notebook:
    """Return the notebook with the note below its first markdown cell."""
    for place, cell in enumerate(notebook.cells):
        if cell.type == "markdown" and cell.role == "given":
            told = replace(
                cell,
                solution=cell.solution.rstrip() + NOTE,
                released=cell.released.rstrip() + NOTE,
                hidden=cell.hidden.rstrip() + NOTE,
            )
            cells = (*notebook.cells[:place], told, *notebook.cells[place + 1 :])
            return replace(notebook, cells=cells)
    return notebook
