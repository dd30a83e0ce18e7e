"""SoftLookup: what is soft about this lookup?"""

from math import dist, isfinite
from typing import Any, NamedTuple

import torch
import traitlets

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget


class Entry(NamedTuple):
    """A key, which is a direction on the ground, and its value.

    >>> Entry("north", (0.0, 1.0), 4.0).value
    4.0
    """

    name: str
    key: tuple[float, float]
    value: float


# What the wind from there brings, in degrees; invented. All keys are equally long, so the
# nearest key has the largest score, too.
DICTIONARY = (
    Entry("north", (0.0, 1.0), 4.0),
    Entry("east", (1.0, 0.0), 10.0),
    Entry("south", (0.0, -1.0), 24.0),
    Entry("west", (-1.0, 0.0), 18.0),
)
OPENING = (0.8, 0.6)
GREATEST, STEP = 1.0, 0.1
# With the sharpest, a key that is a step nearer than the others gets all that can be seen.
SCALES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
# Keys whose distances differ by less are equally near: rounding alone makes them differ.
_SAME = 1e-9


class SoftLookup(CourseWidget):
    """One query against a dictionary of four keys, looked up the hard way and the soft.

    Args:
        query: Two numbers, each from -1 to 1: how far east, and how far north.
        scale: How sharp the soft lookup is: what the scores are multiplied by, from 0 to 64.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the two inputs, and by `mha_lib.attention` `scores` and `weights`, one for each
    key, and `answer`, the values mixed by the weights. `exact` is the key that is the query, or
    -1; `nearest` lists the keys nearest to it.

    >>> demo = SoftLookup(query=[0.8, 0.6])
    >>> round(demo.result["answer"], 1), demo.result["exact"], demo.result["nearest"]
    (8.4, -1, [1])
    >>> demo.scale = 64.0
    >>> round(demo.result["answer"], 1)
    10.0
    """

    module = "soft_lookup.js"
    inputs = ("query", "scale")
    constants = ("recipe",)

    query = traitlets.List(traitlets.Float(), list(OPENING)).tag(sync=True)
    scale = traitlets.Float(2.0).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Look the query up in each way, the soft one by mha_lib."""
        numbers = [self.query, *(entry.key for entry in DICTIONARY)]
        rows = torch.tensor(numbers, dtype=torch.float64)[None, None]  # (1, 1, 1 + S, d_k)
        q, k = rows[:, :, :1], rows[:, :, 1:]  # (1, 1, 1, d_k), (1, 1, S, d_k)
        values = [[entry.value] for entry in DICTIONARY]
        v = torch.tensor(values, dtype=torch.float64)[None, None]  # (1, 1, S, 1)
        trace = attention(q, k, v, scale=self.scale, trace=True)
        far = [dist(self.query, entry.key) for entry in DICTIONARY]
        return {
            "query": self.query,
            "scale": self.scale,
            "scores": trace.scores[0, 0, 0].tolist(),
            "weights": trace.weights[0, 0, 0].tolist(),
            "answer": trace.head_out[0, 0, 0].item(),
            "exact": far.index(0.0) if 0.0 in far else -1,
            "nearest": [place for place, each in enumerate(far) if each - min(far) < _SAME],
        }

    def fallback(self) -> str:
        """Return each key with its value, score and weight, and the answer, as a table."""
        lines = ["<tr><td>k</td><td>v</td><td>q·k</td><td>softmax</td></tr>"]
        found = zip(DICTIONARY, self.result["scores"], self.result["weights"], strict=True)
        for entry, score, weight in found:
            lines.append(
                f'<tr><th scope="row" lang="en">{entry.name}</th><td>{entry.value:g}</td>'
                f"<td>{score:.2f}</td><td>{weight:.2f}</td></tr>"
            )
        lines.append(f"<tr><td>Σ</td><td>{self.result['answer']:.1f}</td><td></td><td>1</td></tr>")
        return f"<table>{''.join(lines)}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "names": [entry.name for entry in DICTIONARY],
            "keys": [list(entry.key) for entry in DICTIONARY],
            "values": [entry.value for entry in DICTIONARY],
            "greatest": GREATEST,
            "step": STEP,
            "scales": list(SCALES),
        }

    @traitlets.validate("query")
    def _check_query(self, proposal: dict[str, Any]) -> list[float]:
        query: list[float] = proposal["value"]
        if len(query) != 2 or not all(isfinite(n) and abs(n) <= GREATEST for n in query):
            raise traitlets.TraitError(
                f"query={query} is not two numbers from {-GREATEST:g} to {GREATEST:g}; "
                "give how far east, then how far north"
            )
        return query

    @traitlets.validate("scale")
    def _check_scale(self, proposal: dict[str, Any]) -> float:
        scale: float = proposal["value"]
        if not SCALES[0] <= scale <= SCALES[-1]:
            raise traitlets.TraitError(
                f"scale={scale} is outside {SCALES[0]:g} to {SCALES[-1]:g}; "
                "give a number between them"
            )
        return scale
