"""The exercise as a page of the book: it reads well everywhere, and leads to the notebook."""

import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessible import assert_accessible
from tests.browser.test_chapter import LOOKS
from tests.browser.test_site import CHAPTER, EDITION, EXERCISE, open_page, search

ADDRESS = f"{EDITION}/{EXERCISE}.html"
HINTS = "article details:not([class])"


def test_the_chapter_leads_to_the_exercise(page: Page, site_address: str) -> None:
    open_page(page, site_address + CHAPTER)
    # By the keyboard: a demo above that gets its size meanwhile moves the link from under a click.
    page.locator("article p").get_by_role("link", name="Exercise: multi-head attention").press(
        "Enter"
    )
    expect(page.locator("article h1")).to_contain_text("Exercise: multi-head attention")


def test_the_page_hands_out_the_notebook_with_its_checks(page: Page, site_address: str) -> None:
    open_page(page, site_address + ADDRESS)
    with page.expect_download() as download:
        page.get_by_role("link", name="multi-head.zip").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert {"multi-head/multi-head.ipynb", "multi-head/checks.json"} <= set(archive.namelist())


def test_hints_are_folded_and_open_by_keyboard(page: Page, http_site: str) -> None:
    open_page(page, http_site + ADDRESS)
    hints = page.locator(HINTS)
    assert hints.count() >= 12  # two for each task
    assert hints.locator("p").count() > 0
    for text in hints.locator("p").all():
        expect(text).to_be_hidden()
    first = hints.first
    first.locator("summary").press("Enter")
    expect(first.locator("p").first).to_be_visible()
    first.locator("summary").press("Enter")
    expect(first.locator("p").first).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("look", ["phone", "light", "dark"])
def test_it_reads_well_with_every_hint_open(
    new_page: Callable[..., Page], http_site: str, look: str
) -> None:
    page = new_page(**LOOKS[look])
    open_page(page, http_site + ADDRESS)
    for hint in page.locator(HINTS).all():
        hint.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
    assert lines_in_a_box(page)
    assert_accessible(page)


def lines_in_a_box(page: Page) -> Any:
    """Tell whether all text of the article lies inside it, or in a box that scrolls."""
    return page.evaluate(
        """() => {
          const article = document.querySelector("article").getBoundingClientRect();
          return [...document.querySelectorAll("article :is(p, li, td, summary) > *")]
            .filter((part) => !part.closest(".tex"))
            .flatMap((part) => [...part.getClientRects()])
            .every((box) => box.right <= article.right + 1);
        }"""
    )


def test_search_finds_the_exercise(page: Page, http_site: str) -> None:
    found = search(page, http_site, "split_heads")
    expect(found.filter(has_text="Exercise: multi-head attention")).to_have_count(1)
