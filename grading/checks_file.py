"""The file checks.json beside a released notebook, which its visible checks compare with.

It travels with the exercise, so whoever reads it may have been given anything: what a release
does not write is refused. :mod:`grading.expected` makes its entries and judges by them.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grading.compare import simplify
from grading.values import Malformed, Raised, Unsupported, Value, decode

FILE_NAME = "checks.json"
FORMAT = 1
MAX_FILE_BYTES = 32 << 20
FIELDS = {"format", "assignment", "salt", "checks"}
SOME_FIELDS = {"forbidden", "picks"}  # each only where it holds something
FORMS = ("a whole number", "a number", "a text", "a list")

_ENTRY_FIELDS = {  # besides kind and hint, and known where there are known mistakes
    "form": {"form"},
    "hash": {"form", "items", "salt", "hash"},
    "value": {"value", "tolerance"},
}


class DamagedChecks(ValueError):
    """checks.json does not hold what a release writes."""


@dataclass(frozen=True)
class Checks:
    """The content of a checks.json: the assignment's name, its salt, an entry for each check.

    ``picks`` holds the options of each pick, as they are written; none where variants are off. The
    entry of a check that hangs on a pick is ``{"kind": "drawn", "pick": ..., "entries": [...]}``,
    with an entry for each option. ``forbidden`` are the names that the student's code may not use.
    """

    assignment: str
    salt: str
    checks: Mapping[str, Mapping[str, Any]]
    picks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    forbidden: tuple[str, ...] = ()


def write(
    path: Path,
    *,
    assignment: str,
    salt: str,
    checks: Mapping[str, Mapping[str, Any]],
    picks: Mapping[str, Sequence[str]] | None = None,
    forbidden: Iterable[str] = (),
) -> None:
    """Write checks.json; the same arguments give the same bytes.

    Raises `DamagedChecks` rather than write a file that `read` would refuse.
    """
    content: dict[str, Any] = {
        "format": FORMAT,
        "assignment": assignment,
        "salt": salt,
        "checks": {},
    }
    content["checks"] = {name: dict(one) for name, one in checks.items()}
    if picks:
        content["picks"] = {name: list(options) for name, options in picks.items()}
    if names := sorted(forbidden):
        content["forbidden"] = names
    _parse(content)
    text = json.dumps(content, indent=1, sort_keys=True, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


def read(path: Path) -> Checks:
    """Read checks.json.

    Raises `FileNotFoundError` if there is none, `DamagedChecks` if a release did not write it so.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedChecks(f"it cannot be read: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise DamagedChecks(f"it is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedChecks("it is not JSON") from error
    return _parse(content)


def _parse(content: object) -> Checks:
    if type(content) is not dict or content.keys() - SOME_FIELDS != FIELDS:
        raise DamagedChecks(
            "it has other fields than format, assignment, salt, checks, and perhaps forbidden or "
            "picks"
        )
    if content["format"] != FORMAT or type(content["format"]) is not int:
        raise DamagedChecks(f"its format is not {FORMAT}, which this version reads")
    if type(content["assignment"]) is not str or type(content["salt"]) is not str:
        raise DamagedChecks("assignment and salt must be texts")
    checks = content["checks"]
    if type(checks) is not dict or not all(type(name) is str for name in checks):
        raise DamagedChecks("checks must be an object with an entry for each check's name")
    picks = content.get("picks", {})
    if type(picks) is not dict or not all(map(_is_options, picks.values())):
        raise DamagedChecks("picks must be an object with two or more options for each name")
    for name, one in checks.items():
        try:
            for entry in _entries(one, picks):
                validate(entry)
        except DamagedChecks as error:
            raise DamagedChecks(f"check {name!r}: {error}") from None
    forbidden = _forbidden(content["forbidden"]) if "forbidden" in content else ()
    return Checks(content["assignment"], content["salt"], checks, picks, forbidden)


def _forbidden(names: object) -> tuple[str, ...]:
    """Return the forbidden names, of which a file that has the field holds at least one."""
    if type(names) is not list or not names:
        raise DamagedChecks("its forbidden is no list of one or more names")
    if not all(type(name) is str and name.isidentifier() for name in names):
        raise DamagedChecks("its forbidden holds something other than bare names")
    if names != sorted(set(names)):
        raise DamagedChecks("its forbidden names are not in order, each once")
    return tuple(names)


def _is_options(value: object) -> bool:
    return type(value) is list and len(value) > 1 and all(type(one) is str for one in value)


def _entries(stored: object, picks: Mapping[str, Sequence[str]]) -> Sequence[object]:
    """Return the entries that one check has: one, or one for each option of its pick."""
    if not isinstance(stored, Mapping) or stored.get("kind") != "drawn":
        return [stored]
    entries, pick = stored.get("entries"), stored.get("pick")
    if stored.keys() != {"kind", "pick", "entries"} or type(entries) is not list:
        raise DamagedChecks("a drawn check has other fields than kind, pick and entries")
    if type(pick) is not str or len(entries) != len(picks.get(pick, ())):
        raise DamagedChecks(f"it has not one entry for each option of a pick {pick!r}")
    return entries


def validate(stored: object) -> Value:
    """Refuse an entry that `expected.entry()` does not make; return the value of one that has one.

    >>> validate({"kind": "form", "hint": "Divide.", "form": "a number"})
    """
    if not isinstance(stored, Mapping) or stored.get("kind") not in ("form", "hash", "value"):
        raise DamagedChecks("its kind is none of form, hash and value")
    fields = _ENTRY_FIELDS[stored["kind"]]
    if set(stored) - {"known"} != {"kind", "hint"} | fields:
        raise DamagedChecks(f"its fields are not kind, hint, {', '.join(sorted(fields))}")
    texts = ({"hint"} | fields) - {"value", "tolerance", "items"}
    if not all(type(stored[field]) is str for field in texts):
        raise DamagedChecks("a field that must be a text is none")
    if "form" in fields and stored["form"] not in FORMS:
        raise DamagedChecks(f"its form is none of {', '.join(FORMS)}")
    if "items" in fields:
        items = stored["items"]
        if type(items) is not list or not all(type(item) is str for item in items):
            raise DamagedChecks("its items are no list of texts")
        if not set(items) <= set(FORMS) or (items and stored["form"] != "a list"):
            raise DamagedChecks(f"its items are not those of a list, of {', '.join(FORMS)}")
    if "known" in stored:
        _validate_known(stored)
    if stored["kind"] != "value":
        return None
    tolerance = stored["tolerance"]
    if tolerance is not None and not (
        type(tolerance) in (int, float) and math.isfinite(tolerance) and tolerance >= 0
    ):
        raise DamagedChecks("its tolerance is not a finite number from 0 up")
    try:
        value = decode(stored["value"])
        refuse(value)
    except (Malformed, ValueError) as error:
        raise DamagedChecks(f"its value: {error}") from None
    return value


def _validate_known(stored: Mapping[str, Any]) -> None:
    """Refuse known mistakes that `expected.entry()` does not make."""
    known, mark = stored["known"], stored["kind"]
    if mark == "form" or type(known) is not list or not known:
        raise DamagedChecks("its known mistakes are no list of one or more")
    for one in known:
        if type(one) is not dict or one.keys() != {mark, "says"} or type(one["says"]) is not str:
            raise DamagedChecks(f"a known mistake has other fields than {mark} and says")
        try:
            if mark == "value":
                decode(one["value"])
            elif type(one["hash"]) is not str:
                raise DamagedChecks("the hash of a known mistake is no text")
        except Malformed as error:
            raise DamagedChecks(f"the value of a known mistake: {error}") from None


def refuse(value: Value) -> None:
    """Refuse a value that no check may rest on.

    Raises `ValueError` for a truth value or None, which every second student guesses, and for an
    exception or an unknown type, which cannot be compared.

    >>> refuse([64, "Q"])
    """
    if isinstance(value, Raised | Unsupported):
        raise ValueError(f"a check cannot rest on an exception or an unknown type: {value}")
    plain = simplify(value)
    if plain is None or isinstance(plain, bool):
        raise ValueError(
            f"a check cannot rest on {plain}: one guess in two is right. Check the value that "
            "it was computed from."
        )
    if isinstance(plain, list):
        for item in plain:
            refuse(item)
