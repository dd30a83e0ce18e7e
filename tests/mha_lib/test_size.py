"""The library stays short enough to read."""

import pytest

from benchmarks import size


def test_the_library_is_as_short_as_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    size.main()
    counted = capsys.readouterr().out
    assert "multihead.py" in counted
    assert "hand_set.py" not in counted


def test_a_library_that_is_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "MOST", 100)
    with pytest.raises(SystemExit, match="statements too many"):
        size.main()
