"""Fixtures for every room."""

import pytest
import torch

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device this machine has: a test that takes it runs once on each."""
    name: str = request.param
    return name
