"""Masks that cannot be made or turned, and the ways out that messages name."""

import pytest
import torch

from mha_lib import (
    MultiHeadAttention,
    attention,
    causal_mask,
    from_ignore_mask,
    key_mask_from_lengths,
)
from tests.mha_lib.strategies import says


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
    torch.testing.assert_close(attention(q, k, v, bias=added), expected)
