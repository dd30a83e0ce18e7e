"""Is a value right? The same rules for `check()` in a notebook and for the grader.

A value is right or it gets one sentence for the student. Shape comes first, then the kind of
numbers, then where there is a NaN or an infinity, then the numbers. All of it happens on data
that `grading.values` has read, so no method that a student wrote is ever called.
"""

import math
from typing import Any

import numpy as np

from grading.describe import (
    NOT_A_NUMBER,
    another_form,
    counted,
    describe,
    failure,
    is_number,
    kind_of,
    number_of,
    whole_number,
)
from grading.values import Array, Raised, Unsupported, Value

# How far a number may be from the reference, relative to the reference's scale, which is its
# largest finite number (1 where all are zero). The coarser of the two dtypes decides, so float32
# work meets a float64 reference. Two honest ways to compute multi-head attention in float32
# differ by some 6e-7. float16 and bfloat16 get 4 of their eps: honest work needed up to 2.3
# where inputs have variance 1, and the mildest mistake that was tried (no scaling by sqrt(d_k))
# was six times farther away than bfloat16's 3 %.
TOLERANCES = {
    "bfloat16": 4 * 2.0**-7,
    "float16": 4 * 2.0**-10,
    "float32": 1e-4,
    "float64": 1e-6,
    "complex64": 1e-4,
    "complex128": 1e-6,
    "plain": 1e-5,  # it may be the `.item()` of a float32 tensor: nothing says so any more
}
_HALF = ("float16", "bfloat16")

_KINDS = {
    "b": "True/False values",
    "i": "whole numbers",
    "f": "numbers with a decimal point",
    "c": "complex numbers",
}
# What a beginner may have overlooked, by the kind that is expected and the kind that came.
_WAYS = {
    "bf": " A comparison, such as `t > 0`, makes True and False.",
    "bi": " A comparison, such as `t > 0`, makes True and False.",
    "if": " A division or a decimal point makes numbers with a decimal point.",
    "fi": " Whole numbers stay whole until one has a decimal point, such as `1.0`.",
}


def compare(got: Value, expected: Value, tolerance: float | None = None) -> str | None:
    """Say what differs, in a sentence for the student; None means right.

    `tolerance` is relative to the reference's largest finite number; without it the dtypes
    decide (`TOLERANCES`). Work in float16 or bfloat16 always gets at least its own. Whole
    numbers, texts and booleans must be equal. A plain number's value and distance are never told.
    Raises `ValueError` for a tolerance that is none, and for a reference that is no value.

    >>> compare(64.0, 64)
    >>> compare(65, 64)
    'This is not the right number.'
    >>> compare("64", 64)
    "Expected a whole number; yours is a text: '64'."
    """
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"a tolerance must be a finite number from 0 up, not {tolerance!r}")
    return _compare(simplify(got), simplify(expected), tolerance)


def simplify(value: Value) -> Value:
    """Give arrays without dimensions as the plain number or boolean they hold.

    Those of float16, bfloat16, float32 and complex numbers stay as they are: their dtype says
    how exact they can be.
    """
    if isinstance(value, list):
        return [simplify(item) for item in value]
    if isinstance(value, Array) and not value.shape:
        item: Any = value.numpy().item()
        if isinstance(item, int) or value.dtype == "float64":
            return item  # type: ignore[no-any-return]  # NumPy cannot say which type it holds
    return value


def _compare(got: Value, expected: Value, tolerance: float | None) -> str | None:
    if isinstance(expected, Raised | Unsupported):
        raise ValueError(f"the reference gives no value to compare with: {failure(expected)}")
    if isinstance(got, Raised):
        return failure(got)
    if isinstance(expected, list):
        return _compare_lists(got, expected, tolerance)
    if is_number(expected):
        return _compare_numbers(got, expected, tolerance)
    if isinstance(expected, Array):
        return _compare_arrays(got, expected, tolerance)
    if isinstance(expected, str):
        if not isinstance(got, str):
            return another_form("a text", got)
        return None if got == expected else "This is not the right text."
    if type(got) is not type(expected):  # True, False or None are left; True is not 1
        wanted = "None" if expected is None else "True or False"
        return f"Expected {wanted}; yours is {describe(got)}."
    return None if got == expected else "This is the wrong one of True and False."


def _compare_lists(got: Value, expected: list[Value], tolerance: float | None) -> str | None:
    if not isinstance(got, list) or len(got) != len(expected):
        if any(isinstance(item, Array) for item in expected):
            return f"Expected {describe(expected)}; yours is {describe(got)}."
        return another_form(describe(expected), got)
    for index, (item, reference) in enumerate(zip(got, expected, strict=True)):
        if difference := _compare(item, reference, tolerance):
            return f"Item [{index}]: {difference}"
    return None


def _compare_numbers(got: Value, expected: Value, tolerance: float | None) -> str | None:
    if not is_number(got):
        return another_form("a whole number" if isinstance(expected, int) else "a number", got)
    number, reference = number_of(got), number_of(expected)
    if math.isfinite(reference) and not math.isfinite(number):
        return f"Expected a number; yours is {describe(got)}."
    if isinstance(reference, int):
        if whole_number(got) is None:
            return "Expected a whole number; yours has a fraction."
        wrong = number != reference  # exact, also between int and float
    else:
        allowed = _allowed(tolerance, _dtype(got), _dtype(expected))
        wrong = bool(_far(np.float64(number), np.float64(reference), allowed))
    return "This is not the right number." if wrong else None


def _compare_arrays(got: Value, expected: Array, tolerance: float | None) -> str | None:
    if not isinstance(got, Array):
        return f"Expected {describe(expected)}; yours is {describe(got)}."
    if got.shape != expected.shape:
        return f"Expected shape {expected.shape}; {_how_shaped(got.shape, expected.shape)}."
    if kind_of(got) != kind_of(expected):
        kinds = kind_of(expected) + kind_of(got)
        return (
            f"Expected {_KINDS[kind_of(expected)]} (dtype {expected.dtype}); "
            f"yours holds {_KINDS[kind_of(got)]} (dtype {got.dtype}).{_WAYS.get(kinds, '')}"
        )
    numbers, reference = got.numpy(), expected.numpy()
    if kind_of(expected) in "bi":
        wrong = numbers != reference
    else:
        allowed = _allowed(tolerance, got.dtype, expected.dtype)
        wrong = _far(_parts(numbers), _parts(reference), allowed).any(axis=-1)
    if not wrong.any():
        return None
    if not wrong.shape:
        return "This is not the right number."
    place = tuple(int(index) for index in np.argwhere(wrong)[0])
    yours, right = _two_texts(numbers[place], reference[place])
    meaning = f" nan is {NOT_A_NUMBER}." if yours == "nan" else ""
    return (
        f"At {list(place)}, counted from 0, yours is {yours}, expected {right}.{meaning} "
        f"{_how_many(int(np.count_nonzero(wrong)), wrong.size)}"
    ).strip()


def _how_shaped(got: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Say what shape a value has, and what is easily overlooked in it."""
    said = f"yours has shape {got}"
    if len(got) != len(expected):
        missing = "too many" if len(got) > len(expected) else "too few"
        return f"{said}, {counted(abs(len(got) - len(expected)), 'dimension')} {missing}"
    same_sizes = sorted(got) == sorted(expected)
    return f"{said}: the same sizes in another order" if same_sizes else said


def _how_many(wrong: int, size: int) -> str:
    """Say how many numbers are wrong; nothing where there is only one."""
    if size == 1:
        return ""
    if wrong == size:
        return f"All {size} are wrong."
    return f"{wrong} of {size} {'is' if wrong == 1 else 'are'} wrong."


def _dtype(number: Value) -> str:
    return number.dtype if isinstance(number, Array) else "plain"


def _allowed(tolerance: float | None, got_dtype: str, expected_dtype: str) -> float:
    if tolerance is None:
        return max(TOLERANCES[got_dtype], TOLERANCES[expected_dtype])
    return max(tolerance, TOLERANCES[got_dtype]) if got_dtype in _HALF else tolerance


def _parts(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Give float64 numbers with one more axis: the number, or real and imaginary part."""
    parts = [numbers.real, numbers.imag] if numbers.dtype.kind == "c" else [numbers]
    return np.stack([part.astype(np.float64) for part in parts], axis=-1)


def _far(got: Any, expected: Any, allowed: float) -> Any:
    """Tell where float64 numbers differ by more than `allowed` times the reference's scale."""
    finite = np.isfinite(expected)
    scale = float(np.max(np.abs(expected), where=finite, initial=0.0)) or 1.0
    with np.errstate(all="ignore"):  # an overflow is infinite, so it is far
        close = np.abs(got - expected) / scale <= allowed
    same_infinity = np.isinf(expected) & (got == expected)
    both_nan = np.isnan(expected) & np.isnan(got)
    return ~np.where(finite, close, same_infinity | both_nan)


def _two_texts(yours: Any, right: Any) -> tuple[str, str]:
    """Write two different numbers with as many digits as it takes to tell them apart."""
    if yours.dtype.kind in "biu":
        return str(yours), str(right)
    texts = [(f"{yours:.{digits}g}", f"{right:.{digits}g}") for digits in (5, 9, 17)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
