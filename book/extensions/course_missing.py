"""Sphinx extension: the page for an address that is not there works at any address.

A server shows it in the place of whatever was asked for, at any depth, so a relative address on
it would lead anywhere. Each becomes absolute, counted from where the site is served.
"""

import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx

PAGE = "404"
ADDRESS = re.compile(r'\b(href|src|action|data-content_root)="(?![a-z]+:|[/#])([^"]*)"')


def rooted(html: str, folder: str) -> str:
    """Return a page whose relative addresses are counted from `folder`, itself absolute.

    >>> rooted('<a href="masking.html#code">', "/en/")
    '<a href="/en/masking.html#code">'
    >>> rooted('<a href="../index.html" id="a"><a href="#here">', "/book/en/")
    '<a href="/book/index.html" id="a"><a href="#here">'
    """

    def absolute(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, found[2]))
        slash = "/" if found[2].endswith("/") and path != "/" else ""
        return f'{found[1]}="{path}{slash}"'

    return ADDRESS.sub(absolute, html)


def make_absolute(app: Sphinx, exception: Exception | None) -> None:
    """Rewrite the addresses of the built page."""
    if exception or app.builder.format != "html":
        return
    root = urlsplit(app.config.course_site).path or "/"
    out = Path(app.outdir)
    for page in out.rglob(f"{PAGE}.html"):
        folder = page.parent.relative_to(out).as_posix()
        # An edition is served in a folder of its own; the root's book has it in its pages' paths.
        edition = app.config.language if folder == "." else folder
        page.write_text(rooted(page.read_text("utf-8"), f"{root}{edition}/"), "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("build-finished", make_absolute)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
