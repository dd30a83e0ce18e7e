"""What holds for every page and demo: axe finds nothing serious, and nothing is too wide."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def assert_accessible(page: Page, within: str = "html") -> None:
    """Let axe look at what is `within` a selector, as the page is now."""
    # Without preload: axe would fetch style sheets itself, and gets their imports wrong.
    # Without KaTeX's drawing: it is hidden from assistive technology (its MathML is not),
    # and the contrast of each of its glyphs is that of the text around.
    found = Axe().run(
        page,
        context={"include": [within], "exclude": [".katex-html"]},
        options={"preload": False, "resultTypes": ["violations"]},
    )
    grave = [
        (violation["id"], node["html"])
        for violation in found.response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert grave == []


def assert_fits(page: Page, boxes_scroll: bool = False) -> None:
    """Nothing is wider than the window, nor, unless boxes may scroll, than the box it is in."""
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    if not boxes_scroll:
        assert page.locator(".mha-scroll[tabindex]").count() == 0
