"""Lets tests import the book's Sphinx extensions, as _config.yml lets Sphinx."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "book" / "extensions"))
