"""LetterWriter: what does each head look at while a trained decoder writes, letter by letter?"""

from html import escape
from typing import Any

import torch
import traitlets

from mha_lib.blocks import traced
from mha_lib.experiments import writing
from mha_lib.models import Decoder
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.trained import packed, rounded

OPENING = "attention lets each "
DRAWN_AT = 0.6  # the temperature at which letters are drawn


class LetterWriter(CourseWidget):
    """A trained decoder reads a text and says which letter comes next: let it write on.

    Args:
        model: What `mha_lib.experiments.writing.train_writer` returned.
        text: 1 to 48 of the letters it knows; large ones become small.
        query: The letter whose heads are shown, from 0; beyond the text it is the last one.
        layer, head: Whose weights colour the text, from 0.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the `text` and the `query` it is for, the weights of that query in each head,
    `weights` (layers, h, query + 1), and the `chances` (32) of the letters that may come next.

    >>> demo = LetterWriter(writing.make_writer(), text="Cat", query=1)
    >>> demo.result["text"], torch.tensor(demo.result["weights"]).shape
    ('cat', torch.Size([2, 4, 2]))
    """

    module = "letter_writer.js"
    inputs = ("text", "query", "layer", "head")
    constants = ("recipe",)

    text = traitlets.Unicode(OPENING).tag(sync=True)
    query = traitlets.Int(writing.LENGTH, min=0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, model: Decoder, **options: Any) -> None:
        self._model = rounded(model)
        recipe = {
            "alphabet": writing.ALPHABET,
            "most": writing.LENGTH,
            "opening": OPENING,
            "temperature": DRAWN_AT,
            "num_layers": len(self._model.blocks),
            "num_heads": self._model.blocks[0].attention.num_heads,
            "accuracy": writing.accuracy(model),
            "model": packed(model),
        }
        self.set_trait("recipe", recipe)
        # It opens on the head that looks most at a single letter.
        weights = torch.tensor(self._read(OPENING, len(OPENING) - 1)["weights"])  # (layers, h, N)
        layer, head = divmod(int(weights.amax(dim=-1).argmax()), recipe["num_heads"])
        super().__init__(**({"layer": layer, "head": head} | options))

    @traitlets.validate("text")
    def _letters(self, proposal: Any) -> str:
        text: str = proposal["value"].lower()
        if not 1 <= len(text) <= writing.LENGTH or set(text) - set(writing.ALPHABET):
            raise traitlets.TraitError(
                f"text={text!r} should be 1 to {writing.LENGTH} letters of {writing.ALPHABET!r}"
            )
        return text

    @traitlets.validate("layer", "head")
    def _one_of_these(self, proposal: Any) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        count = self.recipe["num_layers" if name == "layer" else "num_heads"]
        if not 0 <= value < count:
            raise traitlets.TraitError(f"{name}={value} should be from 0 to {count - 1}")
        return int(value)

    def compute(self) -> dict[str, Any]:
        """Let the model read the text, by mha_lib."""
        return self._read(self.text, min(self.query, len(self.text) - 1))

    def _read(self, text: str, query: int) -> dict[str, Any]:
        with torch.no_grad(), traced(self._model) as traces:
            logits = self._model(writing.spelled(text[: query + 1])[None])[0, -1]  # (V)
        return {
            "text": text,
            "query": query,
            "weights": [trace.weights[0, :, -1].tolist() for trace in traces.values()],
            "chances": logits.softmax(dim=-1).tolist(),
        }

    def fallback(self) -> str:
        """Return where each head looks most from the chosen letter, as a table."""
        text = self.result["text"]
        rows = ""
        for layer, heads in enumerate(self.result["weights"]):
            for head, weights in enumerate(heads):
                most = weights.index(max(weights))
                cells = f"<td>{escape(text[most])}</td><td>{max(weights):.2f}</td>"
                rows += f"<tr><th>{layer + 1}.{head + 1}</th>{cells}</tr>"
        return f"<table>{rows}</table>"
