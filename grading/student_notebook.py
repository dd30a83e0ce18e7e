"""What a student saved, read without trusting any of it.

From each cell come its text, its type, the marks it is known by and pasted pictures. Whatever the
bytes hold, cells come back; what could not be read becomes a remark.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from grading.remarks import Kind, Remarks

MAX_CELLS = 2_000
MAX_SOURCE = 1_000_000
# 20 MB of nothing but brackets take 600 to 800 MB to read. Notebooks that people make hold some
# thousands; one of 20 MB is pictures and printed text.
MAX_BRACKETS = 500_000
MAX_QUOTES = 2_000_000  # two for each text, and each text takes some 50 bytes more than it holds
REPLACEMENT = "\ufffd"
NO_TEXT = re.compile("[\0\ud800-\udfff]")  # NUL and halves of surrogate pairs

MISSING = Kind("There is no notebook to grade: the released text stands.", grave=True)
EMPTY = Kind("Your notebook is an empty file: the released text stands.", grave=True)
UNREADABLE = Kind(
    "Your notebook cannot be read ({reason}): the released text stands. Open it in Jupyter, save "
    "it and hand it in again.",
    grave=True,
)
NO_NOTEBOOK = Kind(
    "This is not a notebook{start}. It counts as empty; hand the notebook in again.", grave=True
)
TOO_MANY_CELLS = Kind(
    "Your notebook has {count:,} cells; only the first {most:,} were read.", grave=True
)
TOO_LONG = Kind(
    "Cell {it} has {length:,} characters; at most {most:,} are read, so it was left out.",
    "{count} cells have more characters than are read, so they were left out: cells {them}.",
    grave=True,
)
BROKEN_ENCODING = Kind(
    f"Your notebook is not valid {{encoding}}; {REPLACEMENT} stands for what could not be read."
)
NO_CHARACTERS = Kind(
    f"Cell {{it}} held characters that no text may hold; {REPLACEMENT} stands there now.",
    f"{{count}} cells held characters that no text may hold; {REPLACEMENT} stands there now: "
    "cells {them}.",
)


@dataclass
class StudentCell:
    """What is taken of a student's cell; anything of an absurd type has become empty."""

    type: str
    source: str
    grade_id: str
    cell_id: str
    attachments: dict[str, Any]

    @property
    def text(self) -> str:
        """The source as it is compared."""
        return plain(self.source)


def plain(source: str) -> str:
    r"""Return a text as it is compared: what surrounds it does not count.

    >>> plain("x = 1\r\n\r\n")
    'x = 1'
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def is_blank(source: str) -> bool:
    r"""Tell whether a text shows nothing.

    >>> is_blank(" \n\u200b"), is_blank("x")
    (True, False)
    """
    return not any(letter.isprintable() and not letter.isspace() for letter in source)


def read(content: bytes | None, remarks: Remarks) -> list[StudentCell]:
    """Return the cells of a student's notebook; never raises."""
    if content is None:
        remarks.add(MISSING)
        return []
    encoding = json.detect_encoding(content)  # UTF-8, 16 or 32, with or without a mark of order.
    name = re.sub("-(sig|[bl]e)$", "", encoding).upper()
    text = _decode(content, encoding, name, remarks)
    if is_blank(text):
        remarks.add(EMPTY)
        return []
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        remarks.add(NO_NOTEBOOK, start=_start(content))
        return []
    try:
        raw_cells = _raw_cells(_parse(text))
    except (ValueError, RecursionError, MemoryError) as error:
        remarks.add(UNREADABLE, reason=_reason(error, name))
        return []
    if len(raw_cells) > MAX_CELLS:
        remarks.add(TOO_MANY_CELLS, count=len(raw_cells), most=MAX_CELLS)
    cells = [_cell(raw, number, remarks) for number, raw in enumerate(raw_cells[:MAX_CELLS], 1)]
    return [cell for cell in cells if cell is not None]


def _start(content: bytes) -> str:
    """Show the first bytes of a file that is no notebook, where they can be shown."""
    start = content[:8].split(b"\n")[0].rstrip()
    shown = start.decode("ascii", errors="replace")
    return f" (it starts with {shown})" if shown and all(" " <= c <= "~" for c in shown) else ""


def _decode(content: bytes, encoding: str, name: str, remarks: Remarks) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        remarks.add(BROKEN_ENCODING, encoding=name)
        return content.decode(encoding, errors="replace")


def _parse(text: str) -> Any:
    """Parse JSON leniently: of two equal keys the last counts, as in Jupyter."""
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_BRACKETS:
        raise ValueError(f"it holds {brackets:,} brackets, and at most {MAX_BRACKETS:,} are read")
    quotes = text.count('"')
    if quotes > MAX_QUOTES:
        raise ValueError(
            f"it holds {quotes:,} quotation marks, and at most {MAX_QUOTES:,} are read"
        )
    # No number of a notebook matters here, and huge or many ones are slow or big to read.
    return json.loads(
        text,
        parse_int=lambda digits: 0,
        parse_float=lambda digits: 0.0,
        parse_constant=lambda name: None,
    )


def _reason(error: Exception, encoding: str) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"read as {encoding}, it is not JSON: {str(error)[:200]}"
    if isinstance(error, ValueError):
        return str(error)
    return "it is nested too deeply" if isinstance(error, RecursionError) else "it is too big"


def _raw_cells(document: Any) -> list[Any]:
    """Return the list of cells of format 4, or of the older format 3."""
    if isinstance(document, dict):
        if isinstance(document.get("cells"), list):
            return list(document["cells"])
        if isinstance(document.get("worksheets"), list):
            return [
                cell
                for sheet in document["worksheets"]
                if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
                for cell in sheet["cells"]
            ]
    raise ValueError("it is JSON, but holds no list of cells")


def _cell(raw: Any, number: int, remarks: Remarks) -> StudentCell | None:
    """Return what is taken of a cell, or None for one that is too long."""
    raw = raw if isinstance(raw, dict) else {}
    source = raw.get("source", raw.get("input", ""))  # "input": code in format 3
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    if len(source) > MAX_SOURCE:
        remarks.add(TOO_LONG, str(number), length=len(source), most=MAX_SOURCE)
        return None
    metadata = raw.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = marks.get("grade_id") if isinstance(marks, dict) else None
    cell_type = raw.get("cell_type")
    if cell_type == "heading":  # Format 3.
        cell_type = "markdown"
    return StudentCell(
        type=cell_type if cell_type in ("code", "markdown", "raw") else "raw",
        source=_clean(source, number, remarks),
        grade_id=grade_id if isinstance(grade_id, str) else "",
        cell_id=raw["id"] if isinstance(raw.get("id"), str) else "",
        attachments=raw["attachments"] if isinstance(raw.get("attachments"), dict) else {},
    )


def _clean(source: str, number: int, remarks: Remarks) -> str:
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    cleaned = NO_TEXT.sub(REPLACEMENT, source)
    if cleaned != source:
        remarks.add(NO_CHARACTERS, str(number))
    return cleaned
