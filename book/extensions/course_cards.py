"""Sphinx extension: what is shown where somebody shares a link to a page.

Each page says its title and its first sentences. Where the site's address is set (course_site in
_config.yml) it also names itself and a picture, a card that is drawn here: those two may only be
whole addresses.
"""

import html
import textwrap
from pathlib import Path
from typing import Any

import course_address
from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "_static/cards"
LONGEST = 200
WIDE, HIGH, DOTS = 1200, 630, 100
PAPER, INK, QUIET = "#ffffff", "#1b1f24", "#57606a"
# Okabe and Ito's, as in the demos: each head keeps its colour.
HEADS = ("#0072b2", "#d55e00", "#009e73")
# From where to where, how much, and by which head.
ARCS = ((0, 1, 0.5, 0), (1, 4, 0.9, 1), (1, 2, 0.3, 0), (3, 4, 0.5, 2), (2, 3, 0.7, 2))


def description(doctree: nodes.document) -> str:
    """Return the page's first paragraphs of text, as far as they fit."""
    said = ""
    for paragraph in doctree.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, nodes.section):
            continue  # in a list, a note, a table
        text = " ".join(paragraph.astext().split())
        if said and len(said) + len(text) > LONGEST:
            break
        said = f"{said} {text}".strip()
    if len(said) <= LONGEST:
        return said
    return said[: LONGEST - 1].rsplit(" ", 1)[0].rstrip(",;:") + "…"


def tags(title: str, said: str, course: str, language: str, address: str, card: str) -> str:
    """Return the page's head lines; `address` and `card` are empty where the site has none."""
    values = {
        "og:type": "article",
        "og:site_name": course,
        "og:title": title,
        "og:description": said,
        "og:locale": {"en": "en_GB", "vi": "vi_VN", "ms": "ms_MY"}.get(language, language),
        "og:url": address,
        "og:image": card,
        "og:image:width": str(WIDE) if card else "",
        "og:image:height": str(HIGH) if card else "",
        "og:image:alt": f"{course}: {title}" if card else "",
    }
    lines = [("property", name, value) for name, value in values.items() if value]
    lines.append(("name", "twitter:card", "summary_large_image" if card else "summary"))
    if said:
        lines.append(("name", "description", said))
    return "\n".join(
        f'<meta {kind}="{name}" content="{html.escape(value)}"/>' for kind, name, value in lines
    )


def draw_card(title: str, course: str, path: Path) -> None:
    """Draw a page's card: its title, over words that look at each other."""
    # Here, and not above: a site without an address needs no cards.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Arc

    figure = Figure(figsize=(WIDE / DOTS, HIGH / DOTS), dpi=DOTS, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDE), ylim=(0, HIGH))
    axes.axis("off")
    places = [140 + 230 * place for place in range(5)]
    for start, end, weight, head in ARCS:
        middle, width = (places[start] + places[end]) / 2, places[end] - places[start]
        axes.add_patch(
            Arc(
                (middle, 96), width, 60 + width * 0.42, theta1=0, theta2=180,
                linewidth=3 + 14 * weight, color=HEADS[head],
            )
        )  # fmt: skip
    axes.scatter(places, [84] * 5, s=420, color=INK, zorder=3)
    lines = textwrap.wrap(title, 26)
    axes.text(80, 530, "\n".join(lines[:2]), size=42, color=INK, va="top", weight="bold")
    axes.text(80, 575, course, size=20, color=QUIET, va="center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})


def add_card(
    app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Put the lines into the page's head, and draw its card where the site has an address."""
    if doctree is None or "nosearch" in app.env.metadata[pagename]:
        return
    config = app.config
    title, course = app.env.titles[pagename].astext(), config.html_title
    address = card = ""
    if config.course_site:
        address = course_address.of_page(app.env, pagename)
        name = f"{FOLDER}/{pagename.replace('/', '-')}.png"
        card = f"{config.course_site}{config.language}/{name}"
        draw_card(title, course, Path(app.outdir) / name)
    context["metatags"] += "\n" + tags(
        title, description(doctree), course, config.language, address, card
    )


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("html-page-context", add_card)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
