import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from grading.checks_file import DamagedChecks, read, write
from grading.expected import Verdict, entry, judge
from grading.values import Raised, Unsupported, Value, decode, encode

RIGHT = Verdict(True, "", form_only=False)
FORM_ONLY = Verdict(True, "", form_only=True)
X = torch.arange(6.0).view(2, 3)


def made(expected: object, *, earns_points: bool = False, tolerance: float | None = None) -> Any:
    value = decode(encode(expected))
    one = entry(value, hint="h", tolerance=tolerance, earns_points=earns_points, salt="5a17")
    return json.loads(json.dumps(one))  # as it stands in the file


def judged(got: object, one: Any) -> Verdict:
    return judge(decode(encode(got)), one)


def wrong(message: str) -> Verdict:
    return Verdict(False, message, form_only=False)


# ---------------------------------------------------------------- the three kinds


@pytest.mark.parametrize(
    ("expected", "kind", "earning"),
    [
        (64, "hash", "form"),
        (64.0, "hash", "form"),
        (np.int64(64), "hash", "form"),
        (0.5, "value", "form"),
        (torch.tensor(0.5), "value", "form"),
        ("Q", "hash", "hash"),
        ([64, 64], "hash", "hash"),
        (["Q", [1, 2.0]], "hash", "hash"),
        ([0.5, 1], "value", "value"),
        (X, "value", "value"),
        (X > 1, "value", "value"),
        ([X, 3], "value", "value"),
    ],
)
def test_which_kind_a_value_becomes(expected: object, kind: str, earning: str) -> None:
    assert made(expected)["kind"] == kind
    assert made(expected, earns_points=True)["kind"] == earning
    assert judged(expected, made(expected)) == RIGHT


@pytest.mark.parametrize(
    "expected", [True, False, None, torch.tensor(True), [1, None], [[True]], Raised("E", "m")]
)
def test_no_check_rests_on_a_verdict(expected: object) -> None:
    with pytest.raises(ValueError, match="cannot rest on"):
        made(expected)
    with pytest.raises(ValueError, match="cannot rest on"):
        made(expected, earns_points=True)


@pytest.mark.parametrize("expected", [64, 64.0, np.int32(64), torch.tensor(64)])
@pytest.mark.parametrize(
    "got", [64, 64.0, 768 / 12, np.int64(64), np.array(64), torch.tensor(64.0), np.float32(64)]
)
def test_every_way_to_write_64_has_one_hash(expected: object, got: object) -> None:
    assert made(expected) == made(64)
    assert judged(got, made(expected)) == RIGHT
    assert judged([got, "x"], made([expected, "x"])) == RIGHT


def test_a_hash_is_salted_and_holds_no_value() -> None:
    one, other = (
        made(2_359_296),
        entry(2_359_296, hint="h", tolerance=None, earns_points=False, salt="b"),
    )
    assert one["hash"] != other["hash"]
    assert "2359296" not in json.dumps(one)


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        (65, 64, "This is not the right number."),
        (10**100, 64, "This is not the right number."),
        (64.5, 64, "Expected a whole number; yours is a number with a fraction."),
        (True, 1, "Expected a whole number; yours is the truth value True."),
        ("64", 64, "Expected a whole number; yours is a text: '64'."),
        (64, "64", "Expected a text; yours is a whole number."),
        ("q", "Q", "This is not the right text."),
        (
            [1, 2],
            [2, 1],
            "This is not the right list: as many items as expected, but not all of them are right.",
        ),
        (
            [1] * 11,
            [2] * 12,
            "This is not the right list: yours is a list of 11 items, expected 12.",
        ),
        (
            None,
            [2, 1],
            "Expected a list of 2 items; yours is None (does the function end with `return`?).",
        ),
        (
            [True],
            [1],
            "This is not the right list: item [0] is the truth value True; "
            "a whole number is expected.",
        ),
        (
            [1, "1"],
            [1, 1],
            "This is not the right list: item [1] is a text: '1'; a whole number is expected.",
        ),
        (
            [3, None],
            [3, 4],
            "This is not the right list: item [1] is None (does the function end with `return`?); "
            "a whole number is expected.",
        ),
        (math.nan, 64, "Expected a whole number; yours is nan, 'not a number', as in 0 / 0."),
        (
            np.array([4, 3, 2]),
            [4, 3],
            "Expected a list of 2 items; "
            "yours is an array or tensor of shape (3,) and dtype int64. "
            "`.tolist()` makes a list of it.",
        ),
        ({}, 64, "Expected a whole number; yours is a value of type dict."),
        (ValueError, 64, "Expected a whole number; yours is a value of type type."),
        (Raised("E", "m"), 64, "It raised E: m"),
        (X + 1, X, "At [0, 0], counted from 0, yours is 1, expected 0. All 6 are wrong."),
        (0.6, 0.5, "This is not the right number."),
    ],
)
def test_wrong_values(got: object, expected: object, message: str) -> None:
    assert judged(got, made(expected)) == wrong(message)


def test_a_hashed_list_tells_how_many_of_which_kind_and_no_more() -> None:
    one = made([4321, "Q", [8765]])
    assert one["items"] == ["a whole number", "a text", "a list"]
    assert "4321" not in json.dumps(one)
    assert "8765" not in json.dumps(one)
    assert made(64)["items"] == made("Q")["items"] == []


def test_a_number_that_earns_points_is_checked_for_form_only() -> None:
    whole, fraction = made(64, earns_points=True), made(0.5, earns_points=True)
    assert "64" not in json.dumps(whole)
    for got in (64, 65, 64.0, -1, torch.tensor(7)):
        assert judged(got, whole) == FORM_ONLY
        assert judged(got, fraction) == FORM_ONLY
    assert judged(0.25, fraction) == FORM_ONLY
    assert judged(0.25, whole) == wrong(
        "Expected a whole number; yours is a number with a fraction."
    )
    assert judged(math.nan, fraction) == wrong(
        "Expected a number; yours is nan, 'not a number', as in 0 / 0."
    )
    assert judged(True, fraction) == wrong("Expected a number; yours is the truth value True.")
    assert judged("64", whole) == wrong("Expected a whole number; yours is a text: '64'.")
    assert not judged(None, whole).passed
    assert not judged(Raised("E", "m"), whole).passed


def test_values_keep_their_tolerance() -> None:
    assert judged(X + 0.01, made(X, tolerance=0.1)) == RIGHT
    assert not judged(X + 0.01, made(X)).passed
    assert judged(X.bfloat16(), made(X)) == RIGHT


# ---------------------------------------------------------------- known mistakes


def knowing(expected: object, *mistakes: tuple[object, str], earns_points: bool = False) -> Any:
    told = [(decode(encode(value)), says) for value, says in mistakes]
    value = decode(encode(expected))
    one = entry(
        value, hint="h", tolerance=None, earns_points=earns_points, salt="5a17", mistakes=told
    )
    return json.loads(json.dumps(one))


@pytest.mark.parametrize(
    ("expected", "known", "unknown"),
    [(X, X * 2, X * 3), ([3, 4], [4, 3], [4, 4]), ("Q", "K", "V"), ([X, 1], [X.T, 1], [X, 2])],
)
def test_who_has_the_value_of_a_known_mistake_is_told_of_it(
    expected: object, known: object, unknown: object
) -> None:
    one = knowing(expected, (known, "Twice."), (known, "Not reached."))
    assert len(one["known"]) == 1
    assert judged(known, one).says == "Twice."
    assert judged(unknown, one).says == "" == judged(expected, one).says
    assert judged(expected, one) == RIGHT
    assert judged(known, one).message == judged(known, made(expected)).message


def test_what_is_right_raises_or_has_only_its_form_checked_is_no_known_mistake() -> None:
    assert "known" not in knowing(X, (X + 1e-9, "right, but for rounding"))
    assert "known" not in knowing(X, (Raised("E", "m"), "raises"))
    assert "known" not in knowing(64, (768, "d_model"), earns_points=True)
    assert "known" not in knowing([1, 2], (X, "of another kind"))


@pytest.mark.parametrize(
    "known",
    [
        [],
        {},
        [3],
        [{"value": 1}],
        [{"hash": "00", "says": "s"}],
        [{"value": {"array": 1}, "says": "s"}],
        [{"value": 1.5, "says": 2}],
    ],
)
def test_known_mistakes_that_a_release_does_not_write_are_damage(known: object) -> None:
    with pytest.raises(DamagedChecks, match="known mistake"):
        judge(1.5, {**made(2.5), "known": known})
    with pytest.raises(DamagedChecks, match="known mistake"):
        judge(64, {**made(64, earns_points=True), "known": [{"value": 1.5, "says": "s"}]})


# ---------------------------------------------------------------- the file


def content(**changes: object) -> dict[str, Any]:
    whole = {
        "format": 1,
        "assignment": "multi-head",
        "salt": "5a17",
        "checks": {"d_k": made(64, earns_points=True), "heads": made(X), "names": made(["Q"])},
    }
    return {key: value for key, value in (whole | changes).items() if value is not ...}


def test_the_file_is_read_as_it_was_written_and_always_the_same(tmp_path: Path) -> None:
    path = tmp_path / "checks.json"
    checks = content()["checks"]
    write(path, assignment="Đa đầu", salt="5a17", checks=checks)
    first = path.read_bytes()
    back = read(path)
    assert (back.assignment, back.salt, back.checks) == ("Đa đầu", "5a17", checks)
    write(path, assignment="Đa đầu", salt="5a17", checks=dict(reversed(checks.items())))
    assert path.read_bytes() == first
    assert b"\r" not in first
    assert back.forbidden == ()
    write(path, assignment="Đa đầu", salt="5a17", checks=checks, forbidden={"softmax", "attend"})
    assert read(path).forbidden == ("attend", "softmax")
    assert json.loads(first) == {
        key: value for key, value in json.loads(path.read_bytes()).items() if key != "forbidden"
    }


def test_a_missing_file_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "checks.json")


DAMAGED: dict[str, str | bytes] = {
    "empty": "",
    "half": json.dumps(content())[:100],
    "not text": b"\xff\xfe\x00",
    "too deep": "[" * 100_000,
    "a list": "[]",
    "another format": json.dumps(content(format=2)),
    "true for format": json.dumps(content(format=True)),
    "no salt": json.dumps(content(salt=...)),
    "a field more": json.dumps(content(points=5)),
    "forbidden is a text": json.dumps(content(forbidden="softmax")),
    "forbidden is empty": json.dumps(content(forbidden=[])),
    "forbidden names are numbers": json.dumps(content(forbidden=[3])),
    "a forbidden name has a dot": json.dumps(content(forbidden=["nn.Softmax"])),
    "forbidden names twice": json.dumps(content(forbidden=["softmax", "softmax"])),
    "forbidden names in disorder": json.dumps(content(forbidden=["softmax", "attend"])),
    "checks are a list": json.dumps(content(checks=[])),
    "assignment is a number": json.dumps(content(assignment=3)),
    "an entry is a text": json.dumps(content(checks={"d_k": "64"})),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "checks.json"
    damage = DAMAGED[name]
    path.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    with pytest.raises(DamagedChecks):
        read(path)


def test_a_folder_in_place_of_the_file_is_damage(tmp_path: Path) -> None:
    (tmp_path / "checks.json").mkdir()
    with pytest.raises(DamagedChecks, match="cannot be read"):
        read(tmp_path / "checks.json")


DAMAGED_ENTRIES: dict[str, Any] = {
    "nothing": {},
    "a list for a kind": {"kind": ["hash"], "hint": "h"},
    "another kind": made(64) | {"kind": "always right"},
    "kind and fields differ": made(64) | {"kind": "form"},
    "a field more": made(64) | {"passed": True},
    "hint is no text": made(64) | {"hint": None},
    "hash is no text": made(64) | {"hash": 3},
    "another form": made(64) | {"form": "anything"},
    "items are a text": made([1]) | {"items": "a list"},
    "items of another form": made([1]) | {"items": ["anything"]},
    "a number with items": made(64) | {"items": ["a text"]},
    "tolerance true": made(X) | {"tolerance": True},
    "tolerance infinite": made(X) | {"tolerance": math.inf},
    "tolerance negative": made(X) | {"tolerance": -1},
    "value malformed": made(X) | {"value": {"array": {}}},
    "value is a verdict": made(X) | {"value": {"bool": True}},
    "value is an exception": made(X) | {"value": encode(Raised("E", "m"))},
    "value is unsupported": made(X) | {"value": encode(Unsupported("k"))},
}


@pytest.mark.parametrize("name", DAMAGED_ENTRIES)
def test_a_damaged_entry_is_refused(name: str, tmp_path: Path) -> None:
    damage = DAMAGED_ENTRIES[name]
    got: Value = 64
    with pytest.raises(DamagedChecks):
        judge(got, damage)
    with pytest.raises(DamagedChecks, match="check 'one'"):
        write(tmp_path / "checks.json", assignment="a", salt="s", checks={"one": damage})
    assert not (tmp_path / "checks.json").exists()
