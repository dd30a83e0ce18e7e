"""The built site in a browser: it works offline over both schemes, and for everybody."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, Locator, Page, expect

from grading.course import Course
from tests.browser.accessible import assert_accessible

ROOT = Path(__file__).resolve().parents[2]
EDITION = "en"
EXERCISE = "exercises/multi-head/multi-head"
EXERCISES = tuple(f"exercises/{name}/{name}" for name in Course(ROOT).assignments)
CHAPTERS = (
    "refresher",
    "embeddings",
    "query-key-value",
    "scaled-dot-product",
    "multi-head",
    "masking",
    "transformer",
    "pictures",
    "pytorch",
    "trained-heads",
    "real-heads",
    "long-sequences",
)
PAGES = ("index", *CHAPTERS, *EXERCISES, "questions", "glossary", "references", "search")
QUICK_PAGES = ("index", "multi-head", EXERCISE)
CHAPTER = f"{EDITION}/multi-head.html"
PHONE = {"width": 390, "height": 844}
# A chapter, with its demos and with the theme around it, is test_chapter.py's.
LOOKS = [("index", "phone")]
OTHER_LOOKS = [
    (name, look)
    for name in ("index", "references", "search")
    for look in ("light", "dark", "phone")
    if (name, look) not in LOOKS
]


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


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK_PAGES else pytest.mark.slow) for name in PAGES],
)
def test_every_page_is_quiet_and_whole(page: Page, site_address: str, name: str) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda answer: None if answer.ok else failed.append(answer.url))
    open_page(page, f"{site_address}{EDITION}/{name}.html")
    page.wait_for_load_state("networkidle")
    assert failed == []
    broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
    assert page.evaluate(broken) == []


@pytest.mark.parametrize(
    "asked",
    [
        "en/a/b/c",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("en/no.html", "nowhere")),
    ],
)
def test_a_missing_page_is_the_books_own_at_any_depth(
    browser: Browser, http_site: str, asked: str
) -> None:
    page = browser.new_page(viewport=PHONE)  # not watched: the browser reports the status itself
    failed: list[str] = []
    page.on("response", lambda each: None if each.ok else failed.append(each.url))
    answer = page.goto(http_site + asked)
    assert answer.status == 404
    assert failed == [http_site + asked]
    expect(page.get_by_role("heading", level=1)).to_contain_text("There is no such page")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    if asked == "no":
        assert_accessible(page)
    page.locator("article").get_by_role("link", name="Start here").click()
    page.wait_for_url("**/en/index.html")
    page.close()


def test_formulas_are_drawn_and_can_be_read_out(page: Page, site_address: str) -> None:
    open_page(page, site_address + CHAPTER)
    formulas = page.locator(".tex").count()
    assert formulas > 0
    expect(page.locator(".tex .katex-html")).to_have_count(formulas)
    assert page.locator(".tex math").count() == formulas


def test_a_short_formula_keeps_its_full_stop_on_its_line(page: Page, site_address: str) -> None:
    open_page(page, site_address + CHAPTER)
    expect(page.locator(".tex .katex-html")).to_have_count(page.locator(".tex").count())
    lines = page.locator("p .held-marks").evaluate_all("""all => all.map(held => {
      // as narrow as the formula: the mark beside it has no room on its line
      held.closest("p").style.width = `${held.querySelector(".tex").offsetWidth}px`;
      return new Set([...held.getClientRects()].map(part => part.top)).size;
    })""")
    assert set(lines) == {1}


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
    new_page: Callable[..., Page], http_site: str
) -> None:
    page = new_page(viewport={"width": 320, "height": 844})
    open_page(page, http_site + CHAPTER)
    expect(page.locator(".tex .katex-html")).to_have_count(page.locator(".tex").count())
    page.wait_for_selector("div.tex[tabindex]", state="attached")
    wide = "[...document.querySelectorAll('div.tex')].filter(f => f.scrollWidth > f.clientWidth)"
    assert page.evaluate(f"{wide}.length") == page.locator("div.tex[tabindex='0']").count() > 0
    page.locator("div.tex[tabindex]").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize("name", ["index", "references", "search"])
def test_phone_never_scrolls_sideways(
    new_page: Callable[..., Page], http_site: str, name: str
) -> None:
    page = new_page(viewport=PHONE)
    open_page(page, f"{http_site}{EDITION}/{name}.html?q=attention")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index", "references", "glossary", "questions", *CHAPTERS])
def test_a_window_zoomed_to_400_percent_never_scrolls_sideways(
    new_page: Callable[..., Page], http_site: str, name: str
) -> None:
    page = new_page(viewport={"width": 320, "height": 256})
    open_page(page, f"{http_site}{EDITION}/{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") == 320


@pytest.mark.parametrize("width", [1280, PHONE["width"]])
def test_every_icon_is_drawn(new_page: Callable[..., Page], site: Path, width: int) -> None:
    page = new_page(viewport={"width": width, "height": 900})
    open_page(page, f"{site.as_uri()}/{CHAPTER}")  # where a browser is strict about fonts
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_first_visit_is_in_the_systems_colours_from_the_start(
    new_page: Callable[..., Page], http_site: str, scheme: str
) -> None:
    page = new_page(color_scheme=scheme)
    page.add_init_script(
        """new MutationObserver((_, observer) => {
          if (!document.body) return;
          window.firstTheme = document.documentElement.dataset.theme;
          observer.disconnect();
        }).observe(document, { childList: true, subtree: true });"""
    )
    open_page(page, f"{http_site}{EDITION}/index.html")
    assert page.evaluate("firstTheme") == scheme


def test_where_storage_is_refused_the_theme_switch_works(page: Page, http_site: str) -> None:
    page.add_init_script(
        """for (const storage of ["localStorage", "sessionStorage"]) {
          const get = () => { throw new DOMException("refused", "SecurityError"); };
          Object.defineProperty(window, storage, { get, configurable: true });
        }"""
    )
    open_page(page, http_site + CHAPTER)
    html = page.locator("html")
    before = str(html.get_attribute("data-mode"))
    page.locator(".theme-switch-button").first.click()
    expect(html).not_to_have_attribute("data-mode", before)


def search(page: Page, address: str, query: str) -> Locator:
    """Search by the address, and return the results once they are all there."""
    page.goto(f"{address}{EDITION}/search.html?q={quote(query)}")
    expect(page.locator(".search-summary")).not_to_be_empty()
    return page.locator("#search-results li")


def test_search_finds_the_chapter(page: Page, site_address: str) -> None:
    page.goto(f"{site_address}{EDITION}/index.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("concat")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=concat")
    found = page.locator("#search-results li a", has_text="Multi-head attention").first
    expect(found).to_be_visible()
    page.wait_for_load_state("networkidle")
    found.click()
    expect(page.locator("article h1")).to_contain_text("Multi-head attention")


def test_search_finds_a_word_however_its_accents_are_typed(page: Page, http_site: str) -> None:
    for form in ("NFC", "NFD"):
        found = search(page, http_site, unicodedata.normalize(form, "Việt"))
        expect(found.filter(has_text="Multi-head attention").first).to_be_visible()


def test_search_finds_nothing_quietly(page: Page, http_site: str) -> None:
    for query in ("constructor", "__proto__", "hasOwnProperty"):
        assert search(page, http_site, query).count() == 0


@pytest.mark.slow
def test_search_shows_excerpts_of_the_article(page: Page, http_site: str, site: Path) -> None:
    for query in ("attention", "concat", "key points"):
        shown = search(page, http_site, query)
        assert shown.count() > 0
        for result in shown.all():
            name, _, place = str(result.locator("a").get_attribute("href")).partition("#")
            source = (site / EDITION / name).read_text("utf-8")
            article = BeautifulSoup(source, "html.parser").find("article")
            for other in article.select(".headerlink, script, style, summary"):
                other.extract()
            excerpt = result.locator(".context").inner_text().strip(". ")
            assert len(excerpt) > 20 or place.startswith("term-")  # the glossary's: the term alone
            assert excerpt in " ".join(article.get_text().split())


def test_search_text_begins_after_the_magnifying_glass(page: Page, http_site: str) -> None:
    open_page(page, f"{http_site}{EDITION}/search.html")
    form = page.locator("article form.bd-search, .bd-search-container form.bd-search")
    glass = form.locator("i").bounding_box()
    field = form.locator("input")
    padding = float(field.evaluate("field => parseFloat(getComputedStyle(field).paddingLeft)"))
    assert glass["x"] + glass["width"] <= field.bounding_box()["x"] + padding


@pytest.mark.parametrize(
    ("name", "look"),
    [*LOOKS, *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_LOOKS)],
)
def test_axe_finds_nothing_serious(
    new_page: Callable[..., Page], http_site: str, name: str, look: str
) -> None:
    page = new_page(
        viewport=PHONE if look == "phone" else {"width": 1280, "height": 900},
        color_scheme="dark" if look == "dark" else "light",
    )
    open_page(page, f"{http_site}{EDITION}/{name}.html?q=attention")
    page.wait_for_load_state("networkidle")  # what is found has its excerpts by then
    assert_accessible(page)
