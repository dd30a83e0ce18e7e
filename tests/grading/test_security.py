"""The threat model names tests and submissions: each of them must be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.grading.handing_in import CASES
from tests.grading.submissions import quick_cases  # fills the table

HERE = Path(__file__).parent
MODEL = HERE.parents[1] / "grading" / "SECURITY.md"
NAMED = re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", MODEL.read_text("utf-8"))
TESTS = {
    name
    for path in HERE.glob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
}


def test_the_model_names_some() -> None:
    assert quick_cases()
    assert len(NAMED) > 40


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_what_the_model_names_is_there(name: str) -> None:
    assert name in TESTS or name in CASES, f"{MODEL} names {name}, and nothing has that name"
