"""DigitHeads: where does each head of a trained Vision Transformer look in a digit?"""

from typing import Any

import torch
import traitlets

from mha_lib.blocks import traced
from mha_lib.experiments import digits
from mha_lib.experiments.digits import DigitModel
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.trained import packed, rounded

SIGNS = "0123456789abcdefg"  # a pixel's 17 shades
MISTAKES = 2  # how many digits are offered that the model gets wrong
ACROSS = digits.SIZE // digits.PATCH


class DigitHeads(CourseWidget):
    """A trained Vision Transformer reads a digit: choose who asks, and by which head.

    Args:
        model: What `mha_lib.experiments.digits.train_digits` returned.
        digit: Which of the digits offered: the first held-out one of each kind, then some that the
            model gets wrong; `recipe["digits"]` lists them.
        layer, head: Whose weights are shown, from 0.
        query: The token that asks: 0 is the class token, then the patches, row by row.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the `digit` and the `query` it is for, the weights of that query in each head,
    `weights` (layers, h, 17), and the `chances` (10) of the ten digits.

    >>> demo = DigitHeads(DigitModel())
    >>> torch.tensor(demo.result["weights"]).shape
    torch.Size([2, 4, 17])
    """

    module = "digit_heads.js"
    inputs = ("digit", "layer", "head", "query")
    constants = ("recipe",)

    digit = traitlets.Int(3).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    query = traitlets.Int(0, min=0, max=ACROSS**2).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, model: DigitModel, **options: Any) -> None:
        self._model = rounded(model)
        offered = _offered(self._model)
        self._images = torch.stack([image for image, _, _ in offered]).double()  # (n, C, 8, 8)
        recipe = {
            "digits": [
                {
                    "pixels": [
                        "".join(SIGNS[round(pixel * digits.BRIGHTEST)] for pixel in row)
                        for row in image[0].tolist()
                    ],
                    "shows": shows,
                    "wrong": wrong,
                }
                for image, shows, wrong in offered
            ],
            "num_layers": len(self._model.encoder.blocks),
            "num_heads": self._model.encoder.blocks[0].attention.num_heads,
            "patch_size": digits.PATCH,
            "model": packed(model),
        }
        self.set_trait("recipe", recipe)
        # It opens on the last layer's head whose class token looks at one patch most of all.
        last = recipe["num_layers"] - 1
        weights = torch.tensor(self._read(self.digit, 0)["weights"])[last, :, 1:]  # (h, 16)
        opening = {"layer": last, "head": int(weights.amax(dim=-1).argmax())}
        super().__init__(**(opening | options))

    @traitlets.validate("digit", "layer", "head")
    def _one_of_these(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        count = {
            "digit": len(self.recipe["digits"]),
            "layer": self.recipe["num_layers"],
            "head": self.recipe["num_heads"],
        }[name]
        if not 0 <= value < count:
            raise traitlets.TraitError(f"{name}={value} should be from 0 to {count - 1}")
        return int(value)

    def compute(self) -> dict[str, Any]:
        """Let the model read the digit, by mha_lib."""
        return self._read(self.digit, self.query)

    def _read(self, digit: int, query: int) -> dict[str, Any]:
        with torch.no_grad(), traced(self._model) as traces:
            logits = self._model(self._images[digit][None])[0]  # (10)
        return {
            "digit": digit,
            "query": query,
            "weights": [trace.weights[0, :, query].tolist() for trace in traces.values()],
            "chances": logits.softmax(dim=-1).tolist(),
        }

    def fallback(self) -> str:
        """Return the weights on the patches as a table, each where its patch is in the digit."""
        weights = self.result["weights"][self.layer][self.head][1:]
        cells = [f"<td>{weight:.2f}</td>" for weight in weights]
        rows = ("".join(cells[start : start + ACROSS]) for start in range(0, ACROSS**2, ACROSS))
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _offered(model: Any) -> list[tuple[torch.Tensor, int, bool]]:
    """Return digits to choose from: image (C, 8, 8), what it shows, and whether the model errs."""
    held_out = digits.load()[1]
    with torch.no_grad():
        named = model(held_out.images.double()).argmax(dim=-1)  # (B,)
    wrong = named != held_out.labels  # (B,)
    first = [int((held_out.labels == kind).nonzero()[0]) for kind in range(digits.KINDS)]
    missed = [int(i) for i in wrong.nonzero().flatten() if int(i) not in first][:MISTAKES]
    return [
        (held_out.images[i], int(held_out.labels[i]), bool(wrong[i])) for i in (*first, *missed)
    ]
