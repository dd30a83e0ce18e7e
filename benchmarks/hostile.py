"""What attacks on grading gain: `python -m benchmarks.hostile`.

It grades every attack of `tests/grading/hostile` in real sandboxes, as one batch with honest
submissions among them, and counts:

- marks gained: points beyond those that the submission's right answers earn;
- grades moved: honest submissions that got anything but theirs;
- files changed: files of the course that are not grading's own results, and the secret;
- walls passed: attacks that say they got through a wall;
- secrets read: lines of hidden tests or of the solution, names of hidden checks or the secret, in
  anything that a student gets back;
- batches stopped: submissions without an outcome, or with one that is not the attack's.

All but the number of attacks must be 0, else the command fails, and says whose doing it is. It does
so cold, where each run of a submission starts Python anew, and warm, where it is forked from a
process that is kept ready; and run by root it does both once more as an ordinary user.

--attack NAME chooses attacks; may be given again, as may --mode. All of them take long: some end
only when their time is up, and are then tried once more alone.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Set
from pathlib import Path

from benchmarks.report import Report
from grading.sandbox import Sandbox
from tests.grading.handing_in import CASES, Case
from tests.grading.hostile import every_attack
from tests.grading.hostile.attack import PASSED
from tests.grading.returned import (
    HAND_GRADED,
    hidden_lines,
    hidden_names,
    solution_lines,
    texts_for_students,
    what_they_wrote,
)
from tests.grading.submissions import grade_batch, marks_in_gradebook
from tests.grading.without_root import (
    NOBODY,
    REPOSITORY,
    as_nobody,
    open_to_all,
    packages,
    programs,
)

HONEST = ("right", "wrong")
GAINS = (
    "marks gained",
    "grades moved",
    "files changed",
    "walls passed",
    "secrets read",
    "batches stopped",
)
MODES = ("cold", "warm")
KEPT = ("solutions", "exercises", "submitted")


def attacks() -> dict[str, Case]:
    """Return every attack by its name."""
    package = every_attack.__name__.rpartition(".")[0]
    return {name: case for name, case in CASES.items() if case.make.__module__.startswith(package)}


def digests(root: Path) -> dict[str, str]:
    """Return a digest of each file that grading only reads."""
    files = [path for name in KEPT for path in sorted((root / name).rglob("*"))]
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in [*files, Path(os.environ["MHA_COURSE_SECRET"])]
        if path.is_file() and not path.is_symlink()
    }


def told(page: str, own: str, hidden: Set[str], solution: Set[str]) -> int:
    """Count the secrets on what a student gets back, who may have written the solution."""
    count = sum(line in page for line in hidden)
    return count + sum(line in page and line not in own for line in solution)


def measure(names: Iterable[str], mode: str) -> dict[str, float]:
    """Grade these attacks among honest submissions, and count what they gained."""
    if mode == "warm" and (why := Sandbox(warm=()).get_ready()):
        sys.exit(f"benchmarks.hostile: nothing can be run warm here: {why}")
    chosen = [CASES[name] for name in names]
    honest = [CASES[name] for name in HONEST]
    with tempfile.TemporaryDirectory(prefix="benchmarks-hostile-") as folder:
        secret = Path(folder, "secret")
        secret.write_text(os.urandom(32).hex(), encoding="utf-8")
        secret.chmod(0o600)
        os.environ["MHA_COURSE_SECRET"] = str(secret)
        root = Path(folder, "course")
        root.mkdir()
        before: dict[str, str] = {}
        batch = grade_batch(
            root,
            [*honest, *chosen],
            lambda: before.update(digests(root)),
            cold=mode == "cold",
        )
        after = digests(root)
        marks = marks_in_gradebook(batch.course)
        found: defaultdict[tuple[str, str], float] = defaultdict(float)
        for case in [*honest, *chosen]:
            line = batch.lines.get(case.student)
            if line is None or line.status not in case.statuses or case.student not in marks:
                found["batches stopped", case.student] += 1
                continue
            cells = marks[case.student].cells
            got = {cell: cells.get(cell) or 0.0 for cell in case.marks}
            gained = sum(max(0.0, got[cell] - most) for cell, most in case.marks.items())
            found["marks gained", case.student] += gained + (cells.get(HAND_GRADED) or 0.0)
            found["grades moved", case.student] += case in honest and got != case.marks
        hidden = hidden_lines() | hidden_names() | {secret.read_text("utf-8").strip()}
        pages, solution = texts_for_students(batch), solution_lines()
        for case in chosen:
            page, own = pages[case.student], what_they_wrote(batch, case)
            found["walls passed", case.student] += PASSED in page
            found["secrets read", case.student] += told(page, own, hidden, solution)
        for path, _ in before.items() ^ after.items():
            found["files changed", path] = 1
        for (what, whose), count in found.items():
            if count:
                print(f"{what}: {count:g}, by or of {whose}", file=sys.stderr)
        sums = {what: sum(n for (each, _), n in found.items() if each == what) for what in GAINS}
        return {"attacks tried": len(chosen), **sums}


def measure_as_user(names: Iterable[str], mode: str) -> dict[str, float]:
    """Do the same in a process of an ordinary user."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-hostile-user-") as folder:
        repository = open_to_all(REPOSITORY)
        environment = {"HOME": folder, "LANG": "C.UTF-8", "PATH": programs(Path(folder))}
        environment["PYTHONPATH"] = packages(repository)
        environment["JUPYTER_PATH"] = str(open_to_all(Path(sys.prefix)) / "share" / "jupyter")
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", folder], check=True)
        words = [*as_nobody(), "-m", "benchmarks.hostile", "--json", "--mode", mode]
        words += [word for name in names for word in ("--attack", name)]
        done = subprocess.run(
            words, cwd=repository, env=environment, stdout=subprocess.PIPE, text=True
        )
    if not done.stdout.strip():
        sys.exit("benchmarks.hostile: as an ordinary user it did not get to its counts")
    counts: dict[str, float] = json.loads(done.stdout)["results"][0]["counts"]
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Grade all attacks, print the counts, and exit non-zero when anything was gained."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--attack", action="append", choices=sorted(attacks()), metavar="NAME")
    parser.add_argument("--mode", action="append", choices=MODES, help="both if none is given")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    options = parser.parse_args(arguments)
    names = options.attack or list(attacks())
    if not names:
        parser.error("no attack was found in tests/grading/hostile")

    report = Report(as_json=options.json, holds_bounds=True)
    ways = {"root" if os.geteuid() == 0 else "an ordinary user": measure}
    if os.geteuid() == 0:
        ways["an ordinary user"] = measure_as_user
    for (who, way), mode in itertools.product(ways.items(), options.mode or MODES):
        with contextlib.redirect_stdout(sys.stderr):  # each submission's progress
            counts = way(names, mode)
        report.lines.append({"as": who, "mode": mode, "counts": counts})
        place = f"as {who}, {mode}"
        report.say(f"{place}: " + ", ".join(f"{name} {n:g}" for name, n in counts.items()))
        for name, count in counts.items():
            if count and name != "attacks tried":
                report.fail(f"{place}: {name}: {count:g}")
    report.finish("benchmarks.hostile")


if __name__ == "__main__":
    main()
