"""The built site in a browser: it works offline over both schemes, and for everybody."""

from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

EDITION = "en"
PAGES = ("index", "multi-head", "references", "search")
CHAPTER = f"{EDITION}/multi-head.html"
PHONE = {"width": 390, "height": 844}


def open_page(page: Page, address: str) -> None:
    page.goto(address, wait_until="load")  # deferred scripts, KaTeX among them, have run by then


def test_start_page_opens_the_readers_language(
    new_page: Callable[..., Page], site_address: str
) -> None:
    for locale in ("en-GB", "fr-FR"):
        page = new_page(locale=locale)
        page.goto(f"{site_address}index.html")
        page.wait_for_url("**/en/index.html")


def test_start_page_links_to_every_edition_without_javascript(
    new_page: Callable[..., Page], site_address: str, site: Path
) -> None:
    page = new_page(java_script_enabled=False)
    page.goto(f"{site_address}index.html")
    editions = {path.parent.name for path in site.glob("*/index.html")}
    links = page.locator("a").all()
    assert {link.get_attribute("lang") for link in links} == editions
    links[0].click()
    expect(page.locator("article h1")).to_be_visible()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_quiet_and_whole(page: Page, site_address: str, name: str) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda answer: None if answer.ok else failed.append(answer.url))
    open_page(page, f"{site_address}{EDITION}/{name}.html")
    page.wait_for_load_state("networkidle")
    assert failed == []
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert page.evaluate(broken) == []


def test_formulas_are_drawn_and_can_be_read_out(page: Page, site_address: str) -> None:
    open_page(page, site_address + CHAPTER)
    formulas = page.locator(".tex").count()
    assert formulas > 0
    expect(page.locator(".tex .katex-html")).to_have_count(formulas)
    assert page.locator(".tex math").count() == formulas


def test_katex_draws_what_chapters_may_write(page: Page, http_site: str) -> None:
    open_page(page, http_site + CHAPTER)
    for tex in (
        r"\underbrace{a + b}_{\text{two}} + \overbrace{c}^{1}",
        r"\begin{aligned} a &= b \\ &= c \end{aligned}",
        r"\begin{align*} a &= b \\ &= c \end{align*}",
        r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix} \begin{pmatrix} x \\ y \end{pmatrix}",
        r"\begin{cases} 0 & \text{masked} \\ 1 & \text{kept} \end{cases}",
        r"\mathrm{softmax}\!\left(\frac{Q K^{\top}}{\sqrt{d_k}}\right) \in \mathbb{R}^{N \times N}",
    ):
        drawn = page.evaluate("tex => katex.renderToString(tex, { displayMode: true })", tex)
        assert "<math" in drawn


def test_wide_formulas_scroll_in_their_boxes_by_keyboard(
    new_page: Callable[..., Page], site_address: str
) -> None:
    page = new_page(viewport={"width": 320, "height": 844})
    open_page(page, site_address + CHAPTER)
    expect(page.locator(".tex .katex-html")).to_have_count(page.locator(".tex").count())
    page.wait_for_selector("div.tex[tabindex]", state="attached")
    wide = "[...document.querySelectorAll('div.tex')].filter(f => f.scrollWidth > f.clientWidth)"
    assert page.evaluate(f"{wide}.length") == page.locator("div.tex[tabindex='0']").count() > 0
    page.locator("div.tex[tabindex]").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize("name", PAGES)
def test_phone_never_scrolls_sideways(
    new_page: Callable[..., Page], site_address: str, name: str
) -> None:
    page = new_page(viewport=PHONE)
    open_page(page, f"{site_address}{EDITION}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.parametrize("width", [1280, PHONE["width"]])
def test_every_icon_is_drawn(new_page: Callable[..., Page], site_address: str, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    open_page(page, site_address + CHAPTER)
    # An icon whose character the font lacks is drawn by another font: it has another
    # width than with the icon font alone.
    missing = page.evaluate(
        """async () => {
          await document.fonts.ready;
          const missing = [];
          const pen = document.createElement("canvas").getContext("2d");
          for (const icon of document.querySelectorAll(".fa-solid, .fas, .far, .fab")) {
            const style = getComputedStyle(icon, "::before");
            const character = style.content.replaceAll('"', "");
            if (character === "none") { missing.push(icon.className); continue; }
            const width = (fallback) => {
              pen.font = `${style.fontWeight} 40px ${style.fontFamily}, ${fallback}`;
              return pen.measureText(character).width;
            };
            await document.fonts.load(`${style.fontWeight} 40px ${style.fontFamily}`, character);
            if (width("monospace") !== width("serif")) missing.push(icon.className);
          }
          return missing;
        }"""
    )
    assert missing == []
    assert page.locator(".fa-solid").count() > 5


def test_theme_switch_turns_dark_and_back(page: Page, site_address: str) -> None:
    open_page(page, site_address + CHAPTER)
    paper = "getComputedStyle(document.body).backgroundColor"
    papers = {page.evaluate(paper)}
    for _ in range(3):
        page.locator(".theme-switch-button").first.click()
        papers.add(page.evaluate(paper))
    assert len(papers) == 2


def test_search_finds_the_chapter(page: Page, site_address: str) -> None:
    page.goto(f"{site_address}{EDITION}/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("concat")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=concat")
    found = page.locator("#search-results li a").first
    expect(found).to_contain_text("Multi-head attention")
    page.wait_for_load_state("networkidle")
    found.click()
    expect(page.locator("article h1")).to_contain_text("Multi-head attention")


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(
    new_page: Callable[..., Page], http_site: str, name: str, look: str
) -> None:
    page = new_page(
        viewport=PHONE if look == "phone" else {"width": 1280, "height": 900},
        color_scheme="dark" if look == "dark" else "light",
    )
    open_page(page, f"{http_site}{EDITION}/{name}.html?q=attention")
    expect(page.locator(".tex .katex-html")).to_have_count(page.locator(".tex").count())
    # Without preload: axe would fetch style sheets itself, and gets their imports wrong.
    # Without KaTeX's drawing: it is hidden from assistive technology (its MathML is not),
    # and the contrast of each of its glyphs is that of the text around.
    result = Axe().run(
        page,
        context={"exclude": [".katex-html"]},
        options={"preload": False, "resultTypes": ["violations"]},
    )
    grave = [
        (violation["id"], node["html"])
        for violation in result.response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
    assert grave == []
