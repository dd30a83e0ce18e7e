"""A chapter runs in a reader's Jupyter, where cells have a kernel and no MHA_STATIC."""

import os
from pathlib import Path

import nbclient
import pytest
from myst_nb.core.read import is_myst_markdown_notebook, read_myst_markdown_notebook

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [
    path
    for path in sorted((ROOT / "book" / "en").glob("*.md"))
    if is_myst_markdown_notebook(path.read_text("utf-8"))
]


def test_there_are_chapters_to_run() -> None:
    assert "multi-head" in [path.stem for path in NOTEBOOKS]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_downloaded_chapter_runs(
    chapter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MHA_STATIC", raising=False)
    notebook = read_myst_markdown_notebook(chapter.read_text("utf-8"), path=chapter)
    nbclient.execute(notebook, cwd=os.fspath(tmp_path), timeout=120)
    views = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    ]
    demos = chapter.read_text("utf-8").count("from mha_lib.widgets import")
    assert len(views) == demos
