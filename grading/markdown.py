"""A student's Markdown as HTML that does nothing: it only shows.

nbconvert and JupyterLab pass HTML in a Markdown cell on and let MathJax act on formulas. So the
student's Markdown never reaches them. It is read here with HTML switched off, and what comes out
is one line of our own tags, which both pass on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

from grading.plain import clean_source

# Some texts take a Markdown reader time that grows with the square of their length.
MAX_CHARACTERS = 10_000

_LINK = re.compile(r"(?i:https?://|mailto:)[!-~]+")
_MATH = re.compile(
    r"\$\$.+?\$\$|\$[^$\n]+?\$|\\\(.+?\\\)|\\\[.+?\\\]|\\begin\{(\w+\*?)\}.+?\\end\{\1\}", re.DOTALL
)
_MATH_STARTS = re.compile(r"\\(?=[(\[]|begin\b|end\b)")


def safe_html(source: str, pictures: Mapping[str, str]) -> str:
    """Return Markdown as one line of HTML without scripts, forms, foreign pictures or formulas.

    ``pictures`` maps the names of attachments to PNG in base64. Formulas are shown as code.

    >>> safe_html("**a** <b>", {})
    '<div class="tex2jax_ignore mathjax_ignore"><p><strong>a</strong> &lt;b&gt;</p></div>'
    """
    source = clean_source(source)
    if len(source) > MAX_CHARACTERS:
        inside = f"<pre>{escapeHtml(source)}</pre>"
    else:
        inside = _reader().render(source, {"pictures": pictures})
    # nbconvert finds formulas before anything else, and a blank line would end the HTML.
    inside = inside.strip().replace("$", "&#36;").replace("\\", "&#92;").replace("\n", "&#10;")
    return f'<div class="tex2jax_ignore mathjax_ignore">{inside}</div>'


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False})
    reader.enable(["table", "strikethrough"])
    reader.disable(["html_block", "html_inline"])
    reader.inline.ruler.before("escape", "math", _read_math)
    reader.validateLink = _is_allowed  # type: ignore[method-assign, assignment]
    for name, rule in (
        ("text", _text),
        ("image", _image),
        ("link_open", _link_open),
        ("fence", _fence),
        ("code_block", _fence),
    ):
        reader.add_render_rule(name, rule)
    return reader


def _is_allowed(address: str) -> bool:
    return bool(_LINK.fullmatch(address)) or address.startswith("attachment:")


def _read_math(state: StateInline, silent: bool) -> bool:
    """Take a formula as code, so that no later reader typesets it."""
    if state.src[state.pos] not in "$\\":
        return False
    found = _MATH.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("code_inline", "code", 0).content = found[0]
    state.pos = found.end()
    return True


def _text(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    text = tokens[index].content.replace("$", "＄")
    return escapeHtml(_MATH_STARTS.sub("∖", text))


def _image(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    token = tokens[index]
    words = self.renderInlineAsText(token.children, options, env) if token.children else ""
    words = escapeHtml(words.replace("$", "＄"))
    name = unquote(str(token.attrs.get("src", "")).removeprefix("attachment:"))
    data = env["pictures"].get(name)
    if data is None:
        return f"<em>(picture left out: {words or 'without a name'})</em>"
    return f'<img src="data:image/png;base64,{data}" alt="{words or "pasted picture"}">'


def _link_open(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    address = str(tokens[index].attrs.get("href", ""))
    if not _LINK.fullmatch(address):
        return "<a>"
    return f'<a href="{escapeHtml(address)}" rel="noopener noreferrer nofollow" target="_blank">'


def _fence(
    self: RendererHTML,
    tokens: Sequence[Token],
    index: int,
    options: OptionsDict,
    env: MutableMapping[str, Any],
) -> str:
    return f"<pre><code>{escapeHtml(tokens[index].content)}</code></pre>"
