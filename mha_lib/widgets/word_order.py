"""WordOrder: does attention notice that the words have changed places?"""

from typing import Any

import torch
import traitlets
from torch import Tensor

from mha_lib import attention
from mha_lib.positions import sinusoidal
from mha_lib.widgets.base import CourseWidget

WORDS = ("black", "dog", "chased", "cat")
# Set by hand. The first two numbers are left free for the fast hand of the position's clock, the
# third says what kind of word it is (a thing above 0), the fourth tells the things apart.
X = (
    (0.0, 0.0, -0.5, 0.5),
    (0.0, 0.0, 1.0, 1.0),
    (0.0, 0.0, -1.0, 0.0),
    (0.0, 0.0, 1.0, -1.0),
)  # (N, d_model)
# A word looks for what is near, and for words of the other kind. Keys and values are the rows.
W_Q = (
    (4.0, 0.0, 0.0, 0.0),
    (0.0, 4.0, 0.0, 0.0),
    (0.0, 0.0, -8.0, 0.0),
    (0.0, 0.0, 0.0, 0.0),
)  # (d_model, d_k)
N = len(WORDS)
D_MODEL = len(X[0])
OPENING = [WORDS.index(word) for word in ("dog", "chased", "black", "cat")]
# Two outputs that differ by less are the same: rounding alone makes them differ.
_SAME = 1e-9


class WordOrder(CourseWidget):
    """One hand-set head over four words in any order, with positions added to them or not.

    Args:
        order: Which word stands at each place, as numbers of `WORDS`.
        positions: Whether each word's row gets its place's sinusoidal pattern added.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when order is not every word once; the message says what is.

    `result` holds the two inputs and, place by place, `rows` (N, d_model), what goes in;
    `weights` (N, N); `mix` (N, d_model), what each word takes away; and `same`: whether that is
    what the same word takes away where the words stand in the order of `WORDS`.

    >>> demo = WordOrder()
    >>> demo.result["same"]
    [True, True, True, True]
    >>> demo.positions = True
    >>> demo.result["same"]
    [False, False, False, False]
    """

    module = "word_order.js"
    inputs = ("order", "positions")
    constants = ("recipe",)

    order = traitlets.List(traitlets.Int(), OPENING).tag(sync=True)
    positions = traitlets.Bool(False).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Run the head on the words in this order, and in the order of `WORDS`."""
        rows, weights, mix = self._attend(self.order)
        _, _, before = self._attend(list(range(N)))  # (N, d_model)
        moved = (mix - before[self.order]).abs().amax(dim=-1)  # (N,)
        return {
            "order": self.order,
            "positions": self.positions,
            "rows": rows.tolist(),
            "weights": weights.tolist(),
            "mix": mix.tolist(),
            "same": (moved < _SAME).tolist(),
        }

    def _attend(self, order: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the words' rows, (N, d_model), and the head's weights and mix."""
        x = torch.tensor(X, dtype=torch.float64)[order]  # (N, d_model)
        if self.positions:
            x = x + _patterns()
        q = x @ torch.tensor(W_Q, dtype=torch.float64)  # (N, d_k)
        trace = attention(q[None, None], x[None, None], x[None, None], trace=True)
        return x, trace.weights[0, 0], trace.head_out[0, 0]

    def fallback(self) -> str:
        """Return the weights as a table, in the words' order."""
        words = [WORDS[word] for word in self.order]
        head = "".join(f'<th scope="col" lang="en">{word}</th>' for word in words)
        lines = [f"<tr><td></td>{head}</tr>"]
        for word, row in zip(words, self.result["weights"], strict=True):
            cells = "".join(f"<td>{weight:.2f}</td>" for weight in row)
            lines.append(f'<tr><th scope="row" lang="en">{word}</th>{cells}</tr>')
        return f"<table>{''.join(lines)}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "words": list(WORDS),
            "x": [list(row) for row in X],
            "W_Q": [list(row) for row in W_Q],
            "patterns": _patterns().tolist(),  # (N, d_model)
            "opening": {"order": OPENING, "positions": False},
        }

    @traitlets.validate("order")
    def _check_order(self, proposal: dict[str, Any]) -> list[int]:
        order: list[int] = proposal["value"]
        if sorted(order) != list(range(N)):
            listed = ", ".join(f"{number} {word}" for number, word in enumerate(WORDS))
            raise traitlets.TraitError(
                f"order={order} does not hold every word once; put these numbers in any order: "
                f"{listed}"
            )
        return order


def _patterns() -> Tensor:
    return sinusoidal(torch.arange(N), D_MODEL, dtype=torch.float64)  # (N, d_model)
