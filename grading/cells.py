"""Cells of a spreadsheet's CSV: a person's text is never taken for a formula."""

from __future__ import annotations

import re

# A spreadsheet computes a cell that starts so, blanks before it or not. The wide signs count where
# East Asian keyboards are used. An apostrophe before them is ours, or has to stay apart from ours.
# Half the world's spreadsheets part cells at semicolons, also what a comma should part.
_START, _SIGN = r"(^|[;\t\r\n])", r"(?=[\s']*[=+\-@＝＋－＠])"
_FORMULA = re.compile(_START + _SIGN)
_MADE_TEXT = re.compile(f"{_START}'{_SIGN}")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d+)?)?")


def is_harmless(text: str) -> bool:
    """Tell whether a spreadsheet shows a cell as it is; a number is computed to itself.

    >>> [is_harmless(cell) for cell in ("-3", "-", "an.nguyen", "=1+1", "@SUM(A1)")]
    [True, True, True, False, False]
    """
    return bool(_NUMBER.fullmatch(text)) or not _FORMULA.search(text)


def as_text(text: str) -> str:
    """Return a cell with an apostrophe before what would be computed.

    >>> as_text("=cmd|' /C calc'!A0"), as_text("O'Neil"), as_text("an;@x")
    ("'=cmd|' /C calc'!A0", "O'Neil", "an;'@x")
    """
    return text if is_harmless(text) else _FORMULA.sub(r"\1'", text)


def original(cell: str) -> str:
    """Return the text that :func:`as_text` made a cell of.

    >>> original("'=1+1"), original("''=1+1"), original("'t Hooft")
    ('=1+1', "'=1+1", "'t Hooft")
    """
    return cell if is_harmless(cell) else _MADE_TEXT.sub(r"\1", cell)


def number(value: float) -> str:
    """Write a mark with a point, at most two digits after it, and no more than it needs.

    >>> number(7.0), number(12345.678), number(0.5), number(-0.001)
    ('7', '12345.68', '0.5', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
