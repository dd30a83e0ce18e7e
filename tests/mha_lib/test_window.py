"""The window backend against a plain computation, and its promise to stay linear."""

import re
from unittest.mock import patch

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from mha_lib import attention
from mha_lib.backends import window as module
from mha_lib.backends.call import Call
from mha_lib.backends.window import Windows, window, window_refuses

# The `device` fixture gives the same string to every example.
PROPERTY = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# How far a result may be from float64, for numbers of size about 1.
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}


def plain(call: Call) -> Tensor:
    """Attention in a window as its definition says it, in float64: every score, then hide."""
    L, S = call.query.shape[2], call.key.shape[2]
    query = call.query.double()
    key, value = (x.double().repeat_interleave(call.groups, 1) for x in (call.key, call.value))
    scores = query @ key.mT * call.scale
    left, right = call.window
    beside = torch.arange(L, device=query.device)[:, None] + S - L
    j = torch.arange(S, device=query.device)
    keep = torch.ones(L, S, dtype=torch.bool, device=query.device)
    if left is not None:
        keep &= j >= beside - left
    if right is not None:
        keep &= j <= beside + right
    if call.causal:
        keep &= j <= beside
    keep = keep if call.mask is None else keep & call.mask
    keep = keep.expand_as(scores)
    # exp of the scores, 0 where hidden: its sum is 0 for a blind query alone.
    greatest = scores.detach().masked_fill(~keep, -1e9).amax(-1, keepdim=True)
    weights = torch.exp((scores - greatest).clamp(max=0)) * keep
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1, total) @ value


@st.composite
def calls(draw: st.DrawFn, dtypes: tuple[torch.dtype, ...] = (torch.float64,)) -> Call:
    """Calls that the window backend takes."""
    B, groups, h_kv, d_k, d_v = (draw(st.integers(1, 3)) for _ in range(5))
    L, S = draw(st.integers(1, 20)), draw(st.integers(1, 20))
    dtype = draw(st.sampled_from(dtypes))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    causal = draw(st.booleans())
    reach = st.integers(0, 25)
    mask = None
    if draw(st.booleans()):
        sizes = [draw(st.sampled_from([1, size])) for size in (B, h_kv * groups, 1, S)]
        mask = torch.rand(sizes, generator=generator) < draw(st.sampled_from([0.2, 0.8]))
        mask = mask[0, 0, 0] if draw(st.booleans()) else mask

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return Call(
        normal(B, h_kv * groups, L, d_k),
        normal(B, h_kv, S, d_k),
        normal(B, h_kv, S, d_v),
        mask=mask,
        causal=causal,
        window=(draw(reach), draw(st.none() | reach) if causal else draw(reach)),
        scale=draw(st.sampled_from([0.5, -0.7, 0.0])),
    )


def on(device: str, call: Call, requires_grad: bool = False) -> Call:
    call = Call(*(x.to(device) if isinstance(x, Tensor) else x for x in call))
    for x in call[:3]:
        x.requires_grad_(requires_grad)
    return call


@PROPERTY
@given(call=calls(tuple(TOLERANCE)), chunk=st.sampled_from([1, 3, 8, 64]))
def test_it_gives_what_the_definition_gives(call, chunk, device):
    call = on(device, call)
    with patch.object(module, "CHUNK", chunk):
        output = window(call)
    assert output.dtype == call.query.dtype
    tolerance = TOLERANCE[output.dtype]
    torch.testing.assert_close(output.double(), plain(call), atol=tolerance, rtol=tolerance)


@PROPERTY
@given(call=calls(), chunk=st.sampled_from([1, 3, 8, 64]), at_a_time=st.sampled_from([1, 40, 8192]))
def test_its_gradients_are_those_of_the_definition(call, chunk, at_a_time, device):
    call = on(device, call, requires_grad=True)
    with patch.multiple(module, CHUNK=chunk, QUERIES_AT_A_TIME=at_a_time):
        output = window(call)
    upstream = torch.randn_like(output)
    for ours, expected in zip(
        torch.autograd.grad(output, call[:3], upstream),
        torch.autograd.grad(plain(call), call[:3], upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck(masked):
    query = torch.randn(1, 4, 7, 2, dtype=torch.float64, requires_grad=True)
    key, value = torch.randn(2, 1, 2, 6, 2, dtype=torch.float64).requires_grad_().unbind()
    mask = torch.tensor([True, False, False, True, True, True]) if masked else None
    with patch.object(module, "CHUNK", 3):
        assert torch.autograd.gradcheck(
            lambda *qkv: window(Call(*qkv, mask=mask, window=(1, 1))), (query, key, value)
        )


def test_a_blind_query_gives_zeros_and_sends_no_gradient_back():
    query, key, value = (torch.randn(1, 1, 8, 4).requires_grad_() for _ in range(3))
    hidden = torch.arange(8) < 5
    call = Call(query, key, value, mask=~hidden, causal=True, window=(2, 0))
    output = window(call)
    assert (output[:, :, :5] == 0).all()
    output.sum().backward()
    assert (query.grad[:, :, :5] == 0).all()
    assert (key.grad[:, :, :5] == 0).all()
    assert (value.grad[:, :, :5] == 0).all()
    assert (query.grad[:, :, 6:] != 0).all()


def test_attention_takes_it_by_name():
    query, key, value = torch.randn(3, 2, 4, 150, 8)
    options = {"causal": True, "window": 20}
    ours = attention(query, key, value, backend="window", **options)
    torch.testing.assert_close(ours, attention(query, key, value, backend="explicit", **options))


def test_heads_may_be_slices_of_features(device):
    """As `MultiHeadAttention` passes them: (B, N, h * d_k) seen as (B, h, N, d_k)."""
    features = torch.randn(2, 100, 3, 4, 8, device=device)  # (B, N, 3, h, d_k)
    call = Call(*features.permute(2, 0, 3, 1, 4), window=(9, 4), scale=0.3)
    torch.testing.assert_close(window(call).double(), plain(call), atol=1e-5, rtol=1e-5)


def test_an_empty_batch_stays_empty():
    query, key, value = (torch.randn(0, 2, 5, 4, requires_grad=True) for _ in range(3))
    output = window(Call(query, key, value, causal=True, window=(2, None)))
    assert output.shape == (0, 2, 5, 4)
    output.sum().backward()


def test_it_needs_no_numbers_to_give_a_shape():
    query, key = torch.empty(2, 4, 70, 8, device="meta"), torch.empty(2, 2, 90, 8, device="meta")
    mask = torch.ones(2, 1, 1, 90, dtype=torch.bool, device="meta")
    output = window(Call(query, key, key, mask=mask, window=(3, 4)))
    assert (output.shape, output.device.type) == ((2, 4, 70, 8), "meta")


def test_dropout_keeps_the_mean():
    query, key = torch.randn(2, 1, 2, 300, 4)
    value = torch.ones(1, 2, 300, 1)
    output = window(Call(query, key, value, window=(20, 20), dropout=0.5))
    assert (output != 1).float().mean() > 0.9
    assert output.mean() == pytest.approx(1, abs=0.05)


# Compiling the graph, not the kernels: "inductor" would take a C++ compiler and half a minute.
@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_it_compiles_in_one_graph_forward_and_backward(masked):
    torch._dynamo.reset()
    compiled = torch.compile(window, backend="aot_eager", fullgraph=True)
    for N in (150, 170, 290):  # from the second on, torch makes the length variable
        query, key, value = (
            torch.randn(2, h, N, 8, requires_grad=True, dtype=torch.float64) for h in (4, 2, 2)
        )
        mask = torch.rand(2, 1, 1, N) < 0.9 if masked else None
        call = Call(query, key, value, mask=mask, causal=True, window=(30, None), scale=0.3)
        output, expected = compiled(call), plain(call)
        torch.testing.assert_close(output, expected)
        upstream = torch.randn_like(output)
        torch.testing.assert_close(
            torch.autograd.grad(output, call[:3], upstream),
            torch.autograd.grad(expected, call[:3], upstream),
        )


@PROPERTY
@given(n=st.integers(1, 5), W=st.integers(1, 9), C=st.integers(1, 4))
def test_windows_are_those_of_unfold_and_so_are_their_gradients(n, W, C):
    W = max(W, C)
    x = torch.randn(2, (n - 1) * C + W, 3, requires_grad=True)
    ours, torchs = Windows.apply(x, W, C), x.unfold(1, W, C).permute(1, 0, 3, 2)
    assert torch.equal(ours, torchs)
    upstream = torch.randn_like(ours)
    torch.testing.assert_close(
        *(torch.autograd.grad(windows, x, upstream) for windows in (ours, torchs))
    )


class _Largest(TorchDispatchMode):
    """Remembers how many bytes the largest memory had that any operation returned."""

    bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else (result,):
            if isinstance(x, Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return result


@pytest.mark.parametrize("masked", [False, True])
def test_twice_the_length_takes_twice_the_memory(masked):
    def largest(N: int) -> int:
        query, key, value = (torch.randn(1, 2, N, 4, requires_grad=True) for _ in range(3))
        mask = torch.ones(1, 1, 1, N, dtype=torch.bool) if masked else None
        with _Largest() as mode:
            window(Call(query, key, value, mask=mask, window=(32, 0))).sum().backward()
        return mode.bytes

    assert largest(4096) <= 2.1 * largest(2048)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"window": None}, r"no window limits both sides; pass window=256"),
        ({"window": (3, None)}, r"no window limits both sides"),
        ({"window": (None, 3), "causal": True}, r"no window limits both sides"),
        ({"window": None, "causal": True}, r"no window limits both sides"),
        ({"bias": torch.zeros(5, 5)}, r"chunks take no bias; leave it out, or use 'sdpa'"),
        ({"softcap": 30.0}, r"no softcap=30.0; leave it out, or use 'explicit' or 'flex'"),
        ({"mask": torch.ones(5, 5, dtype=torch.bool)}, r"mask has shape \(5, 5\), a row for each"),
    ],
)
def test_it_says_why_it_refuses(changes, reason):
    x = torch.randn(1, 2, 5, 4)
    call = Call(x, x, x, window=(2, 2))
    assert window_refuses(call) == ""
    assert re.search(reason, window_refuses(call._replace(**changes)))


def test_it_takes_a_mask_that_is_the_same_for_each_query():
    x = torch.randn(1, 2, 5, 4)
    for shape in ((), (5,), (1, 5), (1, 1, 1, 5), (1, 2, 1, 1)):
        call = Call(x, x, x, mask=torch.ones(shape, dtype=torch.bool), window=(2, 2))
        assert window_refuses(call) == ""
        torch.testing.assert_close(window(call).double(), plain(call), atol=1e-5, rtol=1e-5)


def test_autocast_narrows_it_as_it_narrows_the_kernel():
    x = torch.randn(1, 2, 100, 8)
    call = Call(x, x, x, causal=True, window=(10, None))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = window(call)
        assert output.dtype == F.scaled_dot_product_attention(x, x, x).dtype
    torch.testing.assert_close(output.double(), plain(call), atol=4e-2, rtol=4e-2)
