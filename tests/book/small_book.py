"""A small copy of the book with two chapters that print, to try the build's rules on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOC = "format: jb-book\nroot: book/en/index\nchapters:\n- file: book/en/one\n"
CHAPTER = """---
jupytext: {{text_representation: {{extension: .md, format_name: myst}}}}
kernelspec: {{name: python3, display_name: Python 3, language: python}}
---
# {name}

```{{code-cell}} python
{code}
```
"""
ASSETS = """
def quiz_names():
    return []


def site_assets():
    return {"mha/loader.js": "", "mha/widgets.css": ""}
"""


def small_book(folder: Path) -> Path:
    """Make, in `folder`, a repository with this book's build, two chapters and a small library."""
    shutil.copytree(ROOT / "book", folder / "book", ignore=shutil.ignore_patterns("??"))
    shutil.copy(ROOT / "_config.yml", folder)
    (folder / "mha_lib" / "widgets").mkdir(parents=True)
    (folder / "mha_lib" / "__init__.py").write_text("ANSWER = 1\n")
    (folder / "mha_lib" / "widgets" / "assets.py").write_text(ASSETS)
    (folder / "book" / "en").mkdir()
    (folder / "book" / "en" / "index.md").write_text("# Index\n")
    (folder / "book" / "en" / "404.md").write_text(
        "---\norphan: true\nnosearch: true\n---\n# Missing\n"
    )
    (folder / "_toc.yml").write_text(TOC + "- file: book/en/two\n")
    for name in ("one", "two"):
        write_chapter(folder, name, f"print('{name} was run')")
    return folder


def write_chapter(book: Path, name: str, code: str) -> None:
    """Write a chapter of one cell."""
    (book / "book" / "en" / f"{name}.md").write_text(CHAPTER.format(name=name, code=code))


def run(book: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment in the small book."""
    # Nothing tells Python of this copy's mha_lib: the build must see to it by itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    program, *arguments = command.split()
    return subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=book,
        env=environment,
        capture_output=True,
        text=True,
    )


def build(book: Path) -> subprocess.CompletedProcess[str]:
    """Build the small book's site."""
    return run(book, "python -m book.build")
