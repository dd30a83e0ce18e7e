"""GrammarHeads: what does each head of a trained model do, and what is lost without it?"""

from html import escape
from typing import Any

import torch
import traitlets

from mha_lib.experiments import grammar
from mha_lib.experiments.grammar import GrammarModel
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.trained import packed, rounded

OPENING_SENTENCES = 12
MEASURED = 512  # sentences


class GrammarHeads(CourseWidget):
    """A trained model of the made-up language: compose a sentence, switch heads off.

    Args:
        model: What `mha_lib.experiments.grammar.train_grammar` returned.
        words: 8 words from 0 to 31, two of each of 4 classes; a drawn sentence unless given.
        markers: 8 markers from 0 to 7, each once.
        heads: For each head, whether it is on.
        query: The token whose answers are told in full, from 0.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        ValueError: when words and markers make no sentence of the language.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `weights` (h, 8, 8), those of heads that are off too; and for each token and
    relation (8, 3) the `places` of the word that is asked for, the model's `guesses` and the
    `chances` it gives them.

    >>> demo = GrammarHeads(GrammarModel(num_heads=3))
    >>> torch.tensor(demo.result["weights"]).shape
    torch.Size([3, 8, 8])
    """

    module = "grammar_heads.js"
    inputs = ("words", "markers", "heads", "query")
    constants = ("recipe",)

    words = traitlets.List(traitlets.Int(), [0, 1, 4, 5, 8, 9, 12, 13]).tag(sync=True)
    markers = traitlets.List(traitlets.Int(), list(range(8))).tag(sync=True)
    heads = traitlets.List(traitlets.Bool()).tag(sync=True)
    query = traitlets.Int(0, min=0, max=7).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, model: GrammarModel, **options: Any) -> None:
        self._model = rounded(model)
        num_heads = model.attention.num_heads
        drawn = grammar.draw(OPENING_SENTENCES, torch.Generator().manual_seed(7))
        sentences = [
            {"words": words, "markers": markers}
            for words, markers in zip(drawn.words.tolist(), drawn.markers.tolist(), strict=True)
        ]
        recipe = {
            "words": list(grammar.WORD_NAMES),
            "markers": list(grammar.MARKER_NAMES),
            "relations": list(grammar.RELATIONS),
            "num_heads": num_heads,
            "sentences": sentences,
            "mass": grammar.attention_mass(model, MEASURED),
            "model": packed(model),
        }
        opening = sentences[0] | {"heads": [True] * num_heads, "query": _object(sentences[0])}
        self.set_trait("recipe", recipe)
        super().__init__(**(opening | options))

    @traitlets.default("heads")
    def _all_heads(self) -> list[bool]:
        return [True] * self.recipe["num_heads"]

    @traitlets.validate("heads")
    def _one_for_each_head(self, proposal: Any) -> list[bool]:
        heads: list[bool] = proposal["value"]
        if len(heads) != self.recipe["num_heads"]:
            raise traitlets.TraitError(
                f"heads={heads} should say of each of {self.recipe['num_heads']} heads whether it "
                "is on"
            )
        return heads

    def compute(self) -> dict[str, Any]:
        """Let the model read the sentence, by mha_lib."""
        words, markers = torch.tensor([self.words]), torch.tensor([self.markers])  # (1, 8)
        sentences = grammar.relate(words, markers)
        with torch.no_grad():
            weights = self._model.trace(words, markers).weights[0]  # (h, 8, 8)
            logits = self._model(words, markers, head_mask=torch.tensor(self.heads))
        chances, guesses = logits[0].softmax(dim=-1).max(dim=-1)  # (8, 3, 32) -> (8, 3)
        return {
            "weights": weights.tolist(),
            "places": sentences.places[0].tolist(),
            "guesses": guesses.tolist(),
            "chances": chances.tolist(),
        }

    def fallback(self) -> str:
        """Return, for each head and relation, the mean weight as a table."""
        names = "".join(f"<th>{escape(name)}</th>" for name in grammar.RELATIONS)
        rows = "".join(
            f"<tr><th>{head + 1}</th>{''.join(f'<td>{mass:.2f}</td>' for mass in row)}</tr>"
            for head, row in enumerate(self.recipe["mass"])
        )
        return f"<table><tr><td></td>{names}</tr>{rows}</table>"


def _object(sentence: dict[str, list[int]]) -> int:
    """Return where the first clause's object stands: all three of its answers are elsewhere."""
    return sentence["markers"].index(grammar.MARKER_NAMES.index("O1"))
