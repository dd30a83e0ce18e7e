"""What trains the small models of the course: fixed seeds, a warm-up, and a curve of the way."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

Progress = Callable[[int, int], None]
"""Is told how many steps are done, of how many."""


class Point(NamedTuple):
    """How well a model did after so many steps: a number for each thing that it learns.

    >>> Point(100, (0.5, 0.75)).mean
    0.625
    """

    step: int
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean of the scores."""
        return sum(self.scores) / len(self.scores)


class Way(NamedTuple):
    """How a training went: its curve, and the processor time it took, in seconds.

    >>> Way([Point(100, (0.5,)), Point(200, (1.0,))], 0.0).reached(0.9)
    200
    """

    curve: list[Point]
    cpu_seconds: float

    def reached(self, score: float) -> int | None:
        """Return the first step at which the mean was at least that; None if it never was."""
        return next((point.step for point in self.curve if point.mean >= score), None)


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Draw weights by this seed, and yield a generator for the data; torch's own is left alone.

    >>> with seeded(0):
    ...     one = torch.rand(1)
    >>> with seeded(0):
    ...     print(bool(torch.rand(1) == one))
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread: where tensors are small, several wait longer than they compute.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _in_notebook() -> bool:
    """Say whether a notebook's kernel runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextmanager
def bar(steps: int) -> Iterator[Progress]:
    """Yield what shows a progress bar to whoever waits: in a terminal or a notebook, by tqdm.

    Nothing is shown where nobody waits, while the book is built (MHA_STATIC=1) or in a pipe; nor
    where there is no tqdm.

    >>> with bar(10) as progress:
    ...     progress(1, 10)
    """
    if not (sys.stderr.isatty() or _in_notebook()) or os.environ.get("MHA_STATIC") == "1":
        yield lambda done, steps: None
        return
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        yield lambda done, steps: None
        return
    with tqdm(total=steps, desc="training", unit="step", leave=False) as shown:
        yield lambda done, steps: shown.update(done - shown.n) and None


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Take numbers that are nearly 0 for 0: a processor computes many times longer with them.

    A softmax without the scale gives many of them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@one_thread()
@_without_denormals()
def train(
    model: nn.Module,
    loss: Callable[[], Tensor],
    scores: Callable[[], tuple[float, ...]],
    *,
    steps: int,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    weight_decay: float = 0.0,
    warm_up: int = 100,
    decay: bool = False,
    every: int = 100,
    progress: Progress | None = None,
) -> Way:
    """Train a model by AdamW (Loshchilov and Hutter 2019), with gradients clipped to norm 1.

    Args:
        model: What is trained, in place.
        loss: Draws a batch and gives the loss on it, a tensor of one number.
        scores: Measures the model; called every so many steps.
        steps: How many steps.
        learning_rate: Reached after `warm_up` steps; with `decay` it falls over the last 30% of
            all steps, to a twentieth.
        betas, weight_decay: See `torch.optim.AdamW`.
        warm_up: See learning_rate.
        decay: See learning_rate.
        every: How many steps lie between two points of the curve.
        progress: Told after each step, see `Progress`; `bar` unless given.

    >>> layer = nn.Linear(1, 1)
    >>> def loss():
    ...     x = torch.rand(8, 1)
    ...     return ((layer(x) - 3 * x) ** 2).mean()
    >>> scores = lambda: (layer.weight.item(),)
    >>> way = train(layer, loss, scores, steps=4, learning_rate=0.1, every=2)
    >>> [point.step for point in way.curve]
    [2, 4]
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, betas=betas, weight_decay=weight_decay
    )
    start = time.process_time()
    curve = []
    with ExitStack() as stack:
        progress = progress or stack.enter_context(bar(steps))
        for step in range(1, steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate * _share(step, steps, warm_up, decay)
            optimizer.zero_grad()
            loss().backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % every == 0:
                with torch.no_grad():
                    curve.append(Point(step, scores()))
            progress(step, steps)
    return Way(curve, time.process_time() - start)


def _share(step: int, steps: int, warm_up: int, decay: bool) -> float:
    """Return the share of the learning rate that a step has."""
    rising = min(1.0, step / warm_up)
    left = (steps - step) / (0.3 * steps)
    return rising * (min(1.0, max(0.05, left)) if decay else 1.0)
