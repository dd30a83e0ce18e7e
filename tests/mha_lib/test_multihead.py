"""`MultiHeadAttention` against torch's module, and what padding, causality and dropout do."""

import copy

import pytest
import torch
from torch import Tensor, nn

from mha_lib import (
    MultiHeadAttention,
    causal_mask,
    from_ignore_mask,
    from_torch,
    key_mask_from_lengths,
    to_torch,
)
from tests.mha_lib.strategies import seeded

BACKENDS = ("explicit", "sdpa", "auto")
B, L, S, EMBED, HEADS = 3, 5, 7, 12, 4

# What torch's module is made with, and whether keys and values are other tokens than queries.
SETUPS = {
    "self": ({}, False),
    "self without bias": ({"bias": False}, False),
    "cross": ({}, True),
    "cross with kdim and vdim": ({"kdim": 6, "vdim": 10}, True),
    "cross with kdim and vdim, without bias": ({"kdim": 6, "vdim": 10, "bias": False}, True),
}
# Masks in torch's convention, True = ignore or added to scores, by their names in torch's forward.
IGNORE = {
    "no mask": lambda S: {},
    "mask": lambda S: {"attn_mask": torch.rand(L, S, generator=seeded(1)) < 0.4},
    "mask per sequence and head": lambda S: {
        "attn_mask": torch.rand(B * HEADS, L, S, generator=seeded(2)) < 0.4
    },
    "padding": lambda S: {
        "key_padding_mask": torch.arange(S) >= torch.tensor([S, S - 2, 1])[:, None]
    },
    "mask and padding": lambda S: {
        "attn_mask": torch.rand(L, S, generator=seeded(3)) < 0.2,
        "key_padding_mask": torch.arange(S) >= torch.tensor([S, S - 1, S - 2])[:, None],
    },
    "causal": lambda S: {"attn_mask": ~causal_mask(L, S)},
    "a bias": lambda S: {"attn_mask": torch.randn(L, S, generator=seeded(4)).double()},
    "a bias per sequence and head": lambda S: {
        "attn_mask": torch.randn(B * HEADS, L, S, generator=seeded(5)).double()
    },
    "a bias that hides": lambda S: {
        "attn_mask": torch.zeros(L, S).double().masked_fill(~causal_mask(L, S), -torch.inf)
    },
    "a bias for padding": lambda S: {
        "key_padding_mask": torch.randn(B, S, generator=seeded(6)).double()
    },
    "a bias and a bias for padding": lambda S: {
        "attn_mask": torch.randn(L, S, generator=seeded(7)).double(),
        "key_padding_mask": torch.zeros(B, S).double().index_fill(1, torch.tensor(1), -torch.inf),
    },
}


def our_masks(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same by our names: True = keep, and what is added to the scores is the bias."""
    ours, added = {}, []
    for name, mask in theirs.items():
        if mask.is_floating_point():
            added.append(mask[:, None, None] if name == "key_padding_mask" else by_head(mask))
        elif name == "key_padding_mask":
            ours["key_mask"] = from_ignore_mask(mask)
        else:
            ours["mask"] = from_ignore_mask(by_head(mask))
    return ours | ({"bias": sum(added)} if added else {})


def by_head(mask: Tensor) -> Tensor:
    """torch takes one mask per sequence and head as (B*h, L, S)."""
    return mask.unflatten(0, (B, HEADS)) if mask.dim() == 3 else mask


def let_each_query_see_a_key(ignore: dict[str, Tensor]) -> dict[str, Tensor]:
    """torch gives NaN where all is ignored, so there is nothing to compare there."""
    if "attn_mask" in ignore:
        ignore["attn_mask"][..., 0] = False
    return ignore


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("masking", IGNORE)
@pytest.mark.parametrize("setup", SETUPS)
def test_equals_torch_in_outputs_weights_and_gradients(setup, masking, backend, device):
    options, cross = SETUPS[setup]
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(EMBED, HEADS, batch_first=True, **options)
    for name, parameter in theirs.named_parameters():  # torch's biases start at 0: move them
        if "bias" in name:
            nn.init.normal_(parameter)
    theirs = theirs.to(device, torch.float64)
    ours = from_torch(theirs)
    ours.backend = backend

    keys = S if cross else L
    ignore = let_each_query_see_a_key(IGNORE[masking](keys))
    ignore = {name: mask.to(device) for name, mask in ignore.items()}

    def tokens(length: int, width: int, seed: int) -> Tensor:
        x = torch.randn(B, length, width, generator=seeded(seed), dtype=torch.float64)
        return x.to(device)

    query = tokens(L, EMBED, 4)
    inputs = [query, query, query]
    if cross:
        inputs = [query, tokens(S, theirs.kdim, 5), tokens(S, theirs.vdim, 6)]
    their_inputs = [x.clone().requires_grad_() for x in inputs]
    our_inputs = [x.clone().requires_grad_() for x in inputs]

    expected, expected_weights = theirs(*their_inputs, **ignore, average_attn_weights=False)
    output = ours(*our_inputs, **our_masks(ignore))
    torch.testing.assert_close(output, expected)
    trace = ours(*our_inputs, **our_masks(ignore), trace=True)
    torch.testing.assert_close(trace.weights, expected_weights)
    _, averaged = theirs(*inputs, **ignore)
    torch.testing.assert_close(trace.weights.mean(dim=1), averaged)
    torch.testing.assert_close(trace.output, expected)

    back, _ = to_torch(ours)(*inputs, **ignore)
    torch.testing.assert_close(back, expected)

    readout = torch.randn(B, L, EMBED, generator=seeded(7), dtype=torch.float64).to(device)
    (expected * readout).sum().backward()
    (output * readout).sum().backward()
    for our_input, their_input in zip(our_inputs, their_inputs, strict=True):
        torch.testing.assert_close(our_input.grad, their_input.grad)
    # A layer made from the gradients of theirs holds, by name, what ours should be.
    grads = copy.deepcopy(theirs)
    for parameter, source in zip(grads.parameters(), theirs.parameters(), strict=True):
        parameter.data.copy_(source.grad)
    for name, expected_grad in from_torch(grads).state_dict().items():
        torch.testing.assert_close(ours.get_parameter(name).grad, expected_grad, msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_is_as_if_it_were_not_there(backend, device):
    layer = MultiHeadAttention(EMBED, HEADS, backend=backend, device=device)
    x = torch.randn(2, 6, EMBED, device=device)
    key_mask = key_mask_from_lengths(torch.tensor([6, 4], device=device))
    padded = layer(x, key_mask=key_mask)
    torch.testing.assert_close(padded[1:, :4], layer(x[1:, :4]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded[:1], layer(x[:1]), atol=1e-5, rtol=1e-5)


def test_a_sequence_of_padding_alone_gives_the_output_bias(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 4, EMBED, device=device)
    output = layer(x, key_mask=key_mask_from_lengths(torch.tensor([4, 0], device=device)))
    torch.testing.assert_close(output[1], layer.out_proj.bias.expand(4, -1))


def test_causal_layer_does_not_see_the_future(device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, device=device)
    x = torch.randn(1, 6, EMBED, device=device)
    changed = x.clone()
    changed[:, 4:] = 9.0
    torch.testing.assert_close(layer(x)[:, :4], layer(changed)[:, :4])
    assert not torch.allclose(layer(x)[:, 4:], layer(changed)[:, 4:])


def test_without_a_mask_the_order_of_tokens_only_orders_the_output(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 6, EMBED, device=device)
    order = torch.randperm(6, device=device)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-5, rtol=1e-5)


def test_key_defaults_to_query_and_value_to_key(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x, other = torch.randn(2, B, L, EMBED, device=device)
    torch.testing.assert_close(layer(x), layer(x, x, x))
    torch.testing.assert_close(layer(x, other), layer(x, other, other))


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_for_training_only(backend, device):
    torch.manual_seed(0)
    layer = MultiHeadAttention(EMBED, HEADS, dropout=0.5, backend=backend, device=device)
    x = torch.randn(B, L, EMBED, device=device)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer(x, trace=True).output, layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_stays_empty(backend, causal, device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=causal, backend=backend, device=device)
    x = torch.randn(0, L, EMBED, device=device)
    assert layer(x).shape == (0, L, EMBED)
    key_mask = torch.ones(0, L, dtype=torch.bool, device=device)
    trace = layer(x, key_mask=key_mask, trace=True)
    assert trace.output.shape == (0, L, EMBED)
    assert trace.weights.shape == (0, HEADS, L, L)
    assert trace.contributions.shape == (0, HEADS, L, EMBED)
