"""Sphinx extension: formulas are drawn in the browser by a KaTeX that the site brings along.

The page holds each formula's TeX as text, so it is readable before (and without)
the script; assets/math.js replaces it by KaTeX's drawing, with MathML beside it
for screen readers.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import _
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

NUMBERED = re.compile(r"\\(begin|end)\{(equation|align|alignat|gather)\}")


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    tex = translator.encode(node.astext())
    start = translator.starttag(node, "span", "", CLASS="math tex notranslate nohighlight")
    translator.body.append(f"{start}{tex}</span>")
    raise nodes.SkipNode


def visit_display(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own, with its number if it has one."""
    translator.body.append(
        translator.starttag(node, "div", "", CLASS="math notranslate nohighlight")
    )
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})')
        translator.add_permalink_ref(node, _("Link to this equation"))
        translator.body.append("</span>")
    # Sphinx has numbered the formula; the starred form keeps KaTeX from doing so too.
    tex = NUMBERED.sub(r"\\\1{\2*}", node.astext().strip())
    translator.body.append(f'<div class="tex">{translator.encode(tex)}</div></div>\n')
    raise nodes.SkipNode


def add_katex(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Load KaTeX on pages with formulas, and on no other."""
    if app.env.get_domain("math").has_equations(pagename):
        app.builder.add_css_file("vendor/katex/katex.min.css")
        for script in ("vendor/katex/katex.min.js", "math.js"):
            app.add_js_file(script, loading_method="defer")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_html_math_renderer("katex", (visit_inline, None), (visit_display, None))
    app.connect("html-page-context", add_katex)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
