"""For other people's grades: what lies outside the sandbox."""

from __future__ import annotations

from benchmarks.students import ROOT
from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack


@submission()
def writes_the_gradebook(work: Work) -> None:
    """Looks for gradebook.db and gives everyone full points: nobody's grade moves."""
    attack(
        work,
        f"""
        import sqlite3
        from pathlib import Path
        places = [Path({str(work.course)!r}), Path({str(ROOT)!r}), *Path.cwd().parents]
        for place in places:
            for path in [place / "gradebook.db", *place.glob("*/gradebook.db")]:
                try:
                    with sqlite3.connect(path, timeout=1) as book:
                        book.execute("UPDATE grade SET manual_score = 100, auto_score = 100")
                    print("wrote", path)
                except sqlite3.Error as error:
                    print(path, error)
        """,
    )
