"""Reads what tests ask of a PDF that Chromium has written: its pages' text and its bookmarks.

No reader of PDF is among the locked packages, and what Chromium writes is plain: objects one after
the other, each stream deflated, each font with a table from its glyphs to characters.
"""

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

OBJECT = re.compile(rb"(?:^|\n)(\d+) 0 obj\n?(.*?)\nendobj", re.DOTALL)
SHOWN = re.compile(rb"/(\w+) [\d.-]+ Tf|<([0-9A-Fa-f]*)>(?=[^<]*?T[jJ])|/(\w+) Do\b")
TABLE = re.compile(rb"beginbf(char|range)\n(.*?)\nendbf", re.DOTALL)
TITLE = re.compile(rb"/Title (<[0-9A-Fa-f]+>|\((?:\\.|[^\\)])*\))")


@dataclass
class PdfText:
    """The pages of a PDF as text, and the titles of its bookmarks in their order."""

    pages: list[str]
    bookmarks: list[str]


def read_pdf(written: bytes) -> PdfText:
    """Return the text of a PDF that Chromium wrote; spaces between words may be missing."""
    held = {int(found[1]): found[2] for found in OBJECT.finditer(written)}
    tables: dict[int, dict[int, str]] = {}
    pages = [
        _text(held, each, _streams(held, each), tables)
        for each in held.values()
        if re.search(rb"/Type /Page\b", each)
    ]
    return PdfText(pages, list(_bookmarks(held)))


def _bookmarks(held: dict[int, bytes]) -> Iterator[str]:
    """Yield the titles as a reader sees them: each before those under it."""
    above = [each for each in held.values() if re.search(rb"/Type /Outlines\b", each)]
    while above:
        each = above.pop()
        if found := TITLE.search(each):
            yield _title(found[1])
        links = (re.search(rb"/%b (\d+) 0 R" % name, each) for name in (b"Next", b"First"))
        above += [held[int(link[1])] for link in links if link]


def _stream(thing: bytes) -> bytes:
    return zlib.decompress(thing.split(b"stream\n", 1)[1])


def _streams(held: dict[int, bytes], page: bytes) -> bytes:
    return b"\n".join(
        _stream(held[int(number)]) for number in re.findall(rb"/Contents (\d+) 0 R", page)
    )


def _named(thing: bytes) -> dict[bytes, int]:
    return {name: int(to) for name, to in re.findall(rb"/(\w+) (\d+) 0 R", thing)}


def _text(
    held: dict[int, bytes], owner: bytes, content: bytes, tables: dict[int, dict[int, str]]
) -> str:
    names, font, shown = _named(owner.split(b"stream\n", 1)[0]), None, []
    for change, glyphs, other in SHOWN.findall(content):
        if change:
            font = names[change]
        elif other:
            form = held[names[other]]
            if b"/Subtype /Form" in form.split(b"stream\n", 1)[0]:
                shown.append(_text(held, form, _stream(form), tables))
        elif font is not None:
            table = tables.setdefault(font, _characters(held, font))
            size = 4 if b"/Type0" in held[font] else 2
            codes = [int(glyphs[at : at + size], 16) for at in range(0, len(glyphs), size)]
            shown.append("".join(table.get(code, "") for code in codes))
    return "".join(shown)


def _characters(held: dict[int, bytes], font: int) -> dict[int, str]:
    """Return the characters of a font's glyphs."""
    found = re.search(rb"/ToUnicode (\d+)", held[font])
    if not found:
        return {}
    table: dict[int, str] = {}
    for kind, lines in TABLE.findall(_stream(held[int(found[1])])):
        for line in lines.splitlines():
            numbers = re.findall(rb"<([0-9A-Fa-f]+)>", line)
            first, text = int(numbers[0], 16), bytes.fromhex(numbers[-1].decode())
            last = int(numbers[1], 16) if kind == b"range" else first
            start = text.decode("utf-16-be")
            for code in range(first, last + 1):
                table[code] = start[:-1] + chr(ord(start[-1]) + code - first)
    return table


def _title(written: bytes) -> str:
    if written.startswith(b"<"):
        raw = bytes.fromhex(written[1:-1].decode())
    else:
        raw = re.sub(
            rb"\\([0-7]{3}|.)",
            lambda each: bytes([int(each[1], 8)]) if len(each[1]) == 3 else each[1],
            written[1:-1],
        )
    return raw[2:].decode("utf-16-be") if raw.startswith(b"\xfe\xff") else raw.decode("latin-1")
