"""Sphinx extension: each chapter can be taken away as a notebook that runs in Jupyter.

The theme's download menu offers the source as it is, which only a Jupyter with the right plug-in
opens. So a notebook is made of it at each build: the same cells without outputs, the text in
Markdown that every Jupyter shows (notebook_markdown.py), links to the book with their whole
address or as plain text, pictures inside, and at the end the works that the chapter cites.
"""

import base64
import mimetypes
import posixpath
import re
from pathlib import Path
from typing import Any

import course_address
import nbformat
from course_strings import strings
from myst_nb.core.read import read_myst_markdown_notebook
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from notebook_markdown import Converter, NotMarkdown
from pybtex.database import Entry
from pybtex.plugin import find_plugin
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

FOLDER = "notebooks"
NEEDLESS_ESCAPE = re.compile(r"\\(?=[.-])")


def short_names(entry: Entry, and_: str) -> str:
    """Return a work's authors as a sentence names them: Vaswani et al."""
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [
        " ".join(map(str, person.rich_prelast_names + person.rich_last_names)) for person in people
    ]
    if len(names) > 2:
        return f"{names[0]} et al."
    return f" {and_} ".join(names) or entry.fields.get("title", entry.key)


class Links:
    """What a chapter's notebook says where the page has a link or a citation."""

    def __init__(self, env: BuildEnvironment, docname: str) -> None:
        self.env, self.docname = env, docname
        self.words = strings(env.config.language, "notebook")
        self.works: dict[str, Entry] = {}

    def page(self, target: str, text: str) -> str:
        """Return a link to a page of the book, or its title where the book has no address."""
        docname = posixpath.normpath(posixpath.join(posixpath.dirname(self.docname), target))
        if docname not in self.env.titles:
            raise NotMarkdown(f"the page {target!r}, which the book does not have,")
        text = text or self.env.titles[docname].astext()
        address = course_address.of_page(self.env, docname)
        return f"[{text}]({address})" if address else f"*{text}*"

    def link(self, address: str, text: str) -> str:
        """Return a link that is written as an address."""
        if "://" in address or address.startswith(("mailto:", "#")):
            return f"[{text}]({address})"
        target = posixpath.splitext(address.partition("#")[0])[0]
        return self.page(target, text)

    def cite(self, kind: str, keys: list[str]) -> str:
        """Return a citation as text, and remember the work for the notebook's end."""
        entries = self.env.get_domain("cite").bibdata.data.entries
        said = []
        for key in keys:
            if key not in entries:
                raise NotMarkdown(f"the citation {key!r}, which references.bib does not have,")
            self.works[key] = entries[key]
            names = short_names(entries[key], self.words["and"])
            year = entries[key].fields.get("year", "")
            said.append(f"{names} ({year})" if kind == "t" else f"{names}, {year}")
        return ", ".join(said) if kind == "t" else f"({'; '.join(said)})"

    def references(self) -> str:
        """Return the works cited, as a section of the notebook; empty when there are none."""
        if not self.works:
            return ""
        style = find_plugin("pybtex.style.formatting", "plain")()
        markdown = find_plugin("pybtex.backends", "markdown")()
        works = style.format_entries(self.works.values())
        lines = [" ".join(each.text.render(markdown).split()) for each in works]
        # The escapes of what needs none would be in the way of whoever edits the cell.
        lines = [f"- {NEEDLESS_ESCAPE.sub('', line)}" for line in lines]
        return "\n".join([f"## {self.words['works']}", "", *lines])


def attachments(folder: Path, pictures: list[str]) -> dict[str, dict[str, str]]:
    """Return the pictures of a cell as the notebook format holds them: inside."""
    held = {}
    for picture in pictures:
        kind = mimetypes.guess_type(picture)[0] or "application/octet-stream"
        held[Path(picture).name] = {
            kind: base64.b64encode((folder / picture).read_bytes()).decode()
        }
    return held


def chapter_notebook(env: BuildEnvironment, docname: str) -> NotebookNode:
    """Return a chapter as a notebook without outputs, its text in plain Markdown.

    Raises:
        ExtensionError: when the chapter has MyST in it that no rule turns into Markdown.
    """
    path = Path(env.doc2path(docname))
    source = read_myst_markdown_notebook(path.read_text("utf-8"), path=path)
    links = Links(env, docname)
    try:
        cells = [converted(cell, path.parent, links) for cell in source.cells]
    except NotMarkdown as unknown:
        raise ExtensionError(
            f"{path.name}: no notebook can be made of it, since {unknown} is not plain Markdown; "
            "book/extensions/notebook_markdown.py needs a rule for it"
        ) from unknown
    title, _, rest = cells[0].source.partition("\n")
    cells[0].source = f"{title}\n\n{note(env, docname, links.words)}\n{rest}"
    if works := links.references():
        cells.append(new_markdown_cell(works))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # nbformat draws them at random; a build should repeat
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return new_notebook(cells=cells, metadata=metadata)


def converted(cell: NotebookNode, folder: Path, links: Links) -> NotebookNode:
    """Return a cell as Jupyter shows it best."""
    if cell.cell_type == "code":
        if "hide-input" in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True}
        return cell
    converter = Converter(links.page, links.cite, links.link)
    cell.source = converter.convert(cell.source)
    if converter.pictures:
        cell.attachments = attachments(folder, converter.pictures)
    return cell


def note(env: BuildEnvironment, docname: str, words: dict[str, str]) -> str:
    """Return what a reader has to know before the first cell."""
    config = env.config
    clone = f" (`git clone {config.course_repository}`)" if config.course_repository else ""
    said = words["note"].format(course=config.html_title, clone=clone)
    if config.course_site:
        said += " " + words["read"].format(address=course_address.of_page(env, docname))
    return f"> {said}"


def offer_notebook(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Write a chapter's notebook, and put it into the download menu in the source's place."""
    if doctree is None or not app.env.doc2path(pagename).endswith(".md"):
        return
    words = strings(app.config.language, "notebook")
    is_chapter = "kernelspec" in app.env.metadata[pagename]
    for group in context["header_buttons"]:
        if group["label"] != "download-buttons":
            continue
        others = [each for each in group["buttons"] if each["label"] != "download-source-button"]
        group["buttons"] = others
        if is_chapter:
            name = f"{FOLDER}/{pagename}.ipynb"
            group["buttons"] = [button(context["pathto"](name, 1), words["download"]), *others]
            path = Path(app.outdir) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(chapter_notebook(app.env, pagename), path)


def button(address: str, said: str) -> dict[str, str]:
    """Return the menu's line for a notebook."""
    return {
        "type": "link",
        "url": address,
        "text": ".ipynb",
        "icon": "fas fa-file-code",
        "tooltip": said,
        "label": "download-notebook-button",
    }


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    # After sphinx_book_theme, at 501, has made its buttons.
    app.connect("html-page-context", offer_notebook, priority=502)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
