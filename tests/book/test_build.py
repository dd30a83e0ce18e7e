"""What the book's build promises about its sources and its output."""

import fcntl
import re
import threading
from pathlib import Path

import pytest
import yaml
from course_execution import library_hash
from fontTools.ttLib import TTFont

from book import build
from tests.book.built_pages import parsed

ROOT = Path(__file__).resolve().parents[2]

LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


def pages_on_disk() -> set[str]:
    """Return every chapter and every exercise's notebook, as a page of the English edition."""
    chapters = [path.relative_to(ROOT / "book" / "en") for path in ROOT.glob("book/en/*.md")]
    exercises = [path.relative_to(ROOT) for path in ROOT.glob("exercises/*/*.ipynb")]
    assert chapters
    assert exercises
    return {path.with_suffix("").as_posix() for path in [*chapters, *exercises]}


def test_table_of_contents_lists_every_page() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    listed = [toc["root"]]
    for chapter in toc["chapters"]:
        listed += [entry["file"] for entry in (chapter, *chapter.get("sections", []))]
    assert len(listed) == len(set(listed))
    pages = pages_on_disk() - {"404"}  # shown where a page is missing, and listed nowhere
    assert set(listed) == {f"book/en/{page}" for page in pages}


def test_site_has_every_page_and_no_other(site: Path) -> None:
    english = site / "en"
    pages = [path.relative_to(english).with_suffix("") for path in english.rglob("*.html")]
    built = {page.as_posix() for page in pages if page.parts[0] != "_static"}
    assert built == pages_on_disk() | {"search"}


def test_pages_load_only_files_of_the_site(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        for element in parsed(page).find_all(LOADED):
            address = str(element.get(LOADED[element.name], "")).split("?")[0].split("#")[0]
            if address and not address.startswith("data:"):
                folder = site if address.startswith("/") else page.parent
                assert (folder / address.lstrip("/")).is_file(), f"{page.name} loads {address}"


def test_the_page_for_missing_pages_leads_to_pages_from_anywhere(site: Path) -> None:
    page = site / "en" / "404.html"
    assert (site / "404.html").read_bytes() == page.read_bytes()
    links = [str(link["href"]).partition("#")[0] for link in parsed(page).select("a[href]")]
    assert "/en/index.html" in links
    for link in filter(None, links):
        assert link.startswith("/en/"), link
        assert (site / link.lstrip("/")).is_file(), link
    assert "There is no such page" not in (site / "en" / "searchindex.js").read_text("utf-8")


def test_stylesheets_load_only_files_of_the_site(site: Path) -> None:
    for sheet in site.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?([^'\")]+)", sheet.read_text("utf-8")):
            # The theme names each icon font a second time, as .ttf for browsers that cannot
            # read .woff2. There is none left that could run the demos, so the site has no .ttf.
            if not address.startswith("data:") and not address.endswith(".ttf"):
                assert (sheet.parent / address).is_file(), f"{sheet.name} loads {address}"


def test_icon_script_is_gone_and_icon_fonts_are_small(site: Path) -> None:
    static = site / "en" / "_static"
    assert not list(static.rglob("fontawesome.js"))
    fonts = list(static.glob("vendor/fontawesome/webfonts/*"))
    assert fonts
    assert sum(font.stat().st_size for font in fonts) < 20_000


def test_icon_fonts_keep_their_licence_and_not_their_reserved_name(site: Path) -> None:
    folder = site / "en" / "_static" / "vendor" / "fontawesome"
    licence = (folder / "LICENSE.txt").read_text("utf-8")
    assert "SIL OPEN FONT LICENSE" in licence
    assert 'Reserved Font Name: "Font Awesome"' in licence
    for path in folder.glob("webfonts/*"):
        names = TTFont(path)["name"].names
        assert [str(name) for name in names if name.nameID == 0] == ["Copyright (c) Font Awesome"]
        shown = [str(name) for name in names if name.nameID in (1, 3, 4, 6, 16, 18)]
        assert not [name for name in shown if "awesome" in name.lower()]


def test_every_page_names_itself_and_the_course(site: Path) -> None:
    titles = [
        re.search("<title>(.*)</title>", page.read_text("utf-8"))[1]
        for page in site.glob("en/**/*.html")
        if "_static" not in page.parts
    ]
    course = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    assert titles
    assert all(title.endswith(course) and title.count(course) == 1 for title in titles)
    assert f"<title>{course}</title>" in (site / "index.html").read_text("utf-8")


def test_a_second_build_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "BUILD", tmp_path)
    began = threading.Event()

    def second() -> None:
        with build.one_at_a_time():
            began.set()

    waiting = threading.Thread(target=second)
    with (tmp_path / ".lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        waiting.start()
        assert not began.wait(0.2)
    waiting.join(timeout=10)
    assert began.is_set()
    assert "another build is running" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_said_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file in its place refuses the administrator too, whom no permission stops.
    in_the_way = tmp_path / "_build"
    in_the_way.touch()
    monkeypatch.setattr(build, "BUILD", in_the_way)
    with pytest.raises(SystemExit, match=f"{in_the_way}.*May you write"):
        build.main()


@pytest.mark.parametrize(
    ("name", "runs_again"),
    [("a.py", True), ("data/weights.json", True), ("js/a.js", False), ("css/a.css", False)],
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
