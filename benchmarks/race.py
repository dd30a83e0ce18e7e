"""How contenders that compute the same are timed in turns, weighed, and judged.

No measurement itself: `benchmarks.attention` uses it.

**Time.** In a round each contender runs once, for at least some milliseconds, and gives one
time. The order turns from round to round, so that nobody always follows the same one. Two
contenders are compared within a round, as a ratio, and the median of the ratios counts: what
slows the machine down for a while slows both. On a CPU it is the processor time of this process,
which others that wait for the processor do not lengthen; on CUDA it is the time between two
events on the stream.

Memory that is given back stays with the process (`keep_freed_memory`). Else every large block is
asked of the system anew, page by page, and in a virtual machine the price of a page is its host's
to say: the same call then took from 3.6 to 7 s.

**Noise.** While a bound lies inside the interval in which the median ratio is known to be, with
95 % confidence, or is missed by less than 5 %, the race goes on, up to eight times as long (the
report says "was close"), among those whose verdict is open. Then the median of all its rounds
decides. So neither a lucky nor an unlucky moment does.

**Memory.** What a call has allocated through torch at its peak, its result included, beyond what
was there before: on a CPU the peak of the running sum of the profiler's memory events, which come
from torch's allocator and so include the temporary buffers inside kernels; on CUDA
`max_memory_allocated`. It is exact, and the same in each run. What goes past it, as MKL's own
buffers do, is little: with glibc told to give every large block back at once
(MALLOC_MMAP_THRESHOLD_=131072), the greatest resident size that Linux saw in a call (VmHWM) was
within 1 % of it in the rows long and causal and in the window. Compiled flex_attention alone
differs: two thirds of what it allocates it never touches.
"""

import contextlib
import ctypes
import gc
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

Call = Callable[[], tuple[Tensor, ...]]

SAMPLE_SECONDS = 0.002  # one time is of calls that take together at least this
LEAST_ROUNDS = 3
CLEARLY = 2.0  # who is so much slower than its bound asks leaves after the first round
CLOSE = 1.05
MORE = 8  # how many times as many rounds a close race has


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed for the next call; return whether this system's C could."""
    trim_threshold, mmap_max = -1, -4  # as malloc.h numbers them
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(mmap_max, 0) and mallopt(trim_threshold, 2**31 - 1))


def rounds(seconds: float, is_close: Callable[[], bool]) -> Iterator[int]:
    """Count rounds for about so many seconds, and for longer while the race is close.

    >>> list(rounds(0.0, lambda: False)), len(list(rounds(0.0, lambda: True)))
    ([0, 1, 2], 24)
    """
    start = time.perf_counter()
    for turn in itertools.count(1):
        yield turn - 1
        spent = time.perf_counter() - start
        if spent < seconds or turn < LEAST_ROUNDS:
            continue
        if (spent >= MORE * seconds and turn >= MORE * LEAST_ROUNDS) or not is_close():
            return


@dataclass
class Race:
    """One contender against the others, each with a bound for the ratio of their times.

    Attributes:
        calls: What each contender runs.
        ours: The contender whose time is divided by the others'.
        most: What the median of ours / peer may be at most, for each peer.
        device: "cpu" or "cuda".
        times: The seconds of one call in each round, for each contender that ran in it.
        was_close: Whether the race went on beyond its time.
    """

    calls: dict[str, Call]
    ours: str
    most: dict[str, float]
    device: str = "cpu"
    times: list[dict[str, float]] = field(default_factory=list)
    was_close: bool = False

    def run(self, seconds: float) -> None:
        """Time all in turns for about so many seconds, longer while the race is close."""
        repeats = calibrated(self.calls[self.ours], self.device)
        running = list(self.calls)
        with no_garbage_collection():
            for turn in rounds(seconds, self.is_close):
                if turn == 1:
                    running = [name for name in running if not self.is_beaten(name)]
                if self.was_close:
                    running = [name for name in running if name == self.ours or self.is_open(name)]
                # Another begins each time, and every other round goes backwards.
                first = turn // 2 % len(running)
                order = (running[first:] + running[:first])[:: -1 if turn % 2 else 1]
                self.times.append(
                    {name: seconds_of(self.calls[name], repeats, self.device) for name in order}
                )

    def ratios(self, peer: str) -> list[float]:
        """Return ours / peer for each round that the peer ran in."""
        return [each[self.ours] / each[peer] for each in self.times if peer in each]

    def ratio(self, peer: str) -> float:
        """Return the median of ours / peer."""
        return statistics.median(self.ratios(peer))

    def seconds(self, name: str) -> float:
        """Return the median time of one call."""
        return statistics.median(each[name] for each in self.times if name in each)

    def is_beaten(self, name: str) -> bool:
        """Whether this one is so slow that it decides nothing, and may leave."""
        return name in self.most and self.ratio(name) * CLEARLY < self.most[name]

    def is_open(self, name: str) -> bool:
        """Whether more rounds might change the verdict between ours and this one."""
        return name in self.most and is_close(self.ratios(name), self.most[name])

    def is_close(self) -> bool:
        """Whether more rounds might change a verdict."""
        close = any(map(self.is_open, self.most))
        self.was_close |= close
        return close


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return where the median lies with 95 % confidence, whatever the distribution.

    Each value is above the true median as often as below: the number below is binomial, so two
    of the sorted values stand on either side of it. With few values it is all of their range.

    >>> interval([1.0, 9.0, 2.0])
    (1.0, 9.0)
    >>> interval(range(100))
    (40, 59)
    """
    ordered = sorted(values)
    n = len(ordered)
    beside = max(0, math.floor(n / 2 - 1.96 * math.sqrt(n) / 2))
    return ordered[beside], ordered[n - 1 - beside]


def is_close(ratios: Sequence[float], bound: float) -> bool:
    """Whether the bound may lie on the other side of the median, or is only just missed.

    >>> is_close([1.00, 1.01, 1.02], 1.05), is_close([1.07, 1.07, 1.07], 1.05)
    (False, True)
    >>> is_close([1.00, 1.01, 1.30], 1.05), is_close([1.30, 1.31, 1.32], 1.05)
    (True, False)
    """
    least, most = interval(ratios)
    return least <= bound <= most or bound < statistics.median(ratios) <= CLOSE * bound


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Fit a line through log(values) over log(sizes), and return its slope.

    It is the power with which a cost grows: 1 for a linear one, 2 for a quadratic one.

    >>> slope([1, 2, 4], [3.0, 12.0, 48.0])
    2.0
    """
    fit = statistics.linear_regression(list(map(math.log2, sizes)), list(map(math.log2, values)))
    return fit.slope


def calibrated(call: Call, device: str) -> int:
    """Return how many calls in a row last long enough to be timed."""
    repeats = 1
    while (taken := seconds_of(call, repeats, device) * repeats) < SAMPLE_SECONDS:
        repeats = max(2 * repeats, math.ceil(repeats * SAMPLE_SECONDS / max(taken, 1e-6)))
    return repeats


def seconds_of(call: Call, repeats: int, device: str) -> float:
    """Return the seconds of one call, as the mean of several in a row."""
    if device == "cuda":
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        for _ in range(repeats):
            call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1000 / repeats
    begin = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - begin) / repeats


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector from running in one contender's time for what another left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def silent_stderr() -> Iterator[None]:
    """Silence the profiler, which some builds of torch have say that it starts and stops."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def peak_bytes(call: Call, device: str) -> tuple[int, tuple[Tensor, ...]]:
    """Return how many bytes one call has allocated at its peak, its result included, and that.

    >>> ones = torch.ones(1000)
    >>> peak, _ = peak_bytes(lambda: (ones + ones + ones,), "cpu")
    >>> peak  # two results at once, 4 bytes a number
    8000
    """
    if device == "cuda":
        call()  # libraries take their workspace at the first call
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        result = call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, result
    with (
        silent_stderr(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record,
    ):
        result = call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.json")
        record.export_chrome_trace(os.fspath(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = [event for event in events if event.get("name") == "[memory]"]
    changes.sort(key=lambda event: float(event["ts"]))
    held = itertools.accumulate(int(event["args"]["Bytes"]) for event in changes)
    return max(held, default=0), result
