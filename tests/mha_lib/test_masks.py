"""Masks: one convention, True = keep."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import causal_mask, from_ignore_mask, key_mask_from_lengths

PROPERTY = settings(deadline=None, max_examples=50)


@PROPERTY
@given(L=st.integers(1, 8), S=st.integers(1, 8))
def test_causal_mask_puts_the_last_query_beside_the_last_key(L, S):
    mask = causal_mask(L, S)
    assert mask.shape == (L, S)
    assert mask.dtype == torch.bool
    for query in range(L):
        for key in range(S):
            keys_after = S - 1 - key
            queries_after = L - 1 - query
            assert mask[query, key].item() == (keys_after >= queries_after)


def test_causal_mask_is_made_where_it_is_wanted(device):
    assert causal_mask(3, device=device).device.type == device


@PROPERTY
@given(lengths=st.lists(st.integers(0, 8), min_size=1), extra=st.integers(0, 3))
def test_key_mask_keeps_the_first_tokens_of_each_sequence(lengths, extra):
    S = max(1, *lengths, 0) + extra
    mask = key_mask_from_lengths(lengths, S)
    assert mask.shape == (len(lengths), S)
    assert mask.dtype == torch.bool
    for row, length in zip(mask.tolist(), lengths, strict=True):
        assert row == [True] * length + [False] * (S - length)


def test_key_mask_is_made_where_the_lengths_are(device):
    lengths = torch.tensor([2, 3], device=device)
    mask = key_mask_from_lengths(lengths)
    assert mask.device == lengths.device
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_from_ignore_mask_turns_each_entry_round(device):
    ignore = torch.tensor([[True, False], [False, False]], device=device)
    assert from_ignore_mask(ignore).tolist() == [[False, True], [True, True]]
    assert ignore.tolist() == [[True, False], [False, False]]  # the given mask is not changed
