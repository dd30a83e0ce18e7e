"""`make site` serves the built site, or says in words why it cannot."""

import socket
import sys
import urllib.error
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


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("vi/no/such", "vi"),
        ("en/x.html", "site"),
        ("no", "site"),
        ("no/../../vi/x", "site"),
        ("%00", "site"),
        ("%ff", "site"),
        ("x" * 5000, "site"),
        ("%2e%2e/%2e%2e/etc/passwd", "site"),
    ],
)
def test_a_missing_page_is_answered_by_the_books_own(
    tmp_path: Path, asked: str, shown: str
) -> None:
    (tmp_path / "vi").mkdir()
    (tmp_path / "404.html").write_text("site")
    (tmp_path / "vi" / "404.html").write_text("vi")
    with serve.serving(tmp_path) as address:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address + asked, timeout=10)
        assert refused.value.code == 404
        assert refused.value.read() == shown.encode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address + asked, method="HEAD"))
        assert refused.value.read() == b""


def test_a_site_without_such_a_page_still_answers(tmp_path: Path) -> None:
    with (
        serve.serving(tmp_path) as address,
        pytest.raises(urllib.error.HTTPError, match="404"),
    ):
        urllib.request.urlopen(f"{address}no.html", timeout=10)


def test_a_missing_site_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "make site SERVE=0" in run_main(monkeypatch, tmp_path / "none", 0)


@pytest.mark.parametrize("port", [-1, 0, 65536, 99999])
def test_a_port_out_of_range_is_said_with_the_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    (tmp_path / "index.html").touch()
    said = run_main(monkeypatch, tmp_path, port)
    assert said == f"book.serve: port {port} is not between 1 and 65535; try 8000"


def test_a_port_that_may_not_be_used_is_said_with_one_that_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index.html").touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(serve, "server", refuse)
    assert run_main(monkeypatch, tmp_path, 80).endswith(
        "Permission denied; try: make serve PORT=8000"
    )


def test_a_failing_test_still_stops_its_server(tmp_path: Path) -> None:
    def fail_while_serving() -> None:
        with serve.serving(tmp_path) as address:
            addresses.append(address)
            raise LookupError

    addresses: list[str] = []
    with pytest.raises(LookupError):
        fail_while_serving()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(addresses[0], timeout=10)


def test_a_reader_who_leaves_is_not_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve.server(tmp_path, 0) as running:
        for error, is_reported in ((ConnectionResetError, False), (LookupError, True)):
            try:
                raise error("as tried here")
            except Exception:
                running.handle_error(None, ("127.0.0.1", 1))
            assert ("as tried here" in capsys.readouterr().err) is is_reported


def test_a_taken_port_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "index.html").touch()
        assert f"make serve PORT={port + 1}" in run_main(monkeypatch, tmp_path, port)
