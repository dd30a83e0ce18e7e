"""What a pretrained model shows of one sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from mha_lib.trace import Step


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One layer as it can be seen from outside: what came in, the weights, what went out.

    It has the names and axes of `AttentionTrace`, but not all of its steps: q, k and v are
    called otherwise in each model, and their weights are what all of them give away.

    Attributes:
        input: (B, L, d_model), the tokens' vectors before this layer.
        weights: (B, h, L, S), as the softmax gave them.
        output: (B, L, d_model), what the next layer gets: the MLP has its share in it, and in
            many decoders, after the last layer, the final normalisation too.

    >>> x, weights = torch.zeros(1, 4, 8), torch.full((1, 2, 4, 4), 0.25)
    >>> LayerTrace(x, weights, x).axes["weights"]
    ('B', 'h', 'L', 'S')
    """

    input: Tensor
    weights: Tensor
    output: Tensor

    STEPS: ClassVar[tuple[Step, ...]] = (
        Step("input", "what the layer before gave", ("B", "L", "d_model")),
        Step("weights", "softmax(masked_scores)", ("B", "h", "L", "S")),
        Step("output", "what the next layer gets", ("B", "L", "d_model")),
    )
    STEP_NAMES: ClassVar[tuple[str, ...]] = tuple(step.name for step in STEPS)

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The names of each step's axes."""
        return {step.name: step.axes for step in self.STEPS}


@dataclass(frozen=True, eq=False)
class Reading:
    """What a model shows of one sentence: its tokens, and a trace for each layer.

    Attributes:
        model: The model's name.
        sentence: What was read.
        tokens: The tokens as the model names them, N of them.
        pieces: The same as they stand in the sentence; a special token as the model names it.
        special: For each token, whether the tokenizer added it ([CLS], </s>).
        words: For each token, which word it is a part of, from 0; None for special ones.
        layers: One trace for each layer, from the first.

    >>> x, weights = torch.zeros(1, 3, 8), torch.tensor([[[[0.5, 0.3, 0.2]] * 3]])
    >>> reading = Reading(
    ...     "toy", "a b", ("[CLS]", "a", "b"), ("[CLS]", "a", "b"),
    ...     (True, False, False), (None, 0, 1), (LayerTrace(x, weights, x),),
    ... )
    >>> tuple(reading.weights.shape)
    (1, 1, 3, 3)
    >>> shown, left_out = reading.without_special()
    >>> [round(weight, 2) for weight in shown[0, 0, 1].tolist()], round(left_out[0, 0, 1].item(), 2)
    ([0.6, 0.4], 0.5)
    """

    model: str
    sentence: str
    tokens: tuple[str, ...]
    pieces: tuple[str, ...]
    special: tuple[bool, ...]
    words: tuple[int | None, ...]
    layers: tuple[LayerTrace, ...]

    @cached_property
    def weights(self) -> Tensor:
        """The weights of every head of every layer, (layers, h, N, N)."""
        return torch.stack([layer.weights[0] for layer in self.layers])

    def without_special(self) -> tuple[Tensor, Tensor]:
        """Return the weights without the special tokens, and what is missing: `without`."""
        return without(self.weights, self.special)


def without(weights: Tensor, special: Sequence[bool]) -> tuple[Tensor, Tensor]:
    """Take the special tokens out, and let each row of what is left sum to 1 again.

    Many heads put nearly all their weight on a special token. Then what is left is little, and
    this makes it look like much: so the share that was taken away comes with it.

    Args:
        weights: (..., N, N), of any heads.
        special: For each token, whether it is left out.

    Returns:
        The weights among the n others, (..., n, n), and the share that each of their rows had
        on special tokens, (..., n). A row that had all of it there is 0.

    >>> shown, left_out = without(torch.tensor([[1.0, 0.0], [0.75, 0.25]]), [True, False])
    >>> shown.tolist(), left_out.tolist()
    ([[1.0]], [0.75])
    """
    kept = ~torch.tensor(special, dtype=torch.bool)  # 0 and 1 are no places to take from
    rows = weights[..., kept, :]  # (..., n, N)
    left = rows[..., kept]  # (..., n, n)
    sums = left.sum(dim=-1, keepdim=True)  # (..., n, 1)
    missing = rows.sum(dim=-1) - sums[..., 0]  # (..., n)
    return torch.where(sums > 0, left / sums.clamp(min=1e-12), 0.0), missing
