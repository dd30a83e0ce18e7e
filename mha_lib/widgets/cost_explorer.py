"""CostExplorer: what grows with N, and which part is it?"""

from dataclasses import asdict, replace
from typing import Any

import traitlets

from mha_lib.cost import MODELS, Cost, ModelSizes, model_cost
from mha_lib.widgets.base import CourseWidget

# Each twice the one before, and one halfway between: the lengths that the slider stops at.
LENGTHS = tuple(sorted([2**power for power in range(4, 18)] + [3 * 2**p for p in range(3, 16)]))
BATCHES = (1, 2, 4, 8, 16, 32, 64)
SEES = (None, 256, 1024, 4096)
BYTES_PER_NUMBER = 2
_LINES = ("projections", "products", "feed_forward")


class CostExplorer(CourseWidget):
    """What one pass of a model costs, part by part, against the number of tokens.

    Args:
        model: A name in `mha_lib.cost.MODELS`.
        seq: How many tokens, N, from 16 to 131,072. Beyond the model's own positions the costs
            are those of the same model with a longer table of positions.
        batch: How many sequences, one of `BATCHES`.
        num_kv_heads: Key heads, h_kv; a divisor of the model's heads, and all of them as long
            as no other number is given. Another model has all of its own again.
        sees: How many tokens each token sees, itself among them, one of `SEES`; None for all.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the inputs again, `weight_bytes`, `crossing` (the N at which the products have
    caught up with the projections; None where a window keeps them from it), `now` and `doubled`
    (at N and at twice as many tokens: the FLOPs of `projections`, `products`, `feed_forward` and
    `ends`, and `score_bytes` and `kv_cache_bytes`), and `curve` (the first three at `LENGTHS`).
    Numbers are kept in 2 bytes, and every score that a token may see counts, as in `layer_cost`.

    >>> demo = CostExplorer(model="gpt3", seq=2048)
    >>> now, doubled = demo.result["now"], demo.result["doubled"]
    >>> [doubled[name] // now[name] for name in ("projections", "products", "score_bytes")]
    [2, 4, 4]
    >>> demo.result["crossing"]
    24576
    """

    module = "cost_explorer.js"
    inputs = ("model", "seq", "batch", "num_kv_heads", "sees")
    constants = ("recipe",)

    model = traitlets.Enum(tuple(MODELS), "gpt3").tag(sync=True)
    seq = traitlets.Int(2048).tag(sync=True)
    batch = traitlets.Enum(BATCHES, 1).tag(sync=True)
    num_kv_heads = traitlets.Int(MODELS["gpt3"].num_heads).tag(sync=True)
    sees = traitlets.Enum(SEES, None, allow_none=True).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Count by mha_lib, at N, at twice N, and at every length of the picture."""
        curve = [self._parts(length) for length in LENGTHS]
        cost = self._cost(self.seq)
        # Per token the projections cost the same at every N, and the products cost N times as
        # much as against a single key.
        crossing = self.seq * cost.projection_flops // cost.product_flops
        return {
            **{name: getattr(self, name) for name in self.inputs},
            "weight_bytes": BYTES_PER_NUMBER * model_cost(self._sizes()).parameters,
            "crossing": crossing if self.sees is None or crossing <= self.sees else None,
            "now": self._parts(self.seq),
            "doubled": self._parts(2 * self.seq),
            "curve": {name: [parts[name] for parts in curve] for name in _LINES},
        }

    def _sizes(self) -> ModelSizes:
        return replace(MODELS[self.model], num_kv_heads=self.num_kv_heads)

    def _cost(self, seq: int) -> Cost:
        sizes = self._sizes()
        longer = replace(sizes, positions=max(seq, sizes.positions))
        options = {"batch": self.batch, "bytes_per_number": BYTES_PER_NUMBER}
        return model_cost(longer, seq=seq, **options)

    def _parts(self, seq: int) -> dict[str, int]:
        """Return what each part costs for `seq` tokens."""
        cost, sizes = self._cost(seq), MODELS[self.model]
        mlp = 2 * sizes.embed_dim * 4 * sizes.embed_dim  # the weights of its two matrices
        feed_forward = 2 * self.batch * seq * sizes.layers * mlp
        keys = seq if self.sees is None else min(seq, self.sees)
        return {
            "projections": cost.projection_flops,
            "products": cost.product_flops // seq * keys,
            "feed_forward": feed_forward,
            "ends": cost.other_flops - feed_forward,
            "score_bytes": cost.score_bytes // seq * keys,
            "kv_cache_bytes": cost.kv_cache_bytes // seq * keys,
        }

    def fallback(self) -> str:
        """Return what each part costs, at N and at twice N, as a table."""
        now, doubled = self.result["now"], self.result["doubled"]
        rows = "".join(
            f'<tr><th scope="row"><code>{name}</code></th><td>{now[name]:,}</td>'
            f"<td>{doubled[name]:,}</td></tr>"
            for name in now
        )
        head = f"<td>{self.model}</td><td>N = {self.seq:,}</td><td>N = {2 * self.seq:,}</td>"
        return f"<table><tr>{head}</tr>{rows}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "models": {name: asdict(sizes) for name, sizes in MODELS.items()},
            "lengths": list(LENGTHS),
            "batches": list(BATCHES),
            "sees": list(SEES),
            "bytes_per_number": BYTES_PER_NUMBER,
            "parameters": {name: model_cost(name).parameters for name in MODELS},
        }

    @traitlets.observe("model")
    def _take_all_heads(self, _change: object) -> None:
        self.num_kv_heads = MODELS[self.model].num_heads

    @traitlets.validate("seq")
    def _check_seq(self, proposal: dict[str, Any]) -> int:
        seq: int = proposal["value"]
        if not LENGTHS[0] <= seq <= LENGTHS[-1]:
            raise traitlets.TraitError(
                f"seq={seq} is outside {LENGTHS[0]} to {LENGTHS[-1]}; give a length between them"
            )
        return seq

    @traitlets.validate("num_kv_heads")
    def _check_num_kv_heads(self, proposal: dict[str, Any]) -> int:
        num_kv_heads: int = proposal["value"]
        possible = _divisors(MODELS[self.model].num_heads)
        if num_kv_heads not in possible:
            raise traitlets.TraitError(
                f"num_kv_heads={num_kv_heads} cannot be shared equally by the {possible[-1]} "
                f"heads of {self.model}; use one of {', '.join(map(str, possible))}"
            )
        return num_kv_heads


def _divisors(number: int) -> list[int]:
    """Return all that divide the number, the least first.

    >>> _divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [each for each in range(1, number + 1) if number % each == 0]
