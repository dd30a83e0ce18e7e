"""The built site as a web host sends it: text packed by gzip.

No measurement itself: `benchmarks.site` uses it.
"""

import gzip
import io
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from book.serve import QuietHandler

TEXT = {".html", ".css", ".js", ".svg", ".json"}


@cache
def packed(path: Path) -> bytes:
    """Return a file's bytes by gzip, packed once: a visit must not wait for that."""
    return gzip.compress(path.read_bytes())


class PackingHandler(QuietHandler):
    """Sends what is text packed, and everything else as it is."""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Answer with a packed body where the file is text."""
        path = Path(self.translate_path(self.path))
        if path.suffix not in TEXT or not path.is_file():
            return super().send_head()
        body = packed(path)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return io.BytesIO(body)
