"""TiledSoftmax: how can softmax be exact if the scores come a few at a time?"""

from typing import Any

import torch
import traitlets

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget

# Small and whole, so that all the powers of e that a reader needs are e^0 to e^-3.
SCORES = (1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 2.0, 0.0, 2.0, 0.0, 3.0, 1.0)
VALUES = (2.0, 6.0, 1.0, 4.0, 9.0, 3.0, 5.0, 8.0, 4.0, 7.0, 1.0, 2.0)
# 5 does not divide the 12 keys: the last tile is shorter.
TILES = (1, 2, 3, 4, 5, 6, 12)
ORDERS = ("given", "rising", "falling")


class TiledSoftmax(CourseWidget):
    """One query against twelve keys, taken a tile at a time, with a running softmax.

    Args:
        order: How the keys come: as "given", or with scores "rising" or "falling".
        tile: How many keys are in a tile, one of `TILES`.
        step: Which tile has just been added, from 1; with fewer tiles than that, the last.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `keys` (from 0), `scores` and `values` in the order they come, `powers` (e to
    the score less the maximum when its tile was added), and for each tile what holds after it:
    `maxima`, `factors` (what the sums so far were multiplied by), `sums`, `weighted` and
    `outputs`. `plain` is the same for all keys at once.

    >>> demo = TiledSoftmax(tile=4)
    >>> demo.result["maxima"], [round(each, 3) for each in demo.result["factors"]]
    ([2.0, 3.0, 3.0], [0.0, 0.368, 1.0])
    >>> round(demo.result["outputs"][-1] - demo.result["plain"]["output"], 9)
    0.0
    """

    module = "tiled_softmax.js"
    inputs = ("order", "tile", "step")
    constants = ("recipe",)

    order = traitlets.Enum(ORDERS, "given").tag(sync=True)
    tile = traitlets.Enum(TILES, 4).tag(sync=True)
    step = traitlets.Int(2).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Attend to the keys of the first tile, the first two and so on, each anew, by mha_lib.

        What the page keeps up tile by tile is compared with this.
        """
        keys = _in_order(self.order)
        scores = torch.tensor(SCORES, dtype=torch.float64)[keys]  # (S,)
        values = torch.tensor(VALUES, dtype=torch.float64)[keys]  # (S,)
        ends = [min(start + self.tile, len(keys)) for start in range(0, len(keys), self.tile)]
        states = [_plain(scores[:end], values[:end]) for end in ends]
        maxima = [state["maximum"] for state in states]
        running = torch.tensor(maxima, dtype=torch.float64)  # (tiles,)
        # e^-inf = 0: before the first tile there was no maximum, and nothing summed.
        before = torch.cat([running.new_tensor([-torch.inf]), running[:-1]])  # (tiles,)
        met = running.repeat_interleave(self.tile)[: len(keys)]  # (S,)
        return {
            "keys": keys,
            "scores": scores.tolist(),
            "values": values.tolist(),
            "powers": (scores - met).exp().tolist(),
            "factors": (before - running).exp().tolist(),
            "maxima": maxima,
            "sums": [state["sum"] for state in states],
            "weighted": [state["weighted"] for state in states],
            "outputs": [state["output"] for state in states],
            "plain": states[-1],
        }

    def fallback(self) -> str:
        """Return maximum, sum, weighted sum and output after each tile as a table."""
        names = ("maxima", "sums", "weighted", "outputs")
        rows = "".join(
            f'<tr><th scope="row">{number}</th>'
            + "".join(f"<td>{each:.3f}</td>" for each in row)
            + "</tr>"
            for number, row in enumerate(zip(*(self.result[n] for n in names), strict=True), 1)
        )
        head = "<td></td><td>m</td><td>ℓ</td><td>a</td><td>a / ℓ</td>"
        return f"<table><tr>{head}</tr>{rows}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "scores": list(SCORES),
            "values": list(VALUES),
            "tiles": list(TILES),
            "orders": {order: _in_order(order) for order in ORDERS},
        }

    @traitlets.validate("step")
    def _check_step(self, proposal: dict[str, Any]) -> int:
        step: int = proposal["value"]
        if not 1 <= step <= len(SCORES):
            raise traitlets.TraitError(
                f"step={step} is outside 1 to {len(SCORES)}; tiles are counted from 1"
            )
        return step


def _in_order(order: str) -> list[int]:
    """Return the keys, from 0, as they come; of equal scores the first comes first."""
    keys = list(range(len(SCORES)))
    sign = {"given": 0, "rising": 1, "falling": -1}[order]
    return sorted(keys, key=lambda key: sign * SCORES[key])


def _plain(scores: torch.Tensor, values: torch.Tensor) -> dict[str, float]:
    """Return plain softmax over some of the keys: attention of a query [1] to keys [score]."""
    k, v = scores[None, None, :, None], values[None, None, :, None]  # (1, 1, S, 1) each
    output = attention(k.new_ones(1, 1, 1, 1), k, v, scale=1.0).item()
    maximum = scores.max().item()
    total = (scores.logsumexp(0) - maximum).exp().item()
    return {"maximum": maximum, "sum": total, "weighted": output * total, "output": output}
