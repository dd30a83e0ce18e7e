"""The built site's pages as tests read them: each parsed once in a session, by whichever test."""

from functools import cache
from pathlib import Path

from bs4 import BeautifulSoup, Tag


@cache
def parsed(page: Path) -> BeautifulSoup:
    """Return a page of the site. Other tests read it too: change nothing but a copy."""
    return BeautifulSoup(page.read_text("utf-8"), "html.parser")


def article(page: Path) -> Tag:
    """Return what a page says, without what stands around it."""
    found = parsed(page).find("article")
    assert isinstance(found, Tag)
    return found
