"""The layer with a cache: however the tokens come in, the output is that of the full pass."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_lib import (
    KVCache,
    MultiHeadAttention,
    MultiHeadTrace,
    key_mask_from_lengths,
    last_dispatch,
)
from tests.mha_lib.strategies import PROPERTY, SEEDS, says, seeded

B, N, EMBED, HEADS = 2, 9, 8, 4
LAYERS = {
    "plain": {},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "sinusoidal": {"positions": "sinusoidal"},
    "window": {"window": 3},
    "window and rotary": {"window": 2, "positions": "rotary"},
    "window and alibi": {"window": (2, 5), "positions": "alibi"},
    "grouped-query": {"num_kv_heads": 2},
    "multi-query and rotary": {"num_kv_heads": 1, "positions": "rotary"},
}
BACKENDS = ("explicit", "sdpa", "auto")


def layer_and_tokens(device: str = "cpu", **options: object) -> tuple[MultiHeadAttention, Tensor]:
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, device=device, **options)
    return layer, torch.randn(B, N, EMBED, device=device)


def in_chunks(layer: MultiHeadAttention, x: Tensor, chunks: list[int], **options: object) -> Tensor:
    """Give the layer so many tokens at a time."""
    cache, outputs = KVCache(), []
    for chunk in x.split(chunks, dim=1):
        key_mask = options.get("key_mask")
        end = cache.length + chunk.shape[1]
        seen = {} if key_mask is None else {"key_mask": key_mask[:, :end]}
        outputs.append(layer(chunk, cache=cache, **(options | seen)))
    assert cache.length == x.shape[1]
    return torch.cat(outputs, dim=1)


CHUNKS = {
    "token by token": [1] * N,
    "in chunks": [2, 3, 1, 3],
    "after a prefill": [6, 1, 1, 1],
    "at once": [N],
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_however_the_tokens_come_in_the_output_is_that_of_the_full_pass(
    options, chunks, grad, device
):
    with torch.set_grad_enabled(grad):
        for backend in BACKENDS:
            layer, x = layer_and_tokens(device, **options, backend=backend)
            full = layer(x)
            torch.testing.assert_close(in_chunks(layer, x, chunks), full, atol=1e-5, rtol=1e-5)
            lengths = torch.tensor([N, N - 4], device=device)
            key_mask = key_mask_from_lengths(lengths)
            masked = in_chunks(layer, x, chunks, key_mask=key_mask)
            torch.testing.assert_close(masked, layer(x, key_mask=key_mask), atol=1e-5, rtol=1e-5)


@settings(PROPERTY, max_examples=25)
@given(
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    options=st.sampled_from(list(LAYERS.values())),
    seed=SEEDS,
)
def test_any_chunks_any_masks_and_biases(chunks, options, seed):
    layer, _ = layer_and_tokens(**options)
    length, generator = sum(chunks), seeded(seed)
    x = torch.randn(B, length, EMBED, generator=generator)
    mask = torch.rand(B, 1, length, length, generator=generator) < 0.7
    bias = torch.randn(HEADS, length, length, generator=generator)
    head_mask = torch.randn(HEADS, generator=generator)
    full = layer(x, mask=mask, bias=bias, head_mask=head_mask, trace=True)

    cache, begin = KVCache(), 0
    for chunk in chunks:
        end = begin + chunk
        rows, keys = slice(begin, end), slice(end)
        trace = layer(
            x[:, rows],
            mask=mask[..., rows, keys],
            bias=bias[..., rows, keys],
            head_mask=head_mask,
            cache=cache,
            trace=True,
        )
        limits = {"atol": 1e-5, "rtol": 1e-5}
        torch.testing.assert_close(trace.output, full.output[:, rows], **limits)
        torch.testing.assert_close(trace.weights, full.weights[..., rows, keys], **limits)
        assert trace.k.shape[2] == cache.length == end
        begin = end


@torch.no_grad()
def test_a_narrow_window_over_a_long_cache_in_chunks():
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, window=3, positions="rotary")
    x = torch.randn(1, 400, EMBED)
    output = in_chunks(layer, x, [300, 70, 1, 29])
    assert last_dispatch().backend == "window"
    torch.testing.assert_close(output, layer(x), atol=1e-5, rtol=1e-5)


def test_gradients_through_the_cache_are_those_of_the_full_pass():
    layer, x = layer_and_tokens(positions="rotary", num_kv_heads=2)
    layer(x).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad()
    in_chunks(layer, x, [4, 1, 1, 1, 2]).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_copied_cache_lets_two_endings_grow_from_one_beginning():
    layer, x = layer_and_tokens(positions="rotary")
    cache = KVCache(max_length=N)
    layer(x[:, :6], cache=cache)
    twin = copy.deepcopy(cache)
    other = torch.randn(B, 3, EMBED)
    ours, theirs = layer(x[:, 6:], cache=cache), layer(other, cache=twin)
    torch.testing.assert_close(ours, layer(x)[:, 6:])
    torch.testing.assert_close(theirs, layer(torch.cat((x[:, :6], other), dim=1))[:, 6:])


@torch.no_grad()
def test_a_cache_that_was_reset_begins_anew():
    layer, x = layer_and_tokens(positions="sinusoidal")
    cache = KVCache()
    layer(x[:, :4], cache=cache)
    cache.reset()
    torch.testing.assert_close(layer(x, cache=cache), layer(x))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_grouped_query_needs_a_smaller_cache(context):
    sizes = []
    for num_kv_heads in (4, 2, 1):
        layer, x = layer_and_tokens(num_kv_heads=num_kv_heads)
        cache = KVCache()
        with context():
            layer(x, cache=cache)
        sizes.append(cache.nbytes)
    assert sizes == [2 * B * N * EMBED * 4, B * N * EMBED * 4, B * N * EMBED * 2]


def test_generation_under_autocast(device):
    layer, x = layer_and_tokens(device, positions="rotary")
    with torch.autocast(device, dtype=torch.bfloat16), torch.no_grad():
        output = in_chunks(layer, x, [5, 1, 3])
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x), atol=0.05, rtol=0.05)


# --- misuse ---


def given_cache(tokens: int = 4) -> KVCache:
    cache = KVCache()
    cache.append(torch.randn(B, HEADS, tokens, 2), torch.randn(B, HEADS, tokens, 2))
    return cache


MISUSE = {
    "a layer that is not causal": (
        {"layer": {"causal": False}},
        ValueError,
        "cache was given, but the layer has causal=False: in a full pass earlier tokens would "
        "see later ones, which a cache cannot do; make the layer with causal=True",
    ),
    "something else": (
        {"cache": {}},
        TypeError,
        "cache is of type dict; pass a mha_lib.KVCache()",
    ),
    "a class": (
        {"cache": KVCache},
        TypeError,
        "cache is of type type; pass a mha_lib.KVCache()",
    ),
    "with key": (
        {"key": torch.randn(B, 3, EMBED)},
        ValueError,
        "cache was given with key, but it holds the keys of the tokens before query; "
        "call the layer with query alone, or without cache",
    ),
    "key_mask of the new tokens alone": (
        {"key_mask": torch.ones(B, 3, dtype=torch.bool)},
        ValueError,
        "key_mask has shape (2, 3), but keys are (B, S) = (2, 7), 4 of them in the cache; it says "
        "for each key of each sequence whether it is real, and what depends on the query or the "
        "head goes into mask",
    ),
    "mask of the new tokens alone": (
        {"mask": torch.ones(3, 3, dtype=torch.bool)},
        ValueError,
        "mask has shape (3, 3), which does not broadcast to (B, h, L, S) = (2, 4, 3, 7): "
        "its axis for keys has 3, and should have 7 or 1",
    ),
    "another batch": (
        {"query": torch.randn(B + 1, 3, EMBED)},
        ValueError,
        "key has batch 3, but the cache has 2; one cache is for one layer and one batch, "
        "so make another or call reset()",
    ),
    "another layer": (
        {"layer": {"num_kv_heads": 1}},
        ValueError,
        "key has key heads 1, but the cache has 4; one cache is for one layer and one batch, "
        "so make another or call reset()",
    ),
    "another dtype": (
        {"layer": {"dtype": torch.float64}, "query": torch.randn(B, 3, EMBED).double()},
        TypeError,
        "key has dtype torch.float64, but the cache has torch.float32; one cache is for one layer "
        "and one batch, so make another or call reset()",
    ),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_refused_and_leaves_the_cache_as_it_was(case):
    wrong, error, message = MISUSE[case]
    layer = MultiHeadAttention(EMBED, HEADS, **({"causal": True} | wrong.get("layer", {})))
    cache = given_cache()
    arguments = {"query": torch.randn(B, 3, EMBED), "cache": cache} | wrong
    arguments.pop("layer", None)
    with pytest.raises(error, match=says(message)):
        layer(**arguments)
    assert cache.length == 4


def test_a_full_cache_says_so():
    layer, x = layer_and_tokens()
    cache = KVCache(max_length=6)
    layer(x[:, :5], cache=cache)
    with pytest.raises(ValueError, match="2 more tokens make 7, above max_length=6"):
        layer(x[:, 5:7], cache=cache)
    assert layer(x[:, 5:6], cache=cache).shape == (B, 1, EMBED)


def fails(*_: object) -> None:
    raise ArithmeticError


@pytest.mark.parametrize("name", MultiHeadTrace.STEP_NAMES)
def test_an_error_at_any_step_leaves_the_cache_as_it_was(name):
    layer, x = layer_and_tokens()
    cache = KVCache()
    before = layer(x[:, :5], cache=cache)
    with pytest.raises(ArithmeticError):
        layer(x[:, 5:], cache=cache, edit={name: fails})
    with layer.out_proj.register_forward_hook(fails), pytest.raises(ArithmeticError):
        layer(x[:, 5:], cache=cache)
    output = torch.cat((before, layer(x[:, 5:], cache=cache)), dim=1)
    torch.testing.assert_close(output, layer(x))


def test_a_cache_that_was_refused_is_for_any_layer_still():
    layer, x = layer_and_tokens()
    other = MultiHeadAttention(EMBED, HEADS)
    cache = KVCache()
    with pytest.raises(ValueError, match="causal=False"):
        other(x, cache=cache)
    with pytest.raises(ArithmeticError):
        layer(x[:1], cache=cache, edit={"weights": fails})
    torch.testing.assert_close(layer(x, cache=cache), layer(x))
    other.causal = True
    with pytest.raises(ValueError, match="keys of another layer"):
        other(x, cache=cache)
    cache.reset()
    torch.testing.assert_close(other(x, cache=cache), other(x))
