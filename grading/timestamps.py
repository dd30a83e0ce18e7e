"""When was it handed in? The text of nbgrader's timestamp.txt."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

from grading.plain_files import Refused, read_plain_file

FILE_NAME = "timestamp.txt"
MAX_BYTES = 1000
# Outside these years, what shows a time in another time zone may fail.
FIRST_YEAR, LAST_YEAR = 1990, 2200


def read_timestamp(folder: Path) -> datetime | None:
    """Return the time in a folder's timestamp.txt, None where there is none that can be used.

    It may be a student's file: no link is followed, no read waits, and nothing is raised.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        text = read_plain_file(FILE_NAME, descriptor, MAX_BYTES).decode("utf-8-sig")
        return parse_timestamp(text)
    except (Refused, ValueError):
        return None
    finally:
        os.close(descriptor)


def parse_timestamp(text: str) -> datetime:
    """Return UTC without a time zone from what nbgrader writes: date, time, time zone.

    Raises:
        ValueError: It is no such text.

    >>> parse_timestamp("2026-01-31 23:30:00.5 UTC")
    datetime.datetime(2026, 1, 31, 23, 30, 0, 500000)
    >>> parse_timestamp("2026-01-31 23:30:00 Asia/Ho_Chi_Minh")
    datetime.datetime(2026, 1, 31, 16, 30)
    """
    words = text.split()
    zone: timezone | ZoneInfo = UTC
    if len(words) == 3:
        zone = _zone(words.pop())
    try:
        moment = datetime.fromisoformat(_six_digits(" ".join(words)))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        moment = moment.astimezone(UTC).replace(tzinfo=None)
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise ValueError(f"the year {moment.year} is none of this course")
        return moment
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text.strip()[:60]!r} is no time such as '2026-01-31 23:30:00.000000 UTC'"
        ) from None


def _six_digits(text: str) -> str:
    """Write a fraction of seconds with six digits: fromisoformat takes three or six only."""
    return re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", text)


def _zone(name: str) -> timezone | ZoneInfo:
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        try:
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        except ValueError:
            raise ValueError(f"{name!r} is no time zone") from None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{name[:40]!r} is no time zone known here") from None
