"""ScoreStepper: how sharp do the weights get as d_k grows, and what does the scale change?"""

import math
import random
from typing import Any

import torch
import traitlets

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
NUM_KEYS = 5
LEAST_TEMPERATURE, GREATEST_TEMPERATURE = 0.25, 8.0

# Of several hundred draws, one whose weights stay near the median draw's at every width, with
# and without the scale. At 256 its two best scores lie close together: not every row saturates.
_SEED = 283


class ScoreStepper(CourseWidget):
    """One query against five keys, from score to scaled score to weight.

    The numbers of the query and the keys are fixed and random, with mean 0 and variance 1; the
    first `d_k` of them are used.

    Args:
        d_k: How many numbers a query and a key have, one of `WIDTHS`.
        scale: Whether the scores are divided by the square root of d_k.
        temperature: What they are divided by besides, between 0.25 and 8.
        key: The key that is worked out line by line, from 0.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds, with one number for each key, `scores` (the dot products), `scaled` (what
    softmax gets), `weights`, and `slopes` (how fast a weight grows with its own scaled score);
    and `d_k`, `divisor` and `entropy`, which are numbers.

    >>> demo = ScoreStepper(d_k=64, scale=False)
    >>> [round(score) for score in demo.result["scores"]]
    [6, 3, -1, -7, 10]
    >>> round(max(demo.result["weights"]), 3)
    0.986
    >>> demo.scale = True
    >>> round(max(demo.result["weights"]), 3)
    0.425
    """

    module = "score_stepper.js"
    inputs = ("d_k", "scale", "temperature", "key")
    constants = ("recipe",)

    d_k = traitlets.Enum(WIDTHS, 64).tag(sync=True)
    scale = traitlets.Bool(False).tag(sync=True)
    temperature = traitlets.Float(1.0).tag(sync=True)
    key = traitlets.Int(4).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Run the query against the keys, by mha_lib."""
        rows = torch.tensor([self.recipe["query"], *self.recipe["keys"]], dtype=torch.float64)
        rows = rows[None, None, :, : self.d_k]  # (1, 1, 1 + S, d_k)
        q, k = rows[:, :, :1], rows[:, :, 1:]  # (1, 1, 1, d_k), (1, 1, S, d_k)
        divisor = (math.sqrt(self.d_k) if self.scale else 1.0) * self.temperature
        raw = attention(q, k, k, scale=1.0, trace=True)
        trace = attention(q, k, k, scale=1 / divisor, trace=True)
        scaled, weights = trace.scores[0, 0, 0], trace.weights[0, 0, 0]  # (S,), (S,)
        return {
            "d_k": self.d_k,
            "divisor": divisor,
            "scores": raw.scores[0, 0, 0].tolist(),
            "scaled": scaled.tolist(),
            "weights": weights.tolist(),
            "slopes": _slopes(scaled),
            "entropy": torch.special.entr(weights).sum().item(),
        }

    def fallback(self) -> str:
        """Return score, scaled score and weight of each key as a table."""
        columns = zip(*(self.result[name] for name in ("scores", "scaled", "weights")), strict=True)
        rows = "".join(
            f'<tr><th scope="row">{number}</th><td>{score:.2f}</td><td>{scaled:.2f}</td>'
            f"<td>{weight:.3f}</td></tr>"
            for number, (score, scaled, weight) in enumerate(columns, start=1)
        )
        head = f"<td></td><td>q·k</td><td>q·k / {self.result['divisor']:g}</td><td>softmax</td>"
        return f"<table><tr>{head}</tr>{rows}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        chance = random.Random(_SEED)
        # One decimal, so that a reader can redo the products.
        query, *keys = (
            [round(chance.gauss(0.0, 1.0), 1) for _ in range(WIDTHS[-1])]
            for _ in range(1 + NUM_KEYS)
        )
        return {
            "widths": list(WIDTHS),
            "temperatures": [LEAST_TEMPERATURE, GREATEST_TEMPERATURE],
            "query": query,
            "keys": keys,
        }

    @traitlets.validate("temperature")
    def _check_temperature(self, proposal: dict[str, Any]) -> float:
        temperature: float = proposal["value"]
        if not LEAST_TEMPERATURE <= temperature <= GREATEST_TEMPERATURE:
            raise traitlets.TraitError(
                f"temperature={temperature} is outside {LEAST_TEMPERATURE:g} to "
                f"{GREATEST_TEMPERATURE:g}; give a number between them"
            )
        return temperature

    @traitlets.validate("key")
    def _check_key(self, proposal: dict[str, Any]) -> int:
        key: int = proposal["value"]
        if not 0 <= key < NUM_KEYS:
            raise traitlets.TraitError(
                f"key={key} is outside 0 to {NUM_KEYS - 1}; keys are counted from 0"
            )
        return key


def _slopes(scaled: torch.Tensor) -> list[float]:
    """Return how fast each weight grows with its own scaled score: a part of softmax's gradient."""
    # By autograd, so that the page's w * (1 - w) has something else to agree with.
    scaled = scaled.clone().requires_grad_()  # (S,)
    weights = scaled.softmax(dim=-1)  # (S,)
    gradients = (torch.autograd.grad(each, scaled, retain_graph=True)[0] for each in weights)
    return [gradient[place].item() for place, gradient in enumerate(gradients)]
