"""What the first chapter costs a reader: `python -m benchmarks.site`.

Requests, bytes, and seconds until the first demo answers.
Opens the built chapter in Chromium with a cold cache, over http on this machine, and
fails when an aim is missed.
"""

import gzip
import sys
import time

from playwright.sync_api import Response

from benchmarks.chromium import shared_browser, shut_outside
from book.serve import SITE, serving

CHAPTER = "en/multi-head.html"
DEMO = ".mha-demo[data-ready]"  # its loader has mounted it
MOST_GZIP = 600_000
MOST_SECONDS = 2.0


def main() -> None:
    """Measure, print, and exit non-zero when an aim is missed."""
    if not (SITE / CHAPTER).exists():
        sys.exit(f"benchmarks.site: {SITE / CHAPTER} is not there; run: make site SERVE=0")
    browser = shared_browser()  # started before the clock is
    with serving(SITE) as address:
        context = browser.new_context()
        outside = shut_outside(context)
        page = context.new_page()
        responses: list[Response] = []
        page.on("response", lambda response: responses.append(response))

        start = time.perf_counter()
        page.goto(address + CHAPTER, wait_until="commit")
        demo = page.locator(DEMO).first
        first_state = demo.inner_text()  # waits until the demo is there
        demo.get_by_role("button").first.click()
        while demo.inner_text() == first_state:
            pass
        seconds = time.perf_counter() - start

        page.wait_for_load_state("networkidle")
        bodies = [response.body() for response in responses]
        context.close()

    raw = sum(map(len, bodies))
    packed = sum(len(gzip.compress(body)) for body in bodies)
    print(f"{CHAPTER}, cold cache")
    print(f"  requests            {len(bodies):9}")
    print(f"  outside requests    {len(outside):9}  aim 0")
    print(f"  bytes, raw          {raw:9,}")
    print(f"  bytes, gzip         {packed:9,}  aim under {MOST_GZIP:,}")
    print(f"  first demo answers  {seconds:8.2f}s  aim under {MOST_SECONDS:.0f}s")
    if outside or packed >= MOST_GZIP or seconds >= MOST_SECONDS:
        sys.exit("benchmarks.site: an aim is missed")


if __name__ == "__main__":
    main()
