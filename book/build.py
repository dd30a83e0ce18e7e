"""Builds the site: `python -m book.build`.

It builds every edition of the book, and a start page that opens the reader's.
An edition is a folder of `book/` with an index.md, named by its language. They share
_config.yml, _toc.yml (written for English) and the cache of executed chapters, so code
that is the same in two editions runs once. A warning is an error.
"""

import json
import os
import shutil
import sys
from pathlib import Path

from jupyter_book.sphinx import build_sphinx
from sphinx.util.console import color_terminal, nocolor

BOOK = Path(__file__).resolve().parent
ROOT = BOOK.parent
BUILD = ROOT / "_build"
SITE = BUILD / "site"
LANGUAGES = {"en": "English", "vi": "Tiếng Việt", "ms": "Bahasa Melayu"}


def editions() -> list[str]:
    """Return the languages there is a book in, English first."""
    return [language for language in LANGUAGES if (BOOK / language / "index.md").exists()]


def build_edition(language: str) -> None:
    """Build one edition into the site; exit when it has an error or a warning."""
    print(f"book.build: {language}", flush=True)
    work = BUILD / "editions" / language
    work.mkdir(parents=True, exist_ok=True)
    # A page that left the book must leave the site: nothing is written over old output.
    shutil.rmtree(work / "html", ignore_errors=True)
    toc = work / "_toc.yml"
    toc.write_text((ROOT / "_toc.yml").read_text("utf-8").replace("book/en/", ""), "utf-8")
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
    (work / "html").rename(SITE / language)


def write_start_page(languages: list[str]) -> None:
    """Write the site's first page, which opens the first of `languages` the reader reads."""
    links = "".join(
        f'<li><a lang="{code}" href="{code}/index.html">{LANGUAGES[code]}</a></li>'
        for code in languages
    )
    page = (BOOK / "start.html").read_text("utf-8")
    page = page.replace("<!-- links -->", links).replace('["en"]', json.dumps(languages))
    (SITE / "index.html").write_text(page, "utf-8")


def main() -> None:
    """Build the whole site anew."""
    if not color_terminal():
        nocolor()
    shutil.rmtree(SITE, ignore_errors=True)
    SITE.mkdir(parents=True)
    languages = editions()
    for language in languages:
        build_edition(language)
    write_start_page(languages)
    print(f"book.build: {SITE / 'index.html'}")


def built_site() -> Path:
    """Return the site's folder, and build the site first when it is not there."""
    if not (SITE / "index.html").exists():
        main()
    return SITE


if __name__ == "__main__":
    main()
