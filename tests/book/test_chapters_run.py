"""A chapter's notebook runs in a reader's Jupyter, with a kernel and no MHA_STATIC."""

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = [
    path.stem
    for path in sorted((ROOT / "book" / "en").glob("*.md"))
    if "kernelspec:" in path.read_text("utf-8")[:400]
]


def test_there_are_chapters_to_run() -> None:
    assert "multi-head" in CHAPTERS


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_downloaded_chapter_runs(
    site: Path, chapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MHA_STATIC", raising=False)
    notebook = nbformat.read(site / "en" / "notebooks" / f"{chapter}.ipynb", as_version=4)
    nbclient.execute(notebook, cwd=os.fspath(tmp_path), timeout=600)
    views = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        # A progress bar is displayed, a demo is what a cell returns.
        if output["output_type"] == "execute_result"
        and "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    ]
    demos = sum(
        cell.source.count("from mha_lib.widgets import")
        - cell.source.count("from mha_lib.widgets import hand_set")
        for cell in notebook.cells
        if cell.cell_type == "code"  # a text may show how a demo is called
    )
    assert len(views) == demos > 0
