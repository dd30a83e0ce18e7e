"""Positions: the formulas of the papers, and the laws that make them useful."""

import math
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mha_lib import reference
from mha_lib.positions import alibi_bias, alibi_slopes, rotary, sinusoidal

PROPERTY = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
PLACES = st.lists(st.integers(-50, 500), min_size=1, max_size=5)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# --- sinusoidal ---


@PROPERTY
@given(places=PLACES, width=st.integers(1, 9))
def test_sinusoidal_is_the_papers_formula(places, width, device):
    pattern = sinusoidal(torch.tensor(places, device=device), width, dtype=torch.float64)
    assert pattern.device.type == device
    assert pattern.shape == (len(places), width)
    expected = torch.from_numpy(reference.sinusoidal(places, width))
    torch.testing.assert_close(pattern.cpu(), expected, atol=1e-9, rtol=0)


@PROPERTY
@given(first=st.integers(-50, 500), second=st.integers(-50, 500), step=st.integers(-50, 50))
def test_how_alike_two_patterns_are_depends_on_their_distance_alone(first, second, step):
    a, b, c, d = sinusoidal(
        torch.tensor([first, second, first + step, second + step]), 8, dtype=torch.float64
    )
    torch.testing.assert_close(a @ b, c @ d, atol=1e-9, rtol=0)
    torch.testing.assert_close(a @ a, torch.tensor(4.0, dtype=torch.float64))  # sin^2 + cos^2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_sinusoidal_is_computed_wide_and_returned_as_asked(dtype):
    places = torch.tensor([0, 257, 4097])  # bfloat16 has neither 257 nor 4097
    pattern = sinusoidal(places, 6, dtype=dtype)
    assert pattern.dtype == dtype
    exact = torch.from_numpy(reference.sinusoidal(places.tolist(), 6))
    tolerance = max(torch.finfo(dtype).eps, 1e-3 if dtype != torch.float64 else 1e-12)
    torch.testing.assert_close(pattern.double(), exact, atol=tolerance, rtol=0)
    assert sinusoidal(places, 6).dtype == torch.get_default_dtype()


# --- rotary ---


@PROPERTY
@given(places=PLACES, half=st.integers(1, 4), seed=st.integers(0, 100))
def test_rotary_turns_as_the_reference_turns(places, half, seed, device):
    x = normal(2, 3, len(places), 2 * half, seed=seed)
    turned = rotary(x.to(device), torch.tensor(places, device=device))
    assert turned.device.type == device
    expected = torch.from_numpy(reference.rotary(x.numpy(), places))
    torch.testing.assert_close(turned.cpu(), expected, atol=1e-9, rtol=0)


@PROPERTY
@given(seed=st.integers(0, 100), step=st.integers(-300, 300), half=st.integers(1, 4))
def test_rotary_scores_depend_on_the_distance_alone(seed, step, half):
    query, key = normal(2, 1, 2, 5, 2 * half, seed=seed)
    places = torch.arange(5)
    scores = rotary(query, places) @ rotary(key, places).mT
    shifted = rotary(query, places + step) @ rotary(key, places + step).mT
    torch.testing.assert_close(shifted, scores, atol=1e-9, rtol=0)


@PROPERTY
@given(seed=st.integers(0, 100), places=PLACES)
def test_rotary_keeps_lengths_and_turns_back(seed, places):
    x = normal(1, 2, len(places), 6, seed=seed)
    there = torch.tensor(places)
    turned = rotary(x, there)
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(rotary(turned, -there), x)
    torch.testing.assert_close(rotary(x, torch.zeros_like(there)), x)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:Torchinductor")  # what it says of complex numbers
def test_rotary_compiles_without_a_warning():
    x, places = normal(2, 3, 4, 6), torch.arange(4)
    compiled = torch.compile(rotary, fullgraph=True)
    torch.testing.assert_close(compiled(x, places), rotary(x, places))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_rotary_is_computed_wide_and_returns_the_dtype_given(dtype):
    x = normal(1, 1, 2, 8).to(dtype)
    places = torch.tensor([257, 1023])  # bfloat16 has neither
    turned = rotary(x, places)
    assert turned.dtype == dtype
    exact = rotary(x.double(), places)
    tolerance = 2 * torch.finfo(dtype).eps if dtype != torch.float32 else 1e-3
    torch.testing.assert_close(turned.double(), exact, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    "x",
    [
        normal(2, 3, 4, 6).transpose(1, 2),  # as the layer cuts heads
        normal(2, 4, 3, 7)[..., 1:],  # pairs at odd places
        normal(2, 4, 6, 3).mT,
        normal(1, 4, 1, 6).expand(2, 4, 3, 6),
        normal(0, 4, 3, 6),
    ],
)
def test_rotary_takes_x_however_it_lies_in_memory(x):
    expected = torch.from_numpy(reference.rotary(x.numpy(), range(3)))
    torch.testing.assert_close(rotary(x, torch.arange(3)), expected)
    assert rotary(x.to("meta"), torch.arange(3, device="meta")).shape == x.shape


def test_rotary_sends_gradients_back():
    x = normal(2, 3, 4, 6).transpose(1, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotary(x, torch.arange(3)), x)


# --- ALiBi ---


def test_slopes_for_8_heads_are_the_papers():
    assert alibi_slopes(8).tolist() == [2**-i for i in range(1, 9)]


@pytest.mark.parametrize("num_heads", [*range(1, 18), 96])
def test_slopes_are_the_references_and_follow_the_papers_rule(num_heads, device):
    slopes = alibi_slopes(num_heads, device=device)
    assert (slopes.dtype, slopes.device.type) == (torch.float32, device)
    expected = [reference.alibi_slope(head, num_heads) for head in range(num_heads)]
    torch.testing.assert_close(slopes.cpu(), torch.tensor(expected))
    below = 2 ** int(math.log2(num_heads))
    assert slopes[:below].equal(alibi_slopes(below, device=device))
    others = alibi_slopes(2 * below, device=device)[::2]
    torch.testing.assert_close(slopes[below:], others[: num_heads - below])
    assert ((slopes > 0) & (slopes < 1)).all()
    assert len(slopes.unique()) == num_heads


@PROPERTY
@given(L=st.integers(1, 6), S=st.integers(1, 6), h=st.integers(1, 5))
def test_each_step_away_from_the_key_beside_costs_one_slope(L, S, h, device):
    slopes = alibi_slopes(h, device=device)
    bias = alibi_bias(slopes, L, S)
    assert (bias.shape, bias.dtype, bias.device.type) == ((h, L, S), torch.float32, device)
    for i in range(L):
        for j in range(S):
            torch.testing.assert_close(bias[:, i, j], -slopes * abs(i + S - L - j))


def test_heads_that_are_pruned_leave_the_others_their_slopes():
    slopes = alibi_slopes(8)
    left = torch.tensor([1, 5])
    assert alibi_bias(slopes[left], 3, 4).equal(alibi_bias(slopes, 3, 4)[left])


# --- bad input ---

X = torch.ones(1, 1, 3, 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: rotary(torch.ones(1, 1, 3, 5), torch.arange(3)), ValueError, "use head_dim=6"),
        (lambda: rotary(torch.ones(1, 3, 4), torch.arange(3)), ValueError, "takes (B, h, N, d_k)"),
        (lambda: rotary(X, torch.arange(4)), ValueError, "4 of them, but x has N=3 tokens"),
        (lambda: rotary(X, torch.arange(3)[None]), ValueError, "of shape (1, 3)"),
        (lambda: rotary(X, torch.arange(3.0)), TypeError, "such as torch.arange(N)"),
        (lambda: rotary(X, [0, 1, 2]), TypeError, "torch.as_tensor(positions)"),
        (lambda: rotary(X.long(), torch.arange(3)), TypeError, "x has dtype torch.int64"),
        (lambda: rotary(X, torch.arange(3, device="meta")), ValueError, "positions.to('cpu')"),
        (lambda: sinusoidal(torch.tensor(3), 4), ValueError, "positions=tensor(3)"),
        (lambda: sinusoidal(torch.tensor([True]), 4), TypeError, "dtype torch.bool"),
        (lambda: sinusoidal(torch.arange(3), 0), ValueError, "width=0"),
        (lambda: sinusoidal(torch.arange(3), 4, dtype=torch.int32), TypeError, "torch.int32"),
        (lambda: alibi_slopes(0), ValueError, "num_heads=0"),
        (lambda: alibi_slopes(2.5), TypeError, "num_heads=2.5"),
        (lambda: alibi_bias(torch.ones(2, 1), 3, 3), ValueError, "one slope for each head"),
        (lambda: alibi_bias(torch.ones(2).long(), 3, 3), TypeError, "slopes has dtype"),
        (lambda: alibi_bias(torch.ones(2), 3, 0), ValueError, "S=0"),
    ],
)
def test_bad_input_is_told_what_is_expected(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()
