"""Grade while everything goes wrong, again and again: python -m tests.grading.soak, `make soak`.

Each round grades the same changed submissions and, at random moments, kills the grader or one of
its sandboxes' processes, locks the gradebook, or fills the disk. Then it grades to the end and
compares with a run that nothing disturbed: every mark, comment and page, those given by hand among
them. Last, many submissions show how memory and time grow. Exits 1 when anything differs.

Whatever cannot be tried on this machine is said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from grading.course import Course
from grading.status import status
from tests.grading.small_course import RIGHT, small_course, submit

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120
DISK = "256m"
Progress = Callable[[str], None]

# --- what students hand in ------------------------------------------------------------------------

KINDS: dict[str, dict[str, str] | None] = {
    "right": {},
    "half": {"number": "head_width = 63"},
    "raises": {"function": "raise ValueError('no')"},
    "no Python": {"function": "def weights(scores:"},
    "prints": {"number": "head_width = 64\nprint('✓ ' * 2000)"},
    "empty": {"number": "", "function": "", "answer": ""},
    "no notebook": None,
}


def hand_in(course: Course, count: int, version: str) -> None:
    """Hand in one submission of some kind for each student; each version differs in every file."""
    kinds = [*KINDS.values()]
    for number in range(count):
        answers = kinds[number % len(kinds)]
        student = f"học-sinh-{number:04}"
        folder = course.submitted / student / "tiny"
        if answers is None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tiny.ipynb").write_text(f"<<<<<<< {version}")
            continue
        written = {**RIGHT, **answers}
        written["answer"] = written["answer"] and f"{written['answer']} {version}"
        written["number"] += f"\n# {version}"
        submit(course, student, written)


def mark_by_hand(course: Course, dice: random.Random) -> None:
    """Give marks, comments, extra credit and flags to some students, as formgrader would."""
    from nbgrader.api import Gradebook

    with Gradebook(course.database_url) as book:
        for submission in book.assignment_submissions("tiny"):
            if dice.random() < 0.5:
                continue
            (notebook,) = submission.notebooks
            for grade in notebook.grades:
                if grade.name == "answer":
                    grade.manual_score = float(dice.choice([0, 1, 2]))
                    grade.needs_manual_grade = False
                elif dice.random() < 0.3:
                    grade.extra_credit = 0.5
            for comment in notebook.comments:
                comment.manual_comment = f"Seen by a person: {submission.student.id}"
            notebook.flagged = notebook.flagged or dice.random() < 0.2
        book.db.commit()


# --- what came of it ------------------------------------------------------------------------------

_QUERIES = {
    "submission": """
        select s.student_id, s.timestamp, n.flagged, n.late_submission_penalty
        from submitted_assignment s join submitted_notebook n on n.assignment_id = s.id""",
    "grade": """
        select s.student_id, c.name, g.auto_score, g.manual_score, g.extra_credit,
               g.needs_manual_grade
        from submitted_assignment s join submitted_notebook n on n.assignment_id = s.id
        join grade g on g.notebook_id = n.id join base_cell c on c.id = g.cell_id""",
    "comment": """
        select s.student_id, c.name, m.auto_comment, m.manual_comment
        from submitted_assignment s join submitted_notebook n on n.assignment_id = s.id
        join comment m on m.notebook_id = n.id join base_cell c on c.id = m.cell_id""",
}


def results(course: Course) -> dict[tuple[object, ...], object]:
    """Return all that grading came to: gradebook, pages, and what status says."""
    found: dict[tuple[object, ...], object] = {}
    path = course.database_url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path)) as book:
        for name, query in _QUERIES.items():
            for student, *rest in book.execute(query):
                place = (name, student) if name == "submission" else (name, student, rest.pop(0))
                found[place] = tuple(rest)
    for file in course.autograded.rglob("*"):
        if file.is_file():
            found["page", str(file.relative_to(course.autograded))] = file.read_bytes()
    for state in status(course, "tiny"):
        found["state", state.student_id] = state
    return found


def differences(expected: dict[Any, Any], found: dict[Any, Any]) -> list[str]:
    """Say where two results differ, in one line each."""
    return [
        f"{' / '.join(map(str, place))}: expected {str(expected.get(place))[:200]}, "
        f"got {str(found.get(place))[:200]}"
        for place in sorted({*expected, *found}, key=str)
        if expected.get(place) != found.get(place)
    ]


# --- the grader, and what is done to it -----------------------------------------------------------


def start_grading(course: Course, log: Path) -> subprocess.Popen[bytes]:
    """Start the command that an instructor runs."""
    modules = os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "grading", "--course", str(course.root), "autograde", "tiny"]
    with log.open("ab") as said:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=course.root,
            env={**os.environ, "PYTHONPATH": modules},
        )


def descendants(process: int) -> list[int]:
    """Return the ids of all processes that a process started, and of theirs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            parent = int(text[text.rindex(")") + 2 :].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = [], [process]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return found


class Stroke(NamedTuple):
    """Something that goes wrong; ``strike`` does it, waits for its end, and says what it was."""

    name: str
    strike: Callable[[Scene], str]


@dataclass
class Scene:
    """A grader at work, and the disk that its course lies on (None: the machine's own)."""

    course: Course
    process: subprocess.Popen[bytes]
    dice: random.Random
    disk: Path | None
    faults: list[str] = field(default_factory=list)


def _kill_grader(scene: Scene) -> str:
    others = descendants(scene.process.pid)
    scene.process.kill()
    scene.process.wait()
    end = time.monotonic() + PATIENCE_SECONDS
    while left := [each for each in others if _is_alive(each)]:
        if time.monotonic() > end:
            scene.faults.append(f"{len(left)} processes outlived their grader")
            break
        time.sleep(0.05)
    return f"killed, with {len(others)} processes below it"


def _is_alive(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] != "Z"


def _kill_runner(scene: Scene) -> str:
    while scene.process.poll() is None:
        if descendants(scene.process.pid):
            time.sleep(scene.dice.uniform(0, 1))  # Else it were always the first to start.
        if found := descendants(scene.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(scene.dice.choice(found), signal.SIGKILL)
            time.sleep(3)  # A second kill of the same work would be the student's own doing.
            return f"one of {len(found)} killed"
        time.sleep(0.01)
    return "none was there"


def _lock_gradebook(scene: Scene) -> str:
    seconds = scene.dice.uniform(0.2, 4)
    path = scene.course.database_url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as book:
        book.execute("begin exclusive")
        time.sleep(seconds)
        book.execute("rollback")
    return f"for {seconds:.1f} s"


def _fill_disk(scene: Scene) -> str:
    assert scene.disk is not None
    seconds = scene.dice.uniform(0.5, 4)
    filler = scene.disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        time.sleep(seconds)
    finally:
        filler.unlink(missing_ok=True)
    return f"for {seconds:.1f} s"


STROKES = (
    Stroke("grader killed", _kill_grader),
    Stroke("process in a sandbox killed", _kill_runner),
    Stroke("gradebook locked", _lock_gradebook),
    Stroke("disk filled", _fill_disk),
)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Yield a disk that can be filled, None where none may be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


# --- rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prepared:
    """A course before the disturbed run, and what an undisturbed one makes of it."""

    start: Path
    expected: dict[tuple[object, ...], object]
    seconds: float
    log: Path


def prepare(folder: Path, count: int, seed: int) -> Prepared:
    """Grade half of it, mark by hand, hand in another version of all, and grade a copy of that."""
    start, log = folder / "start", folder / "log.txt"
    course = small_course(start)
    (start / "nbgrader_config.py").write_text("")
    hand_in(course, (count + 1) // 2, "first")
    finish(course, log)
    mark_by_hand(course, random.Random(seed))
    hand_in(course, count, "second")
    copy = Course(folder / "undisturbed")
    shutil.copytree(start, copy.root)
    begin = time.monotonic()
    finish(copy, log)
    return Prepared(start, results(copy), time.monotonic() - begin, log)


def finish(course: Course, log: Path) -> None:
    """Grade to the end, undisturbed."""
    for _ in range(3):
        if start_grading(course, log).wait() in (0, 1):
            return
    raise RuntimeError(f"grading does not come to its end; see {log}")


def disturb(
    prepared: Prepared, root: Path, disk: Path | None, seed: int, strokes: int, say: Progress
) -> list[str]:
    """Grade while things go wrong, then to the end; return how the results differ."""
    shutil.copytree(prepared.start, root)
    course, dice = Course(root), random.Random(seed)
    possible = [stroke for stroke in STROKES if disk is not None or stroke.strike != _fill_disk]
    process = start_grading(course, prepared.log)
    faults: list[str] = []
    for _ in range(strokes):
        if process.poll() is not None:
            process = start_grading(course, prepared.log)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.2, max(1.0, 2 * prepared.seconds / strokes)))
        if process.poll() is not None:
            say("  came to its end before anything happened")
            continue
        stroke = dice.choice(possible)
        scene = Scene(course, process, dice, disk, faults)
        say(f"  {stroke.name}: {stroke.strike(scene)}")
    process.wait()
    finish(course, prepared.log)
    return faults + differences(prepared.expected, results(course))


def soak(folder: Path, count: int, rounds: int, seed: int, say: Progress = print) -> list[str]:
    """Go through all rounds; return what was wrong, nothing if all came out the same."""
    say(f"seed {seed}: {count} submissions, {rounds} rounds")
    prepared = prepare(folder, count, seed)
    say(f"undisturbed: {prepared.seconds:.0f} s, {len(prepared.expected)} things to compare")
    wrong = []
    with small_disk(folder / "disk") as disk:
        if disk is None:
            say("A full disk was not tried: this user may mount no disk of a chosen size.")
        for number in range(rounds):
            say(f"round {number + 1}, seed {seed + number}")
            root = (disk or folder) / f"round-{number}"
            found = disturb(prepared, root, disk, seed + number, max(4, count // 20), say)
            for line in found[:10]:
                say(f"  DIFFERS: {line}")
            wrong += [f"round {number + 1}: {line}" for line in found]
            shutil.rmtree(root)
    return wrong


# --- many -----------------------------------------------------------------------------------------


class Point(NamedTuple):
    """How far a run had come: submissions, seconds, and megabytes of the grader itself."""

    done: int
    seconds: float
    megabytes: float


def curve(folder: Path, count: int, points: int = 8) -> list[Point]:
    """Grade many submissions in one run, and look at time and memory on the way."""
    course = small_course(folder / "many")
    (course.root / "nbgrader_config.py").write_text("")
    hand_in(course, count, "first")
    log = folder / "many.txt"
    begin = time.monotonic()
    process = start_grading(course, log)
    found: list[Point] = []
    while process.poll() is None:
        time.sleep(0.2)
        done = max(
            (int(each) for each in re.findall(r"^\[(\d+)/", log.read_text(), re.M)), default=0
        )
        if done >= (len(found) + 1) * count / points:
            with contextlib.suppress(OSError, AttributeError):
                text = Path(f"/proc/{process.pid}/status").read_text()
                kilobytes = int(re.search(r"VmRSS:\s+(\d+)", text)[1])  # type: ignore[index]
                found.append(Point(done, time.monotonic() - begin, kilobytes / 1024))
    return found


def curve_faults(found: list[Point]) -> list[str]:
    """Say where a curve is not flat in memory or not straight in time."""
    if len(found) < 4:
        return [f"only {len(found)} points were measured"]
    early, late = found[len(found) // 4], found[-1]
    middle = found[len(found) // 2]
    faults = []
    if late.megabytes > 1.25 * early.megabytes + 10:
        faults.append(
            f"memory grows: {early.megabytes:.0f} MB at {early.done}, "
            f"{late.megabytes:.0f} MB at {late.done}"
        )
    first = (middle.seconds - early.seconds) / (middle.done - early.done)
    second = (late.seconds - middle.seconds) / (late.done - middle.done)
    if second > 1.5 * first:
        faults.append(f"time is not linear: {first:.2f} s each at first, {second:.2f} s later")
    return faults


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--submissions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--many", type=int, default=2000, help="for the curve; 0 for none")
    parser.add_argument("--seed", type=int, default=None, help="to repeat a run; else a new one")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        os.environ["MHA_COURSE_SECRET"] = f"{folder}/secret"
        wrong = soak(Path(folder), options.submissions, options.rounds, seed, _say)
        if options.many:
            found = curve(Path(folder), options.many)
            _say("submissions    seconds    MB of the grader")
            for point in found:
                _say(f"{point.done:11}  {point.seconds:9.0f}  {point.megabytes:18.0f}")
            wrong += curve_faults(found)
    for line in wrong:
        _say(f"WRONG: {line}")
    _say(f"{len(wrong)} differences; to repeat: --seed {seed}" if wrong else "all the same")
    return 1 if wrong else 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
