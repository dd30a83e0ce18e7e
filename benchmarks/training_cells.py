"""What each cell of the book that trains costs when its page is built, in processor seconds."""

import os
import re
import time
from contextlib import redirect_stdout
from io import StringIO

from book.places import ROOT

CHAPTERS = ROOT / "book" / "en"
CELL = re.compile(r"^```\{code-cell\} python\n((?::[^\n]*\n)*)(.*?)^```", re.S | re.M)
TRAINS = re.compile(r"\btrain_\w+\(|\.backward\(")


def print_cells() -> None:
    """Run the chapters that train, cell by cell, and print what each that trains costs."""
    os.environ["MHA_STATIC"] = "1"
    total = 0.0
    print("CPU s  chapter and cell")
    for path in sorted(CHAPTERS.glob("*.md")):
        cells = [cell for _, cell in CELL.findall(path.read_text("utf-8"))]
        last = max((i for i, cell in enumerate(cells) if TRAINS.search(cell)), default=-1)
        names: dict[str, object] = {"__name__": "__main__"}
        for cell in cells[: last + 1]:
            start = time.process_time()
            with redirect_stdout(StringIO()):
                exec(compile(cell, path.name, "exec"), names)
            seconds = time.process_time() - start
            if TRAINS.search(cell):
                total += seconds
                call = TRAINS.search(cell)
                line = next(each for each in cell.splitlines() if call and call[0] in each)
                print(f"{seconds:5.1f}  {path.stem}: {line.strip()}", flush=True)
    print(f"{total:5.1f}  all of them")
