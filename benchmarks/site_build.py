"""How long the book takes to build: cold, and after one line of prose has changed.

No measurement itself: `benchmarks.site` uses it. It builds a copy of this clone's files in a
temporary folder, so nothing that was built before is used, and nothing here is touched.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from book.places import ROOT

CHAPTER = Path("book", "en", "multi-head.md")  # the longest, with two demos and a quiz
LINE = "\nOne more line of prose.\n"


def copy_of_clone(folder: Path) -> Path:
    """Copy what git knows or would add, and nothing that was built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    copy = folder / "clone"
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def build_seconds(copy: Path) -> float:
    """Build the copy, its chapters included where no cache holds them; return the seconds.

    Raises:
        CalledProcessError: when the build fails.
    """
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "book.build"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def cold_and_changed(folder: Path) -> tuple[float, float]:
    """Return the seconds of a cold build, and of one after a line of prose has changed."""
    copy = copy_of_clone(folder)
    cold = build_seconds(copy)
    chapter = copy / CHAPTER
    chapter.write_text(chapter.read_text("utf-8") + LINE, "utf-8")
    return cold, build_seconds(copy)
