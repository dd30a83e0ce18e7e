"""Make the file of real heads that the site shows: python -m mha_lib.pretrained export."""

import argparse
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from mha_lib.pretrained.export import FILE, export


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line asks, or end with exit code 2 and say what was wrong."""
    parser = argparse.ArgumentParser("python -m mha_lib.pretrained", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export", help="write the file, from the packaged models")
    command.add_argument("--date", type=day, help="the day it is said to be of, 2026-11-30")
    command.add_argument("--out", type=Path, default=FILE, help="where it goes")
    options = parser.parse_args(arguments)
    try:
        export(options.date or committed_date(), options.out)
    except ModuleNotFoundError as missing:
        parser.error(str(missing))
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


def day(text: str) -> str:
    """Read a date; argparse says the name of this function where `text` is none."""
    return date.fromisoformat(text).isoformat()


def committed_date() -> str:
    """Return the date of the file as it is: to make it again is to make the same file."""
    found: str = json.loads(FILE.read_text("utf-8"))["date"] if FILE.is_file() else "1970-01-01"
    return found


if __name__ == "__main__":
    main()
