"""Every link inside the built site leads somewhere: the file is there, and so is the anchor."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from book.places import BOOK

LINKS = ("href", "src", "poster", "data-src")


class Page(HTMLParser):
    """What a page links to, with the line, and which anchors it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[tuple[str, int]] = []
        self.anchors: set[str] = {"", "top"}  # both are the page's begin
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the attributes that lead, and those that are led to."""
        for name, value in attrs:
            if name in LINKS and value is not None:
                self.links.append((value, self.getpos()[0]))
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(str(value))


@cache
def read(path: Path) -> Page:
    return Page(path.read_text("utf-8"))


def dead_links(site: Path, page: Path) -> list[str]:
    """Return the page's links inside the site that lead nowhere."""
    dead = []
    for link, line in read(page).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page
        folder = page.parent
        if parts.path.startswith("/"):
            if page.name != "404.html":  # which stands in for a page at any depth
                dead.append(f"line {line}: {link}: begins at the host, not at the site")
                continue
            folder = site
        if parts.path:
            target = (folder / unquote(parts.path).lstrip("/")).resolve()
        if not target.is_file() or not target.is_relative_to(site):
            dead.append(f"line {line}: {link}: no such file in the site")
        elif target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
            dead.append(f"line {line}: {link}: no such anchor")
    return dead


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = [page for page in site.resolve().rglob("*.html") if "_static" not in page.parts]
    assert len(pages) > len(list((BOOK / "en").glob("*.md")))
    dead = [
        f"{page.relative_to(site)}: {each}"
        for page in pages
        for each in dead_links(site.resolve(), page)
    ]
    assert dead == []


def test_every_font_of_the_formulas_is_there(site: Path) -> None:
    for sheet in (site / "en" / "_static" / "vendor" / "katex").glob("*.css"):
        text = sheet.read_text("utf-8")
        named = {part.split(")")[0].strip("\"'") for part in text.split("url(")[1:]}
        assert named
        assert [name for name in named if not (sheet.parent / name).is_file()] == []


def test_links_to_other_hosts_are_well_formed(site: Path) -> None:
    odd = [
        f"{page.name}: {link}"
        for page in site.rglob("*.html")
        if "_static" not in page.parts
        for link, _ in read(page.resolve()).links
        if (parts := urlsplit(link)).scheme not in ("", "data", "mailto")
        and not (parts.scheme == "https" and "." in parts.netloc and " " not in link)
    ]
    assert odd == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.html", None),
        ("other.html#there", None),
        ("#here", None),
        ("?q=1", None),
        ("folder/%C3%A9.txt?v=1", None),
        ("https://example.org/gone", None),
        ("gone.html", "no such file"),
        ("other.html#gone", "no such anchor"),
        ("#gone", "no such anchor"),
        ("folder", "no such file"),
        ("../outside.html", "no such file"),
        ("/other.html", "begins at the host"),
    ],
)
def test_a_dead_link_is_found(tmp_path: Path, link: str, problem: str | None) -> None:
    site = tmp_path / "site"
    (site / "folder").mkdir(parents=True)
    (tmp_path / "outside.html").touch()
    (site / "folder" / "é.txt").touch()
    (site / "other.html").write_text('<p id="there">')
    page = site / "page.html"
    page.write_text(f'<p id="here"><a href="{link}">')
    dead = dead_links(site.resolve(), page.resolve())
    if problem is None:
        assert dead == []
    else:
        assert len(dead) == 1
        assert problem in dead[0]
