"""Buttons that open a page's code elsewhere: right for each host, absent without a repository."""

import json
import shutil
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from course_launch import binder_address, buttons, colab_address

from tests.book.built_pages import parsed
from tests.book.small_book import build, small_book

CHAPTER = "book/en/masking.md"
EXERCISE = "exercises/multi-head/multi-head.ipynb"
GITHUB = "https://github.com/a/b"


def offered(repository: str, path: str, is_notebook: bool = True) -> dict[str, str]:
    """Return what the buttons say, and where they lead."""
    made = buttons(repository, path, is_notebook)
    flat = [each for button in made for each in button.get("buttons", [button])]
    return {each.get("text", each["tooltip"]): each["url"] for each in flat}


def test_without_a_repository_there_are_none() -> None:
    assert offered("", EXERCISE) == {}


def test_a_chapter_runs_on_binder_and_an_exercise_on_colab_too() -> None:
    source = {"Source of this page": f"{GITHUB}/blob/main/{CHAPTER}"}
    assert offered(GITHUB, CHAPTER) == source | {"Binder": binder_address(GITHUB, CHAPTER)}
    assert set(offered(GITHUB, EXERCISE)) == {"Binder", "Colab", "Source of this page"}
    assert offered(GITHUB, CHAPTER, is_notebook=False) == source


def test_addresses_follow_the_host() -> None:
    end = f"main?urlpath=notebooks/{CHAPTER}%3Ffactory%3DNotebook"
    assert binder_address(GITHUB, CHAPTER) == f"https://mybinder.org/v2/gh/a/b/{end}"
    assert binder_address("https://gitlab.com/g/a/b", CHAPTER).endswith(f"/v2/gl/g%2Fa%2Fb/{end}")
    elsewhere = binder_address("https://git.example.org/a/b", CHAPTER)
    assert elsewhere.endswith(f"/v2/git/https%3A%2F%2Fgit.example.org%2Fa%2Fb/{end}")
    assert binder_address(GITHUB, EXERCISE).endswith(f"urlpath=notebooks/{EXERCISE}")
    colab = "https://colab.research.google.com/github/a/b/blob/main/"
    assert colab_address(GITHUB, EXERCISE) == colab + EXERCISE
    assert colab_address("https://gitlab.com/a/b", EXERCISE) == ""


def test_the_site_as_it_is_set_names_no_repository(site: Path) -> None:
    for path in (site / "en").rglob("*.html"):
        assert not parsed(path).select(".dropdown-launch-buttons, .btn-source-file-button"), path


@pytest.mark.slow
def test_a_set_repository_reaches_every_page_and_notebook(tmp_path: Path) -> None:
    book = small_book(tmp_path)
    config = book / "_config.yml"
    text = config.read_text("utf-8")
    config.write_text(
        text.replace('course_repository: ""', f"course_repository: {GITHUB}"), "utf-8"
    )
    (book / "exercises").mkdir()
    shutil.copytree(
        Path(__file__).resolve().parents[2] / "exercises" / "multi-head",
        book / "exercises" / "multi-head",
    )
    # The small book's mha_lib has no demos.
    notebook = book / "exercises" / "multi-head" / "multi-head.ipynb"
    content = json.loads(notebook.read_text("utf-8"))
    content["cells"] = [c for c in content["cells"] if "demo" not in c["metadata"].get("tags", [])]
    notebook.write_text(json.dumps(content), "utf-8")
    toc = book / "_toc.yml"
    toc.write_text(toc.read_text() + "- file: book/en/exercises/multi-head/multi-head\n")
    assert build(book).returncode == 0
    pages = book / "_build" / "site" / "en"
    for name, names in (("one", ["Binder"]), ("exercises/multi-head/multi-head", None)):
        page = BeautifulSoup((pages / f"{name}.html").read_text("utf-8"), "html.parser")
        links = page.select(".dropdown-launch-buttons a")
        shown = [link.get_text().strip() for link in links]
        assert shown == (names or ["Binder", "Colab"])
        for picture in page.select(".dropdown-launch-buttons img"):
            assert (pages / name).parent.joinpath(str(picture["src"])).is_file()
        assert str(page.select_one(".btn-source-file-button")["href"]).startswith(GITHUB)
    notebook = (pages / "notebooks" / "one.ipynb").read_text("utf-8")
    assert f"git clone {GITHUB}" in notebook
