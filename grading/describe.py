"""What kind of value is this? In words for the student, who may be new to tensors.

It tells nothing of what would be right; that is for :mod:`grading.compare` to say.
"""

import math
from typing import Any

from grading.values import Array, Raised, Unsupported, Value

NOT_A_NUMBER = "'not a number', as in 0 / 0"
# What PyTorch's max, sort and others give along a dimension.
_SEVERAL = "torch.return_types."
_TAKE_ONE = "It holds several results: take out `.values` or `.indices`."
_LONGEST_QUOTE = 300


def is_number(value: Value) -> bool:
    """Tell whether a simplified value is one plain real number; a boolean is none."""
    if isinstance(value, Array):
        return not value.shape and kind_of(value) == "f"
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_finite(number: Value) -> bool:
    """Tell whether what `is_number` is neither infinite nor NaN."""
    return math.isfinite(number_of(number))


def whole_number(value: Value) -> int | None:
    """Give the whole number that a simplified value is, also for 64.0; None if it is none.

    >>> whole_number(64.0), whole_number(64.5), whole_number(True)
    (64, None, None)
    """
    if not is_number(value):
        return None
    number = number_of(value)
    return int(number) if math.isfinite(number) and number == int(number) else None


def describe(value: Value) -> str:
    """Say what kind of value this is, in words that a beginner knows.

    >>> describe(["Q", "K"])
    'a list of 2 items'
    """
    if value is None:
        return "None (does the function end with `return`?)"
    if isinstance(value, bool):
        return f"the truth value {value}"
    if whole_number(value) is not None:
        return "a whole number"
    if is_number(value):
        return "a number with a fraction" if is_finite(value) else _unusual(number_of(value))
    if isinstance(value, str):
        return f"a text: {_quoted(value)}"
    if isinstance(value, list):
        all_arrays = value and all(isinstance(item, Array) for item in value)
        return f"a list of {counted(len(value), 'tensor' if all_arrays else 'item')}"
    if isinstance(value, Array):
        return f"an array or tensor of shape {value.shape} and dtype {value.dtype}"
    assert isinstance(value, Raised | Unsupported)  # nothing else is left
    kind = readable(value.kind)
    return f"{kind}. {_TAKE_ONE.rstrip('.')}" if _SEVERAL in kind else kind


def another_form(wanted: str, got: Value) -> str:
    """Say that a list, a number or a text is wanted and what came, with the way from a tensor."""
    way = ""
    if isinstance(got, Array) and got.shape:
        if wanted.startswith("a list"):
            way = " `.tolist()` makes a list of it."
        elif math.prod(got.shape) == 1:
            way = " `.item()` takes the number out."
    return f"Expected {wanted}; yours is {describe(got)}.{way}"


def failure(got: Value) -> str | None:
    """Say why there is no value to look at: an exception, or a type that cannot be sent."""
    if isinstance(got, Raised):
        if got.kind == "NotImplementedError":
            return "This is not written yet: it raises NotImplementedError."
        message = readable(got.message)
        if _SEVERAL in message:
            message = f"{message.rstrip('.')}. {_TAKE_ONE}"
        return f"It raised {readable(got.kind)}" + (f": {message}" if message else ".")
    if isinstance(got, Unsupported):
        return f"Yours is {describe(got)}. That cannot be checked."
    return None


def readable(text: str) -> str:
    """Give a student's text on one line, without control characters, and not too long."""
    shown = " ".join(text[: 2 * _LONGEST_QUOTE].split())
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in shown)
    return shown if len(shown) <= _LONGEST_QUOTE else shown[:_LONGEST_QUOTE] + "..."


def _quoted(text: str) -> str:
    return repr(readable(text))


def counted(number: int, what: str) -> str:
    """Say how many there are of something.

    >>> counted(1, "item"), counted(2, "item")
    ('1 item', '2 items')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _unusual(number: int | float) -> str:
    """Say what a number is that is not finite."""
    return f"nan, {NOT_A_NUMBER}" if math.isnan(number) else "infinite"


def kind_of(array: Array) -> str:
    """Tell booleans, whole, real and complex numbers apart: one of the letters b, i, f, c."""
    first = array.dtype[0]
    return {"u": "i", "b": "f" if array.dtype == "bfloat16" else "b"}.get(first, first)


def number_of(value: Value) -> int | float:
    """Give what `is_number` as a plain number."""
    number: Any = value.numpy().item() if isinstance(value, Array) else value
    return number  # type: ignore[no-any-return]  # only asked for what `is_number`
