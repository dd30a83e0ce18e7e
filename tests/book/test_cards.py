"""What is shown where a link is shared: true of each page, with no address that is not there."""

from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from course_cards import LONGEST, description, draw_card, tags
from docutils import nodes
from PIL import Image

from tests.book.small_book import build, small_book


def named(html: str) -> dict[str, str]:
    """Return what a page's head says of the page."""
    page = BeautifulSoup(html, "html.parser")
    return {
        str(tag.get("property") or tag.get("name")): str(tag["content"])
        for tag in page.select("meta[content]")
    }


def page_of(*paragraphs: str) -> nodes.document:
    document = nodes.document(None, None)
    document += nodes.section("", *(nodes.paragraph(text=each) for each in paragraphs))
    return document


def test_a_description_is_whole_sentences_where_they_fit() -> None:
    assert description(page_of("Who sat?", "And where?")) == "Who sat? And where?"
    assert description(page_of("Who sat?", "x" * LONGEST)) == "Who sat?"
    long = description(page_of("word " * 100))
    assert len(long) <= LONGEST
    assert long.endswith("word…")
    assert description(page_of()) == ""


def test_values_cannot_leave_their_quotes() -> None:
    said = named(tags('a "b" <c>', "", "course", "en", "", ""))
    assert said["og:title"] == 'a "b" <c>'
    assert "og:image" not in said
    assert "og:url" not in said


@pytest.mark.parametrize("title", ["Masking", "A very long title of a page on many heads " * 3])
def test_a_card_has_the_size_that_it_says_and_the_same_bytes(tmp_path: Path, title: str) -> None:
    for name in ("a.png", "b.png"):
        draw_card(title, "The attention course", tmp_path / name)
    assert Image.open(tmp_path / "a.png").size == (1200, 630)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pages_say_their_title_and_first_sentences(site: Path) -> None:
    said = named((site / "en" / "multi-head.html").read_text("utf-8"))
    assert said["og:title"] == "Multi-head attention"
    assert said["og:description"].startswith("Take the Vietnamese sentence Tôi yêu Việt Nam")
    assert said["og:site_name"] == "The attention course"
    assert not [name for name in said if name.startswith(("og:image", "og:url"))]


@pytest.mark.slow
def test_a_site_with_an_address_has_cards(tmp_path: Path) -> None:
    book = small_book(tmp_path)
    config = book / "_config.yml"
    text = config.read_text("utf-8")
    address = "https://a.example/b/"
    config.write_text(text.replace('course_site: ""', f"course_site: {address}"), "utf-8")
    outcome = build(book)
    assert outcome.returncode == 0, outcome.stderr
    site = book / "_build" / "site"
    said = named((site / "en" / "one.html").read_text("utf-8"))
    assert said["og:url"] == f"{address}en/one.html"
    card = site / said["og:image"].removeprefix(address)
    assert Image.open(card).size == (1200, 630)
    # The page for missing pages counts its addresses from there as well.
    missing = (site / "404.html").read_text("utf-8")
    assert 'href="/b/en/index.html"' in missing
    assert "og:title" not in missing
