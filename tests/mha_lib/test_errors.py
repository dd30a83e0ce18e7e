"""Bad numbers, switches and names: each message has the values and the way out."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import MultiHeadAttention, attention, window_mask
from mha_lib.checks import nearest_divisors
from tests.mha_lib.strategies import says

# --- sizes of a layer ---


@pytest.mark.parametrize(
    ("embed_dim", "num_heads", "choice"),
    [
        (10, 3, "1, 2, 5 or 10 heads"),
        (768, 10, "4, 6, 8 or 12 heads"),
        (768, 7, "3, 4, 6 or 8 heads"),
        (512, 12, "2, 4, 8 or 16 heads"),
        (7, 3, "1 or 7 heads"),
        (9, 2, "1, 3 or 9 heads"),
        (8, 16, "1, 2, 4 or 8 heads"),
        (1, 3, "1 head"),
    ],
)
def test_heads_that_cannot_share_the_width(embed_dim, num_heads, choice):
    with pytest.raises(
        ValueError,
        match=says(
            f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}; "
            f"use {choice}, or pass head_dim"
        ),
    ):
        MultiHeadAttention(embed_dim, num_heads)


def test_head_dim_is_a_way_out():
    assert MultiHeadAttention(10, 3, head_dim=4)(torch.ones(1, 2, 10)).shape == (1, 2, 10)


@settings(deadline=None, max_examples=60)
@given(number=st.integers(1, 400), target=st.integers(1, 500))
def test_nearest_divisors_are_divisors_and_none_left_out_is_nearer(number, target):
    chosen = nearest_divisors(number, target)
    everyone = [d for d in range(1, number + 1) if number % d == 0]
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(everyone)
    assert len(chosen) == min(4, len(everyone))
    for left_out in set(everyone) - set(chosen):
        for divisor in chosen:
            assert (abs(divisor - target), divisor) < (abs(left_out - target), left_out)


@pytest.mark.parametrize(
    "name", ["embed_dim", "num_heads", "num_kv_heads", "head_dim", "kdim", "vdim"]
)
@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (-2, ValueError), (2.5, TypeError), (0.0, TypeError), ("2", TypeError)],
)
def test_sizes_are_positive_whole_numbers(name, size, error):
    sizes = {"embed_dim": 8, "num_heads": 2} | {name: size}
    with pytest.raises(
        error, match=says(f"{name}={size!r} is not a positive whole number; use 1 or more")
    ):
        MultiHeadAttention(**sizes)


@pytest.mark.parametrize("size", [8.0, np.float32(8), np.float64(8), Fraction(8)])
def test_a_whole_float_is_told_how_to_become_an_int(size):
    message = says(f"embed_dim={size!r} is not an int; pass int(embed_dim), or divide with //")
    with pytest.raises(TypeError, match=message):
        MultiHeadAttention(size, 2)
    assert MultiHeadAttention(int(size), 2).embed_dim == 8


@pytest.mark.parametrize("name", ["causal", "bias"])
@pytest.mark.parametrize("switch", [1, 0, None, "yes", np.True_])
def test_switches_of_a_layer_are_true_or_false(name, switch):
    message = says(f"{name}={switch!r} is not a bool; pass True or False")
    with pytest.raises(TypeError, match=message):
        MultiHeadAttention(8, 2, **{name: switch})


def test_a_layer_is_made_of_numbers_that_attention_takes():
    for dtype in (torch.complex64, torch.int64, torch.float8_e5m2, "float32"):
        message = says(
            f"dtype={dtype!r} is not one that attention takes; "
            "use torch.float16, torch.bfloat16, torch.float32 or torch.float64"
        )
        with pytest.raises(TypeError, match=message):
            MultiHeadAttention(8, 2, dtype=dtype)


def test_true_is_not_a_number_of_heads_and_numpy_integers_are():
    with pytest.raises(
        TypeError, match=says("num_heads=True is not a positive whole number; use 1 or more")
    ):
        MultiHeadAttention(8, True)
    assert MultiHeadAttention(np.int64(8), np.int32(2)).head_dim == 4


@pytest.mark.parametrize(
    ("dropout", "error"),
    [
        (1.0, ValueError),
        (-0.1, ValueError),
        (float("nan"), ValueError),
        (np.float32(1.5), ValueError),
        ("a", TypeError),
        ("", TypeError),
        (None, TypeError),
        (False, TypeError),
        ([], TypeError),
    ],
)
def test_dropout_is_a_probability(dropout, error):
    message = says(
        f"dropout={dropout!r} is not a probability of at least 0 and below 1; use 0.1, for example"
    )
    x = torch.ones(1, 1, 2, 4)
    with pytest.raises(error, match=message):
        MultiHeadAttention(8, 2, dropout=dropout)
    with pytest.raises(error, match=message):
        attention(x, x, x, dropout=dropout)


@pytest.mark.parametrize("name", ["dropout", "scale"])
@pytest.mark.parametrize(
    "number", [torch.tensor(0.5), np.array(0.5), Decimal("0.5")], ids=lambda x: type(x).__name__
)
def test_a_number_of_another_kind_is_told_how_to_become_a_float(name, number):
    x = torch.randn(1, 1, 2, 4)
    message = says(f"{name}={number!r} is of type {type(number).__name__}; pass float({name})")
    with pytest.raises(TypeError, match=message):
        attention(x, x, x, **{name: number})
    assert attention(x, x, x, **{name: float(number)}).shape == x.shape


def test_unknown_backend():
    message = says(
        "backend='flash' is not known; use 'auto', 'explicit', 'sdpa', 'window' or 'flex'"
    )
    x = torch.ones(1, 1, 2, 4)
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, 2, backend="flash")
    with pytest.raises(ValueError, match=message):
        attention(x, x, x, backend="flash")


# --- the options of attention() ---

SOFTCAP = "is not a finite number above 0; leave it out for no cap, or pass 30.0"
REACH = "a reach is 0 or more, or None for no limit"
WHOLE = (
    "is not a whole number, nor two of them; pass how many keys a query sees on each side, "
    "such as 256 or (256, 0)"
)
WINDOWS = [
    (-1, ValueError, f"window=-1 reaches to -1; {REACH}"),
    ((2, -3), ValueError, f"window=(2, -3) reaches to -3; {REACH}"),
    (
        (1, 2, 3),
        ValueError,
        "window=(1, 2, 3) has 3 numbers; pass one, or two as (left, right)",
    ),
    ((), ValueError, "window=() has 0 numbers; pass one, or two as (left, right)"),
    (2.0, TypeError, f"window=2.0 {WHOLE}"),
    ((1, 0.5), TypeError, f"window=(1, 0.5) {WHOLE}"),
    (True, TypeError, f"window=True {WHOLE}"),
    ("left", TypeError, f"window='left' {WHOLE}"),
    (torch.ones(5, 5), TypeError, f"window of shape (5, 5) {WHOLE}"),
]
OPTIONS = {
    "scale not a number": (
        {"scale": "1"},
        TypeError,
        "scale='1' is not a finite number; leave it out for 1/sqrt(d_k), or pass a float",
    ),
    "scale of many numbers": (
        {"scale": torch.zeros(3)},
        TypeError,
        "scale of shape (3,) is not a finite number; leave it out for 1/sqrt(d_k), or pass a float",
    ),
    "scale of True": (
        {"scale": True},
        TypeError,
        "scale=True is not a finite number; leave it out for 1/sqrt(d_k), or pass a float",
    ),
    "infinite scale": (
        {"scale": float("inf")},
        ValueError,
        "scale=inf is not a finite number; leave it out for 1/sqrt(d_k), or pass a float",
    ),
    "causal of 1": ({"causal": 1}, TypeError, "causal=1 is not a bool; pass True or False"),
    "causal of None": (
        {"causal": None},
        TypeError,
        "causal=None is not a bool; pass True or False",
    ),
    "a mask as causal": (
        {"causal": torch.zeros(5, 5, dtype=torch.bool)},
        TypeError,
        "causal of shape (5, 5) is not a bool; pass a mask as mask",
    ),
    "a list as causal": (
        {"causal": [True, False]},
        TypeError,
        "causal=[True, False] is not a bool; pass a mask as mask",
    ),
    "trace of 1": ({"trace": 1}, TypeError, "trace=1 is not a bool; pass True or False"),
    "trace of a tensor": (
        {"trace": torch.zeros(2)},
        TypeError,
        "trace of shape (2,) is not a bool; pass True or False",
    ),
    "check_finite of 1": (
        {"check_finite": 1},
        TypeError,
        "check_finite=1 is not a bool; pass True or False",
    ),
    "a softcap of zero": ({"softcap": 0}, ValueError, f"softcap=0 {SOFTCAP}"),
    "a softcap below zero": ({"softcap": -30.0}, ValueError, f"softcap=-30.0 {SOFTCAP}"),
    "an infinite softcap": ({"softcap": float("inf")}, ValueError, f"softcap=inf {SOFTCAP}"),
    "a softcap that is no number": (
        {"softcap": float("nan")},
        ValueError,
        f"softcap=nan {SOFTCAP}",
    ),
    "a softcap without end": ({"softcap": 10**400}, ValueError, f"softcap={10**400} {SOFTCAP}"),
    "a softcap that float32 cannot tell from none": (
        {"softcap": 1e38},
        ValueError,
        "softcap=1e+38 leaves float32 no digits; use 1e-30 to 1e30",
    ),
    "a softcap of True": ({"softcap": True}, TypeError, f"softcap=True {SOFTCAP}"),
    "a softcap of text": ({"softcap": "30"}, TypeError, f"softcap='30' {SOFTCAP}"),
    "a softcap of many": (
        {"softcap": torch.ones(3)},
        TypeError,
        f"softcap of shape (3,) {SOFTCAP}",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_attention_refuses_an_option(case):
    bad, error, message = OPTIONS[case]
    x = torch.ones(2, 3, 5, 4)
    with pytest.raises(error, match=says(message)):
        attention(x, x, x, **bad)


@pytest.mark.parametrize(("window", "error", "message"), WINDOWS)
def test_a_bad_window_is_refused_by_attention_the_layer_and_the_mask(window, error, message):
    x = torch.ones(2, 3, 5, 4)
    with pytest.raises(error, match=says(message)):
        attention(x, x, x, window=window)
    with pytest.raises(error, match=says(message)):
        MultiHeadAttention(8, 2, window=window)
    with pytest.raises(error, match=says(message)):
        window_mask(5, window=window)


# --- the options of a layer ---

KNOWN = "is not known; use 'rotary', 'alibi' or 'sinusoidal'"
LAYERS = {
    "unknown positions": ({"positions": "absolute"}, ValueError, f"positions='absolute' {KNOWN}"),
    "positions of True": ({"positions": True}, ValueError, f"positions=True {KNOWN}"),
    "odd heads to turn": (
        {"embed_dim": 15, "num_heads": 5, "positions": "rotary"},
        ValueError,
        "positions='rotary' turns features two by two, but head_dim=3 is odd; "
        "use an even head_dim, or other positions",
    ),
    "key heads that do not divide": (
        {"num_kv_heads": 5},
        ValueError,
        "num_heads=12 is not divisible by num_kv_heads=5; use 2, 3, 4 or 6 key heads",
    ),
    "more key heads than heads": (
        {"num_heads": 2, "num_kv_heads": 4},
        ValueError,
        "num_heads=2 is not divisible by num_kv_heads=4; use 1 or 2 key heads",
    ),
    "key heads of a single head": (
        {"num_heads": 1, "num_kv_heads": 2},
        ValueError,
        "num_heads=1 is not divisible by num_kv_heads=2; use 1 key head",
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer_refuses_an_option(case):
    bad, error, message = LAYERS[case]
    with pytest.raises(error, match=says(message)):
        MultiHeadAttention(**({"embed_dim": 12, "num_heads": 12} | bad))


def test_odd_heads_may_have_other_positions():
    for positions in ("alibi", "sinusoidal", None):
        layer = MultiHeadAttention(15, 5, positions=positions)
        assert layer(torch.ones(1, 2, 15)).shape == (1, 2, 15)
