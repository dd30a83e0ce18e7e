"""`attention`: its backends against the NumPy reference, and the laws of attention."""

import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from mha_lib import attention, causal_mask, window_mask
from mha_lib.backends import window as chunks
from tests.mha_lib.strategies import (
    BACKENDS,
    DTYPES,
    PROPERTY,
    SEEDS,
    TOLERANCE,
    heads,
    inputs,
    on,
    oracle,
    same_on_all,
    seeded,
)

# Those that compute every call but one with a softcap.
ANY_WINDOW = ("explicit", "sdpa", "auto")


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_what_the_reference_gives(backend, data, device):
    arguments = data.draw(inputs(backend, DTYPES))
    expected, _ = oracle(arguments)
    query = arguments["query"]
    with patch.object(chunks, "CHUNK", data.draw(st.sampled_from([1, 2, 64]))):
        output = attention(**on(device, arguments), backend=backend)
    assert output.dtype == query.dtype
    assert output.device.type == device
    tolerance = TOLERANCE[query.dtype]
    torch.testing.assert_close(
        output.detach().cpu().double(), expected, atol=tolerance, rtol=tolerance
    )


@PROPERTY
@given(arguments=inputs(dtypes=(torch.float64, torch.float32)))
def test_trace_has_the_reference_weights_and_the_fast_output(arguments, device):
    expected, expected_weights = oracle(arguments)
    trace = attention(**on(device, arguments), trace=True)
    limits = dict.fromkeys(("atol", "rtol"), TOLERANCE[arguments["query"].dtype])
    weights = trace.weights.detach().cpu().double()
    torch.testing.assert_close(weights, expected_weights, **limits)
    torch.testing.assert_close(trace.output.detach().cpu().double(), expected, **limits)
    torch.testing.assert_close(trace.output, attention(**on(device, arguments)), **limits)


@PROPERTY
@given(arguments=inputs())
def test_rows_of_weights_sum_to_one_or_to_zero_if_blind(arguments):
    trace = attention(**arguments, trace=True)
    sees_a_key = trace.masked_scores.isfinite().any(dim=-1)
    torch.testing.assert_close(trace.weights.sum(dim=-1), sees_a_key.double())
    assert (trace.weights[trace.masked_scores.isneginf()] == 0).all()


@PROPERTY
@given(data=st.data(), seed=st.integers(0, 100))
@pytest.mark.parametrize("backend", ANY_WINDOW)
def test_permuting_the_keys_changes_nothing_and_permuting_the_queries_permutes(backend, data, seed):
    arguments = data.draw(inputs(backend, square=True))
    arguments |= {"mask": None, "bias": None, "window": None, "causal": False}
    output = attention(**arguments, backend=backend)
    order = torch.randperm(output.shape[2], generator=seeded(seed))
    shuffled = {name: arguments[name][:, :, order] for name in ("query", "key", "value")}
    keys_only = attention(**(arguments | shuffled | {"query": arguments["query"]}), backend=backend)
    torch.testing.assert_close(keys_only, output)
    everything = attention(**(arguments | shuffled), backend=backend)
    torch.testing.assert_close(everything, output[:, :, order])


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_causal_output_does_not_move_when_the_future_changes(backend, data):
    arguments = data.draw(inputs(backend))
    arguments["causal"] = True
    before = attention(**arguments, backend=backend)
    L, S = arguments["query"].shape[2], arguments["key"].shape[2]
    changed = data.draw(st.integers(0, S - 1))  # this key and all later ones change
    for name in ("key", "value"):
        arguments[name] = arguments[name].clone()
        arguments[name][:, :, changed:] += 7.0
    after = attention(**arguments, backend=backend)
    past = max(0, changed - (S - L))  # queries before this one see none of them
    torch.testing.assert_close(after[:, :, :past], before[:, :, :past], atol=0, rtol=0)


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_that_hides_is_one_mask(backend, data):
    """Causal, window and -inf in the bias could each be written into the mask."""
    arguments = data.draw(inputs(backend))
    query, bias = arguments["query"], arguments["bias"]
    (B, h, L, _), S = query.shape, arguments["key"].shape[2]
    expected = attention(**arguments, backend=backend)

    mask = torch.ones(B, h, L, S, dtype=torch.bool)
    if arguments["mask"] is not None:
        mask &= arguments["mask"]
    if arguments["causal"]:
        mask &= causal_mask(L, S)
    if arguments["window"] is not None:
        mask &= window_mask(L, S, window=arguments["window"])
    if bias is not None:
        mask &= bias > -math.inf
        arguments["bias"] = bias.clamp(min=-5.0)  # where it was -inf, any number will do
        assert (bias[bias > -math.inf] > -5.0).all()
    arguments |= {"mask": mask, "causal": False, "window": None}
    torch.testing.assert_close(attention(**arguments), expected)


@PROPERTY
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_neighbouring_query_heads_share_a_key_head(backend, data):
    arguments = data.draw(inputs(backend))
    shared = attention(**arguments, backend=backend)
    groups = arguments["query"].shape[1] // arguments["key"].shape[1]
    for name in ("key", "value"):
        arguments[name] = arguments[name].repeat_interleave(groups, dim=1)
    torch.testing.assert_close(attention(**arguments, backend=backend), shared)


@PROPERTY
@given(arguments=inputs("sdpa"), seed=SEEDS)
@pytest.mark.parametrize("backend", ANY_WINDOW)
def test_what_is_added_to_a_whole_row_of_scores_changes_nothing(backend, arguments, seed):
    B, h, L, _ = arguments["query"].shape
    before = attention(**arguments, backend=backend)
    row = torch.randn(B, h, L, 1, generator=seeded(seed), dtype=torch.float64)
    arguments["bias"] = row if arguments["bias"] is None else arguments["bias"] + row
    torch.testing.assert_close(attention(**arguments, backend=backend), before)


@PROPERTY
@given(arguments=inputs("sdpa"))
def test_a_softcap_bounds_the_scores_and_a_great_one_changes_nothing(arguments):
    plain = attention(**arguments, backend="explicit")
    arguments["softcap"] = 0.25
    assert attention(**arguments, trace=True).scores.abs().max() <= 0.25
    arguments["softcap"] = 1e6
    torch.testing.assert_close(attention(**arguments), plain)


@pytest.mark.parametrize("causal", [False, True])
def test_a_window_as_wide_as_the_sequence_hides_nothing(causal, device):
    q, k, v = heads(2, 3, 9, 8, device=device)
    plain = attention(q, k, v, causal=causal)
    for backend in BACKENDS:
        for window in (8, 9, 10**6):
            output = attention(q, k, v, causal=causal, window=window, backend=backend)
            torch.testing.assert_close(output, plain)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_of_zero_gives_each_token_its_own_value(backend, causal, device):
    q, k, v = heads(2, 3, 200, 8, device=device)
    output = attention(q, k, v, causal=causal, window=0, backend=backend)
    torch.testing.assert_close(output, v)


def test_auto_computes_a_narrow_window_in_chunks_and_gives_the_same(device):
    q, k, v = heads(2, 2, 300, 8, device=device)
    key_mask = torch.rand(2, 1, 1, 300, device=device) < 0.8
    for options in ({}, {"causal": True}, {"mask": key_mask}, {"scale": -0.2}):
        same_on_all({"query": q, "key": k, "value": v, "window": (9, 3), **options})


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_new_query_sees_the_whole_past(backend, device):
    q = torch.randn(2, 2, 1, 8, device=device)
    k = torch.randn(2, 2, 6, 8, device=device)
    window = 9 if backend == "window" else None
    causal = attention(q, k, k, causal=True, window=window, backend=backend)
    expected = attention(q, k, k, window=window, backend=backend)
    torch.testing.assert_close(causal, expected, atol=0, rtol=0)


# --- torch's function, where it has the same ---

KEEP = torch.rand(6, 6, generator=seeded(1)) < 0.6
KEEP[:, 0] = True  # torch's function and ours differ on a query that sees no key
ADDED = torch.randn(2, 1, 6, 6, generator=seeded(2))
THEIRS = {
    "plain": ({}, {}),
    "scale": ({"scale": 0.4}, {"scale": 0.4}),
    "causal": ({"is_causal": True}, {"causal": True}),
    "a boolean mask": ({"attn_mask": KEEP}, {"mask": KEEP}),
    "a float mask": ({"attn_mask": ADDED}, {"bias": ADDED}),
    "a float mask that hides": (
        {"attn_mask": ADDED.masked_fill(~KEEP, -math.inf)},
        {"bias": ADDED.masked_fill(~KEEP, -math.inf)},
    ),
    "the same in two parts": (
        {"attn_mask": ADDED.masked_fill(~KEEP, -math.inf)},
        {"bias": ADDED, "mask": KEEP},
    ),
}


@pytest.mark.parametrize("h_kv", [4, 2, 1])
@pytest.mark.parametrize("case", THEIRS)
def test_equals_torch_in_outputs_and_gradients(case, h_kv, device):
    theirs, ours = (on(device, options) for options in THEIRS[case])
    query = torch.randn(2, 4, 6, 8, device=device)
    key, value = torch.randn(2, 2, h_kv, 6, 8, device=device)
    their_inputs = [x.clone().requires_grad_() for x in (query, key, value)]
    expected = F.scaled_dot_product_attention(*their_inputs, **theirs, enable_gqa=h_kv < 4)
    expected.square().sum().backward()
    for backend in ANY_WINDOW:
        our_inputs = [x.clone().requires_grad_() for x in (query, key, value)]
        output = attention(*our_inputs, **ours, backend=backend)
        torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
        output.square().sum().backward()
        for our, their in zip(our_inputs, their_inputs, strict=True):
            torch.testing.assert_close(our.grad, their.grad, atol=1e-5, rtol=1e-5)


# --- what comes in and what goes out ---


@PROPERTY
@given(data=st.data(), trace=st.booleans())
@pytest.mark.parametrize("backend", BACKENDS)
def test_no_input_is_changed(backend, data, trace):
    arguments = data.draw(inputs(backend))
    tensors = [x for x in arguments.values() if isinstance(x, torch.Tensor)]
    copies = [x.clone() for x in tensors]
    attention(**arguments, backend=backend, trace=trace)
    for x, copy in zip(tensors, copies, strict=True):
        assert torch.equal(x, copy)


def options_of(backend: str) -> dict[str, object]:
    return {"backend": backend, "window": 20 if backend == "window" else None}


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_drops_weights_and_keeps_their_mean(backend, device):
    q = k = torch.zeros(4, 8, 16, 16, device=device)  # every weight is 1/16
    v = torch.ones(4, 8, 16, 1, device=device)
    output = attention(q, k, v, dropout=0.5, **options_of(backend))
    # Each output is a sum of 16 weights, each 0 or 2/16: a multiple of 1/8, 1 on average.
    torch.testing.assert_close((output * 8).round(), output * 8)
    assert output.unique().numel() > 4
    assert math.isclose(output.mean().item(), 1.0, abs_tol=0.05)


def test_traced_weights_are_the_ones_used_when_dropout_is_on(device):
    q, k, v = heads(2, 2, 6, 4, device=device)
    trace = attention(q, k, v, dropout=0.5, trace=True)
    assert (trace.weights == 0).any()
    torch.testing.assert_close(trace.weights @ v, trace.head_out)


@pytest.mark.parametrize("backend", BACKENDS)
def test_meta_tensors_give_shapes_for_free(backend):
    q = torch.empty(1, 96, 2048, 128, device="meta")
    mask = torch.empty(1, 2048, dtype=torch.bool, device="meta")
    options = options_of(backend)
    assert attention(q, q, q, causal=True, **options).shape == q.shape
    assert attention(q, q, q, mask=mask, **options).shape == q.shape


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_stays_empty(backend, masked, causal, device):
    q = torch.empty(0, 2, 3, 4, device=device)
    mask = torch.empty(0, 1, 1, 3, dtype=torch.bool, device=device) if masked else None
    output = attention(q, q, q, mask=mask, causal=causal, **options_of(backend))
    assert output.shape == (0, 2, 3, 4)
    trace = attention(q, q, q, mask=mask, causal=causal, trace=True)
    assert trace.weights.shape == (0, 2, 3, 3)


@settings(PROPERTY, max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_may_lie_in_memory_in_any_way(backend, data):
    arguments = data.draw(inputs(backend))
    expected = attention(**arguments, backend=backend)
    for name in ("query", "key", "value"):
        x = arguments[name]
        arguments[name] = data.draw(
            st.sampled_from([x.mT.contiguous().mT, x.repeat(1, 1, 2, 1)[:, :, : x.shape[2]]])
        )
    torch.testing.assert_close(attention(**arguments, backend=backend), expected)


# --- torch.func ---


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("hiding", ["nothing", "causal", "window", "mask", "bias"])
@pytest.mark.parametrize("backend", ANY_WINDOW)
def test_vmap_is_a_loop(backend, hiding):
    """With one mask or bias for each turn of the loop."""
    x = torch.randn(3, 1, 2, 4, 8)
    own = {"mask": torch.rand(3, 4, 4) < 0.7, "bias": torch.randn(3, 4, 4)}
    shared = {"causal": {"causal": True}, "window": {"window": 1}}.get(hiding, {})

    def attend(x, extra=None):
        options = {hiding: extra} if hiding in own else shared
        return attention(x, x, x, **options, backend=backend)

    arguments = (x, own[hiding]) if hiding in own else (x,)
    expected = torch.stack([attend(*each) for each in zip(*arguments, strict=True)])
    torch.testing.assert_close(torch.func.vmap(attend)(*arguments), expected)
