"""The picture of attention as it is drawn: its words fit, it can be used, it can be read."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessible import assert_accessible
from tests.browser.test_site import CHAPTERS, EDITION, PHONE

SHOWN = "figure.attention-path svg:visible"
# Words that are wider or higher than the box around them.
TOO_LONG = """svg => {
  const inside = (text, box) =>
    text.left >= box.left && text.right <= box.right &&
    text.top >= box.top - 1 && text.bottom <= box.bottom + 1;
  return [...svg.querySelectorAll(".part, .here")].flatMap((part) => {
    const box = part.querySelector(":scope > .box, :scope > .pill")?.getBoundingClientRect();
    return box ? [...part.querySelectorAll(":scope > text")]
      .filter((text) => !inside(text.getBoundingClientRect(), box))
      .map((text) => text.textContent) : [];
  });
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 820, PHONE["width"], 320])
def test_words_fit_into_their_boxes(
    new_page: Callable[..., Page], http_site: str, width: int
) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    for chapter in ("index", *CHAPTERS):
        page.goto(f"{http_site}{EDITION}/{chapter}.html", wait_until="load")
        picture = page.locator(SHOWN)
        expect(picture).to_have_count(1)
        assert picture.evaluate(TOO_LONG) == [], chapter
        smallest = "svg => 14 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
        assert picture.evaluate(smallest) >= (11 if width > 320 else 9.5)
        assert picture.evaluate("svg => svg.getBoundingClientRect().right") <= width


@pytest.mark.slow
def test_the_lit_part_differs_by_more_than_colour(page: Page, http_site: str) -> None:
    page.goto(f"{http_site}{EDITION}/masking.html")
    thick = "part => parseFloat(getComputedStyle(part).strokeWidth)"
    lit, other = (page.locator(f"{SHOWN} .{part} > .box") for part in ("mask", "softmax"))
    assert lit.evaluate(thick) >= 2 * other.evaluate(thick)
    label = page.locator(f"{SHOWN} .mask .here")
    expect(label).to_have_text("you are here")
    expect(label).to_be_visible()


@pytest.mark.slow
def test_a_part_is_reached_and_followed_by_keyboard(page: Page, site_address: str) -> None:
    page.goto(f"{site_address}{EDITION}/index.html")
    page.locator(f"{SHOWN} a").first.focus()
    focused = "document.activeElement.textContent"
    reached = [page.evaluate(focused)]
    while reached[-1] != "mask" and len(reached) < 13:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(focused))
    assert "scores" in reached
    page.keyboard.press("Enter")
    expect(page.locator("article h1")).to_contain_text("Masking")


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_the_picture_is_for_everybody(
    new_page: Callable[..., Page], http_site: str, look: str
) -> None:
    page = new_page(
        viewport=PHONE if look == "phone" else {"width": 1280, "height": 900},
        color_scheme="dark" if look == "dark" else "light",
    )
    page.goto(f"{http_site}{EDITION}/multi-head.html")
    expect(page.get_by_role("group", name="The path of attention.")).to_have_count(1)
    assert_accessible(page, within="figure.attention-path")
