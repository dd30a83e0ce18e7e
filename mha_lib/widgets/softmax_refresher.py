"""SoftmaxRefresher: how do a few numbers become shares that sum to 1?"""

from math import isfinite
from typing import Any

import torch
import traitlets

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget

# Each is one less than the one before: each share is e times the next.
OPENING = (2.0, 1.0, 0.0, -1.0)
# The page writes out every power: e^5 is 148.41, and e^-5 has not yet vanished.
LEAST, GREATEST, STEP = -5.0, 5.0, 0.5


class SoftmaxRefresher(CourseWidget):
    """Four numbers, their powers of e, and the shares that these have of their sum.

    Args:
        numbers: The four numbers, each between -5 and 5.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when numbers is not that; the message says what is.

    `result` holds the `numbers`, their `powers` of e, the sum of these as `total`, and `weights`,
    which are the powers divided by the total.

    >>> demo = SoftmaxRefresher()
    >>> [round(power, 2) for power in demo.result["powers"]]
    [7.39, 2.72, 1.0, 0.37]
    >>> [round(weight, 2) for weight in demo.result["weights"]]
    [0.64, 0.24, 0.09, 0.03]
    """

    module = "softmax_refresher.js"
    inputs = ("numbers",)
    constants = ("recipe",)

    numbers = traitlets.List(traitlets.Float(), list(OPENING)).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Let mha_lib turn the numbers into weights."""
        x = torch.tensor(self.numbers, dtype=torch.float64)  # (S,)
        # A query [1], and each number a key of its own: then the numbers are the scores.
        query, keys = torch.ones(1, 1, 1, 1, dtype=x.dtype), x[None, None, :, None]
        trace = attention(query, keys, keys, scale=1.0, trace=True)
        powers = x.exp()  # (S,)
        return {
            "numbers": x.tolist(),
            "powers": powers.tolist(),
            "total": powers.sum().item(),
            "weights": trace.weights[0, 0, 0].tolist(),
        }

    def fallback(self) -> str:
        """Return each number, its power of e and its weight as a table."""
        columns = zip(*(self.result[n] for n in ("numbers", "powers", "weights")), strict=True)
        rows = "".join(
            f"<tr><td>{number:g}</td><td>{power:.2f}</td><td>{weight:.2f}</td></tr>"
            for number, power, weight in columns
        )
        total = f"<tr><td>+</td><td>{self.result['total']:.2f}</td><td>1.00</td></tr>"
        return (
            f"<table><tr><td>x</td><td>e<sup>x</sup></td><td>softmax</td></tr>{rows}{total}</table>"
        )

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {"opening": list(OPENING), "least": LEAST, "greatest": GREATEST, "step": STEP}

    @traitlets.validate("numbers")
    def _check_numbers(self, proposal: dict[str, Any]) -> list[float]:
        numbers: list[float] = proposal["value"]
        if len(numbers) != len(OPENING):
            raise traitlets.TraitError(
                f"numbers={numbers} holds {len(numbers)} numbers; give {len(OPENING)}"
            )
        for number in numbers:
            if not isfinite(number) or not LEAST <= number <= GREATEST:
                raise traitlets.TraitError(
                    f"numbers={numbers} holds {number}; "
                    f"every number must be between {LEAST:g} and {GREATEST:g}"
                )
        return numbers
