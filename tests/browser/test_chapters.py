"""Every chapter as it is built: its demos start, nothing is too wide, everybody can read it."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessible import assert_accessible
from tests.browser.test_site import CHAPTERS, EDITION, PHONE

DESKTOP = {"width": 1280, "height": 900}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_demos_start_and_the_page_is_for_everybody(
    new_page: Callable[..., Page], http_site: str, chapter: str, look: str
) -> None:
    page = new_page(**LOOKS[look])
    page.goto(f"{http_site}{EDITION}/{chapter}.html")
    demos = page.locator(".mha-demo").all()
    # One that answers the question, and the quiz. PyTorch's layer is read beside code instead.
    assert len(demos) >= (1 if chapter == "pytorch" else 2)
    for demo in demos:
        demo.scroll_into_view_if_needed()
        expect(demo).to_have_attribute("data-ready", "", timeout=20_000)
    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
    assert_accessible(page)
