"""A trained model on its way to the page: its numbers in 8 bits, as text."""

import base64
import copy
from typing import Any

import torch
from torch import Tensor, nn

STEPS = 127  # from 0 to the largest number of a parameter


def packed(model: nn.Module) -> dict[str, dict[str, Any]]:
    """Write a model's parameters for `trained.js`.

    Returns:
        By name: `shape`; `step`, the distance between two numbers; and `data`, how many steps
        each number is, as int8 in base64.

    >>> packed(nn.Linear(2, 1, bias=False))["weight"]["shape"]
    [1, 2]
    """
    return {
        name: {
            "shape": list(tensor.shape),
            "step": _step(tensor),
            "data": base64.b64encode(_in_steps(tensor).numpy().tobytes()).decode(),
        }
        for name, tensor in model.state_dict().items()
    }


def rounded(model: nn.Module) -> Any:
    """Return a copy with the numbers that the page has, in float64.

    So Python and page differ by nothing but the order of their sums.

    >>> layer = rounded(nn.Linear(1, 1))
    >>> layer.weight.dtype
    torch.float64
    """
    twin = copy.deepcopy(model).cpu().to(torch.float64).eval()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            twin.state_dict()[name].copy_(_in_steps(tensor).double() * _step(tensor))
    return twin


def _step(tensor: Tensor) -> float:
    return float(tensor.detach().abs().max()) / STEPS or 1.0


def _in_steps(tensor: Tensor) -> Tensor:
    return (tensor.detach().cpu().double() / _step(tensor)).round().to(torch.int8)
