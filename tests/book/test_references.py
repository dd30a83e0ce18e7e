"""The bibliography: every entry is whole, and is cited; every citation has its entry."""

import re
from pathlib import Path

import pytest
from pybtex.database import Entry, parse_file

from book.places import BOOK, ROOT

ENTRIES = dict(parse_file(BOOK / "references.bib").entries)
TEXTS = [*(BOOK / "en").rglob("*.md"), *(ROOT / "solutions").rglob("*.ipynb")]
CITATION = re.compile(r"\{cite(?::\w+)?\}`([^`]+)`")
FORMS = {
    "doi": r"10\.\d{4,9}/\S+",
    "eprint": r"\d{4}\.\d{4,5}|[a-z-]+/\d{7}",  # arXiv's numbers, new and old
    "url": r"https://(?!arxiv\.org)[\w.-]+\.[a-z]{2,}(?:/\S*)?|https://arxiv\.org/abs/\d{4}\.\d{4,5}",
}


def flaws(entry: Entry) -> list[str]:
    """Return what is missing or out of form in an entry."""
    found = []
    if not entry.persons.get("author"):
        found.append("has no author")
    if not entry.fields.get("title", "").strip():
        found.append("has no title")
    if not re.fullmatch(r"(19|20)\d\d", entry.fields.get("year", "")):
        found.append(f"year={entry.fields.get('year')!r} is not a year")
    places = [name for name in FORMS if name in entry.fields]
    if not places:
        found.append(f"says nowhere where to find it: give one of {', '.join(FORMS)}")
    for name in places:
        if not re.fullmatch(FORMS[name], entry.fields[name]):
            found.append(f"{name}={entry.fields[name]!r} is not of the form of one")
    return found


def cited() -> dict[str, str]:
    """Return the keys that texts cite, each with a text that does."""
    return {
        key.strip(): str(path.relative_to(ROOT))
        for path in TEXTS
        for keys in CITATION.findall(path.read_text("utf-8"))
        for key in keys.split(",")
    }


@pytest.mark.parametrize("key", ENTRIES)
def test_an_entry_is_whole(key: str) -> None:
    assert flaws(ENTRIES[key]) == []


def test_keys_and_titles_are_unique() -> None:
    # pybtex lets no key stand twice, but tells capitals apart.
    written = re.findall(r"^@\w+\{([^,]+),", (BOOK / "references.bib").read_text("utf-8"), re.M)
    assert len({key.lower() for key in written}) == len(written) == len(ENTRIES)
    titles = [re.sub(r"[\W_]+", "", entry.fields["title"]).lower() for entry in ENTRIES.values()]
    assert len(set(titles)) == len(titles)


def test_every_entry_is_cited_and_every_citation_has_its_entry() -> None:
    keys = cited()
    assert {key: where for key, where in keys.items() if key not in ENTRIES} == {}
    assert set(ENTRIES) - set(keys) == set()


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"year": "17"}, "year='17' is not a year"),
        ({"url": "http://arxiv.org/abs/1706.03762"}, "is not of the form"),
        ({"url": "https://arxiv.org/abs/170603762"}, "is not of the form"),
        ({"url": "https://arxiv.org/pdf/1706.03762"}, "is not of the form"),
        ({"doi": "https://doi.org/10.1/x"}, "is not of the form"),
        ({"url": ""}, "is not of the form"),
        ({"title": " "}, "has no title"),
    ],
)
def test_a_flaw_is_found(fields: dict[str, str], flaw: str, tmp_path: Path) -> None:
    whole = {"author": "A. B.", "title": "T", "year": "2017", "url": "https://a.org/b"}
    lines = ",".join(f"{name} = {{{value}}}" for name, value in (whole | fields).items())
    (tmp_path / "one.bib").write_text(f"@misc{{key, {lines}}}")
    (found,) = flaws(parse_file(tmp_path / "one.bib").entries["key"])
    assert flaw in found
