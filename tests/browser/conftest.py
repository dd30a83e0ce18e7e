"""Fixtures for tests that look at the built site in Chromium, as a reader would.

Every page is watched: a request to the outside, an error on the console or an uncaught
exception fails the test that opened it.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page

from book.chromium import shared_browser, shut_outside
from book.serve import serving
from mha_lib.widgets import assets


@pytest.fixture(scope="session")
def http_site(site: Path) -> Iterator[str]:
    """Yield the site's address on a server on this machine."""
    with serving(site) as address:
        yield address


@pytest.fixture(params=["http", "file"])
def site_address(request: pytest.FixtureRequest, site: Path, http_site: str) -> str:
    """Return the site's address over each of the two schemes, with a slash at its end."""
    return http_site if request.param == "http" else f"{site.as_uri()}/"


@pytest.fixture(scope="session")
def browser() -> Browser:
    """Return the one Chromium of the whole session."""
    return shared_browser()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Yield a function that opens a page; its options are those of a browser context."""
    contexts, outside, errors = [], [], []

    def note(line: ConsoleMessage) -> None:
        if line.type == "error":
            errors.append(f"{line.text} ({line.location['url']})")

    def open_page(**options: object) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        outside.append(shut_outside(context))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", note)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert list(chain(*outside)) == [], "the page asked another host"
    assert errors == [], "the page reported errors"


@pytest.fixture
def page(new_page: Callable[..., Page]) -> Page:
    """Return a page of desktop size in light mode."""
    return new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")


@pytest.fixture
def dots_for_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the catalogue with dots: the words that a demo still holds are its own."""

    def dot(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("{") else "·"

    dotted = {
        demo: {key: re.sub(r"\{\w+\}|\w", dot, text) for key, text in texts.items()}
        for demo, texts in assets.strings("en").items()
    }
    monkeypatch.setattr(assets, "strings", lambda language: dotted)
