"""How pytest names what it collects."""

from __future__ import annotations

from pathlib import Path


def test_no_folder_of_tests_is_a_package_of_its_own() -> None:
    """With --import-mode=importlib pytest names a module from its topmost package on.

    A package among folders that are none would be imported twice, under two names.
    """
    tests = Path(__file__).parent
    assert not [str(path.relative_to(tests)) for path in tests.rglob("__init__.py")]
