"""Which backend computes a call, and why."""

import threading
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mha_lib.backends.call import Call
from mha_lib.backends.flex import flex, flex_refuses
from mha_lib.backends.sdpa import sdpa, sdpa_refuses
from mha_lib.backends.window import window, window_refuses


class Dispatch(NamedTuple):
    """Which backend computed a call of `attention`, and why that one.

    >>> print(Dispatch("sdpa", "it was asked for"))
    sdpa: it was asked for
    """

    backend: str
    reason: str

    def __str__(self) -> str:
        """Write backend and reason on one line."""
        return f"{self.backend}: {self.reason}"


FUSED: dict[str, tuple[Callable[[Call], str], Callable[[Call], Tensor]]] = {
    "sdpa": (sdpa_refuses, sdpa),
    "window": (window_refuses, window),
    "flex": (flex_refuses, flex),
}
"""For each backend without steps to show: why it refuses a call, and what computes it."""

_SDPA = Dispatch("sdpa", "torch's kernels can do all of it, and a fused one never holds all scores")
_WINDOW = Dispatch("window", "each query sees few of the keys, so most scores need no computing")
_WIDE_WINDOW = Dispatch("sdpa", "the window is not much narrower than the sequence")
_STEPS = Dispatch("explicit", "every step is asked for, and the other backends have none to show")
_SOFTCAP = Dispatch("explicit", "torch's kernels have no softcap")
_ASKED = {name: Dispatch(name, "it was asked for") for name in ("explicit", *FUSED)}

# Below this many keys for each that a query sees, chunks cost more than they save.
WINDOW_PAYS = 4

_last = threading.local()


def last_dispatch() -> Dispatch | None:
    """Say which backend computed this thread's last call of `attention`, and why.

    Returns:
        A `Dispatch`, which prints as a sentence; None before the first call. A compiled call
        is not remembered: what `torch.compile` makes of a layer has nothing left to choose.

    >>> from mha_lib import attention
    >>> q, k, v = torch.randn(3, 1, 2, 4, 8)
    >>> output = attention(q, k, v, softcap=30.0)
    >>> print(last_dispatch())
    explicit: torch's kernels have no softcap
    """
    return getattr(_last, "dispatch", None)


def choose(call: Call, backend: str, steps: bool) -> Dispatch:
    """Choose the backend of a call, and remember the choice for `last_dispatch`.

    Args:
        call: What is to be computed.
        backend: What the caller asked for, "auto" perhaps.
        steps: Whether the caller wants to see or change the steps.

    Raises:
        ValueError: The backend that was asked for cannot compute this call.
    """
    if steps:
        dispatch = _STEPS
    elif backend == "auto":
        dispatch = _best(call)
    else:
        dispatch = _ASKED[backend]
        refusal = FUSED[backend][0](call) if backend in FUSED else ""
        if refusal:
            raise ValueError(f"backend={backend!r} cannot compute this: {refusal}")
    if not torch.compiler.is_compiling():
        _last.dispatch = dispatch
    return dispatch


def _best(call: Call) -> Dispatch:
    """Choose for "auto"."""
    if call.softcap is not None:
        return _SOFTCAP
    if call.window is None or window_refuses(call):
        return _SDPA
    left, right = call.window
    seen = 1 + (left or 0) + (0 if call.causal else right or 0)
    return _WINDOW if call.key.shape[2] >= WINDOW_PAYS * seen + 128 else _WIDE_WINDOW
