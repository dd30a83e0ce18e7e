"""The whole book as a PDF: every chapter's text, a bookmark for each, no demo that is blank."""

import shutil
import unicodedata
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from book import pdf
from tests.browser.pdf_text import PdfText, read_pdf

pytestmark = pytest.mark.slow


def squeezed(text: str) -> str:
    """Return a text without its spaces, and with ligatures as letters."""
    return "".join(unicodedata.normalize("NFKC", text).split())


@pytest.fixture(scope="module")
def edition(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the English edition that has been printed."""
    copy = tmp_path_factory.mktemp("site") / "en"
    shutil.copytree(site / "en", copy, ignore=shutil.ignore_patterns(pdf.NAME))
    assert pdf.print_edition(copy, "en") == copy / pdf.NAME
    return copy


@pytest.fixture(scope="module")
def printed(edition: Path) -> PdfText:
    return read_pdf((edition / pdf.NAME).read_bytes())


def heading(edition: Path, page: str) -> str:
    parsed = BeautifulSoup((edition / f"{page}.html").read_text("utf-8"), "html.parser")
    title = parsed.select_one("article h1")
    title.select_one(".headerlink").extract()
    return title.get_text().strip()


def test_every_page_of_the_book_is_in_it_in_order(edition: Path, printed: PdfText) -> None:
    pages = pdf.pages_in_order(edition)
    built = {path.stem for path in edition.glob("*.html")} - {"404", "search"}
    assert {page for page in pages if "/" not in page} == built
    titles = [heading(edition, page) for page in pages]
    marks = iter(printed.bookmarks)
    assert [title for title in titles if title not in marks] == []  # each behind the last
    # Each begins behind the last. A list's numbers, in its margin, may be written before a sheet's
    # heading; and a title's words may stand in the text of another chapter.
    sheets = enumerate(map(squeezed, printed.pages))
    starts = []
    for title in titles:
        start = next((at for at, text in sheets if 0 <= text.find(squeezed(title)) < 60), None)
        assert start is not None, f"{title!r} begins no sheet behind the chapter before it"
        starts.append(start)
    assert starts[0] == 1  # after the title page
    assert "The attention course" in printed.pages[0]


def test_a_bookmark_says_its_headings_formula(printed: PdfText) -> None:
    assert "What WO does" in printed.bookmarks
    assert "−∞, not a large number" in printed.bookmarks
    assert "What happens if I leave out the scale 1/√dk?" in printed.bookmarks


def test_sheets_are_numbered_and_full(printed: PdfText) -> None:
    assert 60 <= len(printed.pages) <= 300
    for number, text in enumerate(printed.pages, start=1):
        assert text.endswith(str(number)), f"sheet {number}"
        assert number == 1 or len(text) > 20, f"sheet {number} is empty"


def test_each_demo_is_drawn_as_it_opens(edition: Path, printed: PdfText) -> None:
    text = squeezed("".join(printed.pages))
    assert squeezed("You just saw: in head 2 (meaning)") in text
    demos = sum(
        len(BeautifulSoup(path.read_text("utf-8"), "html.parser").select(".mha-demo"))
        for path in edition.glob("*.html")
    )
    assert demos >= 16
    assert "Showcodecell" not in text
    assert text.count("Checkyourself") >= 16  # each chapter's heading, and its quiz's own


def test_the_start_page_offers_it_once(edition: Path) -> None:
    pdf.offer(edition, "en")
    page = BeautifulSoup((edition / "index.html").read_text("utf-8"), "html.parser")
    links = page.select(f'article a[href="{pdf.NAME}"]')
    assert len(links) == 1
    assert not (edition / pdf.WHOLE).exists()


def test_a_demo_that_does_not_start_is_named(site: Path, tmp_path: Path) -> None:
    edition = tmp_path / "en"
    shutil.copytree(site / "en", edition)
    (edition / "_static" / "mha" / "mask_grid.js").unlink()
    (edition / pdf.NAME).unlink(missing_ok=True)
    with pytest.raises(pdf.Unprintable, match="mask_painter"):
        pdf.print_edition(edition, "en")
    assert not (edition / pdf.NAME).exists()
