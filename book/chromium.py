"""Opens Chromium the same way for the PDF, for measurements and for tests, the outside shut.

One for all, because a measurement, a test and the print of one page must see the same browser.
`python -m book.chromium` prints the browser that is found, or nothing; set-up asks
with a Python that has no Playwright yet, so that is imported where it is used.
"""

from __future__ import annotations

import atexit
import shutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Route

NAMES = ("chromium", "chromium-browser", "google-chrome")
# The first two: no sandbox and no graphics in a container. The rest keep the browser
# itself from calling home, which would look like the page's doing.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]
LOCAL = ("http://127.0.0.1", "http://localhost", "file:", "data:", "blob:", "about:")


def browser_on_path() -> str | None:
    """Return the path of an installed browser, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def browser_path() -> str | None:
    """Return the path of the browser to drive, that on PATH or Playwright's own, or None."""
    path = browser_on_path()
    if path:
        return path
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@cache
def shared_browser() -> Browser:
    """Return this process's one Chromium: that on PATH, else Playwright's own.

    One, because Playwright's plain interface can be started once in a thread.
    """
    from playwright.sync_api import sync_playwright

    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=browser_on_path(), args=ARGUMENTS)

    def close() -> None:
        browser.close()
        playwright.stop()

    atexit.register(close)
    return browser


def shut_outside(context: BrowserContext) -> list[str]:
    """Block every request that leaves this machine; return the list they are noted in."""
    tried: list[str] = []

    def refuse(route: Route) -> None:
        tried.append(route.request.url)
        route.abort()

    context.route(lambda address: not address.startswith(LOCAL), refuse)
    return tried


if __name__ == "__main__":
    print(browser_path() or "")
