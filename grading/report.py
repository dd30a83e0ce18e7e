"""An assignment's results for the instructor: a few lines for a terminal, and a page.

The page holds names, marks and what hidden checks received: it is for the instructor alone, lies
in .grading and is no part of any feedback. All that a student wrote in it is text: it has no script
and may load nothing, and a content security policy says so to the browser.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from grading.course import Course
from grading.plain import one_line, printable
from grading.records import PRIVATE, private_folder, write_file
from grading.standings import points_text
from grading.status import State, counts
from grading.summary import Part, Summary

TEMPLATES = Path(__file__).parent / "templates" / "report"
WIDTH = 40  # characters of the longest bar
CHUNK_ROWS = 50  # of the table of submissions, laid out together
MAX_REASONS = 3
MAX_REASON = 240
NONE_YET = "Nobody has points yet."


def as_text(results: Summary) -> str:
    """Return a histogram of points and a table of tasks, for a terminal."""
    if not results.scores:
        return NONE_YET
    lines = [_points_line(results), ""]
    most = max(bar.count for bar in results.bars)
    ranges = [f"{bar.low:g} to {bar.high:g}" for bar in results.bars]
    wide = max(len(each) for each in ranges)
    for text, bar in zip(ranges, results.bars, strict=True):
        # Whoever is counted is seen.
        length = -(-bar.count * WIDTH // most)
        lines.append(f"  {text:>{wide}}  {'█' * length}{' ' if length else ''}{bar.count}")
    rows = [
        (
            printable(task.whole.name),
            f"{task.whole.points:g}",
            reached(task.whole),
            percent(task.left_blank),
        )
        for task in results.tasks
    ]
    return "\n".join([*lines, "", *_table(("Task", "Points", "Reached", "Left blank"), rows)])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of columns: the first to the left, the others to the right."""
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
        ).rstrip()
        for row in (head, *rows)
    ]


def _points_line(results: Summary) -> str:
    count = len(results.scores)
    return (
        f"Points of {count} submission{'' if count == 1 else 's'}, out of {results.max_score:g}: "
        f"median {results.median:g}, mean {results.mean:g}"
    )


def percent(share: float | None) -> str:
    """Say how much a share is; what is not nothing does not look like it, nor what is not all.

    >>> percent(0.855), percent(0.0001), percent(0.9999), percent(None)
    ('86 %', '1 %', '99 %', '-')
    """
    if share is None:
        return "-"
    rounded = round(100 * share)
    return f"{rounded if share in (0, 1) else min(max(rounded, 1), 99)} %"


def reached(part: Part) -> str:
    """Say which share of a part's points was reached, and in how many it waits for a person.

    >>> reached(Part("Task 9", 10, 0.25, 3)), reached(Part("Task 9", 10, None, 3))
    ('25 %, 3 wait', '3 wait')
    """
    share = "" if part.reached is None and part.waiting else percent(part.reached)
    waits = f"{part.waiting} wait" + ("s" if part.waiting == 1 else "") if part.waiting else ""
    return ", ".join(filter(None, (share, waits)))


def path_of(course: Course, name: str) -> Path:
    """Return where the page of an assignment lies."""
    return course.state / "reports" / f"{name}.html"


def write_page(course: Course, results: Summary, now: datetime) -> Path:
    """Write the page, readable by its owner alone, and return where it lies."""
    private_folder(course)
    path = path_of(course, results.name)
    write_file(path, page(results, now).encode("utf-8"), mode=PRIVATE)
    return path


def page(results: Summary, now: datetime) -> str:
    """Return the page as HTML; all that is put into it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    style = (TEMPLATES / "report.css").read_text(encoding="utf-8")
    # The policy names this very sheet, so no other style holds, wherever one came from.
    sheet = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "reached": reached}
    content: dict[str, Any] = {
        "results": results,
        "style": style,
        "policy": f"default-src 'none'; style-src 'sha256-{sheet}'; base-uri 'none'; "
        "form-action 'none'",
        "made": f"{now.astimezone():%Y-%m-%d %H:%M}",
        "outcomes": counts(each.state for each in results.states),
        "points_line": _points_line(results) if results.scores else NONE_YET,
        "most": max((bar.count for bar in results.bars), default=0) or 1,
        "chunk_rows": CHUNK_ROWS,
        "rows": [_row(state) for state in _in_order(results)],
    }
    return environment.get_template("report.html.j2").render(content)


def _in_order(results: Summary) -> list[State]:
    """Return who needs a person first, then the others; each by name."""
    return sorted(results.states, key=lambda each: (not each.needs_person, each.student_id))


def _row(state: State) -> dict[str, Any]:
    reasons = [printable(one_line(reason, MAX_REASON)) for reason in state.reasons[:MAX_REASONS]]
    if len(state.reasons) > MAX_REASONS:
        reasons.append(f"... and {len(state.reasons) - MAX_REASONS} more; `status` tells all.")
    points = "-"
    if state.score is not None:
        points = points_text(state.score, state.max_score, state.waiting, state.penalty)
    return {
        "student": printable(state.student_id),
        "state": str(state.state),
        "person": state.needs_person,
        "points": points,
        "reasons": reasons,
    }
