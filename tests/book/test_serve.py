"""`make site` serves the built site, or says in words why it cannot."""

import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from book import serve


def run_main(monkeypatch: pytest.MonkeyPatch, site: Path, port: int) -> str:
    """Run the command and return what it says as it gives up."""
    monkeypatch.setattr(serve, "SITE", site)
    monkeypatch.setattr(sys, "argv", ["serve", "--port", str(port)])
    with pytest.raises(SystemExit) as gave_up:
        serve.main()
    return str(gave_up.value)


def test_it_serves_what_is_built(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the course", encoding="utf-8")
    with (
        serve.serving(tmp_path) as address,
        urllib.request.urlopen(address, timeout=10) as answer,
    ):
        assert answer.read() == b"the course"


def test_a_missing_site_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "make site SERVE=0" in run_main(monkeypatch, tmp_path / "none", 0)


def test_a_taken_port_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"make site PORT={port + 1}" in run_main(monkeypatch, tmp_path, port)
