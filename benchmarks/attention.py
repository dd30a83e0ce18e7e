"""mha_lib beside what a reader would pick instead: `python -m benchmarks.attention`.

Time and peak memory as ratios to the best peer. float32, one thread, all contenders in turns in
one process; how each is measured, and how noise is kept from deciding, stands in
`benchmarks/race.py`. Before anything is timed, all must give the same output and, where backward
runs, the same gradient of the input.

**The layer** meets layers with the same weights (`benchmarks/attention_peers.py`): fused (one
product for three projections and torch's fused kernel, written inline), torch
(`nn.MultiheadAttention` with need_weights=False), torch+w (the same with weights) and textbook
(three linears, every score spelled out). Forward (eval) is without gradients; forward (train)
keeps what backward needs; forward+backward gives the gradients of the input and of every
parameter. The bounds: in each of these the time at most 1.05 of the best peer's, 1.7 in the tiny
row, and the peak memory at most 1.1. With trace=True the time is at most 1.15 of the textbook
layer's; its memory is told without a bound, for a trace keeps every step. In the tiny row the
products take a few microseconds each: there it is the two more projections, the checks and, for a
trace, the naming of ten steps that the ratio shows.

**The window** is in `benchmarks/attention_window.py`.

The command fails when a bound is missed or a result is wrong, and says which. It takes about six
minutes, and longer where a race is close. --quick shortens the sequences, to see that everything
runs and is right; it holds no bound.
"""

import argparse
import os
import platform
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.attention_peers import Contender, contenders, output_of
from benchmarks.attention_window import Sizes, measure_window
from benchmarks.race import Call, Race, keep_freed_memory, peak_bytes
from benchmarks.report import Report, in_bytes, wrongness

SECONDS = 3.0
QUICK_SECONDS = 0.05
SHORTER = 16  # by how much --quick shortens a sequence
MOST_MEMORY = 1.1
MOST_TRACE = 1.15  # of the textbook layer's time


class Row(NamedTuple):
    """The shapes of one row, and what our time may be at most, beside the best peer's."""

    B: int
    N: int
    d_model: int
    h: int
    causal: bool = False
    most_time: float = 1.05


ROWS = {
    "tiny": Row(2, 4, 8, 2, most_time=1.7),
    "batch": Row(8, 128, 512, 8),
    "bert": Row(4, 512, 768, 12),
    "long": Row(1, 2048, 768, 12),
    "causal": Row(1, 4096, 512, 8, causal=True),
}


def forward(contender: Contender, x: Tensor) -> tuple[Tensor, ...]:
    """Return the layer's output."""
    return (output_of(contender.call(x)),)


def forward_backward(contender: Contender, x: Tensor, upstream: Tensor) -> tuple[Tensor, ...]:
    """Return the layer's output and the gradient of its input; compute the parameters' too."""
    result = contender.call(x)  # a trace stays until backward is done
    output = output_of(result)
    gradients = torch.autograd.grad(output, [x, *contender.module.parameters()], upstream)
    return output, gradients[0]


def measure_row(report: Report, name: str, row: Row, device: str, seconds: float) -> None:
    """Measure one row in its three modes."""
    B, N, d_model, h = row.B, row.N, row.d_model, row.h
    report.say(f"{name}: B={B}, N={N}, d_model={d_model}, h={h}{', causal' if row.causal else ''}")
    torch.manual_seed(0)
    x = torch.randn(B, N, d_model, device=device)
    upstream = torch.randn(B, N, d_model, device=device)
    layers = contenders(d_model, h, N if row.causal else None, device)
    for mode in ("forward (eval)", "forward (train)", "forward+backward"):
        trains = mode != "forward (eval)"
        x.requires_grad_(trains)
        calls: dict[str, Call] = {}
        for each, layer in layers.items():
            layer.module.train(trains)
            calls[each] = (
                partial(forward_backward, layer, x, upstream)
                if mode == "forward+backward"
                else partial(forward, layer, x)
            )
        with torch.set_grad_enabled(trains):
            measure_mode(report, f"{name} {mode}", row, calls, device, seconds)


def measure_mode(
    report: Report, what: str, row: Row, calls: dict[str, Call], device: str, seconds: float
) -> None:
    """Check that all contenders agree, then weigh and time them."""
    size, results = {}, {}
    for name, call in calls.items():
        size[name], results[name] = peak_bytes(call, device)
    wrong = wrongness(results, right="textbook")
    del results
    if wrong:
        report.fail(f"{what}: {wrong}")
        return
    peers = [name for name in calls if name not in ("ours", "trace")]

    in_race = {name: calls[name] for name in ("ours", *peers)}
    race = Race(in_race, "ours", dict.fromkeys(peers, row.most_time), device)
    race.run(seconds)
    report.tell_race(f"{what} time", race)
    ratios = {peer: size["ours"] / size[peer] for peer in peers}
    report.tell(f"{what} memory", in_bytes(size["ours"]), ratios, MOST_MEMORY)

    in_race = {name: calls[name] for name in ("trace", "textbook")}
    race = Race(in_race, "trace", {"textbook": MOST_TRACE}, device)
    race.run(seconds / 2)
    report.tell_race(f"{what} trace, time", race)
    ratios = {"textbook": size["trace"] / size["textbook"]}
    report.tell(f"{what} trace, memory", in_bytes(size["trace"]), ratios)


def machine(device: str) -> str:
    """Name what this runs on."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and exit non-zero when a bound is missed or a result is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attention",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--row", action="append", choices=ROWS, help="this row only; may be given again"
    )
    parser.add_argument("--window", action="store_true", help="the window only, or beside --row")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, help=f"for each race (default {SECONDS})")
    parser.add_argument("--quick", action="store_true", help="short sequences, no bounds")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here; leave out --device")
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    torch.set_num_threads(1)
    keep_freed_memory()

    report = Report(as_json=options.json, holds_bounds=not options.quick)
    report.say(
        f"{options.device}: {machine(options.device)}; torch {torch.__version__}, float32, "
        f"{torch.get_num_threads()} thread, load {os.getloadavg()[0]:.1f}. Ours, and ours / peer:"
    )
    for name in options.row or ([] if options.window else ROWS):
        row = ROWS[name]
        if options.quick:
            row = row._replace(N=max(4, row.N // SHORTER))
        measure_row(report, name, row, options.device, seconds)
    if options.window or not options.row:
        sizes = Sizes().shorter(SHORTER) if options.quick else Sizes()
        measure_window(report, sizes, options.device, seconds)
    report.finish("benchmarks.attention", device=machine(options.device), torch=torch.__version__)


if __name__ == "__main__":
    main()
