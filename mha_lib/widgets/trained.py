"""A trained model on its way to the page: its numbers in half precision, as text."""

import base64
import copy
from typing import Any

import torch
from torch import nn


def packed(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Write a model's parameters for `trained.js`: by name, `shape` and float16 `data` as base64.

    >>> packed(nn.Linear(2, 1, bias=False))["weight"]["shape"]
    [1, 2]
    """
    return {
        name: {
            "shape": list(tensor.shape),
            "data": base64.b64encode(
                tensor.detach().cpu().numpy().astype("<f2").tobytes()
            ).decode(),
        }
        for name, tensor in model.state_dict().items()
    }


def rounded(model: nn.Module) -> Any:
    """Return a copy with the numbers that the page has: float16's, computed with in float64.

    So Python and page differ by nothing but the order of their sums.

    >>> layer = rounded(nn.Linear(1, 1))
    >>> layer.weight.dtype, bool(layer.weight == layer.weight.half())
    (torch.float64, True)
    """
    return copy.deepcopy(model).cpu().half().to(torch.float64).eval()
