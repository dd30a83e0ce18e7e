"""A window of keys, causal, beside torch's causal kernel and compiled flex_attention.

The part of `python -m benchmarks.attention` that is about long sequences. q, k and v are given,
(1, 8, N, 64); each query sees itself and the 256 keys before it. At N=8192 our forward is to be
at least 7 times as fast as torch's kernel over all earlier keys, and forward+backward 6 times;
and no slower than `flex_attention` with the same window, compiled, its block mask made
beforehand (on a CPU it has no backward). From N=2048 to 16384 time and memory are to grow with
a power of N that is at most 1.1: in each of several rounds a line is fitted to the logarithms of
the times, and the median of the slopes counts.

First ours must be what torch's kernel gives with the window as a boolean mask, gradients too.
"""

import statistics
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from benchmarks.race import (
    Call,
    Race,
    calibrated,
    is_close,
    no_garbage_collection,
    peak_bytes,
    rounds,
    seconds_of,
    slope,
)
from benchmarks.report import Report, in_bytes, wrongness
from mha_lib import attention

HEADS, WIDTH = 8, 64
MOST_SLOPE = 1.1
MODES = ("forward", "forward+backward")
LEAST_TIMES_FASTER = dict(zip(MODES, (7.0, 6.0), strict=True))

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


class Sizes(NamedTuple):
    """How many earlier keys a query sees, the lengths N, and the one of them beside peers."""

    left: int = 256
    lengths: tuple[int, ...] = (2048, 4096, 8192, 16384)
    beside_peers: int = 8192

    def shorter(self, by: int) -> "Sizes":
        """Return all of them divided."""
        lengths = tuple(N // by for N in self.lengths)
        return Sizes(self.left // by, lengths, self.beside_peers // by)


def ours(left: int) -> Attend:
    """Return our attention with the window."""
    return partial(attention, window=(left, 0), causal=True)


def over_all_earlier_keys() -> Attend:
    """Return torch's kernel without a window."""
    return partial(F.scaled_dot_product_attention, is_causal=True)


def masked(left: int, N: int, device: str) -> Attend:
    """Return torch's kernel with the window as a mask."""
    positions = torch.arange(N, device=device)
    back = positions[:, None] - positions  # (N, N): how far before the query the key stands
    return partial(F.scaled_dot_product_attention, attn_mask=(back >= 0) & (back <= left))


def compiled_flex(left: int, N: int, device: str) -> Attend:
    """Return flex_attention with the window, compiled for this length."""

    def sees(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query - key <= left)

    block_mask = create_block_mask(sees, None, None, N, N, device=device)
    return partial(torch.compile(flex_attention, dynamic=False), block_mask=block_mask)


def run(attend: Attend, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    """Return the output and, where they have one, the gradients of q, k and v."""
    output = attend(q, k, v)
    if not q.requires_grad:
        return (output,)
    return output, *torch.autograd.grad(output, [q, k, v], v)  # any upstream gradient would do


def heads(N: int, device: str, mode: str = MODES[1]) -> list[Tensor]:
    """Make q, k and v, each (1, h, N, d_k), to be differentiated if the mode has a backward."""
    torch.manual_seed(N)
    with_backward = mode == MODES[1]
    return [
        torch.randn(1, HEADS, N, WIDTH, device=device, requires_grad=with_backward)
        for _ in range(3)
    ]


def measure_window(report: Report, sizes: Sizes, device: str, seconds: float) -> None:
    """Check the window, then measure it in both modes."""
    left = sizes.left
    report.say(f"window: {left} keys back and causal, B=1, h={HEADS}, d_k={WIDTH}")
    N = 4 * left + 5  # a length that no chunk divides
    qkv = heads(N, device)
    results = {
        "ours": run(ours(left), *qkv),
        "a mask": run(masked(left, N, device), *qkv),
    }
    wrong = wrongness(results, right="a mask")
    if wrong:
        report.fail(f"window at N={N}: {wrong}")
        return
    for mode in MODES:
        beside_peers(report, mode, sizes, device, seconds)
        growth(report, mode, sizes, device, seconds)


def beside_peers(report: Report, mode: str, sizes: Sizes, device: str, seconds: float) -> None:
    """Time ours beside torch's causal kernel, and flex_attention where it can."""
    N = sizes.beside_peers
    qkv = heads(N, device, mode)
    calls: dict[str, Call] = {
        "ours": partial(run, ours(sizes.left), *qkv),
        "causal": partial(run, over_all_earlier_keys(), *qkv),
    }
    most = {"causal": 1 / LEAST_TIMES_FASTER[mode]}
    if mode == MODES[0] or device == "cuda":
        calls["flex"] = partial(run, compiled_flex(sizes.left, N, device), *qkv)
        most["flex"] = 1.0
    size, results = {}, {}
    for name, call in calls.items():
        size[name], results[name] = peak_bytes(call, device)
    del results["causal"]  # it has no window
    wrong = wrongness(results, right="ours")
    del results
    if wrong:
        report.fail(f"window {mode} at N={N}: {wrong}")
        return
    race = Race(calls, "ours", most, device)
    race.run(seconds)
    report.tell_race(f"window {mode} time, N={N}", race)
    ratios = {peer: size["ours"] / size[peer] for peer in most}
    report.tell(f"window {mode} memory, N={N}", in_bytes(size["ours"]), ratios)


def growth(report: Report, mode: str, sizes: Sizes, device: str, seconds: float) -> None:
    """Fit how time and memory grow with N."""
    calls: dict[int, Call] = {
        N: partial(run, ours(sizes.left), *heads(N, device, mode)) for N in sizes.lengths
    }
    size = {N: peak_bytes(call, device)[0] for N, call in calls.items()}
    repeats = {N: calibrated(call, device) for N, call in calls.items()}
    slopes: list[float] = []
    times: list[list[float]] = []
    with no_garbage_collection():
        for _ in rounds(seconds, lambda: is_close(slopes, MOST_SLOPE)):
            times.append([seconds_of(call, repeats[N], device) for N, call in calls.items()])
            slopes.append(slope(sizes.lengths, times[-1]))
    milliseconds = [1000 * statistics.median(each) for each in zip(*times, strict=True)]
    megabytes = [each / 1e6 for each in size.values()]
    for what, unit, values, power in (
        ("time", "ms", milliseconds, statistics.median(slopes)),
        ("memory", "MB", megabytes, slope(sizes.lengths, megabytes)),
    ):
        report.tell(
            f"window {mode} {what}, growth",
            (values[-1], unit),
            {"power of N": power},
            MOST_SLOPE,
            f"{', '.join(f'{value:.4g}' for value in values)} at N={sizes.lengths}",
        )
