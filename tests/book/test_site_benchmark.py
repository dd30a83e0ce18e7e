"""How `benchmarks.site` judges what it measures, and that it finds every page."""

import gzip
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.report import Report
from benchmarks.site import judge_walk
from benchmarks.site_build import CHAPTER, copy_of_clone
from benchmarks.site_visits import Walked, pages
from benchmarks.web_host import PackingHandler
from book.places import ROOT
from book.serve import serving


def test_every_page_of_the_book_is_measured(site: Path) -> None:
    names = pages(ROOT / "_toc.yml")
    assert names[0] == "index"
    built = {str(path.relative_to(site / "en"))[:-5] for path in (site / "en").rglob("*.html")}
    assert set(names) == built - {"search", "genindex", "404"}


@pytest.mark.parametrize(
    ("cost", "is_first", "failures"),
    [
        (Walked(79_999, 399_999, [], [], {"quiz": [15.9]}), False, []),
        (Walked(300_000, 300_000, [], [], {}), True, []),
        (Walked(80_000, 90_000, [], [], {}), False, ["page: further page: 80 KB"]),
        (Walked(0, 400_000, [], [], {}), False, ["page: as the first page: 400 KB"]),
        (Walked(0, 0, ["https://a.b/c"], [], {}), False, ["page: asked for: https://a.b/c"]),
        (Walked(0, 0, [], ["warning: w"], {}), False, ["page: console: warning: w"]),
        (Walked(0, 0, [], [], {"quiz": [1.0, 16.0, 30.0]}), False, ["page: quiz: interaction"]),
        (Walked(0, 0, [], [], {"quiz": []}), False, ["page: quiz: no control changes anything"]),
    ],
)
def test_a_missed_aim_is_named(cost: Walked, is_first: bool, failures: list[str]) -> None:
    report = Report(as_json=True, holds_bounds=True)
    judge_walk(report, "page", cost, is_first)
    assert len(report.failures) == len(failures)
    for found, expected in zip(report.failures, failures, strict=True):
        assert found.startswith(expected)


def test_the_copy_that_is_built_cold_holds_nothing_that_was_built(tmp_path: Path) -> None:
    copy = copy_of_clone(tmp_path)
    assert (copy / CHAPTER).is_file()
    assert not (copy / "_build").exists()
    assert not (copy / ".venv").exists()


def test_the_host_sends_text_packed_and_the_rest_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>attention</p>" * 100, "utf-8")
    (tmp_path / "font.woff2").write_bytes(b"font")
    with (
        serving(tmp_path, PackingHandler) as address,
        urlopen(f"{address}page.html") as page,
        urlopen(f"{address}font.woff2") as font,
    ):
        sent, whole = page.read(), font.read()
    assert page.headers["Content-Encoding"] == "gzip"
    assert len(sent) < 200
    assert gzip.decompress(sent).decode() == "<p>attention</p>" * 100
    assert font.headers["Content-Encoding"] is None
    assert whole == b"font"
