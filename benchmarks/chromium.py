"""Opens Chromium the same way for measurements and for tests, with the outside shut."""

import atexit
import shutil
from functools import cache

from playwright.sync_api import Browser, BrowserContext, Route, sync_playwright

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


@cache
def shared_browser() -> Browser:
    """Return this process's one Chromium: that on PATH, else Playwright's own.

    One, because Playwright's plain interface can be started once in a thread.
    """
    playwright = sync_playwright().start()
    path = next(filter(None, map(shutil.which, NAMES)), None)
    browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)

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
