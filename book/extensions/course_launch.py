"""Sphinx extension: buttons that open a page's code elsewhere, where the repository is known.

Binder makes a machine of the whole repository, so it opens chapters and exercises. Colab opens
only .ipynb files, so it is offered for exercises alone: a chapter is MyST Markdown there. With
course_repository empty in _config.yml there are no such buttons.
"""

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import course_address
from course_strings import strings
from sphinx.application import Sphinx

BINDER = "https://mybinder.org/v2/{repository}/{branch}?urlpath={page}"
COLAB = "https://colab.research.google.com/github/{repository}/blob/{branch}/{path}"


def binder_address(repository: str, path: str) -> str:
    """Return where Binder opens a file of a repository.

    >>> binder_address("https://github.com/a/b", "book/en/masking.md")
    'https://mybinder.org/v2/gh/a/b/main?urlpath=notebooks/book/en/masking.md%3Ffactory%3DNotebook'
    """
    parts = urlsplit(repository)
    name = parts.path.strip("/")
    if parts.hostname == "github.com":
        where = f"gh/{name}"
    elif parts.hostname == "gitlab.com":
        where = f"gl/{quote(name, safe='')}"
    else:
        where = f"git/{quote(repository, safe='')}"
    # JupyterLab would open a chapter as text; Jupyter Notebook can be told how by its address.
    page = f"notebooks/{path}" + ("" if path.endswith(".ipynb") else "?factory=Notebook")
    return BINDER.format(repository=where, branch=course_address.BRANCH, page=quote(page))


def colab_address(repository: str, path: str) -> str:
    """Return where Colab opens a file of a repository; empty where it cannot.

    >>> colab_address("https://github.com/a/b", "book/en/masking.md")
    ''
    """
    parts = urlsplit(repository)
    if parts.hostname != "github.com" or not path.endswith(".ipynb"):
        return ""
    name = parts.path.strip("/")
    return COLAB.format(repository=name, branch=course_address.BRANCH, path=quote(path))


def buttons(
    repository: str, path: str, is_notebook: bool, language: str = "en"
) -> list[dict[str, Any]]:
    """Return the theme's buttons for a page: to launch its code, and to see its source.

    >>> buttons("", "book/en/masking.md", is_notebook=True)
    []
    """
    if not repository:
        return []
    words = strings(language, "launch")
    launch = {"Binder": binder_address(repository, path), "Colab": colab_address(repository, path)}
    links = [
        {
            "type": "link",
            "text": name,
            "tooltip": words["run_on"].format(name=name),
            "icon": f"_static/images/logo_{name.lower()}.{'png' if name == 'Colab' else 'svg'}",
            "url": address,
        }
        for name, address in launch.items()
        if address and is_notebook
    ]
    group = {
        "type": "group",
        "tooltip": words["elsewhere"],
        "icon": "fas fa-rocket",
        "buttons": links,
        "label": "launch-buttons",
    }
    source = {
        "type": "link",
        "tooltip": words["source"],
        "icon": "fas fa-code-branch",
        "url": course_address.of_source(repository, path),
        "label": "source-file-button",
        "classes": "pst-navbar-icon",
    }
    return [group, source] if links else [source]


def add_buttons(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the buttons before those of the theme."""
    if doctree is None:
        return
    path = course_address.source_path(app.env, pagename)
    is_notebook = Path(path).suffix == ".ipynb" or "kernelspec" in app.env.metadata[pagename]
    config = app.config
    made = buttons(config.course_repository, path, is_notebook, config.language)
    context["header_buttons"] = made + context["header_buttons"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    # After sphinx_book_theme, at 501, has made its buttons.
    app.connect("html-page-context", add_buttons, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
