"""Builds the site: `python -m book.build`.

It builds every edition of the book, and a start page that opens the reader's.
An edition is a folder of `book/` with an index.md, named by its language. They share
_config.yml, _toc.yml (written for English) and the cache of executed chapters, so code
that is the same in two editions runs once. A warning is an error, and an error leaves the
site as it was.
"""

import contextlib
import fcntl
import gc
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sphinx.util.console import color_terminal, nocolor

from book.places import BOOK, BUILD, LANGUAGES, ROOT, SITE
from book.spared import spare_needless_work


def editions() -> list[str]:
    """Return the languages there is a book in, English first."""
    return [language for language in LANGUAGES if (BOOK / language / "index.md").exists()]


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for another build of this clone to end: two would write into the same files."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("book.build: another build is running; waiting for it to end", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_edition(language: str) -> Path:
    """Build one edition and return its folder; exit when it has an error or a warning."""
    print(f"book.build: {language}", flush=True)
    work = BUILD / "editions" / language
    work.mkdir(parents=True, exist_ok=True)
    # A page that left the book must leave the site: nothing is written over old output.
    remove(work / "html")
    toc = work / "_toc.yml"
    toc.write_text((ROOT / "_toc.yml").read_text("utf-8").replace("book/en/", ""), "utf-8")
    spare_needless_work()
    # Here, and not above: what it loads takes a second, and is to be spared the needless first.
    from jupyter_book.sphinx import build_sphinx

    failed = build_sphinx(
        BOOK / language,
        work / "html",
        path_config=ROOT / "_config.yml",
        noconfig=True,
        confoverrides={
            "external_toc_path": str(toc),
            "include_patterns": ["**"],
            "language": language,
            "latex_individualpages": False,
            "nitpicky": True,
        },
        warningiserror=True,
        keep_going=True,
        quiet=True,
        jobs=os.cpu_count(),
    )
    if failed:
        # Sphinx warns of a page only when it reads it: kept, it would pass the next time.
        shutil.rmtree(work)
        sys.exit(f"book.build: the {language} edition has errors or warnings; see above")
    return work / "html"


def start_page(languages: list[str]) -> str:
    """Return the site's first page, which opens the first of `languages` the reader reads."""
    links = "".join(
        f'<li><a lang="{code}" href="{code}/index.html">{LANGUAGES[code]}</a></li>'
        for code in languages
    )
    page = (BOOK / "start.html").read_text("utf-8")
    return page.replace("<!-- links -->", links).replace('["en"]', json.dumps(languages))


def remove(folder: Path) -> None:
    """Remove a folder with all it holds, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)


def build_site() -> None:
    """Build every edition, then put them in the old site's place."""
    languages = editions()
    folders = {language: build_edition(language) for language in languages}
    aside, old = BUILD / "site.new", BUILD / "site.old"
    remove(aside)
    aside.mkdir()
    for language, folder in folders.items():
        folder.rename(aside / language)
    (aside / "index.html").write_text(start_page(languages), "utf-8")
    # Where a server looks for it. Its addresses are absolute, so it works there too.
    shutil.copy(aside / languages[0] / "404.html", aside)
    remove(old)
    if SITE.exists():
        SITE.rename(old)
    aside.rename(SITE)
    remove(old)
    print(f"book.build: {SITE / 'index.html'}")


def main() -> None:
    """Build the whole site anew."""
    if not color_terminal():
        nocolor()
    try:
        with one_at_a_time():
            build_site()
    except OSError as refused:
        sys.exit(f"book.build: {refused}. May you write into {BUILD}, and is there room?")


if __name__ == "__main__":
    # What a build leaves unused is given back at its end; to look for it takes a tenth of the time.
    gc.disable()
    main()
