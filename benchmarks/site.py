"""What the first chapter costs a reader: `python -m benchmarks.site`.

Requests, bytes, and seconds until the first demo answers.
Opens the built chapter in Chromium with a cold cache, over http on this machine, tries the
first demo, then reads on to the end, where every demo is there. It fails when an aim is
missed or a demo does not answer.
"""

import gzip
import statistics
import sys
import time
from typing import NamedTuple

from playwright.sync_api import Browser, Page, Response, TimeoutError

from benchmarks.chromium import shared_browser, shut_outside
from book.serve import SITE, serving

CHAPTER = "en/multi-head.html"
DEMO = ".mha-demo"
READY = f"{DEMO}[data-ready]"  # its loader has mounted it
VISITS = 5
MOST_GZIP = 600_000
MOST_SECONDS = 2.0
PATIENCE_MS = 10_000


def try_first_demo(page: Page) -> None:
    """Press the first demo's first button, and wait until the demo shows something else."""
    demo = page.locator(READY).first
    before = demo.inner_text()
    demo.get_by_role("button").first.click()
    page.wait_for_function(
        "([demo, before]) => document.querySelector(demo).innerText !== before", arg=[READY, before]
    )


def read_to_the_end(page: Page) -> None:
    """Scroll to each demo, wait until it is there, and scroll on to the page's end."""
    for demo in page.locator(DEMO).all():
        demo.scroll_into_view_if_needed()
    page.wait_for_function(
        "([all, ready]) => !document.querySelector(`${all}:not(${ready})`)", arg=[DEMO, READY]
    )
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_load_state("networkidle")


class Visit(NamedTuple):
    """What one reader's visit cost."""

    requests: int
    outside: int
    raw: int
    gzip: int
    seconds: float


def visit(browser: Browser, address: str) -> Visit:
    """Open the chapter with a cold cache, try its first demo, read to its end."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    outside = shut_outside(context)
    page = context.new_page()
    responses: list[Response] = []
    page.on("response", lambda response: responses.append(response))
    start = time.perf_counter()
    page.goto(address + CHAPTER, wait_until="commit")
    try_first_demo(page)
    seconds = time.perf_counter() - start
    read_to_the_end(page)
    bodies = [response.body() for response in responses]
    context.close()
    packed = sum(len(gzip.compress(body)) for body in bodies)
    return Visit(len(bodies), len(outside), sum(map(len, bodies)), packed, seconds)


def main() -> None:
    """Measure, print, and exit non-zero when an aim is missed."""
    if not (SITE / CHAPTER).exists():
        sys.exit(f"benchmarks.site: {SITE / CHAPTER} is not there; run: make site SERVE=0")
    browser = shared_browser()  # started before the clock is
    with serving(SITE) as address:
        try:
            visits = [visit(browser, address) for _ in range(VISITS)]
        except TimeoutError as silence:
            sys.exit(f"benchmarks.site: a demo does not answer: {silence.message.splitlines()[0]}")
    # The same files each time; only the seconds differ.
    requests, outside, raw, packed, _ = visits[-1]
    times = sorted(each.seconds for each in visits)
    seconds = statistics.median(times)
    print(f"{CHAPTER}, cold cache, {VISITS} visits")
    print(f"  requests            {requests:9,}")
    print(f"  outside requests    {outside:9,}   aim 0")
    print(f"  bytes, raw          {raw:9,}")
    print(f"  bytes, gzip         {packed:9,}   aim under {MOST_GZIP:,}")
    print(
        f"  first demo answers  {seconds:9.2f} s aim under {MOST_SECONDS:.0f} s"
        f" (median; {times[0]:.2f} to {times[-1]:.2f})"
    )
    missed = [
        name
        for name, is_missed in (
            ("outside requests", outside > 0),
            ("bytes, gzip", packed >= MOST_GZIP),
            ("first demo answers", seconds >= MOST_SECONDS),
        )
        if is_missed
    ]
    if missed:
        sys.exit(f"benchmarks.site: an aim is missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
