"""Visits to the built pages in Chromium: what travels, when a demo is there, what a deed costs.

No measurement itself: `benchmarks.site` uses it.

**Bytes** are of the answers' bodies, each packed by gzip. Shared files are cached: while one
browser reads page after page, an address counts where it is first asked for. It is not left to
the browser's own cache, which Playwright switches off while it blocks other hosts.

**Ready** is the time from the start of the navigation, by the page's own clock, until the first
demo of the page has mounted. Every such visit begins with an empty cache.

**An interaction** is one native event (a click, or input and change) that is dispatched to a
control of a demo. `performance.now` around it, and around reading the demo's height after it,
gives the milliseconds of the event's handlers and of the style and layout they make necessary;
painting is left out. Only an event after which the demo holds something else counts.
"""

import gzip
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from playwright.sync_api import Browser, BrowserContext, Page, Response

from book.chromium import shut_outside

DEMO = ".mha-demo"
READY = f"{DEMO}[data-ready]"  # its loader has mounted it
PATIENCE_MS = 30_000
SLOW_BYTES = 6_000_000 / 8  # a second: 6 Mbit/s
SLOW_LATENCY_MS = 40
SLOWER = 4  # by how much the slow processor is

NOTE_FIRST_DEMO = """
  new MutationObserver((_, observer) => {
    window.firstDemo = performance.now();
    observer.disconnect();
  }).observe(document, { attributeFilter: ["data-ready"], subtree: true });
"""

# Presses, moves and fills in every control once a round; returns the times that count.
# What a demo holds is its HTML and what its fields are set to.
INTERACT = """async (demo) => {
  const [rounds, most] = [4, 80];
  const held = () => demo.innerHTML + [...demo.querySelectorAll("input, select")]
    .map(each => `${each.value} ${each.checked}`);
  const tell = (control, ...events) =>
    events.forEach(name => control.dispatchEvent(new Event(name, { bubbles: true })));
  const deed = (control, round) => {
    const pressed = "button, summary, [type=checkbox], [type=radio]";
    if (control.matches(pressed)) return () => control.click();
    if (control.matches("select")) {
      const place = (control.selectedIndex + 1) % control.options.length;
      return () => { control.selectedIndex = place; tell(control, "input", "change"); };
    }
    const from = control.valueAsNumber, step = Number(control.step) || 1;
    if (Number.isNaN(from))
      return () => { control.value = String(round + 2); tell(control, "input", "change"); };
    const to = from + step <= Number(control.max || Infinity) ? from + step : from - step;
    return () => { control.value = String(to); tell(control, "input", "change"); };
  };
  const times = [];
  for (let round = 0; round < rounds; round += 1) {
    const controls = demo.querySelectorAll("button, summary, input, select");
    for (const control of [...controls].slice(0, most)) {
      if (!control.isConnected || control.disabled) continue;
      const before = held();
      const act = deed(control, round);
      const start = performance.now();
      act();
      demo.getBoundingClientRect();
      const took = performance.now() - start;
      if (held() !== before) times.push(took);
    }
    await new Promise(requestAnimationFrame);
  }
  return times;
}"""


def pages(toc: Path) -> list[str]:
    """Return the names of the edition's pages, in the order of the table of contents.

    >>> pages(Path("_toc.yml"))[:2]  # doctest: +SKIP
    ['index', 'refresher']
    """

    def files(part: object) -> Iterator[str]:
        if isinstance(part, list):
            for each in part:
                yield from files(each)
        elif isinstance(part, dict):
            for name, value in part.items():
                if name in ("root", "file"):
                    yield str(value).removeprefix("book/en/")
                else:
                    yield from files(value)

    return list(files(yaml.safe_load(toc.read_text("utf-8"))))


class Visit:
    """A page that is open, and everything it asked for and complained of."""

    def __init__(self, context: BrowserContext, outside: list[str]) -> None:
        self.outside = outside
        self.complaints: list[str] = []
        self.responses: list[Response] = []
        self.page = context.new_page()
        self.page.add_init_script(NOTE_FIRST_DEMO)
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on("response", lambda response: self.responses.append(response))
        self.page.on(
            "console",
            lambda line: (
                self.complaints.append(f"{line.type}: {line.text}")
                if line.type in ("error", "warning")
                else None
            ),
        )

    def read(self, address: str) -> None:
        """Open the page, wait for every demo, and scroll to the end."""
        self.page.goto(address, wait_until="load")
        self.page.wait_for_function(
            "([all, ready]) => !document.querySelector(`${all}:not(${ready})`)", arg=[DEMO, READY]
        )
        self.page.evaluate("scrollTo(0, document.body.scrollHeight)")
        self.page.wait_for_load_state("networkidle")

    def bodies(self) -> dict[str, int]:
        """Return the packed bytes of every answer, by its address."""
        return {each.url: len(gzip.compress(each.body())) for each in self.responses}

    def seconds(self) -> float:
        """Wait until the first demo is there; return when that was."""
        self.page.wait_for_function("() => window.firstDemo")
        return float(self.page.evaluate("window.firstDemo / 1000"))


@contextmanager
def visiting(browser: Browser, slow: bool = False) -> Iterator[Visit]:
    """Open a window with an empty cache, where asked at 6 Mbit/s with a quarter of the speed."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    visit = Visit(context, shut_outside(context))
    if slow:
        tools = context.new_cdp_session(visit.page)
        tools.send("Network.enable")
        tools.send(
            "Network.emulateNetworkConditions",
            {
                "offline": False,
                "latency": SLOW_LATENCY_MS,
                "downloadThroughput": SLOW_BYTES,
                "uploadThroughput": SLOW_BYTES,
            },
        )
        tools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    try:
        yield visit
    finally:
        context.close()


class Walked(NamedTuple):
    """What one page of the walk through the book cost."""

    new_bytes: int
    all_bytes: int
    outside: list[str]
    complaints: list[str]
    interactions: dict[str, list[float]]


def walk(browser: Browser, address: str, names: list[str]) -> Iterator[tuple[str, Walked]]:
    """Read all pages in one browser, use every demo, and yield what each page cost."""
    packed: dict[str, int] = {}
    with visiting(browser) as visit:
        for name in names:
            for noted in (visit.outside, visit.complaints, visit.responses):
                noted.clear()
            visit.read(f"{address}{name}.html")
            bodies = visit.bodies()
            new = sum(size for url, size in bodies.items() if url not in packed)
            packed |= bodies
            interactions = use_demos(visit.page)
            problems = list(visit.outside), list(visit.complaints)
            yield name, Walked(new, sum(bodies.values()), *problems, interactions)


def use_demos(page: Page) -> dict[str, list[float]]:
    """Use each demo of the page; return its interactions' milliseconds by its module's name."""
    found: dict[str, list[float]] = {}
    for demo in page.locator(READY).all():
        module = str(demo.get_attribute("data-modules")).split()[-1].removesuffix(".js")
        found.setdefault(module, []).extend(demo.evaluate(INTERACT))
    return found


def ready_seconds(browser: Browser, address: str, visits: int, slow: bool, most: float) -> float:
    """Return after how many seconds the page's first demo is there: the median of some visits.

    Where that is more than `most`, twice as many visits more are made, and all of them count: a
    moment in which the machine had other work must not decide.
    """
    times: list[float] = []
    for more in (visits, 2 * visits):
        for _ in range(more):
            with visiting(browser, slow) as visit:
                visit.page.goto(address, wait_until="commit")
                times.append(visit.seconds())
        if statistics.median(times) < most:
            break
    return statistics.median(times)
