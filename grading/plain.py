"""Text and pictures that a student chose, made harmless for terminals, notebooks and pages."""

from __future__ import annotations

import base64
import io
import re
import unicodedata

# The pictures that people paste or plot; all are drawn anew as PNG.
PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
MAX_PICTURE_BYTES = 4 << 20
MAX_PICTURE_PIXELS = 4_000_000
# A JPEG may hold many thousand scans, and reading each one takes time.
MAX_JPEG_SCANS = 100
_FORMATS = [kind.removeprefix("image/").upper() for kind in PICTURE_TYPES]
_JPEG_START, _JPEG_SCAN = b"\xff\xd8", b"\xff\xda"

# Escape sequences: with a text argument (titles, links), with numbers (colours), and short ones.
_ANSI = re.compile(
    r"\x1b[\]P^_X].*?(?:\x07|\x1b\\|\x9c|$)|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]",
    re.DOTALL,
)
# They change the order in which a line is shown, so that it reads as something else.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_HARMLESS = re.compile(r"[\n\t -~]*")
# nbgrader's feedback page takes a comment for Markdown with HTML in it; formgrader shows it as
# it is. These look alike and mean nothing in either.
_LOOK_ALIKES = str.maketrans(
    {"<": "‹", ">": "›", "&": "＆", "[": "(", "]": ")", "`": "'", "$": "＄", "*": "∗"}
    | {"\\": "∖", "~": "∼", "|": "¦", "#": "＃", "_": "\u02cd"}
)


def clean(text: str) -> str:
    r"""Return text without escape sequences, control characters and lone surrogates.

    Of a line that a progress bar wrote over, the last state stays.

    >>> clean("\x1b]0;title\x07\x1b[31mred\x1b[0m\r\n10%\r20%\n\u202eabc\ud800")
    'red\n20%\nabc\ufffd'
    """
    if _HARMLESS.fullmatch(text):  # Most is: character by character takes long.
        return text
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        lines = text.split("\n")
        text = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)
    return "".join(_clean_character(char) for char in text)


def clean_source(source: str) -> str:
    r"""Return source text with every character that would not show replaced by one that does.

    >>> clean_source("x = 1\r\n# \u202e\x1b[31m")
    'x = 1\n# \ufffd\ufffd[31m'
    """
    if _HARMLESS.fullmatch(source):
        return source
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "")
    return "".join(_clean_character(char) or "\ufffd" for char in source)


def _clean_character(char: str) -> str:
    if char in "\n\t" or " " <= char <= "~":
        return char
    if char in _REORDERING or unicodedata.category(char) == "Cc":
        return ""
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char


def printable(text: str) -> str:
    r"""Return text that is safe on a terminal: control characters become escapes.

    >>> printable("an\x1b[31m\nred")
    'an\\x1b[31m\\nred'
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def one_line(text: str, limit: int = 300) -> str:
    r"""Return text as one clean line, cut at a limit.

    >>> one_line("two\n lines", limit=6)
    'two li…'
    """
    # Cut first: cleaning megabytes takes seconds.
    text = " ".join(clean(text[: 20 * limit]).split())
    return text if len(text) <= limit else text[:limit] + "…"


def for_comment(text: str, limit: int = 2000) -> str:
    """Return text that stays text in nbgrader's pages, which do not escape comments.

    >>> for_comment("<b>[a](javascript:b)</b> https://a.example")
    '‹b›(a)(javascript:b)‹/b› https: //a.example'
    """
    text = re.sub(r"(?<=\w)_(?=\w)", "\0", one_line(text, limit))  # As in a function's name.
    text = text.translate(_LOOK_ALIKES).replace("\0", "_").replace("://", ": //")
    # A line that starts like a list or a heading would become one.
    return re.sub(r"^([-+=:]|\d+[.)])", r"· \1", text)


def picture(encoded: object) -> str | None:
    """Return a picture, given as base64, drawn anew as PNG in base64; None if it is none.

    It must be of ``PICTURE_TYPES`` and not too large. Only the pixels stay: no metadata, no
    further frames, nothing behind the picture's end.
    """
    from PIL import Image

    if isinstance(encoded, list) and all(isinstance(part, str) for part in encoded):
        encoded = "".join(encoded)
    if not isinstance(encoded, str) or len(encoded) > MAX_PICTURE_BYTES * 4 // 3 + 4:
        return None
    try:
        content = base64.b64decode("".join(encoded.split()), validate=True)
        if content.startswith(_JPEG_START) and content.count(_JPEG_SCAN) > MAX_JPEG_SCANS:
            return None
        # Opening reads the size alone, and refuses huge pictures; `convert` decodes.
        with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
            width, height = image.size
            if not 0 < width * height <= MAX_PICTURE_PIXELS:
                return None
            pixels = image.convert("RGBA" if "transparency" in image.info else _mode(image))
        bare = Image.new(pixels.mode, pixels.size)
        bare.paste(pixels)
        file = io.BytesIO()
        bare.save(file, format="PNG")
    except Exception:  # Whatever a file can make the decoder raise.
        return None
    if file.tell() > MAX_PICTURE_BYTES:
        return None
    return base64.b64encode(file.getvalue()).decode("ascii")


def _mode(image: object) -> str:
    mode = getattr(image, "mode", "")
    return mode if mode in ("L", "RGB", "RGBA") else "RGBA" if mode in ("LA", "PA") else "RGB"
