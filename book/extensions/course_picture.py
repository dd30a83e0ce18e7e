"""Sphinx extension: the one picture of attention, with the page's own part lit.

    ```{attention-path}
    This chapter adds the mask: who may look at whom.
    ```

The text is the caption. Which part a page lights, and where each part leads, stands below; the
words in the picture come from book/strings.
"""

import re
from collections.abc import Iterator
from html import escape
from typing import Any, ClassVar, NamedTuple

from course_strings import strings
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.writers.html5 import HTML5Translator

# In the order in which they are read out, and the chapter that each leads to.
CHAPTERS = {
    "words": "embeddings",
    "embeddings": "embeddings",
    "heads": "multi-head",
    "queries": "query-key-value",
    "keys": "query-key-value",
    "values": "query-key-value",
    "scores": "scaled-dot-product",
    "pairs": "long-sequences",
    "mask": "masking",
    "softmax": "refresher",
    "weighted_sum": "scaled-dot-product",
    "w_o": "multi-head",
    "output": "transformer",
}
# What a page lights besides the parts that lead to it.
ALSO_LIT = {
    "scaled-dot-product": ("softmax",),
    "pictures": ("words", "embeddings"),
    "pytorch": ("heads", "w_o"),
    "trained-heads": ("heads",),
    "real-heads": ("heads",),
}

PIECE = re.compile(r"([MLHV])([\d.]+)(?: ([\d.]+))?")
LINE, LETTER = 15, 7.4  # a line's height and a letter's usual width
PILL = 17  # the height of "you are here"


class Box(NamedTuple):
    """Where a part stands."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The box's middle."""
        return self.x + self.width / 2, self.y + self.height / 2


class Layout(NamedTuple):
    """One arrangement of the same parts; arrows are paths, each ending in a head."""

    name: str
    size: tuple[float, float]
    boxes: dict[str, Box]
    arrows: tuple[str, ...]
    pills: dict[str, tuple[float, float]]  # where "you are here" does not stand above the middle


WIDE = Layout(
    "wide",
    (756, 204),
    {
        "words": Box(4, 86, 60, 30),
        "embeddings": Box(82, 86, 92, 30),
        "heads": Box(192, 34, 418, 154),
        "queries": Box(204, 64, 76, 30),
        "keys": Box(204, 106, 76, 30),
        "values": Box(204, 148, 76, 30),
        "scores": Box(300, 86, 58, 30),
        "mask": Box(374, 86, 54, 30),
        "softmax": Box(444, 86, 68, 30),
        "pairs": Box(300, 120, 212, 26),
        "weighted_sum": Box(528, 77, 72, 48),
        "w_o": Box(640, 86, 44, 30),
        "output": Box(700, 86, 54, 30),
    },
    (
        "M64 101H80",
        "M174 101L202 79",
        "M174 101L202 121",
        "M174 101L202 163",
        "M280 79L298 97",
        "M280 121L298 105",
        "M358 101H372",
        "M428 101H442",
        "M512 101H526",
        "M280 163H564V127",
        "M600 101H638",
        "M684 101H698",
    ),
    {"heads": (413, 21.5), "scores": (341, 73), "pairs": (406, 175)},
)
NARROW = Layout(
    "narrow",
    (356, 408),
    {
        "words": Box(50, 26, 70, 32),
        "embeddings": Box(148, 26, 104, 32),
        "heads": Box(6, 82, 332, 242),
        "queries": Box(18, 138, 92, 32),
        "keys": Box(126, 138, 92, 32),
        "values": Box(234, 138, 92, 32),
        "scores": Box(18, 202, 68, 32),
        "mask": Box(102, 202, 60, 32),
        "softmax": Box(178, 202, 74, 32),
        "pairs": Box(18, 239, 234, 26),
        "weighted_sum": Box(216, 278, 110, 32),
        "w_o": Box(244, 364, 54, 32),
        "output": Box(136, 364, 76, 32),
    },
    (
        "M120 42H146",
        "M200 58V100L105 136",
        "M200 100L174 136",
        "M200 100L280 136",
        "M64 170L56 200",
        "M160 170L66 200",
        "M86 218H100",
        "M162 218H176",
        "M252 218H264V276",
        "M292 170V276",
        "M271 310V362",
        "M244 380H214",
    ),
    {"heads": (270, 69.5), "queries": (55, 126), "pairs": (118, 281)},
)


class attention_path(nodes.General, nodes.Element):  # docutils names nodes so
    """The picture; its children are the caption."""


class AttentionPath(SphinxDirective):
    """The directive that puts the picture there."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """Return the picture of the page that asks for it."""
        self.assert_has_content()
        picture = attention_path(docname=self.env.docname)
        picture += self.parse_content_to_nodes()
        return [picture]


def lit_parts(chapter: str) -> list[str]:
    """Return the parts that a page lights, in reading order."""
    also = ALSO_LIT.get(chapter, ())
    return [part for part, leads_to in CHAPTERS.items() if leads_to == chapter or part in also]


def draw(layout: Layout, words: dict[str, str], lit: list[str], links: dict[str, str]) -> str:
    """Return the picture as SVG; `links` holds the address of each part that leads elsewhere."""
    shown = {part: _part(layout, part, words, lit, links) for part in CHAPTERS}
    behind = shown.pop("heads")  # the frame around the others
    alt = words["alt"]
    if lit:
        parts = ", ".join(words[part] for part in lit)
        alt += " " + words["lit"].format(parts=parts)
    arrows = "".join(f'<path class="arrow" d="{path}"/>{_tip(path)}' for path in layout.arrows)
    width, height = layout.size
    return (
        f'<svg class="{layout.name}" viewBox="0 0 {width} {height}" role="group"'
        f' aria-label="{escape(alt)}">{behind}{arrows}{"".join(shown.values())}</svg>'
    )


def _part(
    layout: Layout, part: str, words: dict[str, str], lit: list[str], links: dict[str, str]
) -> str:
    box = layout.boxes[part]
    x = box.middle[0]
    if part == "heads":
        behind = "".join(
            _rectangle(Box(box.x + by, box.y + by, box.width, box.height), "frame")
            for by in (10, 5)
        )
        inside = f"{behind}{_rectangle(box, 'frame')}"
        inside += f'<text class="name" x="{box.x + 4}" y="{box.y - 8}">{escape(words[part])}</text>'
    elif part == "pairs":
        bracket = f"M{box.x} {box.y}v6h{box.width}v-6"
        inside = f'<path class="frame" d="{bracket}"/>' + _text(words[part], x, box.y + 16)
    else:
        inside = _rectangle(box, "box") + _lines(words[part], box)
    if part in lit[:1]:
        pill = layout.pills.get(part, (x, box.y - PILL / 2 - 4))
        inside += _pill(words["here"], *pill)
    kind = f"part {part} lit" if part in lit else f"part {part}"
    if part in links:
        return f'<a class="{kind}" href="{escape(links[part])}">{inside}</a>'
    return f'<g class="{kind}">{inside}</g>'


def _rectangle(box: Box, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{box.width}"'
        f' height="{box.height}" rx="5"/>'
    )


def _lines(label: str, box: Box) -> str:
    """Return a label in the middle of its box, on as many lines as it needs."""
    lines = [""]
    for word in label.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) * LETTER > box.width - 6:
            lines.append(word)
        else:
            lines[-1] = longer
    x, y = box.middle
    top = y - LINE * (len(lines) - 1) / 2
    return "".join(_text(line, x, top + LINE * i) for i, line in enumerate(lines))


def _text(line: str, x: float, y: float) -> str:
    # W_O as it is written in a formula.
    name, _, below = escape(line).partition("_")
    if below:
        name = (
            f'<tspan font-style="italic">{name}<tspan class="below" dy="4">{below}</tspan></tspan>'
        )
    return f'<text x="{x}" y="{y}" dy="0.35em">{name}</text>'


def _pill(text: str, x: float, y: float) -> str:
    width = len(text) * 6.2 + 14
    box = Box(x - width / 2, y - PILL / 2, width, PILL)
    return f'<g class="here">{_rectangle(box, "pill")}{_text(text, x, y)}</g>'


def _tip(path: str) -> str:
    """Return an arrow's head, turned as its last piece runs."""
    (x0, y0), (x1, y1) = list(_points(path))[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    along, across = (x1 - x0) / length, (y1 - y0) / length
    sides = [
        (x1 - 7 * along + 4 * side * across, y1 - 7 * across - 4 * side * along) for side in (1, -1)
    ]
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x1, y1), *sides])
    return f'<polygon class="tip" points="{corners}"/>'


def _points(path: str) -> Iterator[tuple[float, float]]:
    """Yield the corners of a path of M, L, H and V."""
    x = y = 0.0
    for letter, first, second in PIECE.findall(path):
        if letter == "V":
            y = float(first)
        else:
            x, y = float(first), float(second or y)
        yield x, y


def visit_html(translator: HTML5Translator, node: attention_path) -> None:
    """Write the picture in both arrangements; the style sheet shows the one that fits."""
    builder, page = translator.builder, node["docname"]
    words = strings(translator.config.language, "picture")
    links = {
        part: builder.get_relative_uri(page, chapter)
        for part, chapter in CHAPTERS.items()
        # A page does not lead to itself; and an edition may be without a chapter yet.
        if chapter != page and chapter in builder.env.found_docs
    }
    drawn = [draw(layout, words, lit_parts(page), links) for layout in (WIDE, NARROW)]
    translator.body.append(f'<figure class="attention-path">{"".join(drawn)}<figcaption>')


def depart_html(translator: HTML5Translator, node: attention_path) -> None:
    """Close what visit_html opened."""
    translator.body.append("</figcaption></figure>\n")


def pass_by(translator: nodes.NodeVisitor, node: attention_path) -> None:
    """Leave the caption alone, where there are no drawings."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    drawing, plain = (visit_html, depart_html), (pass_by, pass_by)
    app.add_node(attention_path, html=drawing, latex=plain, text=plain)
    app.add_directive("attention-path", AttentionPath)
    app.add_css_file("picture.css", priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
