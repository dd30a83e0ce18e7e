"""What a student's code gave in place of the right value, in a few words for the instructor.

Unlike :mod:`grading.describe` it tells the value, so no student may read it. Equal wrong answers
get equal words, which is how they are counted.
"""

from __future__ import annotations

from grading.describe import describe, failure
from grading.plain import one_line
from grading.values import Array, Raised, Unsupported, Value

LIMIT = 120
ITEMS = 6  # so many of a list or an array are told
DEPTH = 3
NOTHING, SEVERAL = "no value", "more than one value"


def received_text(values: list[Value]) -> str:
    """Say in one short line what arrived for a check.

    >>> received_text([63]), received_text([[0.25, "Q"]]), received_text([])
    ('63', "[0.25, 'Q']", 'no value')
    """
    if not values:
        return NOTHING
    return one_line(_shown(values[0]), LIMIT) if len(values) == 1 else SEVERAL


def _shown(value: Value, depth: int = 0) -> str:
    if isinstance(value, Raised):
        return failure(value) or ""
    if isinstance(value, Unsupported):
        return describe(value)
    if isinstance(value, Array):
        return _array(value)
    if isinstance(value, list):
        if depth == DEPTH:
            return f"[{len(value)} items]"
        return f"[{_several([_shown(item, depth + 1) for item in value[:ITEMS]], len(value))}]"
    if isinstance(value, str):
        return repr(value[:LIMIT])
    if isinstance(value, float):
        return _number(value)
    return str(value)  # None, True, False and whole numbers


def _array(array: Array) -> str:
    numbers = array.numpy().reshape(-1)
    told = _several([_number(number) for number in numbers[:ITEMS].tolist()], numbers.size)
    if not array.shape:
        return f"{told} ({array.dtype})"
    return f"{array.dtype} of shape {array.shape}: {told}"


def _number(number: bool | int | float | complex) -> str:
    """Write a number so short that two machines' noise does not show."""
    if isinstance(number, complex):
        sign = "-" if number.imag < 0 else "+"
        return f"{_number(number.real)} {sign} {_number(abs(number.imag))}j"
    return f"{round(number, 6) + 0.0:.4g}" if isinstance(number, float) else str(number)


def _several(texts: list[str], count: int) -> str:
    return ", ".join(texts) + (", …" if count > len(texts) else "")
