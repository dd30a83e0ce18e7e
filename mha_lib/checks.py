"""What can be wrong with a number or a name, said with its value and with the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

import math
import operator

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
    complaint = f"{name}={size!r} is not a positive whole number; use 1 or more"
    if isinstance(size, bool):
        raise TypeError(complaint)
    try:
        whole = operator.index(size)
    except TypeError:
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
    """Return `dropout` if it is a probability below 1.

    >>> check_dropout(1.0)
    Traceback (most recent call last):
    ValueError: dropout=1.0 is not a probability from 0 up to, but not, 1; use 0.1, for example
    """
    complaint = (
        f"dropout={dropout!r} is not a probability from 0 up to, but not, 1; use 0.1, for example"
    )
    if isinstance(dropout, bool) or not isinstance(dropout, int | float):
        raise TypeError(complaint)
    if not 0 <= dropout < 1:
        raise ValueError(complaint)
    return dropout


def check_scale(scale: float) -> float:
    """Return `scale` if it is a finite number.

    >>> check_scale(float("inf"))
    Traceback (most recent call last):
    ValueError: scale=inf is not a finite number; leave it out for 1/sqrt(d_k), or pass a float
    """
    complaint = (
        f"scale={scale!r} is not a finite number; leave it out for 1/sqrt(d_k), or pass a float"
    )
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise TypeError(complaint)
    if not math.isfinite(scale):
        raise ValueError(complaint)
    return scale
