"""Count what multi-head attention costs, and show its steps: python -m mha_lib cost | trace."""

import argparse
import json
import signal
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from mha_lib.cost import MODELS, layer_cost, model_cost
from mha_lib.multihead import MultiHeadAttention
from mha_lib.tensor_checks import DTYPES

NUMBERS = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
SIZES = {
    "embed_dim": "width of a token, d_model (default 8)",
    "num_heads": "how many heads, h (default 2)",
    "seq": "how many tokens, N (default 5)",
    "batch": "how many sequences, B (default 1)",
    "num_kv_heads": "how many key heads, h_kv (default: as many as heads)",
    "head_dim": "width of a head, d_k (default: embed_dim / num_heads)",
}
SMALL = {"embed_dim": 8, "num_heads": 2, "seq": 5, "batch": 1}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what a command finds, or end with exit code 2 and say what was wrong."""
    parser = argparse.ArgumentParser("python -m mha_lib", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("cost", _cost), ("trace", _trace)):
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        command.set_defaults(run=run, model=None)
        for size, meaning in SIZES.items():
            flag = f"--{size.replace('_', '-')}"
            command.add_argument(flag, type=whole_number, metavar="N", help=meaning)
        command.add_argument("--dtype", choices=NUMBERS, default="float32", help="default float32")
        command.add_argument("--json", action="store_true", help="print JSON")
    models = f"a model, at its longest sequence unless --seq is given: {', '.join(MODELS)}"
    commands.choices["cost"].add_argument("--model", metavar="NAME", help=models)

    options = parser.parse_args(arguments)
    sizes = {name: size for name in SIZES if (size := getattr(options, name)) is not None}
    try:
        print(options.run(options, sizes))
    except ValueError as error:
        parser.error(str(error))


def whole_number(text: str) -> int:
    """Read a size; argparse says the name of this function where `text` is no number."""
    number = int(text)
    if not 1 <= number <= 10**9:
        raise argparse.ArgumentTypeError(f"{number} is not a whole number from 1 to 10^9")
    return number


def _cost(options: argparse.Namespace, sizes: dict[str, Any]) -> str:
    """Count the parameters, FLOPs and bytes of one layer, or of a whole model."""
    size = NUMBERS[options.dtype].itemsize
    if options.model is None:
        sizes = SMALL | sizes
        cost = layer_cost(**sizes, bytes_per_number=size)
        title, counted = "One layer", "its four projections"
    else:
        if own := sizes.keys() - {"seq", "batch"}:
            raise ValueError(
                f"--model {options.model} has its own {', '.join(sorted(own))}; leave out either"
            )
        cost = model_cost(options.model, **sizes, bytes_per_number=size)
        sizes = {"seq": MODELS[options.model].positions, "batch": 1} | sizes
        title, counted = options.model, MODELS[options.model].counted
    if options.json:
        flops = {"forward_flops": cost.forward_flops, "training_flops": cost.training_flops}
        asked = {"model": options.model, **sizes, "dtype": options.dtype, "bytes_per_number": size}
        return json.dumps(asked | asdict(cost) | flops, indent=2)
    listed = ", ".join(f"{name} {number:,}" for name, number in sizes.items())
    return f"""{title}: {listed}, {options.dtype} ({size} bytes a number)

{cost.table()}

Parameters counted: {counted}.
FLOPs counted: 2 for a multiplication and its addition, in products of matrices only;
all N * N scores, hidden or not.
1 kFLOP is 1,000 FLOPs, 1 KiB is 1,024 bytes. A fused kernel never holds the scores."""


def _trace(options: argparse.Namespace, sizes: dict[str, Any]) -> str:
    """Show every step of one layer, with its shape and bytes."""
    sizes = SMALL | sizes
    batch, seq = sizes.pop("batch"), sizes.pop("seq")
    # The table has no values in it. On "meta" there are none, and any size fits.
    dtype = NUMBERS[options.dtype]
    try:
        with torch.device("meta"):
            layer = MultiHeadAttention(**sizes, dtype=dtype)
            trace = layer(torch.empty(batch, seq, layer.embed_dim, dtype=dtype), trace=True)
    except RuntimeError:
        raise ValueError("torch cannot count a tensor of these sizes; use smaller ones") from None
    if not options.json:
        return str(trace.table())
    steps = []
    for step in trace.STEPS:
        x, axes = getattr(trace, step.name), trace.axes[step.name]
        steps.append(step._asdict() | {"axes": axes, "shape": tuple(x.shape), "bytes": x.nbytes})
    return json.dumps(steps, indent=2)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # Where the reader has gone, as in `| head`, end quietly.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    main()
