"""Fixtures for every room."""

from pathlib import Path

import pytest
import torch

from book.places import SITE

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device this machine has: a test that takes it runs once on each."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the built site's folder. The make targets build it before tests run."""
    if not (SITE / "index.html").exists():
        # Here, not above: it loads what builds the site, for seconds.
        from book.build import main

        main()
    return SITE
