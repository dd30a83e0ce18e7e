"""Gradients of `attention`, and the queries that may look at no key: zeros, forward and back."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_lib import attention
from mha_lib.backends import sdpa
from tests.mha_lib.strategies import (
    BACKENDS,
    DTYPES,
    PROPERTY,
    heads,
    inputs,
    on,
    oracle,
    with_gradients,
)


@settings(PROPERTY, max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_those_of_the_function(backend, data, device):
    arguments = on(device, data.draw(inputs(backend)))
    hides = 0.0
    if (bias := arguments["bias"]) is not None:
        # Around -inf there is no slope to measure: let a finite bias have the gradient.
        bias = bias.detach().double()
        hides = bias.masked_fill(bias > -math.inf, 0.0)
        arguments["bias"] = bias.masked_fill(bias == -math.inf, 0.0)
    tensors = with_gradients(arguments)

    def function(query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> Tensor:
        given = {"query": query, "key": key, "value": value}
        given |= {"bias": bias[0] + hides} if bias else {}
        return attention(**(arguments | given), backend=backend)

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": 1}, {"scale": -0.7, "softcap": 0.5}], ids=str
)
def test_the_explicit_backend_has_second_derivatives(options, device):
    tensors = heads(1, 2, 3, 4, dtype=torch.float64, device=device)
    tensors.append(torch.randn(3, 3, dtype=torch.float64, device=device))
    assert torch.autograd.gradgradcheck(
        lambda q, k, v, bias: attention(q, k, v, bias=bias, **options, backend="explicit"),
        [x.requires_grad_() for x in tensors],
        fast_mode=True,
    )


@settings(PROPERTY, max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_all_backends_send_the_same_gradients(backend, data, device):
    arguments = on(device, data.draw(inputs(backend)))
    # A kernel may learn of a gradient of the bias: leave that as it was drawn.
    bias = arguments["bias"]
    leaves = with_gradients(arguments | {"bias": bias if bias is None or bias.is_leaf else None})
    grads = []
    for each in ("explicit", backend):
        output = attention(**arguments, backend=each)
        grads.append(torch.autograd.grad(output.square().sum(), leaves))
    for grad, expected in zip(*grads, strict=True):
        limit = 1e-10 if expected.dtype == torch.float64 else 2e-2
        torch.testing.assert_close(grad, expected, atol=limit, rtol=limit)


# --- blind queries ---


@settings(PROPERTY, max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_blind_query_gets_zeros_and_sends_no_gradient_whatever_hides(backend, data, device):
    arguments = data.draw(inputs(backend, DTYPES))
    _, weights = oracle(arguments)
    arguments = on(device, arguments)
    tensors = with_gradients(arguments)
    output = attention(**arguments, backend=backend)
    grads = torch.autograd.grad(output.float().square().sum(), tensors)
    blind = (weights.sum(dim=-1) == 0).to(device)  # (B, h, L)
    unseen = (weights == 0).all(dim=(1, 2)).to(device)  # (B, S), by no query at all
    assert (output[blind] == 0).all()
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][blind] == 0).all()
    for grad in grads[1:3]:
        assert (grad.transpose(1, 2)[unseen] == 0).all()
    if len(grads) == 4:
        assert (grads[3][arguments["bias"] == -math.inf] == 0).all()


HIDE_ROW_2 = torch.ones(2, 1, 4, 4, dtype=torch.bool)
HIDE_ROW_2[:, :, 2] = False
HIDE_KEY_0 = torch.tensor([False, True, True, True])
NO_KEYS = torch.zeros(2, 1, 1, 4, dtype=torch.bool)
# What hides, and which of the four queries are blind then.
WAYS = {
    "a row of the mask": ({"mask": HIDE_ROW_2}, [2]),
    "a mask for all queries": ({"mask": NO_KEYS}, [0, 1, 2, 3]),
    "a mask of one entry": ({"mask": torch.tensor(False)}, [0, 1, 2, 3]),
    "mask and causal": ({"mask": HIDE_KEY_0, "causal": True}, [0]),
    "mask and window": ({"mask": HIDE_KEY_0, "window": 0}, [0]),
    "mask, causal and window": ({"mask": HIDE_KEY_0, "causal": True, "window": (0, None)}, [0]),
    "a row of the bias": (
        {"bias": torch.zeros(2, 1, 4, 4).masked_fill(~HIDE_ROW_2, -math.inf)},
        [2],
    ),
    "a bias for all queries": ({"bias": torch.full((4,), -math.inf)}, [0, 1, 2, 3]),
    "bias and causal": (
        {"bias": torch.zeros(4).masked_fill(~HIDE_KEY_0, -math.inf), "causal": True},
        [0],
    ),
    "mask and bias, each a half": (
        {
            "mask": torch.tensor([True, True, False, False]).expand(4, 4),
            "bias": torch.tensor([-math.inf, -math.inf, 0.0, 0.0]),
        },
        [0, 1, 2, 3],
    ),
    "causal with fewer keys": ({"causal": True, "keys": 2}, [0, 1]),
    "window with fewer keys": ({"window": 0, "keys": 2}, [0, 1]),
    "window to the left with fewer keys": ({"window": (9, 0), "keys": 3}, [0]),
    "window that reaches one further": ({"window": (0, 1), "keys": 2}, [0]),
    "softcap and a mask": ({"mask": NO_KEYS, "softcap": 2.0}, [0, 1, 2, 3]),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("h_kv", [4, 2])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_be_blind(way, h_kv, device):
    options, blind = WAYS[way]
    options = on(device, options)
    S = options.pop("keys", 4)
    backends = ["explicit", "auto"]
    if "softcap" not in options:
        backends.append("sdpa")
        if "window" in options and "bias" not in options:
            backends.append("window")
    for dtype in DTYPES:
        for backend in backends:
            q = torch.randn(2, 4, 4, 8, device=device, dtype=dtype, requires_grad=True)
            k = torch.randn(2, h_kv, S, 8, device=device, dtype=dtype, requires_grad=True)
            v = torch.randn(2, h_kv, S, 8, device=device, dtype=dtype, requires_grad=True)
            with torch.autograd.detect_anomaly(check_nan=True):
                output = attention(q, k, v, **options, backend=backend)
                output.float().square().sum().backward()
            is_blind = torch.zeros(4, dtype=torch.bool, device=device)
            is_blind[blind] = True
            assert (output[:, :, is_blind] == 0).all()
            assert (output[:, :, ~is_blind] != 0).all()
            assert (q.grad[:, :, is_blind] == 0).all()
            assert all(x.grad.isfinite().all() for x in (q, k, v))
            if is_blind.all():
                assert not any(x.grad.any() for x in (q, k, v))


@pytest.mark.parametrize("blind", ["by mask", "by causality", "by both", "by bias", "by window"])
def test_no_kernel_is_given_a_row_without_a_key(blind, monkeypatch):
    """What a kernel makes of one differs from kernel to kernel; the CPU's gives zeros."""
    rows = []
    kernel = sdpa.F.scaled_dot_product_attention

    def noted(*args, attn_mask=None, **options):
        keep = attn_mask if attn_mask.dtype == torch.bool else attn_mask > -math.inf
        rows.append(keep.any(dim=-1))
        return kernel(*args, attn_mask=attn_mask, **options)

    monkeypatch.setattr(sdpa.F, "scaled_dot_product_attention", noted)
    q, k = torch.randn(2, 1, 5, 4), torch.randn(2, 1, 3, 4)  # 5 queries, 3 keys
    mask = torch.ones(2, 1, 5, 3, dtype=torch.bool)
    mask[0, :, 4] = False
    output = attention(
        q,
        k,
        k,
        mask=mask if blind in ("by mask", "by both") else None,
        bias=torch.zeros(mask.shape).masked_fill(~mask, -math.inf) if blind == "by bias" else None,
        window=(2, 0) if blind == "by window" else None,
        causal=blind in ("by causality", "by both"),
        backend="sdpa",
    )
    assert len(rows) == 1
    assert rows[0].all()
    assert (output == 0).any()
