"""Which backend computes a call, why, and what a backend that cannot says."""

import re
import threading

import pytest
import torch

from mha_lib import Dispatch, MultiHeadAttention, attention, last_dispatch
from mha_lib.backends.dispatch import WINDOW_PAYS
from tests.mha_lib.strategies import heads

KERNELS = "torch's kernels can do all of it, and a fused one never holds all scores"
CHUNKS = "each query sees few of the keys, so most scores need no computing"
NARROW = "the window is not much narrower than the sequence"
STEPS = "every step is asked for, and the other backends have none to show"
SOFTCAP = "torch's kernels have no softcap"
ASKED = "it was asked for"
S = 300
ONE_ROW = torch.ones(1, 1, 1, S, dtype=torch.bool)
ROWS = torch.ones(S, S, dtype=torch.bool)
BIAS = torch.zeros(S, S)

# Options of a call with 300 queries and keys, which backend computes it, and why.
CHOICES = {
    "nothing": ({}, "sdpa", KERNELS),
    "causal": ({"causal": True}, "sdpa", KERNELS),
    "a mask": ({"mask": ROWS}, "sdpa", KERNELS),
    "a bias": ({"bias": BIAS}, "sdpa", KERNELS),
    "dropout": ({"dropout": 0.5}, "sdpa", KERNELS),
    "softcap": ({"softcap": 30.0}, "explicit", SOFTCAP),
    "softcap and a window": ({"softcap": 30.0, "window": 2}, "explicit", SOFTCAP),
    "a narrow window": ({"window": 2}, "window", CHUNKS),
    "with a mask for all queries": ({"window": 2, "mask": ONE_ROW}, "window", CHUNKS),
    "open to the right, causal": ({"window": (2, None), "causal": True}, "window", CHUNKS),
    "a wide window": ({"window": 200}, "sdpa", NARROW),
    "wide on one side": ({"window": (2, 200)}, "sdpa", NARROW),
    "wide where causal hides": ({"window": (2, 200), "causal": True}, "window", CHUNKS),
    "open to the left": ({"window": (None, 2)}, "sdpa", KERNELS),
    "open to the right": ({"window": (2, None)}, "sdpa", KERNELS),
    "a window and a mask": ({"window": 2, "mask": ROWS}, "sdpa", KERNELS),
    "a window and a bias": ({"window": 2, "bias": BIAS}, "sdpa", KERNELS),
    "trace": ({"trace": True}, "explicit", STEPS),
    "trace, whatever is asked for": ({"trace": True, "backend": "sdpa"}, "explicit", STEPS),
    "edit": ({"edit": {"weights": lambda weights: weights}}, "explicit", STEPS),
    "an edit of nothing": ({"edit": {}}, "explicit", STEPS),
    "check_finite": ({"check_finite": True, "window": 2}, "explicit", STEPS),
    "explicit": ({"backend": "explicit", "window": 2}, "explicit", ASKED),
    "sdpa": ({"backend": "sdpa", "window": 2}, "sdpa", ASKED),
    "window": ({"backend": "window", "window": 200}, "window", ASKED),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("case", CHOICES)
def test_what_computes_a_call_and_why(case, grad):
    options, backend, reason = CHOICES[case]
    q, k, v = heads(1, 1, S, 2, requires_grad=grad)
    attention(q, k, v, **options)
    assert last_dispatch() == Dispatch(backend, reason)
    assert str(last_dispatch()) == f"{backend}: {reason}"
    with torch.inference_mode():
        attention(q, k, v, **options)
    assert last_dispatch() == Dispatch(backend, reason)


@pytest.mark.parametrize("causal", [False, True])
def test_auto_takes_chunks_from_the_length_where_they_pay(causal):
    seen = 6 if causal else 11  # by each query: itself, 5 before it, 5 after it
    pays = WINDOW_PAYS * seen + 128
    for length, backend in ((pays - 1, "sdpa"), (pays, "window")):
        q, k, v = heads(1, 1, length, 2)
        attention(q, k, v, window=5, causal=causal)
        assert last_dispatch().backend == backend


NO_LIMIT = "no window limits both sides; pass window=256, for example, or use 'sdpa'"
REFUSED = [
    ("sdpa", {"softcap": 2.0}, "torch's kernels have no softcap=2.0; use 'explicit' or 'flex'"),
    ("window", {}, NO_LIMIT),
    ("window", {"causal": True}, NO_LIMIT),
    ("window", {"window": (None, 2)}, NO_LIMIT),
    ("window", {"window": (2, None)}, NO_LIMIT),
    ("window", {"window": 2, "bias": BIAS}, "chunks take no bias; leave it out, or use 'sdpa'"),
    (
        "window",
        {"window": 2, "softcap": 2.0},
        "chunks take no softcap=2.0; leave it out, or use 'explicit' or 'flex'",
    ),
    (
        "window",
        {"window": 2, "mask": ROWS},
        "mask has shape (300, 300), a row for each query, and chunks take one for all; "
        "pass key_mask[:, None, None] where it hides padding, or use 'sdpa'",
    ),
]


@pytest.mark.parametrize(("backend", "options", "why"), REFUSED)
def test_a_backend_that_cannot_says_why_and_names_the_way_out(backend, options, why):
    q, k, v = heads(1, 1, S, 2)
    attention(q, k, v, backend="explicit")
    message = f"^{re.escape(f'backend={backend!r} cannot compute this: {why}')}$"
    with pytest.raises(ValueError, match=message):
        attention(q, k, v, **options, backend=backend)
    # Nothing was computed, so nothing is to be remembered.
    assert last_dispatch() == Dispatch("explicit", ASKED)
    attention(q, k, v, **options)  # "auto" can


@pytest.mark.parametrize(("backend", "options", "why"), REFUSED)
def test_the_steps_can_be_seen_even_so(backend, options, why):
    q, k, v = heads(1, 1, S, 2)
    trace = attention(q, k, v, **options, backend=backend, trace=True)
    torch.testing.assert_close(trace.output, attention(q, k, v, **options), atol=1e-5, rtol=1e-5)


def test_each_thread_remembers_its_own_call():
    q, k, v = heads(1, 1, 4, 2)
    attention(q, k, v)
    seen = []

    def look() -> None:
        seen.append(last_dispatch())
        attention(q, k, v, softcap=2.0)
        seen.append(last_dispatch())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [None, Dispatch("explicit", SOFTCAP)]
    assert last_dispatch() == Dispatch("sdpa", KERNELS)


# --- the layer ---

LAYERS = {
    "plain": {},
    "causal": {"causal": True},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "narrow window": {"window": 2},
    "wide window": {"window": 200},
    "grouped-query": {"num_kv_heads": 1},
    "dropout": {"dropout": 0.5},
    **{backend: {"backend": backend, "window": 2} for backend in ("explicit", "sdpa", "window")},
}


@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS)
def test_eval_never_changes_the_algorithm(options):
    layer, x = MultiHeadAttention(4, 2, **options), torch.randn(1, S, 4)
    layer.train()(x)
    dispatch = last_dispatch()
    layer.eval()
    expected = layer(x)
    assert last_dispatch() == dispatch
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            assert torch.equal(layer(x), expected)
        assert last_dispatch() == dispatch
    if "dropout" not in options:
        assert torch.equal(layer.train()(x), expected)


@pytest.mark.parametrize(
    ("options", "backend", "reason"),
    [
        ({}, "sdpa", KERNELS),
        ({"window": 2}, "window", CHUNKS),
        ({"window": 2, "positions": "rotary"}, "window", CHUNKS),
        ({"window": 2, "positions": "alibi"}, "sdpa", KERNELS),  # that is a bias
        ({"backend": "explicit"}, "explicit", ASKED),
    ],
)
def test_the_layer_computes_with_the_backend_it_was_given(options, backend, reason):
    layer, x = MultiHeadAttention(4, 2, **options), torch.randn(1, S, 4)
    layer(x)
    assert last_dispatch() == Dispatch(backend, reason)
    layer(x, key_mask=ONE_ROW[0, 0])
    assert last_dispatch() == Dispatch(backend, reason)
    layer(x, trace=True)
    assert last_dispatch() == Dispatch("explicit", STEPS)


def test_a_layer_refuses_what_its_backend_cannot_compute():
    layer = MultiHeadAttention(4, 2, positions="alibi", window=2, backend="window")
    message = re.escape("backend='window' cannot compute this: chunks take no bias; leave it out")
    with pytest.raises(ValueError, match=f"^{message}"):
        layer(torch.randn(1, 8, 4))
