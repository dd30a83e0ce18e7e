"""A chapter on paper: no navigation, light colours, its demos as they open, nothing cut."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pdf_text import read_pdf
from tests.browser.test_site import CHAPTERS, EDITION

# A4 less 16 mm on each side, at 96 dots an inch.
PAPER = {"width": 673, "height": 1000}
LOUD = "getComputedStyle(document.body).backgroundColor"
CUT = """() => [...document.querySelectorAll(
      ".bd-article pre, .bd-article table, .bd-article .tex, .mha-demo *")]
  .filter((each) => each.checkVisibility())
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 80))"""


def open_chapter(new_page: Callable[..., Page], address: str) -> Page:
    page = new_page(viewport={"width": 1280, "height": 900}, color_scheme="dark")
    page.goto(address)
    for demo in page.locator(".mha-demo").all():
        expect(demo).to_have_attribute("data-ready", "", timeout=20_000)
    return page


@pytest.mark.slow
def test_a_printed_chapter_is_the_chapter_alone(
    new_page: Callable[..., Page], http_site: str
) -> None:
    page = open_chapter(new_page, f"{http_site}{EDITION}/multi-head.html")
    paper = read_pdf(page.pdf(format="A4"))
    text = "".join("".join(paper.pages).split())
    # The title; the demo's own sentence on what it shows; the quiz; the last point.
    for wanted in (
        "Multi-head attention",
        "You just saw: in head 2 (meaning)",
        "1. A layer has",
        "It stays exactly the same.",
        "why a head can be too narrow.",
    ):
        assert "".join(wanted.split()) in text, wanted
    for unwanted in ("Table of contents", "Glossary", "Show code cell", "Hint"):
        assert "".join(unwanted.split()) not in text, unwanted
    assert 5 <= len(paper.pages) <= 20


@pytest.mark.slow
def test_paper_is_white_and_the_screen_is_dark_again(
    new_page: Callable[..., Page], http_site: str
) -> None:
    page = open_chapter(new_page, f"{http_site}{EDITION}/multi-head.html")
    dark = page.evaluate(LOUD)
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.onPaper = {LOUD}; }})")
    page.pdf()
    assert page.evaluate("onPaper") == "rgb(255, 255, 255)"
    assert page.evaluate(LOUD) == dark != "rgb(255, 255, 255)"


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nothing_is_wider_than_the_paper(
    new_page: Callable[..., Page], http_site: str, chapter: str
) -> None:
    page = open_chapter(new_page, f"{http_site}{EDITION}/{chapter}.html")
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)
    page.wait_for_timeout(300)  # demos measure themselves anew
    assert page.evaluate(CUT) == []


@pytest.mark.slow
def test_a_link_to_elsewhere_says_where(new_page: Callable[..., Page], http_site: str) -> None:
    page = new_page()
    page.goto(f"{http_site}{EDITION}/masking.html")
    page.emulate_media(media="print")
    link = page.locator("article a.external").first
    said = link.evaluate("link => getComputedStyle(link, '::after').content")
    assert str(link.get_attribute("href")) in said
