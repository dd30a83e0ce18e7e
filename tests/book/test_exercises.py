"""Exercises as pages of the book: what is shown is what is released, and only demos are live."""

import zipfile
from functools import cache
from pathlib import Path

import nbformat
import pytest

from tests.book.built_pages import parsed

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(ROOT.glob("exercises/*/*.ipynb"))

pytestmark = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def page_of(site: Path, notebook: Path) -> Path:
    return (site / "en" / notebook.relative_to(ROOT)).with_suffix(".html")


@cache
def links_of_chapters(site: Path) -> set[str]:
    return {
        str(link["href"])
        for chapter in (site / "en").glob("*.html")
        for link in parsed(chapter).select("article p a.internal")
    }


def test_the_page_shows_each_code_cell_and_no_output_but_the_demo(
    site: Path, notebook: Path
) -> None:
    page = parsed(page_of(site, notebook))
    cells = nbformat.read(notebook, as_version=4).cells
    shown = [cell.get_text().strip() for cell in page.select(".cell_input pre")]
    assert shown == [cell.source for cell in cells if cell.cell_type == "code"]
    (output,) = page.select(".cell_output")
    assert len(output.select(".mha-demo")) == 1
    (demo,) = page.select(".cell.tag_demo")
    assert output in demo.select(".cell_output")


def test_the_download_menu_offers_no_notebook_without_its_checks(
    site: Path, notebook: Path
) -> None:
    page = parsed(page_of(site, notebook))
    assert page.select(".btn-download-pdf-button")
    assert not page.select(".btn-download-source-button")
    assert not [link for link in page.select("a[href]") if str(link["href"]).endswith(".ipynb")]


def test_the_page_says_how_to_install_the_course(site: Path, notebook: Path) -> None:
    assert (
        'pip install ".[widgets]"'
        in parsed(page_of(site, notebook)).select_one("article").get_text()
    )


def test_the_page_offers_all_that_is_released_in_one_file(site: Path, notebook: Path) -> None:
    page = page_of(site, notebook)
    link = parsed(page).select_one("article a.download")
    with zipfile.ZipFile(page.parent / str(link["href"])) as archive:
        offered = {name: archive.read(name) for name in archive.namelist()}
    folder = notebook.parent
    assert f"{folder.name}/checks.json" in offered
    assert offered == {
        f"{folder.name}/{path.name}": path.read_bytes()
        for path in folder.iterdir()
        if path.is_file()
    }


def test_a_chapter_leads_to_the_page(site: Path, notebook: Path) -> None:
    page = page_of(site, notebook).relative_to(site / "en").as_posix()
    assert page in links_of_chapters(site)
