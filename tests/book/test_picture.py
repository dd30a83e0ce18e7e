"""The picture of attention: on every chapter, each part leads to its chapter, the page's is lit."""

import json
from pathlib import Path

import pytest
from bs4 import BeautifulSoup, Tag
from course_picture import ALSO_LIT, CHAPTERS, NARROW, WIDE, draw, lit_parts
from course_strings import strings

from tests.book.built_pages import parsed

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted({*CHAPTERS.values(), *ALSO_LIT, "index"})
WORDS = strings("en", "picture")


def pictures(site: Path, page: str) -> tuple[Tag, list[Tag]]:
    """Return a page's figure, and the two arrangements in it."""
    figures = parsed(site / "en" / f"{page}.html").select("article figure.attention-path")
    assert len(figures) == 1
    drawn = figures[0].select("svg")
    assert [svg["class"] for svg in drawn] == [["wide"], ["narrow"]]
    return figures[0], drawn


def parts(svg: Tag, kind: str = "part") -> dict[str, Tag]:
    return {part["class"][1]: part for part in svg.select(f".{kind}")}


@pytest.mark.parametrize("page", PAGES)
def test_each_part_leads_to_its_chapter(site: Path, page: str) -> None:
    for svg in pictures(site, page)[1]:
        found = parts(svg)
        assert set(found) == set(CHAPTERS)
        for part, chapter in CHAPTERS.items():
            assert found[part].get("href") == (None if chapter == page else f"{chapter}.html")


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_part_is_lit_and_says_so(site: Path, page: str) -> None:
    figure, drawn = pictures(site, page)
    lit = lit_parts(page)
    assert bool(lit) == (page != "index")
    for svg in drawn:
        assert list(parts(svg, "lit")) == lit
        labels = [label.get_text() for label in svg.select(".here")]
        assert labels == (["you are here"] if lit else [])
        alt = str(svg["aria-label"])
        assert alt.startswith("The path of attention.")
        assert ("You are here: " in alt) == bool(lit)
        assert all(WORDS[part] in alt.partition("You are here: ")[2] for part in lit)
    caption = figure.select_one("figcaption")
    assert caption is not None
    assert caption.get_text().strip().endswith(".")


def test_every_chapter_with_a_demo_has_the_picture() -> None:
    for path in (ROOT / "book" / "en").glob("*.md"):
        text = path.read_text("utf-8")
        assert ("```{attention-path}" in text) == ("quiz(" in text or path.stem == "index"), path


@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_box_lies_on_another_or_outside(layout: type[WIDE]) -> None:
    width, height = layout.size
    single = {part: box for part, box in layout.boxes.items() if part != "heads"}
    for part, box in layout.boxes.items():
        assert 0 <= box.x < box.x + box.width <= width, part
        assert 0 <= box.y < box.y + box.height <= height, part
        for other, near in single.items():
            if part not in (other, "heads"):
                apart = (
                    box.x + box.width <= near.x
                    or near.x + near.width <= box.x
                    or box.y + box.height <= near.y
                    or near.y + near.height <= box.y
                )
                assert apart, (part, other)


def test_labels_are_text_whatever_a_translator_writes() -> None:
    words = WORDS | {"mask": '<b>"&'}
    svg = BeautifulSoup(draw(WIDE, words, ["mask"], {"words": 'a"b.html'}), "html.parser")
    assert parts(svg)["mask"].find("text").get_text() == '<b>"&'
    assert parts(svg)["words"]["href"] == 'a"b.html'


def test_every_catalogue_names_every_part() -> None:
    for path in (ROOT / "book" / "strings").glob("*.json"):
        words = json.loads(path.read_text("utf-8")).get("picture", WORDS)
        assert set(words) == {"alt", "lit", "here", *CHAPTERS}, path.name
        assert "{parts}" in words["lit"]
