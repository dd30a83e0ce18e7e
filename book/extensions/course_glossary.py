"""Sphinx extension: on each page, the first use of a glossary's term in prose links to its entry.

Nothing has to be marked in a chapter, in no language: the terms are those of the edition's own
`glossary`. A term that is also a common word, as *key* or *memory*, links only where it stands
in bold, as a chapter writes what it defines; book/strings lists these, and how plurals are made.
A link set by hand, {term}`key`, comes before ours.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

from course_strings import strings
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform

# What is not prose, or says something else than the page does.
NOT_PROSE = (
    nodes.title,
    nodes.literal,
    nodes.literal_block,
    nodes.reference,
    nodes.raw,
    nodes.math,
    nodes.math_block,
    nodes.table,
    nodes.figure,
    nodes.footnote,
    nodes.citation,
)
PICTURE, CELL = "attention_path", "cell"


def forms(term: str, plurals: list[list[str]]) -> list[str]:
    """Return a term and its plural, by the first ending in `plurals` that it has.

    >>> forms("query", [["y", "ies"], ["", "s"]])
    ['query', 'queries']
    """
    for ending, plural in plurals:
        if term.endswith(ending):
            return [term, term.removesuffix(ending) + plural]
    return [term]


def pattern(written: list[str]) -> re.Pattern[str]:
    """Return what finds these words as wholes; the longest first, so that it wins.

    >>> pattern(["attention", "self-attention"]).findall("Self-attention is inattention.")
    ['Self-attention']
    """
    longest_first = sorted(written, key=lambda form: (-len(form), form))
    any_of = "|".join(r"\s+".join(map(re.escape, form.split())) for form in longest_first)
    # A hyphen joins a word to another one: "attention" is not in "cross-attention".
    return re.compile(rf"(?<![\w-])(?:{any_of})(?![\w-])", re.IGNORECASE)


def prose(page: nodes.document) -> Iterator[nodes.Text]:
    """Yield the pieces of a page's running text, in order."""
    for text in list(page.findall(nodes.Text)):
        above = list(ancestors(text))
        if any(isinstance(node, nodes.paragraph) for node in above) and not any(
            isinstance(node, NOT_PROSE)
            or type(node).__name__ == PICTURE
            or CELL in node.get("classes", ())
            or "lang" in node.attributes  # another language
            for node in above
        ):
            yield text


def ancestors(node: nodes.Node) -> Iterator[nodes.Element]:
    """Yield what a node stands in, from the inside out."""
    while isinstance(parent := node.parent, nodes.Element):
        yield parent
        node = parent


def link_first_uses(
    page: nodes.document, addresses: dict[str, str], plurals: list[list[str]], common: list[str]
) -> None:
    """Link the first use of each term of `addresses` in a page's prose to its address."""
    by_hand = {link.get("refuri") for link in page.findall(nodes.reference)}
    open_terms = {
        form.casefold(): term
        for term, address in addresses.items()
        if address not in by_hand
        for form in forms(term, plurals)
    }
    if not open_terms:
        return
    words, used = pattern(list(open_terms)), set()
    for text in prose(page):
        pieces: list[nodes.Node] = []
        end, said = 0, text.astext()
        for found in words.finditer(said):
            term = open_terms[" ".join(found[0].split()).casefold()]
            in_bold = isinstance(text.parent, nodes.strong) and found[0] == said.strip()
            if term in used or (term in common and not in_bold):
                continue
            used.add(term)
            pieces.append(nodes.Text(said[end : found.start()]))
            link = nodes.reference("", "", internal=True, refuri=addresses[term])
            link["classes"].append("course-term")
            link += nodes.Text(found[0])
            pieces.append(link)
            end = found.end()
        if pieces:
            pieces.append(nodes.Text(said[end:]))
            text.parent.replace(text, [piece for piece in pieces if piece.astext()])


def glossary(env: BuildEnvironment) -> dict[str, tuple[str, str]]:
    """Return each term's page, and its place on it."""
    entries = env.get_domain("std").get_objects()
    return {name: (page, place) for name, _, kind, page, place, _ in entries if kind == "term"}


class LinkFirstUses(SphinxPostTransform):
    """Links the terms of one page, once its own links are resolved."""

    default_priority = 400
    formats: ClassVar[tuple[str, ...]] = ("html",)

    def run(self, **_: Any) -> None:
        """Change the page that is about to be written."""
        entries, here = glossary(self.env), self.env.docname
        if here in {page for page, _ in entries.values()}:
            return  # the glossary itself
        uri = self.app.builder.get_relative_uri
        addresses = {term: f"{uri(here, page)}#{place}" for term, (page, place) in entries.items()}
        words = strings(self.config.language, "glossary")
        link_first_uses(self.document, addresses, words["plurals"], words["common"])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_post_transform(LinkFirstUses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
