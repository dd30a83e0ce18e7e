"""Fingerprints of code: what stays when names, comments, spacing and numbers are changed.

Winnowing: of every few runs of tokens that follow one another, one is kept, chosen by its hash. Two
texts that share a run of ``RUN + WINDOW - 1`` tokens share a fingerprint, wherever it stands.
"""

from __future__ import annotations

import builtins
import functools
import keyword
import re
import zlib

import numpy as np
import numpy.typing as npt

RUN = 10
WINDOW = 5
Prints = npt.NDArray[np.uint64]

# Reads any text, broken Python too: what nothing else takes is a sign of its own.
_TOKEN = re.compile(
    r"""(?P<blank>(?:[^\S\n]|\\\n|\#[^\n]*)+)
    |(?P<line>\n)
    |(?P<string>[A-Za-z]{0,2}(?:\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}(?:\\.|[^\\])*?(?:'{3}|\Z)
        |\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?))
    |(?P<number>\.?\d[\w.]*)
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>->|:=|\*\*=?|//=?|<<=?|>>=?|[-+*/%@&|^=<>!]=?|.)""",
    re.VERBOSE | re.DOTALL,
)
_KEPT_NAMES = {*keyword.kwlist, *dir(builtins)}
_OPENING, _CLOSING = "([{", ")]}"


def tokens(source: str) -> list[str]:
    r"""Return code as tokens; a name of one's own is ``n``, a number ``0``, a text ``s``.

    Names after a dot, keywords and built-in names stay: they are not the writer's to change.
    Comments, and texts that stand alone as docstrings do, are left out.

    >>> tokens("def f(x):  # doubles\n    'Doc.'\n    return np.sum(x) * 2")
    ['def', 'n', '(', 'n', ')', ':', 'return', 'n', '.', 'sum', '(', 'n', ')', '*', '0']
    """
    found: list[str] = []
    depth = 0
    begins = True  # a line
    alone = False  # a text that began its line, and nothing after it yet
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind == "blank":
            continue
        if kind == "line":
            if alone:
                found.pop()
            alone, begins = False, depth == 0
            continue
        alone = kind == "string" and begins
        begins = False
        depth = max(0, depth + (text in _OPENING) - (text in _CLOSING)) if kind == "sign" else depth
        if kind == "name" and text not in _KEPT_NAMES and found[-1:] != ["."]:
            text = "n"
        found.append({"number": "0", "string": "s"}.get(str(kind), text))
    if alone:
        found.pop()
    return found


def fingerprints(found: list[str]) -> Prints:
    """Return the fingerprints of tokens, sorted, each once; fewer than ``RUN`` have none."""
    if len(found) < RUN:
        return np.empty(0, np.uint64)
    values = np.array([_value(token) for token in found], np.uint64)
    runs = np.zeros(len(values) - RUN + 1, np.uint64)
    for offset in range(RUN):  # Wraps round at 2**64, as it should.
        runs = runs * np.uint64(0x9E3779B97F4A7C15) + values[offset : offset + len(runs)]
        runs ^= runs >> np.uint64(29)
    windows = np.lib.stride_tricks.sliding_window_view(runs, min(WINDOW, len(runs)))
    return np.unique(windows.min(axis=1))


@functools.lru_cache(10_000)  # The same few tokens, again and again.
def _value(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "replace"))
