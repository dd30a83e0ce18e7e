"""Tensors that a layer cannot use: each message has their shapes and the way out."""

import re

import pytest
import torch

from mha_lib import MultiHeadAttention
from tests.mha_lib.strategies import says, zeros

LONG = torch.long
TAKES = "attention takes float16, bfloat16, float32 or float64"

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
    "key_mask of floats": (
        {"key_mask": zeros(2, 7)},
        TypeError,
        "key_mask has dtype torch.float32; it must be boolean, True = keep. If it is added to the "
        "scores (0 keeps, -inf hides) pass key_mask == 0; if 1 means keep pass key_mask.bool(); "
        "if 1 means ignore pass from_ignore_mask(key_mask.bool())",
    ),
    "head_mask of whole numbers": (
        {"head_mask": zeros(3, dtype=LONG)},
        TypeError,
        "head_mask has dtype torch.int64; pass booleans, True = keep, or floating-point factors",
    ),
    "head_mask for other heads": (
        {"head_mask": zeros(4)},
        ValueError,
        "head_mask has shape (4,); pass one entry for each of 3 heads, (3,), "
        "or for each sequence too, (2, 3)",
    ),
    "head_mask for other sequences": (
        {"head_mask": zeros(1, 3)},
        ValueError,
        "head_mask has shape (1, 3); pass one entry for each of 3 heads, (3,), "
        "or for each sequence too, (2, 3)",
    ),
    "head_mask that is no tensor": (
        {"head_mask": [1.0, 0.0, 1.0]},
        TypeError,
        "head_mask is of type list; pass a torch.Tensor, for example torch.as_tensor(head_mask)",
    ),
    "head_mask elsewhere": (
        {"head_mask": zeros(3, device="meta")},
        ValueError,
        "head_mask is on meta, but query is on cpu; pass head_mask.to('cpu')",
    ),
    "key_mask elsewhere": (
        {"key_mask": zeros(2, 7, dtype=torch.bool, device="meta")},
        ValueError,
        "key_mask is on meta, but query is on cpu; pass key_mask.to('cpu')",
    ),
    "bias of booleans": (
        {"bias": zeros(5, 7, dtype=torch.bool)},
        TypeError,
        "bias has dtype torch.bool; it is added to the scores, so it must be floating point. "
        "What hides keys goes into mask",
    ),
    "bias for other keys": (
        {"bias": zeros(5, 5)},
        ValueError,
        "bias has shape (5, 5), which does not broadcast to (B, h, L, S) = (2, 3, 5, 7): "
        "its axis for keys has 5, and should have 7 or 1",
    ),
    "check_finite of a tensor": (
        {"check_finite": zeros(2)},
        TypeError,
        "check_finite of shape (2,) is not a bool; pass True or False",
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


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"query": zeros(2, 5, 12).double()}, "query has dtype torch.float64, but the layer has"),
        ({"query": zeros(2, 5, 12, device="meta")}, "query is on meta, but the layer is on cpu"),
        ({"query": zeros(2, 5, 10)}, "query has width 10, but the layer has embed_dim=12"),
        ({"query": zeros(2, 0, 12)}, "query has no tokens, its shape is (2, 0, 12)"),
        ({"query": zeros(5, 12)}, "query has shape (5, 12), but the layer takes"),
        ({"value": zeros(2, 5, 12)}, "value was given without key"),
        ({"mask": zeros(5, 5)}, "mask has dtype torch.float32; it must be boolean"),
        ({"key_mask": zeros(5, 2, dtype=torch.bool)}, "key_mask has shape (5, 2), but keys are"),
        ({"head_mask": zeros(2)}, "head_mask has shape (2,); pass one entry"),
    ],
)
def test_plain_self_attention_which_is_checked_in_haste_refuses_as_well(bad, message):
    layer, good = MultiHeadAttention(12, 3), {"query": zeros(2, 5, 12)}
    layer(**good)
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}"):
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


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("key_padding_mask", "pass key_mask=~key_padding_mask: True = keep"),
        (
            "attn_mask",
            "pass mask=from_ignore_mask(attn_mask) if it is boolean, else bias=attn_mask",
        ),
        ("need_weights", "call with trace=True and read .weights"),
        ("is_causal", "make the layer with causal=True"),
        ("maks", "help(MultiHeadAttention.forward) says what it takes"),
    ],
)
def test_a_call_as_torch_has_it_is_told_our_words(name, way_out):
    with pytest.raises(TypeError, match=says(f"the layer takes no {name}; {way_out}")):
        MultiHeadAttention(8, 2)(zeros(1, 3, 8), **{name: None})
