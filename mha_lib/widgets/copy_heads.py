"""CopyHeads: how does a trained model of two layers copy a pattern that it has never seen?"""

import string
from html import escape
from typing import Any

import torch
import traitlets

from mha_lib.blocks import traced
from mha_lib.experiments import induction
from mha_lib.experiments.induction import CopyModel
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.trained import packed, rounded

ALPHABET = string.ascii_uppercase[: induction.LETTERS]
SHORTEST, LONGEST = 3, 10
OPENING = "QKFMBT"


class CopyHeads(CourseWidget):
    """A trained model of attention alone reads a pattern twice, and predicts each next letter.

    Args:
        model: What `mha_lib.experiments.induction.train_copying` returned, with any number of
            layers.
        pattern: 3 to 10 letters from A to X; small ones become large.
        query: The token whose weights are shown, from 0; 0 is the start.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `tokens` (N), numbers of letters, the start and the pattern twice; of each layer
    and head the `weights` (layers, h, N, N); and for each token the letter that the model thinks
    comes next, `guesses` (N), and the `chances` it gives it.

    >>> demo = CopyHeads(CopyModel(), pattern="abc")
    >>> demo.result["tokens"]
    [24, 0, 1, 2, 0, 1, 2]
    """

    module = "copy_heads.js"
    inputs = ("pattern", "query")
    constants = ("recipe",)

    pattern = traitlets.Unicode(OPENING).tag(sync=True)
    query = traitlets.Int(len(OPENING) + 2, min=0).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, model: CopyModel, **options: Any) -> None:
        self._model = rounded(model)
        measured = induction.head_scores(model)
        recipe = {
            "alphabet": ALPHABET,
            "lengths": [SHORTEST, LONGEST],
            "num_layers": len(model.layers),
            "num_heads": self._model.layers[0].num_heads,
            "previous": measured.previous,
            "induction": measured.induction,
            "model": packed(model),
        }
        self.set_trait("recipe", recipe)
        super().__init__(**options)

    @traitlets.validate("pattern")
    def _letters(self, proposal: Any) -> str:
        pattern: str = proposal["value"].upper()
        if not SHORTEST <= len(pattern) <= LONGEST or set(pattern) - set(ALPHABET):
            raise traitlets.TraitError(
                f"pattern={pattern!r} should be {SHORTEST} to {LONGEST} letters from "
                f"{ALPHABET[0]} to {ALPHABET[-1]}"
            )
        return pattern

    def compute(self) -> dict[str, Any]:
        """Let the model read the pattern twice, by mha_lib."""
        pattern = [ALPHABET.index(letter) for letter in self.pattern]
        tokens = torch.tensor([[induction.START, *pattern, *pattern]])  # (1, N)
        with torch.no_grad(), traced(self._model) as traces:
            logits = self._model(tokens)[0]  # (N, V)
        chances, guesses = logits.softmax(dim=-1).max(dim=-1)  # (N)
        return {
            "tokens": tokens[0].tolist(),
            "weights": [trace.weights[0].tolist() for trace in traces.values()],
            "guesses": guesses.tolist(),
            "chances": chances.tolist(),
        }

    def fallback(self) -> str:
        """Return what the model predicts after each letter, as a table."""
        rows = "".join(
            f"<tr><th>{escape(self._name(token))}</th><td>{escape(self._name(guess))}</td>"
            f"<td>{chance:.2f}</td></tr>"
            for token, guess, chance in zip(
                self.result["tokens"], self.result["guesses"], self.result["chances"], strict=True
            )
        )
        return f"<table>{rows}</table>"

    def _name(self, token: int) -> str:
        return "▷" if token == induction.START else ALPHABET[token]
