"""What can be wrong with a number, a switch or a name, said with its value and the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

import math
import operator
from numbers import Real

BACKENDS = ("auto", "explicit", "sdpa")


def check_size(name: str, size: int) -> int:
    """Return `size` as an int of 1 or more.

    Raises:
        ValueError: It is below 1.
        TypeError: It is not a whole number.

    >>> check_size("num_heads", 0)
    Traceback (most recent call last):
    ValueError: num_heads=0 is not a positive whole number; use 1 or more
    """
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
        *others, last = [str(divisor) for divisor in nearest_divisors(embed_dim, num_heads)]
        choice = f"{', '.join(others)} or {last} heads" if others else f"{last} head"
        raise ValueError(
            f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}; "
            f"use {choice}, or pass head_dim"
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
    divisors = [candidate for candidate in range(1, number + 1) if number % candidate == 0]
    by_distance = sorted(divisors, key=lambda divisor: (abs(divisor - target), divisor))
    return sorted(by_distance[:count])


def check_backend(backend: str) -> str:
    """Return `backend` if there is one of this name.

    >>> check_backend("flash")
    Traceback (most recent call last):
    ValueError: backend='flash' is not known; use 'auto', 'explicit' or 'sdpa'
    """
    if backend not in BACKENDS:
        *others, last = [repr(name) for name in BACKENDS]
        raise ValueError(f"backend={backend!r} is not known; use {', '.join(others)} or {last}")
    return backend


def check_dropout(dropout: float) -> float:
    """Return `dropout` as a float if it is a probability below 1.

    >>> check_dropout(1.0)
    Traceback (most recent call last):
    ValueError: dropout=1.0 is not a probability of at least 0 and below 1; use 0.1, for example
    """
    must_be = "a probability of at least 0 and below 1; use 0.1, for example"
    number = _check_number("dropout", dropout, must_be)
    if not 0 <= number < 1:
        raise ValueError(f"dropout={dropout!r} is not {must_be}")
    return number


def check_scale(scale: float) -> float:
    """Return `scale` as a float if it is a finite number.

    >>> check_scale(float("inf"))
    Traceback (most recent call last):
    ValueError: scale=inf is not a finite number; leave it out for 1/sqrt(d_k), or pass a float
    """
    must_be = "a finite number; leave it out for 1/sqrt(d_k), or pass a float"
    number = _check_number("scale", scale, must_be)
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


def _check_number(name: str, number: float, must_be: str) -> float:
    """Return `number` as a float, whichever library's number it is."""
    if isinstance(number, Real) and not isinstance(number, bool):
        return float(number)
    if hasattr(number, "__float__") and not isinstance(number, bool) and not _shape(number):
        raise TypeError(f"{name}={number!r} is of type {type(number).__name__}; pass float({name})")
    raise TypeError(f"{given(name, number)} is not {must_be}")


def _shape(value: object) -> tuple[int, ...]:
    """Return the shape of an array or tensor; () for all else."""
    return tuple(getattr(value, "shape", ()))
