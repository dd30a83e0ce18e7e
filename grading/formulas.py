"""Formulas as MathML, so that feedback and formgrader show them without loading MathJax.

Only the instructor's Markdown has any: a student's formulas are shown as code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from docutils.utils.math.latex2mathml import tex2mathml  # type: ignore[import-untyped]
from jinja2 import pass_context
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

# docutils knows this by its other name alone.
_DOTS = re.compile(r"\\dots(?![A-Za-z])")
_DISPLAYS = ("equation", "align", "gather")  # a displayed formula, as between double dollars


@pass_context
def markdown2html(context: Mapping[str, Any], source: str) -> str:
    """Return Markdown as HTML, as nbconvert's filter of this name does, with MathML in it.

    Headings have no link to themselves.
    """
    attachments = context.get("cell", {}).get("attachments", {})
    renderer = _Renderer(escape=False, attachments=attachments, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def mathml(tex: str, *, display: bool = False) -> str:
    """Return a formula as MathML; as code, with its dollars, where that is not possible.

    >>> mathml("d")
    '<math xmlns="http://www.w3.org/1998/Math/MathML">\\n  <mi>d</mi>\\n</math>'
    >>> mathml(r"\\unheard{x}")
    '<code>$\\\\unheard{x}$</code>'
    """
    try:
        return str(tex2mathml(_DOTS.sub(r"\\ldots", tex.strip()), as_block=display))
    except Exception:  # docutils raises several kinds for what it does not know.
        dollars = "$$" if display else "$"
        return f"<code>{dollars}{escape(tex)}{dollars}</code>"


class _Renderer(IPythonRenderer):
    """nbconvert's own, but for formulas."""

    def block_math(self, body: str) -> str:
        return mathml(body, display=True)

    def inline_math(self, body: str) -> str:
        return mathml(body)

    def latex_environment(self, name: str, body: str) -> str:
        if name.removesuffix("*") in _DISPLAYS:
            return mathml(body, display=True)
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)
