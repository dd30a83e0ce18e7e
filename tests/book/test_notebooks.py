"""Chapters taken away as notebooks: plain Markdown, the page's code, nothing that was run."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from course_address import check_addresses, of_page, of_source
from course_notebooks import attachments
from notebook_markdown import Converter, NotMarkdown
from sphinx.errors import ConfigError

from tests.book.built_pages import parsed

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for path in ROOT.glob("book/en/*.md") if "kernelspec:" in path.read_text("utf-8")[:400]
)
MYST = re.compile(r"\{[\w:.-]+\}`|^ *[`:~]{3,}\{|\]\{|^\([\w-]+\)=|^%", re.MULTILINE)


@pytest.fixture
def convert() -> Callable[[str], str]:
    """Return a converter's method; links and citations show what they were given."""
    return Converter(
        page=lambda target, text: f"<{target}|{text}>",
        cite=lambda kind, keys: f"<{kind}|{'+'.join(keys)}>",
        link=lambda address, text: f"<{text}|{address}>",
    ).convert


@pytest.mark.parametrize(
    ("myst", "markdown"),
    [
        ("see {doc}`masking`.", "see <masking|>."),
        ("see {doc}`the mask <masking>`.", "see <masking|the mask>."),
        ("{cite:p}`a, b` and {cite:t}`c`", "<p|a+b> and <t|c>"),
        ("a role over {cite:p}`a,\nb` lines", "a role over <p|a+b> lines"),
        ("there are {n}`1,024`", "there are 1,024"),
        ("[*yêu*]{lang=vi}", '<span lang="vi">*yêu*</span>'),
        ("[quiet]{.wide}", "quiet"),
        ("[see {doc}`masking`](there.md)", "<see <masking|>|there.md>"),
        (r"$[a](b) \text{x}[y]{z}$ stays", r"$[a](b) \text{x}[y]{z}$ stays"),
        ("`{doc}` and `[a]{b}` stay", "`{doc}` and `[a]{b}` stay"),
        ("a \\$5 note {doc}`a` \\$6", "a \\$5 note <a|> \\$6"),
        ("one ` tick\n\n{doc}`a`", "one ` tick\n\n<a|>"),
        ("```python\n{doc}`a`\n```", "```python\n{doc}`a`\n```"),
        ("(here)=\n% a remark\n# Title", "# Title"),
        ("```{note}\nsee {doc}`a`\n\nmore\n```", "> **Note**\n>\n> see <a|>\n>\n> more"),
        (":::{admonition} Mind $x$\n:class: tip\ntext\n:::", "> **Mind $x$**\n>\n> text"),
        ("````{tip}\n```python\n1\n```\n````", "> **Tip**\n>\n> ```python\n> 1\n> ```"),
        ("```{math}\na = b\n```", "$$\na = b\n$$"),
    ],
)
def test_myst_becomes_markdown(convert: Callable[[str], str], myst: str, markdown: str) -> None:
    assert convert(myst) == markdown


@pytest.mark.parametrize(
    "myst", ["{download}`x.zip`", "```{list-table}\n* - a\n```", "```{note}\nnever closed"]
)
def test_what_no_rule_covers_is_refused_by_name(convert: Callable[[str], str], myst: str) -> None:
    with pytest.raises(NotMarkdown, match=re.search(r"[a-z-]+", myst)[0]):
        convert(myst)


def test_pictures_go_into_the_notebook(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "cat.png").write_bytes(b"a cat")
    made = Converter(lambda *_: "", lambda *_: "", lambda *_: "")
    text = made.convert(
        "![A cat](pictures/cat.png)\n\n```{figure} pictures/cat.png\n:alt: It\nA caption\n```"
    )
    assert text == "![A cat](attachment:cat.png)\n\n![It](attachment:cat.png)\n\n*A caption*"
    assert attachments(tmp_path, made.pictures) == {"cat.png": {"image/png": "YSBjYXQ="}}


def test_links_follow_the_settings() -> None:
    path = "book/en/masking.md"
    config = SimpleNamespace(course_site="", course_repository="", language="en")
    env = SimpleNamespace(config=config, doc2path=lambda name: str(ROOT / f"book/en/{name}.md"))
    assert of_page(env, "masking") == ""
    config.course_repository = "https://github.com/a/b"
    assert of_page(env, "masking") == f"https://github.com/a/b/blob/main/{path}"
    laid_in = "exercises/heads/heads"
    assert of_page(env, laid_in) == f"https://github.com/a/b/blob/main/{laid_in}.md"
    config.course_site = "https://a.github.io/b/"
    assert of_page(env, "masking") == "https://a.github.io/b/en/masking.html"
    assert of_source("https://gitlab.com/g/a/b", path).endswith(f"b/-/blob/main/{path}")
    assert of_source("https://git.example.org/a/b", path) == "https://git.example.org/a/b"


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("course_repository", "github.com/a/b"),
        ("course_repository", "https://github.com/a"),
        ("course_repository", "https://github.com/a/b/"),
        ("course_repository", "https://github.com/a/b.git"),
        ("course_repository", "https://github.com/a/b/tree/main"),
        ("course_repository", "http://github.com/a/b"),
        ("course_repository", " https://github.com/a/b"),
        ("course_repository", 5),
        ("course_site", "https://a.github.io/b c/"),
        ("course_site", ["https://a.github.io/"]),
        ("course_site", "https://a.github.io/b"),
        ("course_site", "a.github.io/"),
    ],
)
def test_an_address_that_makes_broken_links_is_refused(name: str, address: object) -> None:
    config = SimpleNamespace(course_site="", course_repository="")
    setattr(config, name, address)
    with pytest.raises(ConfigError, match=f"{name}: {re.escape(repr(address))}.*leave it empty"):
        check_addresses(None, config)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_chapters_notebook_is_the_chapter_in_plain_markdown(site: Path, source: Path) -> None:
    notebook = nbformat.read(site / "en" / "notebooks" / f"{source.stem}.ipynb", as_version=4)
    nbformat.validate(notebook)
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    bare = re.sub(r"(`+).+?\1|\$\$.+?\$\$|\$[^$]+?\$", "", text, flags=re.DOTALL)
    assert not MYST.search(bare), MYST.search(bare)
    assert text.startswith("# ")
    assert "pip install -r requirements.txt" in text.split("## ")[0]

    page = parsed(site / "en" / f"{source.stem}.html")
    shown = [code.get_text().strip() for code in page.select(".cell_input pre")]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.source.strip() for cell in cells] == shown
    assert not any(cell.outputs or cell.execution_count for cell in cells)

    for target in re.findall(r"\]\(([^)\s]+)\)", bare):
        assert re.match(r"https?://|#|attachment:", target), f"{target} leads nowhere"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_page_offers_its_notebook_and_not_its_source(site: Path, source: Path) -> None:
    page = site / "en" / f"{source.stem}.html"
    menu = parsed(page).select(".dropdown-download-buttons a")
    assert [str(link["href"]) for link in menu] == [f"notebooks/{source.stem}.ipynb"]
    assert (page.parent / str(menu[0]["href"])).is_file()


def test_a_notebook_is_the_same_in_each_build_and_cites_its_works(site: Path) -> None:
    notebook = nbformat.read(site / "en" / "notebooks" / "multi-head.ipynb", as_version=4)
    assert [cell.id for cell in notebook.cells] == [f"cell-{i}" for i in range(len(notebook.cells))]
    assert "(Vaswani et al., 2017)" in "".join(cell.source for cell in notebook.cells)
    last = notebook.cells[-1].source
    assert last.startswith("## Works cited")
    assert "Attention is all you need." in last
