"""QkvByHand: what does a word ask, what do the others offer, and what does it take away?"""

from math import isfinite
from typing import Any

import torch
import traitlets

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget

WORDS = ("cat", "sat", "on", "mat")
# Invented, as small examples are: the numbers of no model.
X = (
    (0.21, 0.85, 0.14, 0.62),
    (0.45, 0.33, 0.71, 0.18),
    (0.05, 0.12, 0.88, 0.09),
    (0.19, 0.79, 0.22, 0.58),
)  # (N, d_model)
# Set by hand. The first number of a query asks for a thing, the second for an action; the two
# numbers of a key and of a value say in the same order what a word is and what it passes on.
OPENING = {
    "W_Q": ((0.0, -3.0), (-1.0, 3.0), (6.0, 0.0), (0.0, 3.0)),
    "W_K": ((-1.0, 4.0), (1.0, -1.0), (0.0, 0.0), (1.0, 0.0)),
    "W_V": ((0.0, 4.0), (1.0, -1.0), (0.0, 0.0), (0.0, 0.0)),
}  # each (d_model, d_k)
OPENING_QUERY = WORDS.index("sat")
GREATEST = 20.0

Matrix = list[list[float]]


class QkvByHand(CourseWidget):
    """Four words and the three matrices that make their queries, keys and values.

    Args:
        query: The query word, from 0.
        W_Q: What makes a query of a word's row, (4, 2), each number between -20 and 20.
        W_K: What makes a key, alike.
        W_V: What makes a value, alike.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `q`, `k`, `v` (N, 2), `products` and `scores` and `weights` (N, N), and `mix`
    (N, 2): what each word takes away.

    >>> demo = QkvByHand()
    >>> [round(weight, 2) for weight in demo.result["weights"][demo.query]]
    [0.53, 0.02, 0.03, 0.42]
    """

    module = "qkv_by_hand.js"
    inputs = ("query", *OPENING)
    constants = ("recipe",)

    query = traitlets.Int(OPENING_QUERY).tag(sync=True)
    W_Q = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    W_K = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    W_V = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Run attention on the four words, by mha_lib."""
        x = torch.tensor(X, dtype=torch.float64)  # (N, d_model)
        matrices = (torch.tensor(getattr(self, name), dtype=x.dtype) for name in OPENING)
        q, k, v = (x @ matrix for matrix in matrices)  # each (N, d_k)
        trace = attention(q[None, None], k[None, None], v[None, None], trace=True)
        steps = {"scores": trace.scores, "weights": trace.weights, "mix": trace.head_out}
        return {
            "q": q.tolist(),
            "k": k.tolist(),
            "v": v.tolist(),
            "products": (q @ k.mT).tolist(),  # (N, N)
            **{name: step[0, 0].tolist() for name, step in steps.items()},
        }

    def fallback(self) -> str:
        """Return the query word's row of weights as a table."""
        heads = "".join(f'<th scope="col" lang="en">{word}</th>' for word in WORDS)
        weights = self.result["weights"][self.query]
        cells = "".join(f"<td>{weight:.2f}</td>" for weight in weights)
        row = f'<th scope="row" lang="en">{WORDS[self.query]}</th>'
        return f"<table><tr><td></td>{heads}</tr><tr>{row}{cells}</tr></table>"

    @traitlets.default("W_Q")
    def _opening_w_q(self) -> Matrix:
        return _rows(OPENING["W_Q"])

    @traitlets.default("W_K")
    def _opening_w_k(self) -> Matrix:
        return _rows(OPENING["W_K"])

    @traitlets.default("W_V")
    def _opening_w_v(self) -> Matrix:
        return _rows(OPENING["W_V"])

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        opening = {name: _rows(matrix) for name, matrix in OPENING.items()}
        return {
            "words": list(WORDS),
            "x": _rows(X),
            "opening": opening | {"query": OPENING_QUERY},
            "greatest": GREATEST,
        }

    @traitlets.validate("query")
    def _check_query(self, proposal: dict[str, Any]) -> int:
        query: int = proposal["value"]
        if not 0 <= query < len(WORDS):
            listed = ", ".join(f"{place} {word}" for place, word in enumerate(WORDS))
            raise traitlets.TraitError(
                f"query={query} is outside 0 to {len(WORDS) - 1}; choose one of: {listed}"
            )
        return query

    @traitlets.validate(*OPENING)
    def _check_matrix(self, proposal: dict[str, Any]) -> Matrix:
        name, matrix = proposal["trait"].name, proposal["value"]
        rows, columns = len(OPENING[name]), len(OPENING[name][0])
        widths = sorted({len(row) for row in matrix})
        if len(matrix) != rows or widths != [columns]:
            raise traitlets.TraitError(
                f"{name} has {len(matrix)} rows of {widths} numbers; give {rows} rows of {columns}"
            )
        for number in (number for row in matrix for number in row):
            if not isfinite(number) or abs(number) > GREATEST:
                raise traitlets.TraitError(
                    f"{name} holds {number}; every number must be between "
                    f"{-GREATEST:g} and {GREATEST:g}"
                )
        rows_given: Matrix = matrix
        return rows_given


def _rows(matrix: tuple[tuple[float, ...], ...]) -> Matrix:
    return [list(row) for row in matrix]
