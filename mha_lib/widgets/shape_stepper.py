"""ShapeStepper: what happens to the shape at each step, and how many parameters is that?"""

import math
import numbers
from typing import Any

import torch
import traitlets

from mha_lib import MultiHeadAttention
from mha_lib.widgets.base import CourseWidget

STEPS = ("input", "project", "split", "score", "softmax", "combine", "merge", "output")

_SIZES = ("B", "N", "d_model", "h")
_LARGEST = 1_000_000
# Beyond this a browser no longer counts exactly (its Number.MAX_SAFE_INTEGER).
_MOST_NUMBERS = 2**53 - 1


class ShapeStepper(CourseWidget):
    """Multi-head attention step by step: each tensor's shape, each matrix's parameters.

    `B` sentences of `N` tokens with `d_model` numbers each, `h` heads; `step` is one of
    `STEPS`. Sizes that cannot be are answered in the demo, not raised: the page sends
    whatever a reader types. `result` then says which (`invalid`), or quotes mha_lib (`error`).
    What is no number at all is kept as None.

    >>> stepper = ShapeStepper(B=3, N=5, d_model=8, h=2)
    >>> stepper.result["shapes"]["scores"]
    [3, 2, 5, 5]
    >>> stepper.result["parameters"]["W_O"]
    {'weights': 64, 'biases': 8}
    """

    module = "shape_stepper.js"
    inputs = (*_SIZES, "step")

    # Any: a strict trait would drop 2.5 or an emptied field without a word to the reader.
    B = traitlets.Any(3).tag(sync=True)
    N = traitlets.Any(5).tag(sync=True)
    d_model = traitlets.Any(8).tag(sync=True)
    h = traitlets.Any(2).tag(sync=True)
    step = traitlets.Enum(STEPS, "split").tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Return d_k, shapes and parameters as mha_lib makes them, or what cannot be."""
        invalid = [name for name in _SIZES if not _is_size(getattr(self, name))]
        if invalid:
            return {"invalid": invalid}
        B, N, d_model, h = (int(getattr(self, name)) for name in _SIZES)
        if max(B * h * N * N, B * N * d_model) > _MOST_NUMBERS:
            return {"too_many": True}
        # Tensors on "meta" have shapes but no numbers, so that any size is free.
        layer = MultiHeadAttention(d_model, h, device="meta")
        x = torch.empty(B, N, d_model, device="meta")
        trace = layer(x, trace=True)
        tensors = {"x": x, "projected": layer.q_proj(x)}
        for name in ("q", "k", "v", "scores", "weights", "head_out", "concat", "output"):
            tensors[name] = getattr(trace, name)
        matrices = {
            "W_Q": layer.q_proj,
            "W_K": layer.k_proj,
            "W_V": layer.v_proj,
            "W_O": layer.out_proj,
        }
        return {
            "sizes": {"B": B, "N": N, "d_model": d_model, "h": h, "d_k": trace.q.shape[-1]},
            "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
            "parameters": {
                name: {"weights": matrix.weight.numel(), "biases": matrix.bias.numel()}
                for name, matrix in matrices.items()
            },
        }

    @traitlets.validate(*_SIZES)
    def _only_numbers(self, proposal: dict[str, Any]) -> int | float | None:
        """Keep None in place of what is no number: JSON has no word for NaN, among others."""
        value = proposal["value"]
        if isinstance(value, bool):
            return None
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
        return None

    def fallback(self) -> str:
        """Return each tensor's name and shape."""
        shapes: dict[str, list[int]] = self.result.get("shapes", {})
        lines = (f"{name}: {tuple(shape)}" for name, shape in shapes.items())
        return f"<pre>{chr(10).join(lines)}</pre>"


def _is_size(value: int | float | None) -> bool:
    return value is not None and 1 <= value <= _LARGEST and value == int(value)
