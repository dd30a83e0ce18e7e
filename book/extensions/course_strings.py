"""The words that the site itself says, by language: book/strings/LANGUAGE.json."""

import json
from pathlib import Path
from typing import Any

STRINGS = Path(__file__).resolve().parents[1] / "strings"


def strings(language: str, section: str) -> dict[str, Any]:
    """Return one section of a language's words; in English where the language has none yet."""
    catalogue: dict[str, Any] = json.loads((STRINGS / "en.json").read_text("utf-8"))
    own = STRINGS / f"{language}.json"
    if own.exists():
        catalogue |= json.loads(own.read_text("utf-8"))
    found: dict[str, Any] = catalogue[section]
    return found
