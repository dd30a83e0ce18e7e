"""What attacks are made of."""

from __future__ import annotations

from textwrap import dedent

from benchmarks.students import answer_ids, answer_wrongly, find, right_answer
from tests.grading.handing_in import Work

PASSED = "went through a wall: "
# In two parts, so that it stands nowhere but in what such an attack prints.
THROUGH = """
def through(wall):
    print("went through " + "a wall: " + wall)
"""


def attack(work: Work, code: str) -> None:
    """Wrong answers everywhere, and ``code`` before the first; it may call ``through``."""
    answer_wrongly(work.notebook)
    before(work, answer_ids()[0], THROUGH + dedent(code))


def before(work: Work, grade_id: str, code: str) -> None:
    """Put ``code`` before an answer, in its cell."""
    cell = find(work.notebook, grade_id)
    cell.source = dedent(code).strip() + "\n" + cell.source


def names_in(grade_id: str) -> dict[str, bool]:
    """Return the names that the right answer gives to something, and whether each is called."""
    names = {}
    for line in right_answer(grade_id).splitlines():
        if line.startswith(("def ", "class ")):
            names[line.split("(")[0].split(":")[0].split()[1]] = True
        elif "=" in line and line[:1].isidentifier():
            names[line.split("=")[0].strip()] = False
    return names
