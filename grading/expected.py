"""What a visible check finds in a student's value: an entry of checks.json, made and judged by.

A student can read that file. Whole numbers and texts stand there as salted hashes, which hide them
from a glance and no more, with how many items of which kind a list has; arrays and numbers with a
fraction stand there as values, because they differ a little between processors. A plain number
that earns points is only checked for its form. No mark rests on this: the grader never reads it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grading.checks_file import refuse, validate
from grading.compare import compare, simplify
from grading.describe import (
    another_form,
    describe,
    failure,
    is_finite,
    is_number,
    whole_number,
)
from grading.values import MAX_INT_BITS, Raised, Value, decode, encode


@dataclass(frozen=True)
class Verdict:
    """What a visible check found; `form_only` says that the value itself was not compared.

    `says` is what stands beside the value of a known mistake, where it is the student's.
    """

    passed: bool
    message: str
    form_only: bool
    says: str = ""


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
    refuse(value)
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
            is_hash = made["kind"] == "hash"
            mark = {"hash": _hash(_canonical(wrong), salt)} if is_hash else {"value": encode(wrong)}
            known.append({**mark, "says": says})
    return {**made, "known": known} if known else made


def judge(got: Value, stored: Mapping[str, Any]) -> Verdict:
    """Compare a student's value with one entry of checks.json.

    Raises `checks_file.DamagedChecks` when the entry is not one that `entry()` makes.
    """
    expected = validate(stored)
    if stored["kind"] == "value":
        difference = compare(got, expected, stored["tolerance"])
        if difference is None:
            return Verdict(True, "", form_only=False)
        return Verdict(False, difference, form_only=False, says=_says(got, stored))
    if isinstance(got, Raised):
        return Verdict(False, failure(got) or "", form_only=False)
    canonical = _canonical(got)
    if not _has_form(canonical, stored["form"]):
        size = f" of {len(stored['items'])} items" if stored.get("items") else ""
        return Verdict(False, another_form(stored["form"] + size, canonical), form_only=False)
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
