"""Files in a folder that a stranger filled, read without following a link or waiting."""

from __future__ import annotations

import os
import stat


class Refused(Exception):
    """Something that is not read; the message is a sentence's end: "tiny.ipynb ..."."""


def read_plain_file(name: str, folder: int, limit: int) -> bytes:
    """Return the bytes of a plain file in an open folder, never waiting and following no link.

    Raises:
        Refused: It is a link, no plain file, shared by a hard link, too big or unreadable.
    """
    try:
        # Looked at before it is opened: to open some devices is to use them.
        _refuse_unless_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), limit)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            _refuse_unless_plain(os.fstat(file.fileno()), limit)
            content = file.read(limit + 1)
    except OSError as error:
        raise Refused(f"cannot be read ({error.strerror}). Mend its permissions.") from error
    if len(content) > limit:
        raise Refused(f"grew while it was read. At most {limit:,} bytes are read.")
    return content


def _refuse_unless_plain(status: os.stat_result, limit: int) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise Refused("is a link, which is not followed. Hand in the file itself.")
    if not stat.S_ISREG(status.st_mode):
        raise Refused("is not a plain file. Hand in a file.")
    if status.st_nlink > 1:
        raise Refused(
            "is a hard link: the same file has another name elsewhere, so it may be somebody "
            "else's. Put a copy in its place."
        )
    if status.st_size > limit:
        raise Refused(
            f"has {status.st_size:,} bytes. At most {limit:,} are read; clear its outputs."
        )
