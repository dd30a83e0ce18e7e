"""Bad input: each message has the values and the way out."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import (
    MultiHeadAttention,
    attention,
    causal_mask,
    from_ignore_mask,
    key_mask_from_lengths,
)
from mha_lib.checks import nearest_divisors


def says(text: str) -> str:
    """Match the whole message."""
    return f"^{re.escape(text)}$"


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


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "head_dim", "kdim", "vdim"])
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
    message = says("backend='flash' is not known; use 'auto', 'explicit' or 'sdpa'")
    x = torch.ones(1, 1, 2, 4)
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, 2, backend="flash")
    with pytest.raises(ValueError, match=message):
        attention(x, x, x, backend="flash")


# --- attention() ---

LONG = torch.long
TAKES = "attention takes float16, bfloat16, float32 or float64"
HEADS = (2, 3, 5, 4)  # B, h, L, d_k


def zeros(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


FOR_ATTENTION = {
    "not a tensor": (
        {"query": np.zeros(HEADS)},
        TypeError,
        "query is of type ndarray; pass a torch.Tensor, for example torch.as_tensor(query)",
    ),
    "three axes": (
        {"query": zeros(2, 5, 4)},
        ValueError,
        "query has shape (2, 5, 4), but attention takes (B, h, L, d_k); "
        "for a single head pass query.unsqueeze(1)",
    ),
    "two axes": (
        {"key": zeros(5, 4)},
        ValueError,
        "key has shape (5, 4), but attention takes (B, h, S, d_k); "
        "split the features into heads first, as MultiHeadAttention does",
    ),
    "no keys": (
        {"key": zeros(2, 3, 0, 4)},
        ValueError,
        "key has shape (2, 3, 0, 4), with nothing in it; "
        "attention takes (B, h, S, d_k), each but B at least 1",
    ),
    "whole numbers": (
        {"query": zeros(*HEADS, dtype=LONG)},
        TypeError,
        f"query has dtype torch.int64; {TAKES}, so pass "
        "query.float() (token numbers become vectors in an nn.Embedding first)",
    ),
    "complex numbers": (
        {"key": zeros(*HEADS, dtype=torch.complex64)},
        TypeError,
        f"key has dtype torch.complex64; {TAKES}, so pass "
        "torch.view_as_real(key).flatten(-2), each number as two features",
    ),
    "float8": (
        {"query": zeros(*HEADS).to(torch.float8_e4m3fn)},
        TypeError,
        f"query has dtype torch.float8_e4m3fn; {TAKES}, so pass query.float()",
    ),
    "another dtype": (
        {"value": zeros(*HEADS, dtype=torch.float64)},
        TypeError,
        "value has dtype torch.float64, but query has torch.float32; pass value.to(torch.float32)",
    ),
    "another device": (
        {"key": zeros(*HEADS, device="meta")},
        ValueError,
        "key is on meta, but query is on cpu; pass key.to('cpu')",
    ),
    "another batch": (
        {"key": zeros(1, 3, 5, 4)},
        ValueError,
        "key has batch 1 and 3 heads, but query has batch 2 and 3 heads; "
        "they must be the same, so expand key where it is shared",
    ),
    "another number of heads": (
        {"value": zeros(2, 1, 5, 4)},
        ValueError,
        "value has batch 2 and 1 heads, but query has batch 2 and 3 heads; "
        "they must be the same, so expand value where it is shared",
    ),
    "another d_k": (
        {"key": zeros(2, 3, 5, 6)},
        ValueError,
        "key has d_k=6, but query has d_k=4; a score is their dot product, "
        "so project both to one width",
    ),
    "another length": (
        {"value": zeros(2, 3, 6, 4)},
        ValueError,
        "key has length 5, but value has length 6; each key needs its own value",
    ),
    "scale not a number": (
        {"scale": "1"},
        TypeError,
        "scale='1' is not a finite number; leave it out for 1/sqrt(d_k), or pass a float",
    ),
    "scale of many numbers": (
        {"scale": zeros(3)},
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
        {"causal": zeros(5, 5, dtype=torch.bool)},
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
        {"trace": zeros(2)},
        TypeError,
        "trace of shape (2,) is not a bool; pass True or False",
    ),
}

BAD_MASKS = {
    "whole numbers": (
        zeros(5, 5, dtype=LONG),
        TypeError,
        "mask has dtype torch.int64; it must be boolean, True = keep. If 1 means keep pass "
        "mask.bool(); if 1 means ignore pass from_ignore_mask(mask.bool())",
    ),
    "floats": (
        zeros(5, 5),
        TypeError,
        "mask has dtype torch.float32; it must be boolean, True = keep. If it is added to the "
        "scores (0 keeps, -inf hides) pass mask == 0; if 1 means ignore pass "
        "from_ignore_mask(mask.bool())",
    ),
    "a list": (
        [[True]],
        TypeError,
        "mask is of type list; pass a torch.Tensor, for example torch.as_tensor(mask)",
    ),
    "elsewhere": (
        zeros(5, 5, dtype=torch.bool, device="meta"),
        ValueError,
        "mask is on meta, but query is on cpu; pass mask.to('cpu')",
    ),
    "keys": (
        zeros(5, 6, dtype=torch.bool),
        ValueError,
        "mask has shape (5, 6), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for keys has 6, and should have 5 or 1",
    ),
    "queries": (
        zeros(4, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (4, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for queries has 4, and should have 5 or 1",
    ),
    "padding without axes": (
        zeros(2, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (2, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for queries has 2, and should have 5 or 1; "
        "if it says which keys are real pass mask[:, None, None]",
    ),
    "one for each sequence": (
        zeros(2, 5, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (2, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for heads has 2, and should have 3 or 1; "
        "if it has one mask for each sequence pass mask[:, None]",
    ),
    "heads": (
        zeros(4, 5, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (4, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for heads has 4, and should have 3 or 1",
    ),
    "batch": (
        zeros(3, 1, 5, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (3, 1, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for batch has 3, and should have 2 or 1",
    ),
    "five axes": (
        zeros(1, 2, 3, 5, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (1, 2, 3, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "it has 5 axes, and should have 4 or fewer",
    ),
}


@pytest.mark.parametrize("case", FOR_ATTENTION)
def test_attention_refuses(case):
    bad, error, message = FOR_ATTENTION[case]
    good = {"query": zeros(*HEADS), "key": zeros(*HEADS), "value": zeros(*HEADS)}
    attention(**good)
    with pytest.raises(error, match=says(message)):
        attention(**(good | bad))


@pytest.mark.parametrize("case", BAD_MASKS)
def test_a_bad_mask_is_refused_by_attention_and_by_the_layer(case):
    mask, error, message = BAD_MASKS[case]
    x = zeros(*HEADS)
    with pytest.raises(error, match=says(message)):
        attention(x, x, x, mask=mask)
    with pytest.raises(error, match=says(message)):
        MultiHeadAttention(12, 3)(zeros(2, 5, 12), mask=mask)


def test_padding_without_axes_is_recognised_in_an_empty_batch_too():
    x = zeros(0, 3, 5, 4)
    with pytest.raises(ValueError, match=r"which keys are real pass mask\[:, None, None\]$"):
        attention(x, x, x, mask=zeros(0, 5, dtype=torch.bool))
    attention(x, x, x, mask=zeros(0, 5, dtype=torch.bool)[:, None, None])


def test_an_axis_of_one_can_only_be_one():
    x = zeros(2, 3, 1, 4)
    with pytest.raises(ValueError, match=r"its axis for queries has 5, and should have 1$"):
        attention(x, x, x, mask=zeros(5, 1, dtype=torch.bool))


# --- the layer ---

FOR_LAYER = {
    "not a tensor": (
        {"query": [[1.0]]},
        TypeError,
        "query is of type list; pass a torch.Tensor, for example torch.as_tensor(query)",
    ),
    "a batch of token numbers": (
        {"query": torch.tensor([[1, 2, 3]])},
        TypeError,
        "query has dtype torch.int64; attention takes float16, bfloat16, float32 or float64, "
        "so pass query.float() (token numbers become vectors in an nn.Embedding first)",
    ),
    "one axis": (
        {"query": zeros(12)},
        ValueError,
        "query has shape (12,), but the layer takes (B, L, embed_dim)",
    ),
    "two axes": (
        {"query": zeros(5, 12)},
        ValueError,
        "query has shape (5, 12), but the layer takes (B, L, embed_dim); "
        "for a single sequence pass query.unsqueeze(0)",
    ),
    "four axes": (
        {"key": zeros(2, 3, 7, 4)},
        ValueError,
        "key has shape (2, 3, 7, 4), but the layer takes (B, S, kdim); "
        "the layer splits the heads itself",
    ),
    "no tokens": (
        {"query": zeros(2, 0, 12)},
        ValueError,
        "query has no tokens, its shape is (2, 0, 12); pass at least one",
    ),
    "query width": (
        {"query": zeros(2, 5, 10)},
        ValueError,
        "query has width 10, but the layer has embed_dim=12; "
        "pass query with 12 features, or make the layer with embed_dim=10",
    ),
    "key width": (
        {"key": zeros(2, 7, 12)},
        ValueError,
        "key has width 12, but the layer has kdim=6; "
        "pass key with 6 features, or make the layer with kdim=12",
    ),
    "value width": (
        {"value": zeros(2, 7, 12)},
        ValueError,
        "value has width 12, but the layer has vdim=10; "
        "pass value with 10 features, or make the layer with vdim=12",
    ),
    "value without key": (
        {"key": None},
        ValueError,
        "value was given without key; pass the key that goes with it",
    ),
    "no key where it has another width": (
        {"key": None, "value": None},
        ValueError,
        "key was not given, so it is query, with width 12; but the layer has kdim=6: pass key",
    ),
    "no value where it has another width": (
        {"value": None},
        ValueError,
        "value was not given, so it is key, with width 6; but the layer has vdim=10: pass value",
    ),
    "another batch": (
        {"key": zeros(1, 7, 6)},
        ValueError,
        "key has batch 1, but query has batch 2; "
        "they must be the same, so expand key where it is shared",
    ),
    "another length": (
        {"value": zeros(2, 8, 10)},
        ValueError,
        "key has length 7, but value has length 8; each key needs its own value",
    ),
    "token numbers": (
        {"query": zeros(2, 5, 12, dtype=LONG)},
        TypeError,
        f"query has dtype torch.int64; {TAKES}, so pass "
        "query.float() (token numbers become vectors in an nn.Embedding first)",
    ),
    "complex numbers": (
        {"value": zeros(2, 7, 10, dtype=torch.complex64)},
        TypeError,
        f"value has dtype torch.complex64; {TAKES}, so pass "
        "torch.view_as_real(value).flatten(-2), each number as two features",
    ),
    "trace of 1": ({"trace": 1}, TypeError, "trace=1 is not a bool; pass True or False"),
    "another dtype than the layer": (
        {"query": zeros(2, 5, 12, dtype=torch.float64)},
        TypeError,
        "query has dtype torch.float64, but the layer has torch.float32; pass "
        "query.to(torch.float32), or turn the layer with layer.to(torch.float64)",
    ),
    "another dtype than the query": (
        {"value": zeros(2, 7, 10, dtype=torch.bfloat16)},
        TypeError,
        "value has dtype torch.bfloat16, but query has torch.float32; pass value.to(torch.float32)",
    ),
    "another device than the layer": (
        {"query": zeros(2, 5, 12, device="meta")},
        ValueError,
        "query is on meta, but the layer is on cpu; pass query.to('cpu'), or move the layer",
    ),
    "another device than the query": (
        {"key": zeros(2, 7, 6, device="meta")},
        ValueError,
        "key is on meta, but query is on cpu; pass key.to('cpu')",
    ),
    "key_mask of another shape": (
        {"key_mask": zeros(2, 5, dtype=torch.bool)},
        ValueError,
        "key_mask has shape (2, 5), but keys are (B, S) = (2, 7); it says for each key of each "
        "sequence whether it is real, and what depends on the query or the head goes into mask",
    ),
    "key_mask of whole numbers": (
        {"key_mask": zeros(2, 7, dtype=LONG)},
        TypeError,
        "key_mask has dtype torch.int64; it must be boolean, True = keep. If 1 means keep pass "
        "key_mask.bool(); if 1 means ignore pass from_ignore_mask(key_mask.bool())",
    ),
}


@pytest.mark.parametrize("case", FOR_LAYER)
def test_layer_refuses(case):
    bad, error, message = FOR_LAYER[case]
    layer = MultiHeadAttention(12, 3, kdim=6, vdim=10)
    good = {"query": zeros(2, 5, 12), "key": zeros(2, 7, 6), "value": zeros(2, 7, 10)}
    layer(**good)
    with pytest.raises(error, match=says(message)):
        layer(**(good | bad))


def test_autocast_takes_no_float64_beside_other_floats(device):
    layer = MultiHeadAttention(12, 3, device=device)
    x = zeros(2, 5, 12, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        with pytest.raises(
            TypeError,
            match=says(
                "query has dtype torch.float64, but the layer has torch.float32; pass "
                "query.to(torch.float32), or turn the layer with layer.to(torch.float64)"
            ),
        ):
            layer(x.double())
        with pytest.raises(
            TypeError,
            match=says(
                "key has dtype torch.float64, but query has torch.float32; "
                "pass key.to(torch.float32)"
            ),
        ):
            layer(x, x.double())
        with pytest.raises(TypeError, match=r"query has dtype torch\.float32, but the layer has"):
            layer.double()(x)
        assert layer(x.double()).dtype == torch.float64


# --- masks ---


@pytest.mark.parametrize(("L", "S", "name"), [(0, 2, "L=0"), (2, -1, "S=-1")])
def test_causal_mask_refuses_empty_sizes(L, S, name):
    with pytest.raises(
        ValueError, match=says(f"{name} is not a positive whole number; use 1 or more")
    ):
        causal_mask(L, S)


@pytest.mark.parametrize(
    ("lengths", "max_length", "error", "message"),
    [
        ([3, 5], 4, ValueError, "lengths has 5, above max_length=4; use 5 or more"),
        ([3, -1], None, ValueError, "lengths has -1; a length is 0 or more"),
        ([], None, ValueError, "lengths has shape (0,); pass one length for each sequence, (B,)"),
        (
            [[1]],
            None,
            ValueError,
            "lengths has shape (1, 1); pass one length for each sequence, (B,)",
        ),
        (
            [1.5],
            None,
            TypeError,
            "lengths has dtype torch.float32; pass whole numbers, such as [3, 1]",
        ),
        (
            [True],
            None,
            TypeError,
            "lengths has dtype torch.bool; pass whole numbers, such as [3, 1]",
        ),
        ([0], 0, ValueError, "max_length=0 is not a positive whole number; use 1 or more"),
        (
            [0, 0],
            None,
            ValueError,
            "lengths has no length above 0, so the number of keys is not known; pass max_length",
        ),
        *(
            (
                lengths,
                None,
                TypeError,
                f"lengths={lengths!r} is not one whole number for each sequence; "
                "pass a list such as [3, 1]",
            )
            for lengths in (None, [None], ["a"], "ab", {3: 1}, [[1], [1, 2]], [10**30])
        ),
    ],
)
def test_key_mask_from_lengths_refuses(lengths, max_length, error, message):
    with pytest.raises(error, match=says(message)):
        key_mask_from_lengths(lengths, max_length)


@pytest.mark.parametrize(
    ("ignore", "message"),
    [
        (
            torch.tensor([1, 0]),
            "ignore has dtype torch.int64; it must be boolean. If 1 means ignore pass "
            "from_ignore_mask(ignore.bool()); if 1 means keep pass ignore.bool() as mask",
        ),
        (
            torch.tensor([0.0]),
            "ignore has dtype torch.float32; it must be boolean, True = ignore. For a mask that is "
            "added to the scores (0 keeps, -inf hides) pass ignore == 0 as mask",
        ),
        (
            [True],
            "ignore is of type list; pass a torch.Tensor, for example torch.as_tensor(ignore)",
        ),
    ],
)
def test_from_ignore_mask_refuses(ignore, message):
    with pytest.raises(TypeError, match=says(message)):
        from_ignore_mask(ignore)


# --- the ways out that a message names do work ---


def test_padding_alone_is_a_mask_where_its_length_is_known():
    assert not key_mask_from_lengths([0, 0], max_length=3).any()


def test_complex_numbers_enter_as_two_features_each():
    x = torch.randn(2, 5, 6, dtype=torch.complex64)
    features = torch.view_as_real(x).flatten(-2)
    assert MultiHeadAttention(12, 3)(features).shape == (2, 5, 12)
    assert torch.equal(features[..., 0::2], x.real)
    assert torch.equal(features[..., 1::2], x.imag)


def test_ways_out_of_masks_in_other_forms():
    q, k, v = torch.randn(3, 2, 3, 5, 4)
    keep = causal_mask(5)
    expected = attention(q, k, v, mask=keep)
    ones_keep, ones_ignore = keep.long(), (~keep).long()
    added = torch.zeros(5, 5).masked_fill(~keep, -torch.inf)
    for mask in (ones_keep.bool(), from_ignore_mask(ones_ignore.bool()), added == 0):
        assert torch.equal(attention(q, k, v, mask=mask), expected)
