"""`attention` in half precision, under autocast, and with numbers that are hard to handle."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from mha_lib import attention
from tests.mha_lib.strategies import BACKENDS, heads, seeded

HALF = (torch.float16, torch.bfloat16)


def options_of(backend: str) -> dict[str, object]:
    """With a window that hides nothing, where there must be one."""
    return {"backend": backend, "window": 1000 if backend == "window" else None}


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_is_not_above_zero_in_half_precision(backend, causal, scale, device):
    """A kernel that takes the least score for the greatest overflows float16 here."""
    q, k, v = (x.half() for x in heads(1, 2, 64, 64, device=device))
    exact = attention(
        q.double(), k.double(), v.double(), scale=scale, causal=causal, backend="explicit"
    )
    output = attention(q, k, v, scale=scale, causal=causal, **options_of(backend))
    torch.testing.assert_close(output.double(), exact, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_large_scores_in_half_precision(backend, dtype, device):
    """Scores 16 times the usual size, where a softmax in bfloat16 goes wrong."""
    generator = seeded(1)
    q, k, v = (torch.randn(2, 4, 64, 64, generator=generator).to(device, dtype) for _ in range(3))
    exact = attention(q.double(), k.double(), v.double(), scale=2.0)
    narrow = (q @ k.transpose(-2, -1) * 2.0).softmax(dim=-1) @ v
    output = attention(q, k, v, scale=2.0, **options_of(backend))
    assert output.dtype == dtype
    wrong = (output.double() - exact).abs().max()
    assert wrong < 0.03
    assert (narrow.double() - exact).abs().max() > 4 * wrong


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_beyond_the_greatest_float16(backend, device):
    """About 10^6 before the scale, where float16 ends at 65504."""
    q, k, v = (x.half() for x in heads(1, 2, 8, 64, device=device))
    q, k = q * 128, k * 128
    exact = attention(q.double(), k.double(), v.double())
    output = attention(q, k, v, **options_of(backend))
    assert output.isfinite().all()
    torch.testing.assert_close(output.double(), exact, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_of_the_size_where_exp_overflows(backend, device):
    q, k, v = heads(1, 2, 6, 8, device=device)
    output = attention(q, k, v, scale=1000.0, **options_of(backend))
    best = (q @ k.mT).argmax(dim=-1)  # the softmax has become a choice
    expected = v.gather(2, best[..., None].expand(-1, -1, -1, 8))
    torch.testing.assert_close(output, expected)


@pytest.mark.parametrize("row", ["part", "all"])
@pytest.mark.parametrize(
    ("dtype", "wide", "least"),
    [
        (torch.float16, torch.float32, torch.finfo(torch.float32).min),
        (torch.float16, torch.bfloat16, torch.finfo(torch.bfloat16).min),
        (torch.bfloat16, torch.float64, -1e300),
        (torch.float32, torch.float64, -1e300),
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["explicit", "sdpa", "auto"])
def test_a_bias_too_low_for_the_dtype_stays_finite(backend, dtype, wide, least, row, device):
    """Many libraries hide with the least number that a dtype has, and not with -inf.

    Rounded to a dtype with less room it must not become -inf: then a row of it would be blind.
    """
    q, k, v = (x.to(dtype) for x in heads(1, 2, 4, 8, device=device))
    bias = torch.zeros(4, 4, dtype=wide, device=device)
    bias[1, 2 if row == "part" else 0 :] = least
    output = attention(q, k, v, bias=bias, backend=backend)
    rows = slice(None) if row == "part" else [0, 2, 3]
    exact = attention(q.double(), k.double(), v.double(), bias=bias.double(), backend="explicit")
    limit = {"atol": 2e-2, "rtol": 2e-2}
    torch.testing.assert_close(output[:, :, rows].double(), exact[:, :, rows], **limit)
    if row == "all":  # kernels differ in what they make of one great number taken off all scores
        assert output[:, :, 1].isfinite().all()
        assert (output[:, :, 1] != 0).any()


@pytest.mark.parametrize("backend", ["explicit", "sdpa", "auto"])
def test_a_bias_too_high_for_the_dtype_stays_finite(backend, device):
    q, k, v = (x.half() for x in heads(1, 2, 4, 8, device=device))
    bias = torch.zeros(4, 4, device=device)
    bias[1, 2] = 1e6  # float16 ends at 65504
    output = attention(q, k, v, bias=bias, backend=backend)
    exact = attention(q.float(), k.float(), v.float(), bias=bias, backend="explicit")
    torch.testing.assert_close(output.float(), exact, atol=5e-3, rtol=5e-3)
    bias[1, 2] = torch.inf  # what was infinite is not made finite
    assert attention(q, k, v, bias=bias, backend=backend)[:, :, 1].isnan().all()


def test_explicit_scores_are_float32_or_wider(device):
    for dtype, scores in (
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        q = torch.randn(1, 2, 3, 4, device=device).to(dtype)
        trace = attention(q, q, q, bias=torch.zeros(3, 3, device=device).double(), trace=True)
        assert trace.scores.dtype == trace.masked_scores.dtype == trace.weights.dtype == scores
        assert trace.q.dtype == trace.output.dtype == dtype


def test_explicit_scores_stay_float32_under_autocast(device):
    q, k, v = heads(1, 2, 5, 16, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        trace = attention(q, k, v, trace=True)
    assert trace.scores.dtype == torch.float32
    torch.testing.assert_close(trace.output, attention(q, k, v, backend="explicit"), atol=0, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_real_number_is_a_scale_a_softcap_and_a_dropout(backend):
    q, k, v = heads(1, 2, 3, 4)
    options = options_of(backend)
    expected = attention(q, k, v, scale=0.5, **options)
    for half in (np.float32(0.5), np.float64(0.5), Fraction(1, 2)):
        assert torch.equal(attention(q, k, v, scale=half, **options), expected)
    whole = attention(q, k, v, scale=1.0, **options)
    assert torch.equal(attention(q, k, v, scale=1, dropout=0, **options), whole)
    assert attention(q, k, v, dropout=np.float32(0.5), **options).shape == q.shape
    capped = attention(q, k, v, softcap=2.0)
    for two in (2, np.float32(2), Fraction(2)):
        assert torch.equal(attention(q, k, v, softcap=two), capped)


@pytest.mark.parametrize("window", [(2, 1), [2, 1], (np.int64(2), torch.tensor(1))])
def test_any_whole_numbers_are_a_window(window):
    q, k, v = heads(1, 2, 6, 4)
    expected = attention(q, k, v, window=(2, 1))
    assert torch.equal(attention(q, k, v, window=window), expected)
