"""What a second worker of a cluster brings: `python -m benchmarks.cluster --submissions 32`.

A real Dask scheduler and two worker processes on this machine grade the same honest submissions,
one worker and both by turns, whoever began the last round begins not the next. Then every grade is
compared, cell by cell, with that of a run without a cluster.

The two workers need two cores that do little else: on a busy machine the result says nothing, and
so the load is printed. It fails when a grade differs, or when two workers give less than 1.8 times
the throughput of one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from benchmarks.grading import grades, hand_in_one
from benchmarks.students import NAME, copy_course
from grading.autograde import autograde
from grading.course import Course
from tests.grading.dask_cluster import DaskCluster

ROUNDS = 3
LEAST_RATIO = 1.8


def seconds_for(course: Course, address: str | None) -> float:
    """Grade all submissions anew, here or by a cluster; return the seconds."""
    begin = time.perf_counter()
    autograde(course, NAME, force=True, cluster=address, progress=lambda text: None)
    return time.perf_counter() - begin


def measure(folder: Path, count: int) -> None:
    """Grade ``count`` submissions with one worker and with two, by turns."""
    (folder / "course").mkdir()
    course = Course(copy_course(folder / "course"))
    for number in range(count):
        hand_in_one(course.root, number)
    seconds_for(course, None)  # It runs the solution, whose values are then kept.
    wanted = grades(course.root)
    differing = 0
    with ExitStack() as stack:
        clusters = {}
        for workers in (1, 2):
            place = folder / str(workers)
            place.mkdir()
            clusters[workers] = stack.enter_context(DaskCluster(place))
            for number in range(workers):
                clusters[workers].start_worker(f"worker-{number}", "--no-nanny")
            clusters[workers].wait_for_workers(workers)
            seconds_for(course, clusters[workers].address)  # The first run of each is no measure.
        taken: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(ROUNDS):
            for workers in sorted(clusters, reverse=turn % 2 == 1):
                taken[workers].append(seconds_for(course, clusters[workers].address))
                found = grades(course.root)
                differing += sum(found.get(key) != points for key, points in wanted.items())
    ratio = statistics.median(taken[1]) / statistics.median(taken[2])
    load = os.getloadavg()[0]
    print(f"{count} honest submissions of {NAME}, {ROUNDS} rounds each by turns,", end=" ")
    print(f"{os.cpu_count()} cores; load {load:.1f} at the end")
    for workers, times in taken.items():
        rate = 60 * count / statistics.median(times)
        span = f"{min(times):.1f} to {max(times):.1f}"
        print(f"  {workers} worker(s)  {statistics.median(times):7.1f} s ({span})", end="")
        print(f"  {rate:6.1f} a minute")
    print(f"  throughput, 2 / 1  {ratio:5.2f}    aim at least {LEAST_RATIO}")
    print(f"  grades compared    {len(wanted) * 2 * ROUNDS}    differing {differing}, aim 0")
    missed = ["equal grades"] * (differing > 0) + ["throughput"] * (ratio < LEAST_RATIO)
    if missed:
        sys.exit(f"benchmarks.cluster: an aim is missed: {', '.join(missed)}")


def main() -> None:
    """Measure, print, and exit non-zero when an aim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--submissions", type=int, default=32, help="how many (default 32)")
    count = parser.parse_args().submissions
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        os.environ["MHA_COURSE_SECRET"] = str(Path(folder, "secret"))
        measure(Path(folder), count)


if __name__ == "__main__":
    main()
