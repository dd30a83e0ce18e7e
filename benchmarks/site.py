"""What the built book costs a reader: `python -m benchmarks.site`, a line for every page.

It reads all pages of the English edition in Chromium, in the order of the table of contents, and
uses every demo on them. How bytes, seconds and interactions are taken stands in
`benchmarks/site_visits.py`. The aims:

- no request to another host, and no error or warning on the console;
- whichever page a reader opens first, under 400 KB with gzip; each further page of the walk, whose
  shared files are there already, under 80 KB;
- from a host that packs text (`benchmarks/web_host.py`), the page's first demo ready under 1.5 s
  here, and under 4 s at 6 Mbit/s with a latency of 40 ms and a processor four times slower
  (Chromium's own emulation);
- an interaction with a demo under 16 ms, the median over all its controls.

--build also builds a copy of this clone in a temporary folder, on two cores: under 150 s with
nothing cached, every chapter executed, and under 10 s after a line of prose has changed.

The command fails when an aim is missed, and says which. It takes about four minutes.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import TimeoutError

from benchmarks.report import Report
from benchmarks.site_build import cold_and_changed
from benchmarks.site_visits import Walked, pages, ready_seconds, walk
from benchmarks.web_host import PackingHandler
from book.chromium import shared_browser
from book.places import ROOT, SITE
from book.serve import serving

EDITION = "en"
VISITS = 3
MOST_FIRST = 400_000
MOST_FURTHER = 80_000
MOST_HERE = 1.5
MOST_SLOW = 4.0
MOST_INTERACTION = 16.0
MOST_COLD = 150.0
MOST_CHANGED = 10.0


def hold(report: Report, what: str, value: float, most: float, unit: str) -> None:
    """Note a failure where a value is not under its aim."""
    if value >= most:
        report.fail(f"{what}: {value:,.3g} {unit} is not under {most:,g} {unit}")


def judge_walk(report: Report, name: str, cost: Walked, is_first: bool) -> dict[str, float]:
    """Hold a page of the walk to its aims; return the median milliseconds of each demo."""
    for problems, what in ((cost.outside, "asked for"), (cost.complaints, "console")):
        for problem in problems:
            report.fail(f"{name}: {what}: {problem}")
    hold(report, f"{name}: as the first page", cost.all_bytes / 1e3, MOST_FIRST / 1e3, "KB")
    if not is_first:
        hold(report, f"{name}: further page", cost.new_bytes / 1e3, MOST_FURTHER / 1e3, "KB")
    medians = {}
    for demo, times in cost.interactions.items():
        if not times:
            report.fail(f"{name}: {demo}: no control changes anything")
            continue
        medians[demo] = statistics.median(times)
        hold(report, f"{name}: {demo}: interaction", medians[demo], MOST_INTERACTION, "ms")
    return medians


def measure_pages(report: Report, names: list[str], visits: int) -> None:
    """Walk through the pages, then open each with demos anew, here and slowly."""
    browser = shared_browser()  # started before the clock is
    report.say(
        f"{'page':32}{'first KB':>9}{'new KB':>8}{'ready s':>9}{'slow s':>8}  ms an interaction"
    )
    with serving(SITE, PackingHandler) as site:
        address = f"{site}{EDITION}/"
        for place, (name, cost) in enumerate(walk(browser, address, names)):
            medians = judge_walk(report, name, cost, is_first=place == 0)
            seconds: list[float] = []
            if cost.interactions:
                for slow, most in ((False, MOST_HERE), (True, MOST_SLOW)):
                    page = f"{address}{name}.html"
                    seconds.append(ready_seconds(browser, page, visits, slow, most))
                    how = "6 Mbit/s and 1/4 of the processor" if slow else "here"
                    hold(report, f"{name}: first demo, {how}", seconds[-1], most, "s")
            report.lines.append(
                {"page": name, **cost._asdict(), "ready": seconds, "interactions": medians}
            )
            waits = [f"{each:.2f}" for each in seconds] or ["", ""]
            demos = ", ".join(f"{demo} {ms:.1f}" for demo, ms in medians.items())
            report.say(
                f"{name:32}{cost.all_bytes / 1e3:9.0f}{cost.new_bytes / 1e3:8.0f}"
                f"{waits[0]:>9}{waits[1]:>8}  {demos}".rstrip()
            )


def measure_build(report: Report) -> None:
    """Build a copy, cold and after a change, and hold both to their aims."""
    with tempfile.TemporaryDirectory(prefix="benchmarks-site-") as folder:
        cold, changed = cold_and_changed(Path(folder))
    for what, seconds, most in (
        ("cold build, every chapter executed", cold, MOST_COLD),
        ("build after a line of prose changed", changed, MOST_CHANGED),
    ):
        report.lines.append({"build": what, "seconds": seconds})
        report.say(f"{what}: {seconds:.1f} s")
        hold(report, what, seconds, most, "s")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and exit non-zero when an aim is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.site",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = pages(ROOT / "_toc.yml")
    parser.add_argument(
        "--page", action="append", choices=names, help="this page only; may be given again"
    )
    parser.add_argument("--visits", type=int, default=VISITS, help=f"for a time ({VISITS})")
    parser.add_argument("--build", action="store_true", help="time the build as well")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    options = parser.parse_args(arguments)
    names = options.page or names
    if missing := [name for name in names if not (SITE / EDITION / f"{name}.html").exists()]:
        sys.exit(f"benchmarks.site: {missing[0]} is not built in {SITE}; run: make build")

    report = Report(as_json=options.json, holds_bounds=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    report.say(
        f"{EDITION}, {len(names)} pages; {cores} cores, load {os.getloadavg()[0]:.1f}; "
        f"the median of {options.visits} visits"
    )
    try:
        measure_pages(report, names, options.visits)
    except TimeoutError as silence:
        report.fail(f"a page does not answer: {silence.message.splitlines()[0]}")
    if options.build:
        measure_build(report)
    report.finish("benchmarks.site", cores=str(cores))


if __name__ == "__main__":
    main()
