"""What a release's visible checks compare with: the file checks.json beside the notebook.

It travels with the exercise, so a student can read it. Whole numbers and texts stand there as
salted hashes, which hide them from a glance and no more, with how many items of which kind a list
has; arrays and numbers with a fraction stand
there as values, because they differ a little between processors. A plain number that earns
points is only checked for its form. No mark rests on this file: the grader never reads it.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.compare import (
    compare,
    describe,
    failure,
    is_finite,
    is_number,
    simplify,
    whole_number,
)
from grading.values import MAX_INT_BITS, Malformed, Raised, Unsupported, Value, decode, encode

FILE_NAME = "checks.json"
FORMAT = 1
MAX_FILE_BYTES = 32 << 20

_FORMS = ("a whole number", "a number", "a text", "a list")
_FIELDS = {  # besides kind and hint
    "form": {"form"},
    "hash": {"form", "items", "salt", "hash"},
    "value": {"value", "tolerance"},
}


class DamagedChecks(ValueError):
    """checks.json does not hold what a release writes."""


@dataclass(frozen=True)
class Verdict:
    """What a visible check found; `form_only` says that the value itself was not compared.

    `says` is what stands beside the value of a known mistake, where it is the student's.
    """

    passed: bool
    message: str
    form_only: bool
    says: str = ""


@dataclass(frozen=True)
class Checks:
    """The content of a checks.json: the assignment's name, its salt, an entry for each check."""

    assignment: str
    salt: str
    checks: Mapping[str, Mapping[str, Any]]


def entry(
    value: Value,
    *,
    hint: str,
    tolerance: float | None,
    earns_points: bool,
    salt: str,
    mistakes: Iterable[tuple[Value, str]] = (),
) -> dict[str, Any]:
    """Make what checks.json holds for one visible check, from the reference's value.

    ``mistakes`` are values that known mistakes give, each with what a student is told who has it.
    A number of which only the form is checked has none: they would tell what it is not.

    Raises `ValueError` for values that no check may rest on: a truth value or None is guessed
    by every second student, and an exception or an unknown type cannot be compared.

    >>> entry(64, hint="Divide.", tolerance=None, earns_points=True, salt="ab")
    {'kind': 'form', 'hint': 'Divide.', 'form': 'a whole number'}
    """
    _refuse(value)
    canonical = _canonical(value)
    if is_number(canonical) and earns_points:
        return {"kind": "form", "hint": hint, "form": _form(canonical)}
    if _is_hashable(canonical):
        form = _form(canonical)
        made: dict[str, Any] = {
            "kind": "hash",
            "hint": hint,
            "form": form,
            "items": _item_forms(canonical),
            "salt": salt,
            "hash": _hash(canonical, salt),
        }
    else:
        made = {"kind": "value", "hint": hint, "value": encode(value), "tolerance": tolerance}
    known: list[dict[str, Any]] = []
    for wrong, says in mistakes:
        if failure(wrong) or (made["kind"] == "hash" and not _is_hashable(_canonical(wrong))):
            continue
        verdict = judge(wrong, {**made, "known": known} if known else made)
        if not verdict.passed and not verdict.says:
            mark = _hash(_canonical(wrong), salt) if made["kind"] == "hash" else encode(wrong)
            known.append({"hash" if made["kind"] == "hash" else "value": mark, "says": says})
    return {**made, "known": known} if known else made


def judge(got: Value, stored: Mapping[str, Any]) -> Verdict:
    """Compare a student's value with one entry of checks.json.

    Raises `DamagedChecks` when the entry is not one that `entry()` makes.
    """
    expected = _validate(stored)
    if stored["kind"] == "value":
        difference = compare(got, expected, stored["tolerance"])
        if difference is None:
            return Verdict(True, "", form_only=False)
        return Verdict(False, difference, form_only=False, says=_says(got, stored))
    if no_value := failure(got):
        return Verdict(False, no_value, form_only=False)
    canonical = _canonical(got)
    if not _has_form(canonical, stored["form"]):
        size = f" of {len(stored['items'])} items" if stored.get("items") else ""
        message = f"Expected {stored['form']}{size}; yours is {describe(canonical)}."
        return Verdict(False, message, form_only=False)
    if stored["kind"] == "form":
        return Verdict(True, "", form_only=True)
    if _hash(canonical, stored["salt"]) == stored["hash"]:
        return Verdict(True, "", form_only=False)
    message = _not_right(canonical, stored["items"])
    return Verdict(False, message, form_only=False, says=_says(got, stored))


def _says(got: Value, stored: Mapping[str, Any]) -> str:
    """Return what is told to those who have just this wrong value."""
    for known in stored.get("known", ()):
        if "hash" in known:
            found = _hash(_canonical(got), stored["salt"]) == known["hash"]
        else:
            found = compare(got, decode(known["value"]), stored["tolerance"]) is None
        if found:
            return str(known["says"])
    return ""


def write(
    path: Path, *, assignment: str, salt: str, checks: Mapping[str, Mapping[str, Any]]
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
    if type(content) is not dict or content.keys() != {"format", "assignment", "salt", "checks"}:
        raise DamagedChecks("it has other fields than format, assignment, salt and checks")
    if content["format"] != FORMAT or type(content["format"]) is not int:
        raise DamagedChecks(f"its format is not {FORMAT}, which this version reads")
    if type(content["assignment"]) is not str or type(content["salt"]) is not str:
        raise DamagedChecks("assignment and salt must be texts")
    checks = content["checks"]
    if type(checks) is not dict or not all(type(name) is str for name in checks):
        raise DamagedChecks("checks must be an object with an entry for each check's name")
    for name, one in checks.items():
        try:
            _validate(one)
        except DamagedChecks as error:
            raise DamagedChecks(f"check {name!r}: {error}") from None
    return Checks(content["assignment"], content["salt"], checks)


def _validate(stored: object) -> Value:
    """Refuse an entry that `entry()` does not make; give the value of one that has a value."""
    if not isinstance(stored, Mapping) or stored.get("kind") not in ("form", "hash", "value"):
        raise DamagedChecks("its kind is none of form, hash and value")
    fields = _FIELDS[stored["kind"]]
    if set(stored) - {"known"} != {"kind", "hint"} | fields:
        raise DamagedChecks(f"its fields are not kind, hint, {', '.join(sorted(fields))}")
    texts = ({"hint"} | fields) - {"value", "tolerance", "items"}
    if not all(type(stored[field]) is str for field in texts):
        raise DamagedChecks("a field that must be a text is none")
    if "form" in fields and stored["form"] not in _FORMS:
        raise DamagedChecks(f"its form is none of {', '.join(_FORMS)}")
    if "items" in fields:
        items = stored["items"]
        if type(items) is not list or not all(type(item) is str for item in items):
            raise DamagedChecks("its items are no list of texts")
        if not set(items) <= set(_FORMS) or (items and stored["form"] != "a list"):
            raise DamagedChecks(f"its items are not those of a list, of {', '.join(_FORMS)}")
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
        _refuse(value)
    except (Malformed, ValueError) as error:
        raise DamagedChecks(f"its value: {error}") from None
    return value


def _validate_known(stored: Mapping[str, Any]) -> None:
    """Refuse known mistakes that `entry()` does not make."""
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


def _refuse(value: Value) -> None:
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
            _refuse(item)


def _canonical(value: Value) -> Value:
    """Give numbers without a fraction as `int`, so that 64, 64.0 and a tensor have one hash."""
    plain = simplify(value)
    if isinstance(plain, list):
        return [_canonical(item) for item in plain]
    whole = whole_number(plain)
    return plain if whole is None or whole.bit_length() > MAX_INT_BITS else whole


def _is_hashable(canonical: Value) -> bool:
    if isinstance(canonical, list):
        return all(_is_hashable(item) for item in canonical)
    return isinstance(canonical, int | str)


def _form(canonical: Value) -> str:
    if isinstance(canonical, list):
        return "a list"
    if isinstance(canonical, str):
        return "a text"
    return "a whole number" if isinstance(canonical, int) else "a number"


def _has_form(canonical: Value, form: str) -> bool:
    if form in ("a whole number", "a number"):
        if not is_number(canonical) or not is_finite(canonical):
            return False
        return form == "a number" or whole_number(canonical) is not None
    return isinstance(canonical, list if form == "a list" else str)


def _item_forms(canonical: Value) -> list[str]:
    """Give the form of each item of a list; nothing for what is no list."""
    return [_form(item) for item in canonical] if isinstance(canonical, list) else []


def _not_right(canonical: Value, items: list[str]) -> str:
    """Say what can be said of a wrong value without the right one: how many, of what kind."""
    if not isinstance(canonical, list):
        return f"This is not the right {'text' if isinstance(canonical, str) else 'number'}."
    for index, (item, form) in enumerate(zip(canonical, items, strict=False)):
        if not _has_form(item, form):
            return (
                f"This is not the right list: item [{index}] is {describe(item)}; "
                f"{form} is expected."
            )
    if len(canonical) != len(items):
        return f"This is not the right list: yours is {describe(canonical)}, expected {len(items)}."
    return "This is not the right list: as many items as expected, but not all of them are right."


def _hash(canonical: Value, salt: str) -> str:
    wire = json.dumps(encode(canonical), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{salt}:{wire}".encode()).hexdigest()
