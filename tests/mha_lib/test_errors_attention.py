"""Tensors that `attention` cannot use: each message has their shapes and the way out."""

import numpy as np
import pytest
import torch

from mha_lib import MultiHeadAttention, attention, from_ignore_mask
from tests.mha_lib.strategies import says, zeros

LONG = torch.long
TAKES = "attention takes float16, bfloat16, float32 or float64"
HEADS = (2, 3, 5, 4)  # B, h, L, d_k


FOR_ATTENTION = {
    "not a tensor": (
        {"query": np.zeros(HEADS)},
        TypeError,
        "query is of type ndarray; pass a torch.Tensor, for example torch.as_tensor(query)",
    ),
    "sparse": (
        {"query": zeros(*HEADS).to_sparse()},
        TypeError,
        "query is sparse or nested; pass query.to_dense(), or query.to_padded_tensor(0) and a mask "
        "that hides the padding",
    ),
    "nested": (
        {"key": torch.nested.nested_tensor([zeros(5, 4), zeros(4, 4)], layout=torch.jagged)},
        TypeError,
        "key is sparse or nested; pass key.to_dense(), or key.to_padded_tensor(0) and a mask that "
        "hides the padding",
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
        "key has batch 1, but query has batch 2; "
        "they must be the same, so expand key where it is shared",
    ),
    "another number of heads": (
        {"value": zeros(2, 1, 5, 4)},
        ValueError,
        "value has 1 heads, but key has 3; each key needs its own value",
    ),
    "key heads that do not divide": (
        {"key": zeros(2, 2, 5, 4), "value": zeros(2, 2, 5, 4)},
        ValueError,
        "query has 3 heads, which key and value with 2 cannot be shared among; "
        "give them 1 or 3 heads",
    ),
    "more key heads than heads": (
        {"key": zeros(2, 6, 5, 4), "value": zeros(2, 6, 5, 4)},
        ValueError,
        "query has 3 heads, which key and value with 6 cannot be shared among; "
        "give them 1 or 3 heads",
    ),
    "no queries": (
        {"query": zeros(2, 3, 0, 4)},
        ValueError,
        "query has shape (2, 3, 0, 4), with nothing in it; "
        "attention takes (B, h, L, d_k), each but B at least 1",
    ),
    "a bias of booleans": (
        {"bias": zeros(5, 5, dtype=torch.bool)},
        TypeError,
        "bias has dtype torch.bool; it is added to the scores, so it must be floating point. "
        "What hides keys goes into mask",
    ),
    "a bias of whole numbers": (
        {"bias": zeros(5, 5, dtype=LONG)},
        TypeError,
        "bias has dtype torch.int64; it is added to the scores, so it must be floating point",
    ),
    "a bias of float8": (
        {"bias": zeros(5, 5).to(torch.float8_e5m2)},
        TypeError,
        "bias has dtype torch.float8_e5m2; it is added to the scores, so it must be floating point",
    ),
    "a bias that is no tensor": (
        {"bias": 0.5},
        TypeError,
        "bias is of type float; pass a torch.Tensor, for example torch.as_tensor(bias)",
    ),
    "a bias elsewhere": (
        {"bias": zeros(5, 5, device="meta")},
        ValueError,
        "bias is on meta, but query is on cpu; pass bias.to('cpu')",
    ),
    "a bias for other keys": (
        {"bias": zeros(3, 5, 6)},
        ValueError,
        "bias has shape (3, 5, 6), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for keys has 6, and should have 5 or 1",
    ),
    "a bias for each sequence": (
        {"bias": zeros(2, 5, 5)},
        ValueError,
        "bias has shape (2, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for heads has 2, and should have 3 or 1; "
        "if it has one bias for each sequence pass bias[:, None]",
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
}

INVERTED = (
    "mask hides from each query itself and all before it, and shows it what comes after: "
    "True must mean keep. If True means ignore pass from_ignore_mask(mask)"
)
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
        "scores pass it as bias; if 1 means keep pass mask.bool(); if 1 means ignore pass "
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
    "batch and heads in one axis": (
        zeros(6, 5, 5, dtype=torch.bool),
        ValueError,
        "mask has shape (6, 5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 5): "
        "its axis for heads has 6, and should have 3 or 1; "
        "if batch and heads stand in one axis pass mask.unflatten(0, (2, 3))",
    ),
    "what torch ignores": (
        torch.ones(5, 5, dtype=torch.bool).triu(1),
        ValueError,
        INVERTED,
    ),
    "what torch ignores, for each head": (
        torch.ones(5, 5, dtype=torch.bool).triu(1).expand(2, 3, 5, 5),
        ValueError,
        INVERTED,
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


@pytest.mark.parametrize("axes", [0, 1, 2])
@pytest.mark.parametrize("N", [4, 5, 9])
def test_a_causal_mask_turned_round_is_known_at_every_size(N, axes):
    q, k, v = torch.randn(3, 2, 3, N, 4)
    ignore = torch.ones(N, N, dtype=torch.bool).triu(1)[(None,) * axes]
    with pytest.raises(ValueError, match=says(INVERTED)):
        attention(q, k, v, mask=ignore)
    output = attention(q, k, v, mask=from_ignore_mask(ignore))
    torch.testing.assert_close(output, attention(q, k, v, causal=True))


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(3, 3).triu(1) > 0,  # so small a mask may look like this by chance
        (torch.ones(5, 5).triu(1) > 0) | (torch.eye(5) > 0),  # each query sees itself
        (torch.ones(5, 5).triu(1) > 0).index_fill(0, torch.tensor(4), True),
        torch.ones(5, 5).triu(2) > 0,
        torch.ones(4, 5).triu(1) > 0,
        torch.zeros(5, 5) > 0,
        torch.stack((torch.ones(5, 5).triu(1), torch.ones(5, 5).tril()))[:, None] > 0,
    ],
    ids=lambda mask: str(tuple(mask.shape)),
)
def test_a_mask_that_only_resembles_it_is_taken(mask):
    L, S = mask.shape[-2:]
    q, k = torch.randn(2, 1, L, 4), torch.randn(2, 1, S, 4)
    assert attention(q, k, k, mask=mask).isfinite().all()


def test_batch_and_heads_in_one_axis_can_be_set_apart():
    q, k, v = torch.randn(3, 2, 3, 5, 4)
    mask = torch.rand(6, 5, 5) < 0.6
    output = attention(q, k, v, mask=mask.unflatten(0, (2, 3)))
    for number in range(6):
        b, head = divmod(number, 3)
        one = (slice(b, b + 1), slice(head, head + 1))
        expected = attention(q[one], k[one], v[one], mask=mask[number])
        torch.testing.assert_close(output[one], expected)
