"""What can be wrong with a number, a switch or a name, said with its value and the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

import math
import operator
from collections.abc import Sequence
from numbers import Real

BACKENDS = ("auto", "explicit", "sdpa", "window", "flex")
POSITIONS = ("rotary", "alibi", "sinusoidal")

Window = tuple[int | None, int | None]
"""How many keys a query sees to its left and to its right; None is all of them."""


def check_size(name: str, size: int) -> int:
    """Return `size` as an int of 1 or more.

    Raises:
        ValueError: It is below 1.
        TypeError: It is not a whole number.

    >>> check_size("num_heads", 0)
    Traceback (most recent call last):
    ValueError: num_heads=0 is not a positive whole number; use 1 or more
    """
    if type(size) is int and size >= 1:  # all that torch.compile follows of this
        return size
    complaint = f"{given(name, size)} is not a positive whole number; use 1 or more"
    if isinstance(size, bool):
        raise TypeError(complaint)
    try:
        whole = operator.index(size)
    except TypeError:
        if isinstance(size, Real) and size >= 1 and float(size).is_integer():
            complaint = f"{name}={size!r} is not an int; pass int({name}), or divide with //"
        raise TypeError(complaint) from None
    if whole < 1:
        raise ValueError(complaint)
    return whole


def check_head_dim(embed_dim: int, num_heads: int, head_dim: int | None) -> int:
    """Return the width of one head: `head_dim` where it is given, else embed_dim / num_heads.

    Raises:
        ValueError: The heads cannot share embed_dim, or head_dim is below 1.
        TypeError: head_dim is not a whole number.

    >>> check_head_dim(768, 12, None)
    64
    >>> check_head_dim(10, 3, None)
    Traceback (most recent call last):
    ValueError: embed_dim=10 is not divisible by num_heads=3; use 1, 2, 5 or 10 heads, or \
pass head_dim
    """
    if head_dim is not None:
        return check_size("head_dim", head_dim)
    if embed_dim % num_heads:
        raise ValueError(
            f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}; "
            f"use {so_many(nearest_divisors(embed_dim, num_heads), 'head')}, or pass head_dim"
        )
    return embed_dim // num_heads


def nearest_divisors(number: int, target: int, count: int = 4) -> list[int]:
    """Return the `count` divisors of `number` nearest to `target`, in increasing order.

    Of two that are equally near, the smaller comes first. Where `number` has no more than
    `count` divisors, all are returned.

    >>> nearest_divisors(10, 3)
    [1, 2, 5, 10]
    >>> nearest_divisors(768, 10)  # 4 and 16 are equally far: 4 is taken
    [4, 6, 8, 12]
    >>> nearest_divisors(768, 1000)
    [192, 256, 384, 768]
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = {*small, *(number // d for d in small)}
    by_distance = sorted(divisors, key=lambda divisor: (abs(divisor - target), divisor))
    return sorted(by_distance[:count])


def check_backend(backend: str) -> str:
    """Return `backend` if there is one of this name.

    >>> check_backend("flash")
    Traceback (most recent call last):
    ValueError: backend='flash' is not known; use 'auto', 'explicit', 'sdpa', 'window' or 'flex'
    """
    return _check_name("backend", backend, BACKENDS)


def check_positions(positions: str | None, head_dim: int) -> str | None:
    """Return `positions` if a layer with heads of this width knows them; None is none at all.

    >>> check_positions("absolute", 64)
    Traceback (most recent call last):
    ValueError: positions='absolute' is not known; use 'rotary', 'alibi' or 'sinusoidal'
    """
    if positions is None:
        return None
    if positions == "rotary" and head_dim % 2:
        raise ValueError(
            f"positions='rotary' turns features two by two, but head_dim={head_dim} is odd; "
            "use an even head_dim, or other positions"
        )
    return _check_name("positions", positions, POSITIONS)


def check_kv_heads(num_heads: int, num_kv_heads: int | None) -> int:
    """Return how many key heads there are: `num_kv_heads`, or one for each head.

    Raises:
        ValueError: The heads cannot be shared out evenly.
        TypeError: It is not a whole number.

    >>> check_kv_heads(12, None)
    12
    >>> check_kv_heads(12, 5)
    Traceback (most recent call last):
    ValueError: num_heads=12 is not divisible by num_kv_heads=5; use 2, 3, 4 or 6 key heads
    """
    if num_kv_heads is None:
        return num_heads
    kv_heads = check_size("num_kv_heads", num_kv_heads)
    if num_heads % kv_heads:
        raise ValueError(
            f"num_heads={num_heads} is not divisible by num_kv_heads={kv_heads}; "
            f"use {so_many(nearest_divisors(num_heads, kv_heads), 'key head')}"
        )
    return kv_heads


def check_window(window: int | tuple[int | None, int | None] | None) -> Window | None:
    """Return `window` as (left, right); one number is the reach on both sides.

    Raises:
        ValueError: A reach is below 0, or there are not two.
        TypeError: A reach is not a whole number.

    >>> check_window(2)
    (2, 2)
    >>> check_window((256, None))
    (256, None)
    >>> check_window(-1)
    Traceback (most recent call last):
    ValueError: window=-1 reaches to -1; a reach is 0 or more, or None for no limit
    """
    if window is None:
        return None
    sides = window if isinstance(window, tuple | list) else (window, window)
    if len(sides) != 2:
        raise ValueError(
            f"window={window!r} has {len(sides)} numbers; pass one, or two as (left, right)"
        )
    left, right = (_check_reach(window, side) for side in sides)
    return left, right


def _check_reach(window: object, reach: int | None) -> int | None:
    if reach is None:
        return None
    try:
        whole = operator.index(reach)
    except TypeError:
        whole = None
    if whole is None or isinstance(reach, bool):
        raise TypeError(
            f"{given('window', window)} is not a whole number, nor two of them; "
            "pass how many keys a query sees on each side, such as 256 or (256, 0)"
        )
    if whole < 0:
        raise ValueError(
            f"window={window!r} reaches to {whole}; a reach is 0 or more, or None for no limit"
        )
    return whole


def check_dropout(dropout: float) -> float:
    """Return `dropout` as a float if it is a probability below 1.

    >>> check_dropout(1.0)
    Traceback (most recent call last):
    ValueError: dropout=1.0 is not a probability of at least 0 and below 1; use 0.1, for example
    """
    must_be = "a probability of at least 0 and below 1; use 0.1, for example"
    number = check_number("dropout", dropout, must_be)
    if not 0 <= number < 1:
        raise ValueError(f"dropout={dropout!r} is not {must_be}")
    return number


def check_softcap(softcap: float | None) -> float | None:
    """Return `softcap` as a float if it is a finite number above 0; None is no cap.

    >>> check_softcap(0.0)
    Traceback (most recent call last):
    ValueError: softcap=0.0 is not a finite number above 0; leave it out for no cap, or pass 30.0
    """
    if softcap is None:
        return None
    must_be = "a finite number above 0; leave it out for no cap, or pass 30.0"
    number = check_number("softcap", softcap, must_be)
    if not 0 < number < math.inf:
        raise ValueError(f"softcap={softcap!r} is not {must_be}")
    if not 1e-30 <= number <= 1e30:
        raise ValueError(f"softcap={softcap!r} leaves float32 no digits; use 1e-30 to 1e30")
    return number


def check_scale(scale: float) -> float:
    """Return `scale` as a float if it is a finite number.

    >>> check_scale(float("inf"))
    Traceback (most recent call last):
    ValueError: scale=inf is not a finite number; leave it out for 1/sqrt(d_k), or pass a float
    """
    must_be = "a finite number; leave it out for 1/sqrt(d_k), or pass a float"
    number = check_number("scale", scale, must_be)
    if not abs(number) < math.inf:
        raise ValueError(f"scale={scale!r} is not {must_be}")
    return number


def check_switch(name: str, switch: bool) -> bool:
    """Return `switch` if it is True or False.

    >>> check_switch("trace", 1)
    Traceback (most recent call last):
    TypeError: trace=1 is not a bool; pass True or False
    """
    if not isinstance(switch, bool):
        raise TypeError(f"{given(name, switch)} is not a bool; pass True or False")
    return switch


def check_causal(causal: bool) -> bool:
    """Return `causal` if it is True or False; a mask has a place of its own.

    >>> check_causal([[True, False], [True, True]])
    Traceback (most recent call last):
    TypeError: causal=[[True, False], [True, True]] is not a bool; pass a mask as mask
    """
    if isinstance(causal, list | tuple) or _shape(causal):
        raise TypeError(f"{given('causal', causal)} is not a bool; pass a mask as mask")
    return check_switch("causal", causal)


def given(name: str, value: object) -> str:
    """Say what was given: its value, or only the shape of what would fill the screen.

    >>> given("L", -1)
    'L=-1'
    """
    shape = _shape(value)
    return f"{name} of shape {shape}" if shape else f"{name}={value!r}"


def _check_name(what: str, name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(f"{what}={name!r} is not known; use {either(known)}")
    return name


def either(choices: Sequence[object]) -> str:
    """Write choices as a person would.

    >>> either([1, 2, 5])
    '1, 2 or 5'
    """
    *others, last = [repr(choice) for choice in choices]
    return f"{', '.join(others)} or {last}" if others else last


def so_many(choices: Sequence[int], thing: str) -> str:
    """Write how many of a thing there may be.

    >>> so_many([1, 2, 5], "head"), so_many([1], "head")
    ('1, 2 or 5 heads', '1 head')
    """
    return f"{either(choices)} {thing}{'' if choices == [1] else 's'}"


def check_number(name: str, number: float, must_be: str) -> float:
    """Return `number` as a float, whichever library's number it is.

    >>> check_number("dropout", "much", "a probability; use 0.1")
    Traceback (most recent call last):
    TypeError: dropout='much' is not a probability; use 0.1
    """
    if isinstance(number, Real) and not isinstance(number, bool):
        try:
            return float(number)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf
    if hasattr(number, "__float__") and not isinstance(number, bool) and not _shape(number):
        raise TypeError(f"{name}={number!r} is of type {type(number).__name__}; pass float({name})")
    raise TypeError(f"{given(name, number)} is not {must_be}")


def _shape(value: object) -> tuple[int, ...]:
    """Return the shape of an array or tensor; () for all else."""
    return tuple(getattr(value, "shape", ()))
