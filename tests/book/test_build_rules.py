"""The build's rules, each tried on a small copy of the book.

A warning or a raising cell fails the build, a page that left the book leaves the site,
and only chapters are run.
"""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.book.small_book import TOC, build, run, small_book, write_chapter

pytestmark = pytest.mark.slow


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Return a repository with this book's build, two chapters that print, and a small library."""
    return small_book(tmp_path)


def release_exercise(book: Path, cell: str) -> Path:
    """Put an exercise with one code cell into exercises/, and into the table of contents."""
    folder = book / "exercises" / "build"
    folder.mkdir(parents=True)
    cells = [new_markdown_cell("# Exercise"), new_code_cell(cell)]
    metadata = {"language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=metadata), folder / "build.ipynb")
    (folder / "checks.json").write_text("{}")
    toc = (book / "_toc.yml").read_text()
    (book / "_toc.yml").write_text(toc + "- file: book/en/exercises/build/build\n")
    return folder


def test_a_page_that_left_the_book_leaves_the_site(book: Path) -> None:
    outcome = build(book)
    assert outcome.returncode == 0, outcome.stderr
    page = book / "_build" / "site" / "en" / "two.html"
    assert "two was run" in page.read_text("utf-8")
    (book / "book" / "en" / "two.md").unlink()
    (book / "_toc.yml").write_text(TOC)
    assert build(book).returncode == 0
    assert page.with_name("one.html").exists()
    assert not page.exists()


def test_a_book_of_many_pages_is_read_in_parallel_without_a_warning(book: Path) -> None:
    toc = book / "_toc.yml"
    for name in ("three", "four", "five", "six", "seven"):
        write_chapter(book, name, f"print('{name} was run')")
        toc.write_text(toc.read_text() + f"- file: book/en/{name}\n")
    assert build(book).returncode == 0


def test_one_page_of_many_that_cannot_be_written_fails_the_build(book: Path) -> None:
    toc = book / "_toc.yml"
    # Of more than ten pages Sphinx makes two tasks. It forgets that the first has failed, if that
    # was before the second, of the last and long pages, is ready.
    for number in range(13):
        text = f"# Page {number}\n" + "\n*A* paragraph.\n" * (4000 if number > 9 else 0)
        (book / "book" / "en" / f"page-{number:02}.md").write_text(text)
        toc.write_text(toc.read_text() + f"- file: book/en/page-{number:02}\n")
    assert build(book).returncode == 0
    chapter = book / "book" / "en" / "one.md"
    text = chapter.read_text() + "\n```{epigraph}\nWhich no notebook can show.\n```\n"
    chapter.write_text(text)
    outcome = build(book)
    assert outcome.returncode != 0
    assert "the directive {epigraph}" in outcome.stderr


@pytest.mark.parametrize("name", ["search", "my page"])
def test_a_page_that_the_site_cannot_keep_fails_the_build(book: Path, name: str) -> None:
    toc = book / "_toc.yml"
    toc.write_text(toc.read_text() + f"- file: book/en/{name}\n")
    (book / "book" / "en" / f"{name}.md").write_text("# A page\n")
    outcome = build(book)
    assert outcome.returncode != 0
    assert f"the page '{name}' cannot be called so" in outcome.stderr


def test_an_edited_library_runs_chapters_again(book: Path) -> None:
    write_chapter(book, "one", "import mha_lib\nprint('the answer is', mha_lib.ANSWER)")
    page = book / "_build" / "site" / "en" / "one.html"
    for answer in (1, 2):
        (book / "mha_lib" / "__init__.py").write_text(f"ANSWER = {answer}\n")
        assert build(book).returncode == 0
        assert f"the answer is {answer}" in page.read_text("utf-8")


def test_a_raising_cell_fails_the_build_and_is_shown(book: Path) -> None:
    write_chapter(book, "two", "raise LookupError('wrong on purpose')")
    outcome = build(book)
    assert outcome.returncode != 0
    assert "wrong on purpose" in outcome.stderr
    assert not (book / "_build" / "site").exists()


def test_a_failed_build_leaves_the_site_as_it_was(book: Path) -> None:
    assert build(book).returncode == 0
    page = book / "_build" / "site" / "en" / "one.html"
    before = page.read_text("utf-8")
    write_chapter(book, "one", "raise LookupError('wrong on purpose')")
    assert build(book).returncode != 0
    assert page.read_text("utf-8") == before
    write_chapter(book, "one", "print('mended')")
    assert build(book).returncode == 0
    assert "mended" in page.read_text("utf-8")
    assert {path.name for path in page.parents[2].glob("site*")} == {"site"}


def test_a_missing_word_of_the_site_fails_the_build_and_is_named(book: Path) -> None:
    words = book / "book" / "strings" / "en.json"
    text = words.read_text("utf-8")
    words.write_text(text.replace('"download": "Download', '"load": "Download'), "utf-8")
    outcome = build(book)
    assert outcome.returncode != 0
    assert "'notebook' in book/strings/en.json has no 'download'" in outcome.stderr


@pytest.mark.parametrize("flaw", ["{nothing}`here`", "{ref}`nowhere`", "{cite}`nobody`"])
def test_a_warning_fails_the_build_each_time(book: Path, flaw: str) -> None:
    (book / "book" / "en" / "index.md").write_text(f"# Index\n\n{flaw}\n")
    for _ in range(2):
        assert build(book).returncode != 0


def test_an_exercise_is_shown_and_not_run(book: Path) -> None:
    ran = book / "ran"
    release_exercise(book, f"open({str(ran)!r}, 'w').close()")
    for command in ("python -m book.build", "jupyter-book build . -W -n --keep-going"):
        outcome = run(book, command)
        assert outcome.returncode == 0, outcome.stderr
    for edition in (book / "_build" / "site" / "en", book / "_build" / "html" / "book" / "en"):
        page = (edition / "exercises" / "build" / "build.html").read_text("utf-8")
        assert "Work it in Jupyter" in page
        assert str(ran) in page
    assert not ran.exists()


def test_an_edited_extension_has_pages_read_again(book: Path) -> None:
    release_exercise(book, "1")
    page = book / "_build" / "site" / "en" / "exercises" / "build" / "build.html"
    extension = book / "book" / "extensions" / "course_exercises.py"
    for title in ("Work it in Jupyter", "Do it in Jupyter"):
        extension.write_text(extension.read_text().replace("Work it in Jupyter", title))
        assert build(book).returncode == 0
        assert title in page.read_text("utf-8")


def test_an_exercise_is_in_the_table_of_contents_or_the_build_fails(book: Path) -> None:
    folder = release_exercise(book, "1")
    toc = (book / "_toc.yml").read_text()
    (book / "_toc.yml").write_text(TOC + "- file: book/en/two\n")
    assert build(book).returncode != 0
    (book / "_toc.yml").write_text(toc)
    assert build(book).returncode == 0
    shutil.rmtree(folder)
    assert build(book).returncode != 0


def test_an_exercise_that_was_taken_back_leaves_the_site(book: Path) -> None:
    folder = release_exercise(book, "1")
    assert build(book).returncode == 0
    page = book / "_build" / "site" / "en" / "exercises" / "build" / "build.html"
    assert page.exists()
    shutil.rmtree(folder)
    (book / "_toc.yml").write_text(TOC + "- file: book/en/two\n")
    outcome = build(book)
    assert outcome.returncode == 0, outcome.stderr
    assert not page.exists()


def test_jupyter_book_in_the_root_runs_chapters_only(book: Path) -> None:
    ran = book / "ran"
    for folder in (".", ".venv/share", "autograded/a", "exercises", "solutions", "submitted/a"):
        (book / folder).mkdir(parents=True, exist_ok=True)
        cell = new_code_cell(f"open({str(ran)!r}, 'w').close()")
        nbformat.write(new_notebook(cells=[cell]), book / folder / "stray.ipynb")
    outcome = run(book, "jupyter-book build . -W -n --keep-going")
    assert outcome.returncode == 0, outcome.stderr
    html = book / "_build" / "html"
    assert "one was run" in (html / "book" / "en" / "one.html").read_text("utf-8")
    assert (html / "index.html").exists()
    assert not ran.exists()
    assert not list(html.rglob("stray*"))
