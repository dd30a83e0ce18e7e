"""Rules on how long a solution computes: students run it again and again, and some write it slower.

What counts is the time that a cell computes, which hardly moves when the machine is busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grading.job import Limits, Run, cell_name

NOTEBOOK_SECONDS = 20.0
CELL_SHARE = 1 / 3  # of cell_seconds: a right answer may take three times as long as ours


def time_flaws(runs: Sequence[Run], limits: Limits) -> Iterator[str]:
    """Yield what takes too long in runs of one notebook, each measured; the place comes first."""
    most = CELL_SHARE * limits.cell_seconds
    for cell in runs[0].cells:
        seconds = max(run.cells[cell].seconds for run in runs)
        if seconds > most:
            yield (
                f", {cell_name(cell)}: the solution computes for {seconds:.1f} s, more than a "
                f"third of what a student's cell may take; make it smaller, or raise cell_seconds "
                f"in [limits], now {limits.cell_seconds:g}"
            )
    whole = max(sum(done.seconds for done in run.cells.values()) for run in runs)
    if whole > NOTEBOOK_SECONDS:
        yield (
            f": the solution computes for {whole:.1f} s in all, and students run it again and "
            f"again; make its longest cells smaller, so that it takes {NOTEBOOK_SECONDS:g} s or "
            "less"
        )
