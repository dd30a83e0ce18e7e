"""Sphinx extension: shows the released exercises as pages of the book.

An exercise lies in exercises/NAME/, outside the book. Its notebooks are laid into the edition's
folder before the table of contents is read, so that chapters link to them as to any page. They
are shown, not run: a student has still to write the answers. Only a cell with the tag `demo`, which
names one of the library's demos, shows it live. Each page says how to work the exercise in Jupyter,
and offers the folder's files, packed together: a notebook alone cannot check anything.
"""

import ast
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "exercises"
DEMO_TAG = "demo"
NOTE = """```{{admonition}} Work it in Jupyter
:class: note
There each check answers at once; this page only shows the exercise.

- In a clone of the course, run `.venv/bin/jupyter lab` and open `{notebook}` in the folder
  `{folder}`.
- Or download {{download}}`{name}.zip`, unpack it, and open the notebook in your own Jupyter. Run
  `pip install ".[widgets]"` once, in the folder of the clone and with that Jupyter's `pip`: it
  brings `check` and the demos.
  Leave `checks.json` beside the notebook: that is what the checks compare with.
```"""


def lay_in(app: Sphinx, config: Config) -> None:
    """Copy each exercise's notebooks into the edition's folder, and pack its files."""
    pages = ROOT / "book" / config.language / FOLDER
    wanted = set()
    # Not the hidden folders, where a release is being made.
    for notebook in sorted((ROOT / FOLDER).glob("[!.]*/*.ipynb")):
        page = pages / notebook.relative_to(ROOT / FOLDER)
        page.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(notebook, page)  # with its time: Sphinx reads again what is newer
        archive = page.parent / f"{page.parent.name}.zip"
        pack(notebook.parent, archive)
        wanted |= {page, archive}
    for old in [path for path in pages.rglob("*") if path.is_file() and path not in wanted]:
        old.unlink()


def pack(folder: Path, archive: Path) -> None:
    """Write the files of `folder` into a zip archive, under the folder's own name.

    An archive that holds the same already is left alone: Sphinx would read its page again.
    """
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.iterdir()):
            if path.is_file():
                # The same bytes each time: no date, and no owner's permissions.
                member = zipfile.ZipInfo(f"{folder.name}/{path.name}")
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                packed.writestr(member, path.read_bytes())
    if not archive.exists() or archive.read_bytes() != written.getvalue():
        archive.write_bytes(written.getvalue())


def is_exercise(page: Path) -> bool:
    """Tell whether this source of a page is a notebook that was laid in."""
    return page.suffix == ".ipynb" and page.parent.parent.name == FOLDER


def prepare_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the note after a laid-in notebook's first cell and show its demos, on the page only."""
    path = Path(app.env.doc2path(docname))
    if not is_exercise(path):
        return
    notebook = json.loads(source[0])
    name = path.parent.name
    text = NOTE.format(folder=f"{FOLDER}/{name}", notebook=path.name, name=name)
    cell = {"cell_type": "markdown", "id": "how-to-open", "metadata": {}, "source": text}
    notebook["cells"].insert(1, cell)
    for cell in notebook["cells"]:
        if DEMO_TAG in cell["metadata"].get("tags", []):
            show_demo(cell, path.name)
    source[0] = json.dumps(notebook)


def show_demo(cell: dict[str, Any], notebook: str) -> None:
    """Give a demo cell what it shows in Jupyter as its output, and fold its code as chapters do.

    Raises:
        ExtensionError: when the cell does not name one of the demos, with values that it takes.
    """
    # Here, and not above, so that books without a demo need no widgets.
    from mha_lib import widgets

    text = "".join(cell["source"])
    try:
        call = ast.parse(text).body[-1].value  # type: ignore[attr-defined]
        inputs = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        data = getattr(widgets, call.args[0].value)(**inputs)._repr_mimebundle_()
    except Exception as refused:
        raise ExtensionError(
            f"{notebook}: the demo cell {text!r} shows no demo: {refused}; it should end with "
            'demo("NAME", input=value), a demo of mha_lib.widgets and plain values for its inputs'
        ) from refused
    cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    cell["metadata"]["tags"] = [*cell["metadata"]["tags"], "hide-input"]


def offer_no_notebook_alone(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Take the notebook out of the theme's download menu: without checks.json it is no use."""
    if doctree is None or not is_exercise(Path(app.env.doc2path(pagename))):
        return
    for group in context["header_buttons"]:
        if group["label"] == "download-buttons":
            group["buttons"] = [
                button for button in group["buttons"] if button["label"] != "download-source-button"
            ]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    # Before sphinx_external_toc, at 900, looks for the files it names.
    app.connect("config-inited", lay_in)
    app.connect("source-read", prepare_page)
    # After sphinx_book_theme, at 501, has made its buttons.
    app.connect("html-page-context", offer_no_notebook_alone, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
