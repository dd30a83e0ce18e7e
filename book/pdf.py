"""Prints the whole book: `python -m book.pdf` writes attention-course.pdf into each edition.

Chromium prints it. The built pages' articles are put one after the other into a single page, in
the order of the table of contents and behind a title; links between chapters lead to places in it.
Demos start there as they do on the site, so each is drawn in its telling state. Chromium
makes the bookmarks from the headings.
"""

import posixpath
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from book.chromium import shared_browser, shut_outside
from book.extensions.course_strings import strings
from book.places import LANGUAGES, SITE

NAME = "attention-course.pdf"
WHOLE = "whole-book.html"  # made for the print alone, and taken away again
WAIT_MS = 60_000
SCRIPTS = ("mha/loader.js", "katex/katex.min.js", "_static/math.js")
TITLE = re.compile(rb"/Title (?:<(FEFF)([0-9A-F]+)>|(\()((?:\\.|[^\\)])*)\))")
FOOTER = """<div style="width: 100%; text-align: center; font: 8px sans-serif; color: #555">
<span class="pageNumber"></span></div>"""
STYLE = """
@media print { html { font-size: 13px } }
.whole-book > section { break-before: page }
.whole-book > .title-page { break-before: auto; text-align: center; padding-top: 30vh }
.whole-book .title-page h1 { font-size: 3rem !important; margin-bottom: 2rem !important }
"""


# Chromium makes a bookmark from what a heading shows to a screen reader, and finds no text in
# MathML. So what KaTeX draws there is shown instead, and a root, which it draws as a line, is said.
SAY_FORMULAS = """() => {
  for (const formula of document.querySelectorAll(':is(h1, h2, h3, h4, h5, h6) .katex')) {
    formula.querySelector('.katex-mathml').remove();
    formula.querySelector('.katex-html').removeAttribute('aria-hidden');
    for (const nothing of formula.querySelectorAll('.vlist-s')) nothing.replaceChildren();
    for (const root of formula.querySelectorAll('.sqrt')) {
      const sign = document.createElement('span');
      sign.style = 'position: absolute; font-size: 1px; color: white';
      sign.textContent = '√';
      root.prepend(sign);
    }
  }
}"""


class Unprintable(Exception):
    """The book cannot be printed; the message says why, and the way out."""


@dataclass(frozen=True)
class Article:
    """What a page says, ready to stand among others: its name, its content, what it loads."""

    page: str
    body: Tag
    head: Tag


def pages_in_order(edition: Path) -> list[str]:
    """Return the names of an edition's pages in the order of its table of contents."""
    index = _parsed(edition / "index.html")
    links = index.select(".bd-sidebar-primary .toctree-l1 a.internal, .bd-toctree a.internal")
    names = [posixpath.splitext(str(link["href"]).partition("#")[0])[0] for link in links]
    return list(dict.fromkeys(["index", *(name for name in names if name)]))


def _parsed(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def read_article(edition: Path, page: str) -> Article:
    """Return a page's article, its places and links named as in the whole book.

    Raises:
        Unprintable: when the page has no article.
    """
    parsed = _parsed(edition / f"{page}.html")
    body, head = parsed.select_one("article"), parsed.head
    if body is None or head is None:
        raise Unprintable(f"{edition / page}.html has no article; build the site with: make build")
    for place in body.select("[id]"):
        place["id"] = place_name(page, str(place["id"]))
    for link in body.select("a[href]"):
        link["href"] = address_in_book(page, str(link["href"]))
    for element in body.select("[src]"):
        address = str(element["src"])
        if not re.match(r"[a-z]+:", address):
            element["src"] = posixpath.normpath(posixpath.join(posixpath.dirname(page), address))
    for other in body.select(".headerlink, .toctree-wrapper, noscript"):
        other.extract()
    return Article(page, body, head)


def place_name(page: str, name: str) -> str:
    """Return what a place of a page is called in the whole book, where names must differ.

    >>> place_name("exercises/a/a", "code-it")
    'exercises-a-a--code-it'
    """
    return f"{page.replace('/', '-')}--{name}"


def address_in_book(page: str, address: str) -> str:
    """Return where a link of a page leads in the whole book.

    >>> address_in_book("masking", "multi-head.html#code-it")
    '#multi-head--code-it'
    >>> address_in_book("exercises/a/a", "../../masking.html")
    '#masking--'
    >>> address_in_book("masking", "https://arxiv.org")
    'https://arxiv.org'
    """
    path, _, name = address.partition("#")
    if re.match(r"[a-z]+:", address) or (path and not path.endswith(".html")):
        return address
    folder = posixpath.dirname(page)
    target = posixpath.splitext(posixpath.normpath(posixpath.join(folder, path)))[0]
    return f"#{place_name(target if path else page, name)}"


def whole_book(edition: Path, language: str) -> str:
    """Return one page with all articles of an edition."""
    articles = [read_article(edition, page) for page in pages_in_order(edition)]
    loaded: dict[str, str] = {}
    for article in articles:
        for element in article.head.select("link[rel=stylesheet], script[src]"):
            kind = "src" if element.name == "script" else "href"
            address = str(element[kind])
            if element.name == "script" and not address.partition("?")[0].endswith(SCRIPTS):
                continue  # the theme's own look for a side bar that is not here
            element[kind] = posixpath.normpath(
                posixpath.join(posixpath.dirname(article.page), address)
            )
            loaded.setdefault(str(element[kind]), str(element))
    title = _parsed(edition / "index.html").select_one("title")
    name = re.split(r"\s+[—-]\s+", title.get_text() if title else "")[-1]
    sections = "\n".join(
        f'<section id="{place_name(article.page, "")}">{article.body}</section>'
        for article in articles
    )
    return f"""<!doctype html>
<html lang="{language}" data-theme="light" data-mode="light" data-content_root="./">
<head><meta charset="utf-8"><title>{name}</title>
{"".join(loaded.values())}
<style>{STYLE}</style></head>
<body><main class="bd-content bd-article-container whole-book">
<section class="title-page"><h1>{name}</h1><p>{LANGUAGES[language]}</p></section>
{sections}
</main></body></html>
"""


def said_once(written: bytes) -> bytes:
    """Return the PDF with each bookmark's title said once.

    Chromium says it twice where a heading was moved to the next sheet. What is taken away
    leaves spaces, since a PDF counts its bytes.

    >>> said_once(b"/Title (Key pointsKey points) /Title (Key points)")
    b'/Title (Key points)           /Title (Key points)'
    """

    def once(found: re.Match[bytes]) -> bytes:
        text = found[2] or found[4] or b""
        half = len(text) // 2
        if not half or text[:half] != text[half:]:
            return found[0]
        said = b"<FEFF%b>" % text[:half] if found[1] else b"(%b)" % text[:half]
        return (b"/Title " + said).ljust(len(found[0]))

    return TITLE.sub(once, written)


def offer(edition: Path, language: str) -> None:
    """Put a link to the PDF under the list of chapters, where it is not there yet."""
    index = edition / "index.html"
    parsed = _parsed(index)
    chapters = parsed.select_one("article .toctree-wrapper")
    if chapters is None or parsed.select_one(f'a[href="{NAME}"]'):
        return
    words = strings(language, "pdf")
    size = (edition / NAME).stat().st_size / 1e6
    link = f'<p><a href="{NAME}">{words["offer"]}</a> ({size:.1f} MB)</p>'
    chapters.insert_after(BeautifulSoup(link, "html.parser"))
    index.write_text(str(parsed), "utf-8")


def print_edition(edition: Path, language: str) -> Path:
    """Print one edition of the built site and return the PDF.

    Raises:
        Unprintable: when a demo does not start, or the page asks another host.
    """
    page_file, written = edition / WHOLE, edition / NAME
    page_file.write_text(whole_book(edition, language), "utf-8")
    context = shared_browser().new_context(viewport={"width": 673, "height": 1000})
    try:
        outside = shut_outside(context)
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.evaluate("dispatchEvent(new Event('beforeprint'))")  # all demos start at once
        page.wait_for_function(
            """() => [...document.querySelectorAll('.mha-demo')].every(
              (demo) => 'ready' in demo.dataset || 'failed' in demo.dataset)
              && [...document.querySelectorAll('.tex')].every((tex) => tex.querySelector('.katex'))
            """,
            timeout=WAIT_MS,
        )
        blank = page.evaluate(
            """() => [...document.querySelectorAll('.mha-demo')]
              .filter((demo) => !('ready' in demo.dataset) || demo.offsetHeight < 80)
              .map((demo) => demo.dataset.modules.split(' ').at(-1))"""
        )
        if blank or outside:
            raise Unprintable(
                f"demos that do not start: {blank}; asked of other hosts: {outside}. "
                f"Open {edition / 'index.html'}, and look at the browser's console"
            )
        page.evaluate(SAY_FORMULAS)
        printed = page.pdf(
            format="A4",
            print_background=True,
            outline=True,
            tagged=True,
            display_header_footer=True,
            header_template="<span></span>",
            footer_template=FOOTER,
            margin=dict.fromkeys(("top", "right", "bottom", "left"), "16mm"),
        )
    finally:
        context.close()
        page_file.unlink()
    written.write_bytes(said_once(printed))
    offer(edition, language)
    return written


def main() -> None:
    """Print every edition of the built site."""
    editions = [language for language in LANGUAGES if (SITE / language / "index.html").is_file()]
    if not editions:
        sys.exit(f"book.pdf: {SITE} holds no site; build it with: make build")
    for language in editions:
        start = time.monotonic()
        try:
            written = print_edition(SITE / language, language)
        except Unprintable as wrong:
            sys.exit(f"book.pdf: {wrong}")
        print(f"book.pdf: {written}, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
