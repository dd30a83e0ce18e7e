"""The site's own words: English where a language has none yet, and none that is missing."""

import json
from pathlib import Path

import course_strings
import pytest
from course_strings import strings


@pytest.fixture
def catalogues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two words in English, which is where the site's words are taken from."""
    (tmp_path / "en.json").write_text('{"launch": {"run": "Run", "source": "Source"}}')
    monkeypatch.setattr(course_strings, "STRINGS", tmp_path)
    return tmp_path


def test_a_language_without_the_section_speaks_english(catalogues: Path) -> None:
    english = {"run": "Run", "source": "Source"}
    assert strings("vi", "launch") == english
    (catalogues / "vi.json").write_text('{"picture": {}}')
    assert strings("vi", "launch") == english


def test_a_word_that_a_translation_lacks_is_named(catalogues: Path) -> None:
    words = {"run": "Chạy", "source": "Nguồn"}
    (catalogues / "vi.json").write_text(json.dumps({"launch": words}), "utf-8")
    assert strings("vi", "launch") == words
    del words["source"]
    (catalogues / "vi.json").write_text(json.dumps({"launch": words}), "utf-8")
    with pytest.raises(LookupError, match=r"'launch' in book/strings/vi.json has no 'source'"):
        strings("vi", "launch")


def test_a_word_that_english_lacks_is_named(catalogues: Path) -> None:
    with pytest.raises(LookupError, match=r"'launch' in book/strings/en.json has no 'binder'"):
        strings("en", "launch")["binder"]


def test_every_catalogue_is_whole() -> None:
    for path in course_strings.STRINGS.glob("*.json"):
        for section in json.loads(path.read_text("utf-8")):
            assert strings(path.stem, section)
