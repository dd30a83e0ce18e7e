"""Fixtures for the tests of grading."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def course_secret(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the file of a course secret that belongs to this session, not to the home folder."""
    path = tmp_path_factory.mktemp("secret") / "secret"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MHA_COURSE_SECRET", str(path))
        yield path
