"""`attention`: its backends against the NumPy reference, and the laws of attention."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from mha_lib import attention, causal_mask, functional, reference

# The `device` fixture gives the same string to every example.
PROPERTY = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BACKENDS = ("explicit", "sdpa", "auto")
# How far a result may be from the float64 reference, for numbers of size about 1.
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, int, int, int]) -> Tensor | None:
    """No mask, or one that broadcasts to `shape`; blind queries are welcome."""
    if draw(st.booleans()):
        return None
    axes = draw(st.integers(0, 4))
    sizes = [draw(st.sampled_from([1, size])) for size in shape[4 - axes :]]
    chance = draw(st.sampled_from([0.2, 0.5, 0.9]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    return torch.rand(sizes, generator=generator) < chance


@st.composite
def inputs(
    draw: st.DrawFn,
    dtypes: tuple[torch.dtype, ...] = (torch.float64,),
    square: bool = False,
) -> dict[str, object]:
    """Arguments of `attention`."""
    size = st.integers(1, 5)
    B, h, L, S, d_k, d_v = (draw(size) for _ in range(6))
    S = L if square else S
    dtype = draw(st.sampled_from(dtypes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return {
        "query": normal(B, h, L, d_k),
        "key": normal(B, h, S, d_k),
        "value": normal(B, h, S, d_v),
        "mask": draw(masks((B, h, L, S))),
        "causal": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, 0.3, 0.0, -0.7])),
    }


def on(device: str, arguments: dict[str, object]) -> dict[str, object]:
    return {k: x.to(device) if isinstance(x, Tensor) else x for k, x in arguments.items()}


def oracle(arguments: dict[str, object]) -> tuple[Tensor, Tensor]:
    """Output and weights of the NumPy reference."""
    numpy = {
        name: (x.numpy() if x.dtype == torch.bool else x.double().numpy())
        if isinstance(x, Tensor)
        else x
        for name, x in arguments.items()
    }
    output, weights = reference.attention(**numpy)
    return torch.from_numpy(output), torch.from_numpy(weights)


@PROPERTY
@given(arguments=inputs(dtypes=tuple(TOLERANCE)))
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_gives_what_the_reference_gives(backend, arguments, device):
    expected, _ = oracle(arguments)
    query = arguments["query"]
    output = attention(**on(device, arguments), backend=backend)
    assert output.dtype == query.dtype
    assert output.device.type == device
    tolerance = TOLERANCE[query.dtype]
    torch.testing.assert_close(
        output.cpu().double(), expected, atol=tolerance, rtol=tolerance, msg=str
    )


@PROPERTY
@given(arguments=inputs(dtypes=(torch.float64, torch.float32)))
def test_trace_has_the_reference_weights_and_the_fast_output(arguments, device):
    expected, expected_weights = oracle(arguments)
    trace = attention(**on(device, arguments), trace=True)
    tolerance = TOLERANCE[arguments["query"].dtype]
    weights = trace.weights.cpu().double()
    torch.testing.assert_close(weights, expected_weights, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(
        trace.output.cpu().double(), expected, atol=tolerance, rtol=tolerance
    )
    fast = attention(**on(device, arguments))
    torch.testing.assert_close(trace.output, fast, atol=tolerance, rtol=tolerance)


@PROPERTY
@given(arguments=inputs())
def test_rows_of_weights_sum_to_one_or_to_zero_if_blind(arguments):
    trace = attention(**arguments, trace=True)
    sees_a_key = trace.masked_scores.isfinite().any(dim=-1)
    torch.testing.assert_close(trace.weights.sum(dim=-1), sees_a_key.double())
    assert (trace.weights[trace.masked_scores.isneginf()] == 0).all()


@PROPERTY
@given(arguments=inputs(square=True), seed=st.integers(0, 100))
@pytest.mark.parametrize("backend", BACKENDS)
def test_permuting_the_keys_changes_nothing_and_permuting_the_queries_permutes(
    backend, arguments, seed
):
    arguments |= {"mask": None, "causal": False}
    output = attention(**arguments, backend=backend)
    order = torch.randperm(output.shape[2], generator=torch.Generator().manual_seed(seed))
    shuffled = {name: arguments[name][:, :, order] for name in ("query", "key", "value")}
    keys_only = attention(**(arguments | shuffled | {"query": arguments["query"]}), backend=backend)
    torch.testing.assert_close(keys_only, output)
    everything = attention(**(arguments | shuffled), backend=backend)
    torch.testing.assert_close(everything, output[:, :, order])


@PROPERTY
@given(arguments=inputs(), data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_causal_output_does_not_move_when_the_future_changes(backend, arguments, data):
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


@settings(PROPERTY, max_examples=15)
@given(arguments=inputs())
@pytest.mark.parametrize("backend", ["explicit", "sdpa"])
def test_gradients_are_those_of_the_function(backend, arguments, device):
    arguments = on(device, arguments)
    tensors = [arguments.pop(name).requires_grad_() for name in ("query", "key", "value")]
    assert torch.autograd.gradcheck(
        lambda q, k, v: attention(q, k, v, **arguments, backend=backend), tensors, fast_mode=True
    )


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"scale": -0.7}], ids=str)
def test_the_explicit_backend_has_second_derivatives(options, device):
    tensors = [
        torch.randn(1, 2, 3, 4, dtype=torch.float64, device=device, requires_grad=True)
        for _ in range(3)
    ]
    assert torch.autograd.gradgradcheck(
        lambda q, k, v: attention(q, k, v, **options, backend="explicit"), tensors, fast_mode=True
    )


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_is_not_above_zero_in_half_precision(backend, causal, scale, device):
    """A kernel that takes the least score for the greatest overflows float16 here."""
    q, k, v = torch.randn(3, 1, 2, 64, 64, device=device).half()
    exact = attention(
        q.double(), k.double(), v.double(), scale=scale, causal=causal, backend="explicit"
    )
    output = attention(q, k, v, scale=scale, causal=causal, backend=backend)
    torch.testing.assert_close(output.double(), exact, atol=1e-2, rtol=1e-2)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [False, True])
def test_a_blind_query_gets_zeros_and_sends_no_gradient(backend, dtype, causal, device):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, 3, 4, 8, generator=generator).to(device, dtype).requires_grad_()
        for _ in range(3)
    )
    mask = torch.ones(2, 1, 4, 4, dtype=torch.bool, device=device)
    mask[0, :, 2] = False  # one blind query in the first sequence
    mask[1] = False  # the second sees nothing at all
    with torch.autograd.detect_anomaly(check_nan=True):
        output = attention(q, k, v, mask=mask, causal=causal, backend=backend)
        output.float().square().sum().backward()
    assert (output[0, :, 2] == 0).all()
    assert (output[1] == 0).all()
    assert output[0, :, 0].abs().sum() > 0
    for x in (q, k, v):
        assert x.grad.isfinite().all()
        assert (x.grad[1] == 0).all()
    assert (q.grad[0, :, 2] == 0).all()


@pytest.mark.parametrize("blind", ["by mask", "by causality", "by both"])
def test_no_kernel_is_given_a_row_without_a_key(blind, monkeypatch):
    """What a kernel makes of one differs from kernel to kernel; the CPU's gives zeros."""
    rows = []
    kernel = functional.F.scaled_dot_product_attention

    def noted(*args, attn_mask=None, **options):
        rows.append(attn_mask.any(dim=-1))
        return kernel(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(functional.F, "scaled_dot_product_attention", noted)
    q, k = torch.randn(2, 1, 5, 4), torch.randn(2, 1, 3, 4)  # 5 queries, 3 keys
    mask = torch.ones(2, 1, 5, 3, dtype=torch.bool)
    mask[0, :, 4] = False
    output = attention(
        q,
        k,
        k,
        mask=None if blind == "by causality" else mask,
        causal=blind != "by mask",
        backend="sdpa",
    )
    assert len(rows) == 1
    assert rows[0].all()
    assert (output == 0).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_causal_without_enough_keys_leaves_the_first_queries_blind(backend, device):
    q = torch.randn(1, 2, 5, 8, device=device)
    k = torch.randn(1, 2, 3, 8, device=device)
    output = attention(q, k, k, causal=True, backend=backend)
    assert (output[:, :, :2] == 0).all()
    torch.testing.assert_close(output[:, :, 2], k[:, :, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_new_query_sees_the_whole_past(backend, device):
    q = torch.randn(2, 2, 1, 8, device=device)
    k = torch.randn(2, 2, 6, 8, device=device)
    causal = attention(q, k, k, causal=True, backend=backend)
    torch.testing.assert_close(causal, attention(q, k, k, backend=backend), atol=0, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mask_and_causal_combine_by_and(backend, device):
    q, k, v = torch.randn(3, 2, 3, 5, 8, device=device)
    mask = torch.rand(2, 1, 5, 5, device=device) < 0.7
    both = attention(q, k, v, mask=mask, causal=True, backend=backend)
    by_hand = attention(q, k, v, mask=mask & causal_mask(5, device=device), backend=backend)
    torch.testing.assert_close(both, by_hand)


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch_where_torch_has_the_same_convention(causal, device):
    q, k, v = torch.randn(3, 2, 3, 6, 8, device=device)
    theirs = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.4)
    for backend in BACKENDS:
        ours = attention(q, k, v, causal=causal, scale=0.4, backend=backend)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_large_scores_in_bfloat16(backend, device):
    """Scores 16 times the usual size, where a softmax in bfloat16 goes wrong."""
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(2, 4, 64, 64, generator=generator).to(device, torch.bfloat16) for _ in range(3)
    )
    exact = attention(q.double(), k.double(), v.double(), scale=2.0)
    narrow = (q @ k.transpose(-2, -1) * 2.0).softmax(dim=-1) @ v
    output = attention(q, k, v, scale=2.0, backend=backend)
    assert output.dtype == torch.bfloat16
    assert (output.double() - exact).abs().max() < 0.03
    assert (narrow.double() - exact).abs().max() > 0.1


def test_explicit_scores_are_float32_or_wider(device):
    for dtype, scores in (
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        q = torch.randn(1, 2, 3, 4, device=device).to(dtype)
        trace = attention(q, q, q, trace=True)
        assert trace.scores.dtype == trace.weights.dtype == scores
        assert trace.output.dtype == dtype


def test_explicit_scores_stay_float32_under_autocast(device):
    q, k, v = torch.randn(3, 1, 2, 5, 16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        trace = attention(q, k, v, trace=True)
    assert trace.scores.dtype == torch.float32
    torch.testing.assert_close(trace.output, attention(q, k, v, backend="explicit"), atol=0, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_drops_weights_and_keeps_their_mean(backend, device):
    torch.manual_seed(0)
    q = k = torch.zeros(4, 8, 16, 16, device=device)  # every weight is 1/16
    v = torch.ones(4, 8, 16, 1, device=device)
    output = attention(q, k, v, dropout=0.5, backend=backend)
    # Each output is a sum of 16 weights, each 0 or 2/16: a multiple of 1/8, 1 on average.
    torch.testing.assert_close((output * 8).round(), output * 8)
    assert output.unique().numel() > 4
    assert math.isclose(output.mean().item(), 1.0, abs_tol=0.05)


def test_traced_weights_are_the_ones_used_when_dropout_is_on(device):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 6, 4, device=device)
    trace = attention(q, k, v, dropout=0.5, trace=True)
    assert (trace.weights == 0).any()
    torch.testing.assert_close(trace.weights @ v, trace.head_out)


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_input_is_changed(backend, device):
    q, k, v = torch.randn(3, 1, 2, 4, 4, device=device)
    mask = torch.rand(4, 4, device=device) < 0.5
    copies = [x.clone() for x in (q, k, v, mask)]
    attention(q, k, v, mask=mask, causal=True, backend=backend)
    for x, copy in zip((q, k, v, mask), copies, strict=True):
        assert torch.equal(x, copy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_meta_tensors_give_shapes_for_free(backend):
    q = torch.empty(1, 96, 2048, 128, device="meta")
    mask = torch.empty(2048, 2048, dtype=torch.bool, device="meta")
    assert attention(q, q, q, causal=True, backend=backend).shape == q.shape
    assert attention(q, q, q, mask=mask, backend=backend).shape == q.shape


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_stays_empty(backend, masked, causal, device):
    q = torch.empty(0, 2, 3, 4, device=device)
    mask = torch.empty(0, 1, 3, 3, dtype=torch.bool, device=device) if masked else None
    assert attention(q, q, q, mask=mask, causal=causal, backend=backend).shape == (0, 2, 3, 4)
    trace = attention(q, q, q, mask=mask, causal=causal, trace=True)
    assert trace.weights.shape == (0, 2, 3, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_real_number_is_a_scale_and_a_dropout(backend):
    q, k, v = torch.randn(3, 1, 2, 3, 4)
    expected = attention(q, k, v, scale=0.5, backend=backend)
    for half in (np.float32(0.5), np.float64(0.5), Fraction(1, 2)):
        assert torch.equal(attention(q, k, v, scale=half, backend=backend), expected)
    whole = attention(q, k, v, scale=1.0, backend=backend)
    assert torch.equal(attention(q, k, v, scale=1, dropout=0, backend=backend), whole)
    assert attention(q, k, v, dropout=np.float32(0.5), backend=backend).shape == q.shape
