"""Which option of a task a student gets: drawn from the student's id, the same on every machine.

A plain hash draws, without a secret: a student's Jupyter must find what the grader finds. So
everybody can work out what a neighbour gets, and still has to compute it. While a submission is
graded nothing is drawn inside: the grader draws outside, by the name of the submission's folder.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ID_FILE = "my-id.txt"
ID_VARIABLE = "JUPYTERHUB_USER"
# What a release lays beside the notebook; a line that starts with # is no id.
ID_FILE_TEXT = "# Write your student id into the next line, just as your course has it.\n\n"
MAX_ID_BYTES = 4096
# As some editors save a text: with a mark in front that tells how.
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


@dataclass(frozen=True)
class OwnId:
    """A student's id, as found in Jupyter, and where; without one it is empty, and `place` why."""

    id: str
    place: str


def normal_id(text: str) -> str:
    """Return an id as it is drawn by: NFC, without space around it.

    >>> normal_id(" Nguye\\u0302\\u0303n\\n") == "Nguy\\u1ec5n"
    True
    """
    return unicodedata.normalize("NFC", text).strip()


def draw(student_id: str, assignment: str, name: str, count: int) -> int:
    """Draw one of ``count`` options, counted from 0, for a pick's name.

    >>> [draw(student, "tiny", "width", 4) for student in ("ada", "ben", "cleo", "dan")]
    [1, 0, 1, 0]
    """
    text = json.dumps([normal_id(student_id), assignment, name])
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest(), "big") % count


def draw_all(student_id: str, assignment: str, counts: Mapping[str, int]) -> dict[str, int]:
    """Draw an option for each name, of as many as ``counts`` says."""
    return {name: draw(student_id, assignment, name, count) for name, count in counts.items()}


def own_id(folder: Path) -> OwnId:
    """Find the student's id in Jupyter: in my-id.txt beside the notebook, else JupyterHub's."""
    said = _id_in_file(folder / ID_FILE)
    if not said.id and (hub := normal_id(os.environ.get(ID_VARIABLE, ""))):
        return OwnId(hub, ID_VARIABLE)
    return said


def _id_in_file(path: Path) -> OwnId:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_ID_BYTES + 1)
        text = raw.decode(_MARKS.get(raw[:2], "utf-8-sig"))
    except FileNotFoundError:
        return OwnId("", f"there is no {ID_FILE} beside this notebook")
    except (OSError, ValueError):
        return OwnId("", f"{ID_FILE} cannot be read as text")
    lines = [line for line in map(normal_id, text.splitlines()) if line and line[0] != "#"]
    if len(raw) > MAX_ID_BYTES or len(lines) > 1:
        return OwnId("", f"{ID_FILE} holds more than one line with an id")
    return OwnId(lines[0], ID_FILE) if lines else OwnId("", f"{ID_FILE} holds no id")
