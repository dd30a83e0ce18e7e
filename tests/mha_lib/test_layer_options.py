"""The layer's options against the NumPy reference: each, and all of them together."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_lib import MultiHeadAttention, reference
from mha_lib.positions import alibi_bias, alibi_slopes, rotary, sinusoidal
from tests.mha_lib.strategies import PROPERTY, SEEDS, biases, masks, seeded, windows

POSITIONS = (None, "rotary", "alibi", "sinusoidal")
EMBED, HEADS = 16, 4


def arrays(layer: MultiHeadAttention) -> dict[str, np.ndarray]:
    return {name: p.cpu().double().numpy() for name, p in layer.state_dict().items()}


def tokens(*shape: int, seed: int = 0, device: str = "cpu") -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64).to(device)


@st.composite
def layers(draw: st.DrawFn) -> dict[str, object]:
    """Arguments of `MultiHeadAttention`."""
    h_kv = draw(st.integers(1, 3))
    size = st.integers(1, 6)
    causal = draw(st.booleans())
    return {
        "embed_dim": draw(size),
        "num_heads": h_kv * draw(st.integers(1, 2)),
        "num_kv_heads": h_kv,
        "head_dim": draw(st.sampled_from([2, 4])),
        "kdim": draw(size),
        "vdim": draw(size),
        "bias": draw(st.booleans()),
        "causal": causal,
        "window": draw(st.none() | windows(False, causal)),
        "positions": draw(st.sampled_from(POSITIONS)),
        "backend": draw(st.sampled_from(["explicit", "sdpa", "auto"])),
    }


@st.composite
def head_masks(draw: st.DrawFn, B: int, h: int) -> Tensor | None:
    shape = draw(st.sampled_from([None, (h,), (B, h)]))
    if shape is None:
        return None
    factors = torch.randn(shape, generator=seeded(draw(SEEDS)), dtype=torch.float64)
    return factors > 0 if draw(st.booleans()) else factors


@settings(PROPERTY, max_examples=80)
@given(data=st.data())
def test_every_mixture_of_options_gives_what_the_reference_gives(data, device):
    made_with = data.draw(layers())
    layer = MultiHeadAttention(**made_with, device=device, dtype=torch.float64)
    B, L, S = (data.draw(st.integers(1, 4)) for _ in range(3))
    h = layer.num_heads
    query, key, value = (
        tokens(B, length, width, seed=data.draw(SEEDS), device=device)
        for length, width in ((L, layer.embed_dim), (S, layer.kdim), (S, layer.vdim))
    )
    mask = data.draw(masks((B, h, L, S)))
    key_mask = torch.rand(B, S, generator=seeded(data.draw(SEEDS))) < 0.8
    bias = data.draw(biases((B, h, L, S)))
    head_mask = data.draw(head_masks(B, h))
    options = {"mask": mask, "key_mask": key_mask, "bias": bias, "head_mask": head_mask}
    options = {name: x if x is None else x.to(device) for name, x in options.items()}

    keep = key_mask[:, None, None] if mask is None else mask & key_mask[:, None, None]
    output, weights = reference.multi_head_attention(
        *(x.cpu().numpy() for x in (query, key, value)),
        arrays(layer),
        h,
        num_kv_heads=layer.num_kv_heads,
        mask=keep.numpy(),
        bias=None if bias is None else bias.detach().double().numpy(),
        causal=layer.causal,
        window=layer.window,
        head_mask=None if head_mask is None else head_mask.double().numpy(),
        positions=layer.positions,
    )
    fast = layer(query, key, value, **options)
    torch.testing.assert_close(fast.detach().cpu(), torch.from_numpy(output), atol=1e-6, rtol=1e-6)
    trace = layer(query, key, value, **options, trace=True)
    torch.testing.assert_close(trace.output, fast)
    torch.testing.assert_close(
        trace.weights.detach().cpu(), torch.from_numpy(weights), atol=1e-6, rtol=1e-6
    )
    total = trace.contributions.sum(dim=1)
    torch.testing.assert_close(total, fast - layer.out_proj.bias if made_with["bias"] else fast)


def test_a_window_is_computed_in_chunks_and_gives_what_the_reference_gives(device):
    layer = MultiHeadAttention(
        8, 4, num_kv_heads=2, causal=True, window=3, positions="rotary", backend="window"
    ).to(device, torch.float64)
    x = tokens(2, 70, 8, device=device)
    key_mask = torch.arange(70, device=device) < torch.tensor([[70], [40]], device=device)
    output, _ = reference.multi_head_attention(
        *[x.cpu().numpy()] * 3,
        arrays(layer),
        4,
        num_kv_heads=2,
        causal=True,
        window=3,
        positions="rotary",
        mask=key_mask[:, None, None].cpu().numpy(),
    )
    torch.testing.assert_close(
        layer(x, key_mask=key_mask).detach().cpu(), torch.from_numpy(output), atol=1e-6, rtol=1e-6
    )


# --- fewer key heads ---


@pytest.mark.parametrize("h_kv", [1, 2, 4])
def test_key_heads_that_are_shared_are_equal_key_heads(h_kv, device):
    few = MultiHeadAttention(EMBED, HEADS, num_kv_heads=h_kv, device=device)
    full = MultiHeadAttention(EMBED, HEADS, device=device)
    state = few.state_dict()
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        by_head = state[name].unflatten(0, (h_kv, few.head_dim))
        state[name] = by_head.repeat_interleave(HEADS // h_kv, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = torch.randn(2, 5, EMBED, device=device)
    torch.testing.assert_close(few(x), full(x))
    trace = few(x, trace=True)
    assert trace.k.shape == trace.v.shape == (2, h_kv, 5, 4)
    assert trace.q.shape == trace.head_out.shape == (2, HEADS, 5, 4)


# --- masks of heads ---


def test_a_head_mask_takes_away_what_a_head_contributes(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 5, EMBED, device=device)
    contributions = layer(x, trace=True).contributions  # (B, h, L, d_model)
    factors = torch.tensor([[1.0, 0.0, 0.5, -2.0], [0.0, 0.0, 0.0, 0.0]], device=device)
    expected = (contributions * factors[..., None, None]).sum(dim=1) + layer.out_proj.bias
    torch.testing.assert_close(layer(x, head_mask=factors), expected)
    torch.testing.assert_close(layer(x[:1], head_mask=factors[0]), expected[:1])
    keep = factors != 0
    kept = (contributions * keep[..., None, None]).sum(dim=1) + layer.out_proj.bias
    torch.testing.assert_close(layer(x, head_mask=keep), kept)


def test_a_head_mask_of_ones_changes_nothing_and_none_silences_all(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 5, EMBED, device=device)
    for ones in (torch.ones(HEADS), torch.ones(HEADS).bool(), torch.ones(2, HEADS).double()):
        assert torch.equal(layer(x, head_mask=ones.to(device)), layer(x))
    silent = layer(x, head_mask=torch.zeros(HEADS, dtype=torch.bool, device=device))
    torch.testing.assert_close(silent, layer.out_proj.bias.expand(2, 5, -1))


def test_a_head_mask_can_have_a_gradient_and_says_which_head_matters():
    layer = MultiHeadAttention(EMBED, HEADS)
    x = torch.randn(2, 5, EMBED)
    head_mask = torch.ones(HEADS, requires_grad=True)
    readout = torch.randn(2, 5, EMBED)
    (layer(x, head_mask=head_mask) * readout).sum().backward()
    contributions = layer(x, trace=True).contributions
    torch.testing.assert_close(head_mask.grad, (contributions * readout[:, None]).sum((0, 2, 3)))


# --- positions ---


@pytest.mark.parametrize("positions", ["rotary", "alibi", "sinusoidal"])
def test_with_positions_order_matters(positions, device):
    layer = MultiHeadAttention(EMBED, HEADS, positions=positions, device=device)
    x = torch.randn(2, 6, EMBED, device=device)
    order = torch.tensor([3, 0, 5, 1, 4, 2], device=device)
    assert not torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_these_see_distances_and_not_places(positions):
    """Padding in front, which no query sees, moves every place and changes nothing."""
    layer = MultiHeadAttention(EMBED, HEADS, positions=positions)
    x = torch.randn(1, 4, EMBED)
    moved = torch.cat((torch.randn(1, 3, EMBED), x), dim=1)
    key_mask = torch.arange(7)[None] >= 3
    output = layer(moved, key_mask=key_mask)[:, 3:]
    torch.testing.assert_close(output, layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("window", [None, 2])
def test_the_newest_tokens_alone_ask_as_they_do_among_all(positions, window):
    """Asked as cross-attention over the whole past: the last query stands beside the last key."""
    options = {"causal": True, "window": window, "positions": positions}
    layer = MultiHeadAttention(EMBED, HEADS, **options)
    x = torch.randn(2, 6, EMBED)
    for L in (1, 3, 6):
        newest = layer(x[:, -L:], x)
        torch.testing.assert_close(newest, layer(x)[:, -L:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "sinusoidal"])
def test_positions_are_those_of_positions_py(positions):
    layer = MultiHeadAttention(EMBED, HEADS, positions=positions)
    plain = MultiHeadAttention(EMBED, HEADS)
    plain.load_state_dict(layer.state_dict(), strict=False)
    x, places = torch.randn(2, 6, EMBED), torch.arange(6)
    expected = {
        "rotary": lambda: plain(
            x, edit={"q": lambda q: rotary(q, places), "k": lambda k: rotary(k, places)}
        ),
        "alibi": lambda: plain(x, bias=alibi_bias(alibi_slopes(HEADS), 6, 6)),
        "sinusoidal": lambda: plain(x + sinusoidal(places, EMBED)),
    }[positions]()
    torch.testing.assert_close(layer(x), expected)


def test_slopes_are_part_of_the_state_and_no_parameter(device):
    layer = MultiHeadAttention(EMBED, HEADS, positions="alibi", device=device)
    assert "slopes" in layer.state_dict()
    assert "slopes" not in dict(layer.named_parameters())
    assert layer.slopes.device.type == device
    x = torch.randn(1, 5, EMBED, device=device)
    half = layer(x)
    torch.testing.assert_close(layer.bfloat16()(x.bfloat16()).float(), half, atol=0.05, rtol=0.05)


def test_distances_are_exact_in_half_precision():
    """In bfloat16 itself 257 steps would be as far as 256."""
    layer = MultiHeadAttention(EMBED, HEADS, positions="alibi", dtype=torch.bfloat16)
    trace = layer(torch.randn(1, 300, EMBED).bfloat16(), trace=True)
    exact = alibi_bias(alibi_slopes(HEADS), 300, 300)[None]
    torch.testing.assert_close(trace.masked_scores - trace.scores, exact, atol=1e-3, rtol=0)


# --- biases ---


def test_a_bias_can_be_learned(device):
    """As in T5: one number for each distance and head."""
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    table = torch.zeros(HEADS, 9, device=device, requires_grad=True)
    places = torch.arange(5, device=device)
    bias = table[:, places - places[:, None] + 4]  # (h, L, S)
    x = torch.randn(2, 5, EMBED, device=device)
    layer(x, bias=bias).square().sum().backward()
    assert table.grad.abs().sum() > 0
    assert table.grad.isfinite().all()


@pytest.mark.parametrize("positions", [None, "alibi"])
def test_a_bias_of_minus_infinity_is_a_mask(positions, device):
    layer = MultiHeadAttention(EMBED, HEADS, positions=positions, causal=True, device=device)
    x = torch.randn(2, 5, EMBED, device=device)
    mask = torch.rand(2, 1, 5, 5, device=device) < 0.6
    bias = torch.zeros(2, 1, 5, 5, device=device).masked_fill(~mask, -math.inf)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        torch.testing.assert_close(layer(x, bias=bias.to(dtype)), layer(x, mask=mask))


# --- what the layer says of itself ---


def test_print_says_what_differs_from_a_plain_layer():
    layer = MultiHeadAttention(8, 4, num_kv_heads=2, window=(4, 0), positions="rotary")
    assert layer.extra_repr() == (
        "embed_dim=8, num_heads=4, num_kv_heads=2, head_dim=2, dropout=0.0, causal=False, "
        "window=(4, 0), positions='rotary', backend='auto'"
    )
    assert MultiHeadAttention(8, 4).extra_repr() == (
        "embed_dim=8, num_heads=4, head_dim=2, dropout=0.0, causal=False, backend='auto'"
    )


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        ({}, []),
        ({"num_kv_heads": 2, "window": 3, "causal": True}, []),
        ({"positions": "rotary"}, []),
        ({"positions": "sinusoidal"}, []),
        ({"positions": "alibi"}, ["slopes"]),
    ],
    ids=str,
)
def test_state_dict_names_are_stable(options, extra):
    assert list(MultiHeadAttention(8, 4, **options).state_dict()) == [
        *extra,  # buffers of the layer itself come first
        "q_proj.weight",
        "q_proj.bias",
        "k_proj.weight",
        "k_proj.bias",
        "v_proj.weight",
        "v_proj.bias",
        "out_proj.weight",
        "out_proj.bias",
    ]
