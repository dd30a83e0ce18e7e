"""Reading files that are hardly notebooks."""

import json
import re
import tracemalloc
from typing import Any

import pytest

from grading.assignment import Notebook, load
from grading.rebuild import rebuild
from grading.remarks import MOST_NAMED, Kind, Remarks
from grading.student_notebook import MAX_CELLS, MAX_SOURCE, read
from tests.grading.rebuilding import (
    ALL,
    STUB,
    assert_all_right,
    assert_instructors,
    at,
    by_id,
    of,
    right_cells,
)
from tests.grading.small_course import RIGHT, document, small_course


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    return load(small_course(tmp_path_factory.mktemp("course")), "tiny").notebooks[0]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b" \n",
        b"not JSON",
        b"<<<<<<< HEAD\n{}\n=======",
        b"[]",
        b"null",
        b"3",
        b'"cells"',
        b"{}",
        b'{"cells": {}}',
        b'{"worksheets": 3}',
        b"[" * 100_000,
        b'{"cells":' * 50_000,
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_no_notebook_at_all(notebook: Notebook, content: bytes | None) -> None:
    rebuilt = rebuild(notebook, content)
    assert [made.id for made in rebuilt.cells] == ALL
    assert_instructors(rebuilt, notebook)
    assert rebuilt.changed == frozenset()
    assert len(rebuilt.problems) == 1
    assert re.search("released text stands|counts as empty", rebuilt.problems[0])


@pytest.mark.parametrize(
    ("content", "start"),
    [
        (b"%PDF-1.4\n\xe2\xe3", " (it starts with %PDF-1.4)"),
        (b"<!DOCTYPE html>", " (it starts with <!DOCTYP)"),
        (b"\x89PNG\r\n\x1a\n", ""),
        (b"\x1b[31m", ""),
    ],
)
def test_another_kind_of_file_is_told_by_its_start(content: bytes, start: str) -> None:
    remarks = Remarks()
    assert read(content, remarks) == []
    said = f"This is not a notebook{start}. It counts as empty; hand the notebook in again."
    assert remarks.problems == (said,)


@pytest.mark.parametrize(
    "absurd",
    [
        None,
        3,
        "text",
        [],
        {},
        {"cell_type": 3, "source": 3, "metadata": 3},
        {"cell_type": ["code"], "source": {"a": 1}, "metadata": []},
        {"cell_type": "code", "source": [1, None, "x = 1"], "metadata": {"nbgrader": "text"}},
        {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": ["number"]}}},
        {"cell_type": "code", "source": "", "metadata": {"nbgrader": {"grade_id": {}}}, "id": {}},
        {"cell_type": "markdown", "source": "", "metadata": None, "attachments": "x"},
    ],
)
def test_absurd_cells_do_no_harm(notebook: Notebook, absurd: object) -> None:
    rebuilt = rebuild(notebook, of([absurd, *right_cells(), absurd]))
    assert_all_right(rebuilt, notebook)
    assert rebuilt.problems == ()


def test_encodings(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "answer")]["source"] = "Một đầu chỉ thấy một thứ."
    text = json.dumps(document(cells), ensure_ascii=False)
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        rebuilt = rebuild(notebook, text.encode(encoding))
        assert by_id(rebuilt)["answer"].source == "Một đầu chỉ thấy một thứ."
        assert rebuilt.warnings == rebuilt.problems == ()
    cells[at(cells, "answer")]["source"] = "één hoofd"
    text = json.dumps(document(cells[1:]), ensure_ascii=False)
    rebuilt = rebuild(notebook, text.encode("latin-1"))
    assert by_id(rebuilt)["function"].source == RIGHT["function"]
    assert by_id(rebuilt)["answer"].source == "\ufffd\ufffdn hoofd"
    assert "not valid UTF-8" in rebuilt.warnings[0]


def test_nul_and_surrogates_become_a_sign(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "number")]["source"] = "head_width = 64  # \0 \ud800 \U0001f600"
    rebuilt = rebuild(notebook, of(cells))
    made = by_id(rebuilt)["number"].source
    assert made == "head_width = 64  # \ufffd \ufffd \U0001f600"
    made.encode()
    assert len(rebuilt.warnings) == 1


def test_odd_numbers_and_keys(notebook: Notebook) -> None:
    content = of(right_cells()).decode()
    odd = content.replace('"nbformat": 4', f'"nbformat": {"9" * 10_000}, "x": NaN, "y": 1e999')
    assert_all_right(rebuild(notebook, odd.encode()), notebook)
    twice = '{"cells": [], ' + content[1:]
    assert_all_right(rebuild(notebook, twice.encode()), notebook)


def test_the_old_format_3(notebook: Notebook) -> None:
    cells = []
    for made in right_cells():
        old = {"cell_type": made["cell_type"], "metadata": made["metadata"]}
        old["input" if made["cell_type"] == "code" else "source"] = made["source"]
        cells.append(old)
    cells.append({"cell_type": "heading", "level": 2, "source": "Mine", "metadata": {}})
    content = {"worksheets": [{"cells": cells}], "nbformat": 3, "nbformat_minor": 0}
    rebuilt = rebuild(notebook, json.dumps(content).encode())
    assert_all_right(rebuilt, notebook)
    assert by_id(rebuilt)["+1"].type == "markdown"


def test_more_cells_than_anyone_writes(notebook: Notebook) -> None:
    own = {"cell_type": "code", "metadata": {}, "source": "x"}
    rebuilt = rebuild(notebook, of([*right_cells(), *[own] * 100_000]))
    assert_all_right(rebuilt, notebook)
    assert len(rebuilt.cells) == MAX_CELLS
    assert "100,007 cells" in rebuilt.problems[0]


def test_a_huge_cell_is_left_out(notebook: Notebook) -> None:
    cells = right_cells()
    cells[at(cells, "number")]["source"] = "x" * (MAX_SOURCE + 1)
    rebuilt = rebuild(notebook, of(cells))
    assert "1,000,001 characters" in rebuilt.problems[0]
    assert by_id(rebuilt)["number"].source == STUB
    assert by_id(rebuilt)["function"].source == RIGHT["function"]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"\xff\xfe" + "{not JSON".encode("utf-16-le"), "UTF-16"),
        (b"\xfe\xff" + "{1,".encode("utf-16-be"), "UTF-16"),
        (b"\xef\xbb\xbf{not JSON", "UTF-8"),
        ("{é".encode("latin-1"), "UTF-8"),
    ],
)
def test_what_cannot_be_read_names_its_encoding(content: bytes, encoding: str) -> None:
    remarks = Remarks()
    assert read(content, remarks) == []
    assert f"read as {encoding}, it is not JSON" in remarks.problems[0]


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"\xff\xfe", "\ufeff \n".encode("utf-16")])
def test_a_mark_of_order_alone_is_an_empty_file(content: bytes) -> None:
    remarks = Remarks()
    assert read(content, remarks) == []
    assert "an empty file" in remarks.problems[0]


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (b"[],", "brackets"),
        (b"{},", "brackets"),
        (b'{"":0},', "brackets"),
        (b'"ab",', "quotation marks"),
        (b"987654321,", "holds no list"),
    ],
)
def test_what_takes_much_memory_is_not_parsed(part: bytes, said: str) -> None:
    content = b'{"rows":[' + part * (12_000_000 // len(part)) + b"[]]}"
    remarks = Remarks()
    tracemalloc.start()
    try:
        assert read(content, remarks) == []
        assert tracemalloc.get_traced_memory()[1] < 4 * len(content)
    finally:
        tracemalloc.stop()
    assert said in remarks.problems[0]


def test_a_notebook_of_pictures_is_read(notebook: Notebook) -> None:
    cells = right_cells()
    data: dict[str, Any] = {"image/png": "iVBO" * 1_000_000, "text/plain": "[{}]" * 10_000}
    cells[1]["outputs"] = [{"output_type": "display_data", "data": data}]
    assert_all_right(rebuild(notebook, of(cells)), notebook)


def test_remarks_of_one_kind_name_a_few() -> None:
    kind = Kind("Cell {it} moved by {far}.", "{count} cells moved: {them}; none was lost.")
    remarks = Remarks()
    for number in range(40):
        remarks.add(kind, str(number), far=3)
    assert MOST_NAMED == 5
    assert remarks.warnings == ("40 cells moved: 0, 1, 2, 3, 4, ...; none was lost.",)
    assert remarks.problems == ()
