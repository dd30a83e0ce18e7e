"""Serves the built site on this machine: `python -m book.serve --port 8000`."""

import argparse
import contextlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SITE = Path(__file__).resolve().parents[1] / "_build" / "site"


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, keeps connections open, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Print nothing: a line for every file hides what matters."""


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of `folder` on this machine alone; port 0 picks a free one."""
    return ThreadingHTTPServer(("127.0.0.1", port), partial(QuietHandler, directory=str(folder)))


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve `folder` in the background and yield its address."""
    with server(folder, 0) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/"
        running.shutdown()


def main() -> None:
    """Serve the site until Ctrl+C."""
    parser = argparse.ArgumentParser(description="Serve the built site.")
    parser.add_argument("--port", type=int, default=8000)
    port = parser.parse_args().port
    if not SITE.is_dir():
        sys.exit(f"book.serve: {SITE} is not there; build it with: make site SERVE=0")
    try:
        running = server(SITE, port)
    except OSError as refused:
        sys.exit(f"book.serve: port {port}: {refused.strerror}; try: make site PORT={port + 1}")
    print(f"The course is at http://localhost:{port} (Ctrl+C stops it)", flush=True)
    with running, contextlib.suppress(KeyboardInterrupt):
        running.serve_forever()


if __name__ == "__main__":
    main()
