"""Serves the built site on this machine: `python -m book.serve --port 8000`."""

import argparse
import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from book.places import SITE

PORT = 8000
PORTS = range(1, 65536)


def missing_page(site: Path, asked: str) -> Path | None:
    """Return the page that says so where `asked` is missing: its edition's, else the site's."""
    edition = asked.lstrip("/").partition("/")[0]
    # Compared with names that are there, so that no ".." leads out of the site.
    own = [folder for folder in site.iterdir() if folder.name == edition]
    pages = (folder / "404.html" for folder in (*own, site))
    return next(filter(Path.is_file, pages), None)


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer with the book's own page where a file is missing, else as ever."""
        page = (
            missing_page(Path(self.directory), self.path) if code == HTTPStatus.NOT_FOUND else None
        )
        if page is None:
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Answer as ever, and where no file can have such a name as where there is none."""
        try:
            return super().send_head()
        except ValueError:  # a name with a zero byte in it
            self.send_error(HTTPStatus.NOT_FOUND)
            return None

    def log_message(self, *_: object) -> None:
        """Print nothing: a line for every file hides what matters."""


class QuietServer(ThreadingHTTPServer):
    """Does not report a reader who leaves before the answer is out."""

    def handle_error(self, *about: Any) -> None:
        """Report an error, but not that of a connection which the browser closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*about)


def server(folder: Path, port: int, handler: type[QuietHandler] = QuietHandler) -> QuietServer:
    """Return a server of `folder` on this machine alone; port 0 picks a free one."""
    return QuietServer(("127.0.0.1", port), partial(handler, directory=str(folder)))


@contextlib.contextmanager
def serving(folder: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serve `folder` in the background and yield its address."""
    with server(folder, 0, handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/"
        finally:
            running.shutdown()


def main() -> None:
    """Serve the site until Ctrl+C."""
    parser = argparse.ArgumentParser(description="Serve the built site.")
    parser.add_argument("--port", type=int, default=PORT)
    port = parser.parse_args().port
    if not (SITE / "index.html").is_file():
        sys.exit(f"book.serve: {SITE} holds no site; build it with: make site SERVE=0")
    if port not in PORTS:
        last = PORTS.stop - 1
        sys.exit(f"book.serve: port {port} is not between {PORTS.start} and {last}; try {PORT}")
    try:
        running = server(SITE, port)
    except OSError as refused:
        other = port + 1 if port >= 1024 and port + 1 in PORTS else PORT  # lower: for root alone
        sys.exit(f"book.serve: port {port}: {refused.strerror}; try: make serve PORT={other}")
    print(f"The course is at http://localhost:{port} (Ctrl+C stops it)", flush=True)
    with running, contextlib.suppress(KeyboardInterrupt):
        running.serve_forever()


if __name__ == "__main__":
    main()
