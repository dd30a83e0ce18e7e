"""What the book's build promises about its sources and its output."""

import re
import sys
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "book" / "extensions"))  # as _config.yml does
from course_execution import library_hash  # noqa: E402  (needs the line above)

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


def chapters_on_disk() -> set[str]:
    return {path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob("book/en/*.md")}


def test_table_of_contents_lists_every_chapter() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    listed = [toc["root"], *(entry["file"] for entry in toc["chapters"])]
    assert len(listed) == len(set(listed))
    assert set(listed) == chapters_on_disk()


def test_site_has_a_page_for_every_chapter_and_no_other(site: Path) -> None:
    wanted = {Path(chapter).name for chapter in chapters_on_disk()} | {"search"}
    assert {path.stem for path in (site / "en").glob("*.html")} == wanted


def test_pages_load_only_files_of_the_site(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        for element in BeautifulSoup(page.read_text("utf-8"), "html.parser").find_all(LOADED):
            address = str(element.get(LOADED[element.name], "")).split("?")[0].split("#")[0]
            if address and not address.startswith("data:"):
                assert (page.parent / address).is_file(), f"{page.name} loads {address}"


def test_stylesheets_load_only_files_of_the_site(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?([^'\")]+)", sheet.read_text("utf-8")):
            if not address.startswith("data:") and not address.endswith(".ttf"):
                assert (sheet.parent / address).is_file(), f"{sheet.name} loads {address}"


def test_icon_script_is_gone_and_icon_fonts_are_small(site: Path) -> None:
    static = site / "en" / "_static"
    assert not list(static.rglob("fontawesome.js"))
    fonts = list(static.glob("vendor/fontawesome/webfonts/*"))
    assert fonts
    assert sum(font.stat().st_size for font in fonts) < 20_000


@pytest.mark.parametrize(
    ("name", "runs_again"),
    [("a.py", True), ("data/weights.json", True), ("js/a.js", False), ("js/a.css", False)],
)
def test_cache_follows_what_can_change_an_output(
    tmp_path: Path, name: str, runs_again: bool
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("1")
    before = library_hash(tmp_path)
    path.write_text("2")
    assert (library_hash(tmp_path) != before) is runs_again
