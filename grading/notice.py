"""Tells a student at once, in Jupyter, that a cell uses what the exercise does not allow.

A word in time, not a wall: the cell has run, nothing is an error, and marks are decided elsewhere.
Whoever grades is told the same, found by the same :mod:`grading.forbidden`.
"""

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from grading.checks_file import FILE_NAME, DamagedChecks, read
from grading.forbidden import Use, find, may_hold, own_names

_MARK = "_course_notice"  # what a shell carries that is watched


def watch(shell: Any = None) -> None:
    """Look at each cell after it has run, from the cell on that runs now.

    ``shell`` is IPython's, by default the one that this code runs in, if any. It is watched once,
    however often this module is loaded. While a submission is graded there is none yet when this
    package is loaded, and the sandbox does not hold this file.
    """
    if shell is None and (ipython := sys.modules.get("IPython")):
        shell = ipython.get_ipython()
    if shell is None or hasattr(shell, _MARK):
        return
    setattr(shell, _MARK, True)
    shell.events.register("post_run_cell", Notice(shell).after_cell)


class Notice:
    """What is known between two cells: the exercise's forbidden names, and the student's own."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._file: tuple[object, ...] | None = None
        self._names: tuple[str, ...] = ()
        self._own: set[str] = set()
        self._looked_back = False

    def after_cell(self, result: Any) -> None:
        """Say what stands in the cell that has run. Whatever happens here is no student's fault."""
        try:
            text = self._text(result)
            if text:
                print(text)
        except Exception:
            return

    def _text(self, result: Any) -> str:
        if result.error_before_exec is not None:
            return ""  # It is no Python and did not run, as Jupyter says.
        before = self._read_file(result.execution_count)
        if not self._names:
            return ""
        cells = [*before, ("this cell", result.info.raw_cell)]
        cells = [(cell, source) for cell, source in cells if may_hold(source, self._names)]
        if not cells:
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Jupyter has shown those of the cell already.
            for _, source in cells:
                self._own |= own_names(source, self._names)
            # A bare name that means nothing yet stands for what the student has still to write.
            own = self._own.union(name for name in self._names if name not in self._shell.user_ns)
            return told(use for cell in cells for use in find([cell], self._names, own))

    def _read_file(self, current: int | None) -> list[tuple[str, str]]:
        """Read the names where checks.json is a new one; return the cells not looked at so far."""
        path = Path.cwd() / FILE_NAME
        try:
            state = path.stat()
        except OSError:
            self._file, self._names = None, ()
            return []
        file = (path, state.st_mtime_ns, state.st_size)
        if file == self._file:
            return []
        self._file, self._names = file, ()
        try:
            self._names = read(path).forbidden
        except (FileNotFoundError, DamagedChecks):
            return []  # The checks say so.
        if self._looked_back:
            return []
        self._looked_back = True
        cells = enumerate(self._shell.user_ns.get("In", []))
        return [(f"cell [{number}]", source) for number, source in cells if number != current]


def told(uses: Iterable[Use]) -> str:
    """Put what was found into words; nothing where there is nothing.

    >>> print(told([Use("this cell", 2, "relu", 1)]))
    Note: this exercise does not allow relu (line 2 of this cell).
    Here you write it yourself: put your own steps in its place, and run the cell again.
    If relu is a name that you chose, choose another.
    If it stays, whoever grades your work sees this note too.
    """
    found = list(uses)
    if not found:
        return ""
    places = ", ".join(f"{use.name} (line {use.line} of {use.cell})" for use in found)
    one = len({use.name for use in found}) == 1
    it, its, which = ("it", "its", found[0].name) if one else ("them", "their", "one of them")
    return (
        f"Note: this exercise does not allow {places}.\n"
        f"Here you write {it} yourself: put your own steps in {its} place, "
        "and run the cell again.\n"
        f"If {which} is a name that you chose, choose another.\n"
        f"If {'it stays' if one else 'they stay'}, whoever grades your work sees this note too."
    )
