"""Fixtures for tests of the book."""

from pathlib import Path

import pytest

from book.build import built_site


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the built site's folder. The make targets build it before tests run."""
    return built_site()
