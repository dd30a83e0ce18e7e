"""Say where each submission stands."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from grading.commands.shared import FINE, LOOK, Commands, numbered, open_marks
from grading.course import Course

if TYPE_CHECKING:
    from grading.journal import Run
    from grading.status import State


def add(commands: Commands) -> None:
    """Enter the command into the command line."""
    made = commands.add(
        "status",
        run,
        "say what is graded, at work or waiting, what failed, and what needs a person",
        "Reads only; it may be asked while grading runs, and then tells the time left.",
    )
    made.add_argument("--json", action="store_true", help="the same as JSON, for programs")


def run(course: Course, options: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    from grading.journal import runs
    from grading.misplaced import misplaced
    from grading.status import status

    states = status(course, options.name)
    ignored = list(misplaced(course, options.name))
    last = next(runs(course, options.name), None)
    now = datetime.now(UTC)
    if options.json:
        print(json.dumps(_as_data(options.name, states, ignored, last, now), indent=1))
    else:
        _print(options.name, states, ignored, last, now)
    return LOOK if any(each.needs_person for each in states) else FINE


def _print(
    name: str, states: Sequence[State], ignored: Sequence[str], last: Run | None, now: datetime
) -> None:
    from grading.plain import printable
    from grading.standings import points_text
    from grading.status import totals

    for each in states:
        text = f"{printable(each.student_id)}  {each.state}"
        if each.since is not None:
            text += f" since {_clock(each.since)}"
        if each.score is not None:
            points = points_text(each.score, each.max_score, each.waiting, each.penalty)
            text += f"  {points}"
        print(text)
        for reason in each.reasons:
            print(f"    {printable(reason)}")
    for line in ignored:
        print(line)
    count = numbered(len(states), "submission")
    waiting = open_marks(sum(each.waiting > 0 for each in states))
    print(f"{count} of {name}: {totals(each.state for each in states) or '-'}{waiting}")
    if last is not None and last.end != "ended":
        print(_run_text(last, now))


def _run_text(last: Run, now: datetime) -> str:
    """Say how far the last run is, or was when it was stopped."""
    from grading.journal import duration

    done = f"{last.done} of {last.waiting}" if last.waiting is not None else "none"
    begun = f"The run begun at {_clock(last.begun)}"
    if not last.alive:
        way = "Ctrl-C" if last.why == "KeyboardInterrupt" else last.why or "killed"
        again = "the same command carries on from there."
        if last.options.get("task") or last.options.get("force"):
            again = "the same command begins anew with all of them."
        return f"{begun} was stopped ({way}) when {done} {_were(last)} graded; {again}"
    if last.waiting is None or last.working_since is None:
        return f"{begun} is going on: it makes ready, and runs the solution."
    left = last.left(now)
    text = f"{duration(left)} left" if left is not None else "no time is known"
    if last.put_off:
        text += f", and what takes long goes last: {len(last.put_off)}"
    return f"{begun} is going on: {done} done, {len(last.doing)} at work; {text}."


def _were(last: Run) -> str:
    return "was" if last.done == 1 else "were"


def _clock(when: datetime) -> str:
    """Return the time of day here, and the day where it is another one."""
    here = when.astimezone()
    today = here.date() == datetime.now(UTC).astimezone().date()
    return f"{here:%H:%M:%S}" if today else f"{here:%Y-%m-%d %H:%M:%S}"


def _as_data(
    name: str, states: Sequence[State], ignored: Sequence[str], last: Run | None, now: datetime
) -> dict[str, Any]:
    return {
        "assignment": name,
        "totals": Counter(str(each.state) for each in states),
        "submissions": [
            {
                "student": each.student_id,
                "state": str(each.state),
                "since": each.since.isoformat() if each.since is not None else None,
                "points": each.score,
                "late_penalty": each.penalty,
                "score": each.net,
                "max_score": each.max_score,
                "points_waiting_for_a_person": each.waiting,
                "needs_person": each.needs_person,
                "reasons": each.reasons,
            }
            for each in states
        ],
        "ignored": ignored,
        "last_run": None
        if last is None
        else {
            "begun": last.begun.isoformat(),
            "state": last.end,
            "why": last.why,
            "options": last.options,
            "submissions": last.waiting,
            "done": last.done,
            "doing": len(last.doing) if last.alive else 0,
            "put_off": len(last.put_off),
            "seconds_left": last.left(now),
        },
    }
