"""Where the book's sources lie and where its site is built, and the languages it may have.

It loads nothing, so that whoever only serves or reads the site need not load what builds it.
"""

from pathlib import Path

BOOK = Path(__file__).resolve().parent
ROOT = BOOK.parent
BUILD = ROOT / "_build"
SITE = BUILD / "site"
LANGUAGES = {"en": "English", "vi": "Tiếng Việt", "ms": "Bahasa Melayu"}
