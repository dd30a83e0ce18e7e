"""First uses of the glossary's terms link to their entries: the rule, and the site's pages."""

from pathlib import Path

import pytest
from course_glossary import forms, link_first_uses, pattern
from course_strings import strings
from docutils import nodes
from docutils.core import publish_doctree

from tests.book.built_pages import article

ROOT = Path(__file__).resolve().parents[2]

ENGLISH = strings("en", "glossary")
TERMS = ("attention", "cross-attention", "KV cache", "key", "memory", "query", "weight matrix")
ADDRESSES = {term: f"g.html#term-{term}" for term in TERMS}


def linked(source: str) -> list[tuple[str, str]]:
    """Return what is linked in a page of reStructuredText, and to which term."""
    page = publish_doctree(f"Page\n====\n\nWords.\n\n{source}")
    said = page.astext()
    link_first_uses(page, ADDRESSES, ENGLISH["plurals"], ["memory"])
    assert page.astext() == said
    return [
        (link.astext(), link["refuri"].removeprefix("g.html#term-"))
        for link in page.findall(nodes.reference)
        if "course-term" in link["classes"]
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A key and a query, then a key.", [("key", "key"), ("query", "query")]),
        ("Queries meet keys.", [("Queries", "query"), ("keys", "key")]),
        ("- Two weight\n  matrices.", [("weight\nmatrices", "weight matrix")]),
        ("The KV cache of cross-attention.", [("KV cache", "KV cache"), ("cross-attention",) * 2]),
        ("A self-attention, a keyboard, a turnkey.", []),
        ("**Key**: what is offered.", [("Key", "key")]),
        ("Little memory left. The **memory** is read.", [("memory", "memory")]),
        ("**No memory** here.", []),
        ("Key\n---\n\nA ``key``, a `key <x.html>`__, |s|.\n\n.. |s| replace:: nothing", []),
        ("::\n\n   key\n\n.. math:: key", []),
        ("=====  =====\nkey    query\n=====  =====\na      key\n=====  =====", []),
        ("See `this <g.html#term-key>`__. A key.", []),
    ],
)
def test_the_first_use_in_prose_is_linked(source: str, expected: list[tuple[str, str]]) -> None:
    assert linked(source) == expected


def entries(site: Path) -> dict[str, str]:
    """Return the id of each entry of the glossary, by the form in which it may be used."""
    terms = article(site / "en" / "glossary.html").select("dl.glossary dt")
    assert len(terms) > 50
    return {
        form.casefold(): str(dt["id"])
        for dt in terms
        for form in forms(dt.find(string=True).strip(), ENGLISH["plurals"])
    }


def pages(site: Path) -> list[Path]:
    chapters = [path for path in (site / "en").glob("*.html") if path.stem != "search"]
    return [*chapters, *(site / "en" / "exercises").glob("*/*.html")]


def test_every_link_leads_to_the_terms_own_entry_and_only_once(site: Path) -> None:
    known, all_linked = entries(site), set()
    for path in pages(site):
        links = article(path).select("a.course-term")
        targets = []
        for link in links:
            page, _, place = str(link["href"]).partition("#")
            assert (path.parent / page).resolve() == site.resolve() / "en" / "glossary.html"
            assert known[" ".join(link.get_text().split()).casefold()] == place
            assert link.find_parent(["h1", "h2", "h3", "code", "pre", "table", "figure"]) is None
            assert link.find_parent(class_=["cell", "mha-demo"]) is None
            targets.append(place)
        assert len(targets) == len(set(targets)), path.name
        all_linked |= set(targets)
    # Nearly every term is used by its chapter; what is missing is used in a table or by its link.
    assert len(all_linked) >= 0.75 * len(set(known.values()))


def test_nothing_that_should_be_linked_comes_before_its_link(site: Path) -> None:
    words = pattern(list(known := entries(site)))
    common = {known[term] for term in ENGLISH["common"]}
    for path in pages(site):
        if path.stem == "glossary":
            continue
        body = article(path)
        by_hand = body.select('a[href*="glossary.html#"]:not(.course-term)')
        seen = {str(link["href"]).partition("#")[2] for link in by_hand}
        paragraphs = {id(each) for each in body.select("p")}
        unseen = body.select(
            "h1, h2, h3, code, pre, table, figure, .cell, .math, a:not(.course-term), [lang], "
            ".citation-list, script"
        )
        not_prose = {id(each) for each in unseen}
        for text in body.find_all(string=True):
            above = {id(each) for each in text.parents}
            if not above & paragraphs or above & not_prose:
                continue
            for found in words.finditer(text):
                place = known[" ".join(found[0].split()).casefold()]
                is_link = text.find_parent("a") is not None
                if place in common:
                    continue
                assert is_link or place in seen, f"{path.stem}: {found[0]} in {text!r}"
                seen.add(place)
