"""Every number in a chapter's prose is printed by a cell of the page, or cited."""

import re
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag

from tests.book.built_pages import article

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "book" / "en").glob("*.md"))
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
QUOTIENT = re.compile(r"(\d[\d,]*) / (\d[\d,]*) = (\d[\d,]*)")


def numbers(text: str) -> set[str]:
    return {match.rstrip(",") for match in NUMBER.findall(text)}


def is_telling(number: str) -> bool:
    """Whether a number is a claim: small whole numbers are mostly part of the language."""
    return "." in number or len(number.replace(",", "")) >= 3


def said(element: Tag, between: str, *without: str) -> str:
    """Return an element's text without that of the tags named, which may also stand around it."""
    return between.join(text for text in element.strings if text.find_parent(without) is None)


def unproven(body: Tag) -> list[str]:
    """Return the sentences of an article whose numbers no cell prints and no source backs."""
    cells = body.select(".cell_input, .cell_output pre")
    printed = numbers(" ".join(said(cell, " ", "script", "noscript") for cell in cells))
    missing = []
    for block in body.select("p, li, td"):
        if block.find_parent(class_=["cell", "citation-list"]) or block.find_parent("noscript"):
            continue
        if block.select_one("p, li"):
            continue  # its own blocks are looked at one by one
        cited = block.select_one('a[href*="references.html"]') is not None
        # Links hold years and section numbers of the works cited.
        text = said(block, "", "script", "noscript", "a")
        left = {each for each in numbers(text) if is_telling(each)} - printed
        if left and not cited:
            missing.append(f"{sorted(left)}: {text[:80]!r}")
    return missing


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_number_in_prose_is_printed_or_cited(site: Path, chapter: str) -> None:
    assert not unproven(article(site / "en" / f"{chapter}.html"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_quotient_in_prose_is_right(chapter: str) -> None:
    text = (ROOT / "book" / "en" / f"{chapter}.md").read_text("utf-8")
    for quotient in QUOTIENT.findall(text):
        whole, parts, result = (int(each.replace(",", "")) for each in quotient)
        assert whole == parts * result, quotient


def test_a_wrong_number_is_noticed() -> None:
    page = BeautifulSoup(
        '<article><div class="cell"><div class="cell_output"><pre>1,769,472</pre></div></div>'
        "<p>There are 1,769,472 weights.</p><p>There are 1,769,473 weights.</p></article>",
        "html.parser",
    )
    assert unproven(page) == ["['1,769,473']: 'There are 1,769,473 weights.'"]
