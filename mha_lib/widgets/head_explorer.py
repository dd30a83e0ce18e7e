"""HeadExplorer: where does each head look, and what do the heads add up to?"""

from collections.abc import Callable
from html import escape
from math import isfinite
from typing import Any

import torch
import traitlets

from mha_lib.widgets import hand_set
from mha_lib.widgets.base import CourseWidget

OPENING_SENTENCE = "Tôi yêu Việt Nam"
OPENING_HEAD = hand_set.HEADS.index("meaning")
OPENING_QUERY = 1
GREATEST_GAIN = 16.0


class HeadExplorer(CourseWidget):
    """Three hand-set heads on one sentence: pick a head and a query word, change the numbers.

    Args:
        sentence: One of `mha_lib.widgets.hand_set.SENTENCES`. Changing it later sets `features` and
            `query` back.
        head: The head in view, from 0.
        query: The query word, from 0.
        features: The words' vectors, (N, 18), each number between 0 and 1.
        gains: How sharply each head looks, three numbers between 0 and 16.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `sentence`, `weights` (h, N, N), `contributions` (h, N, d_model) and `output`
    (N, d_model), all by `MultiHeadAttention`.

    >>> demo = HeadExplorer()
    >>> [round(weight, 2) for weight in demo.result["weights"][demo.head][demo.query]]
    [0.04, 0.02, 0.47, 0.47]
    """

    module = "head_explorer.js"
    # The sentence first: choosing one sets its features and query word.
    inputs = ("sentence", "head", "query", "features", "gains")
    constants = ("recipe",)

    sentence = traitlets.Unicode(OPENING_SENTENCE).tag(sync=True)
    head = traitlets.Int(OPENING_HEAD).tag(sync=True)
    query = traitlets.Int(OPENING_QUERY).tag(sync=True)
    features = traitlets.List(traitlets.List(traitlets.Float())).tag(sync=True)
    gains = traitlets.List(traitlets.Float()).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Run the three heads on the sentence, by mha_lib."""
        x = torch.tensor([self.features], dtype=torch.float64)  # (1, N, d_model)
        with torch.no_grad():
            trace = hand_set.hand_set_heads(self.gains)(x, trace=True)
        return {
            "sentence": self.sentence,
            "weights": trace.weights[0].tolist(),  # (h, N, N)
            "contributions": trace.contributions[0].tolist(),  # (h, N, d_model)
            "output": trace.output[0].tolist(),  # (N, d_model)
        }

    def fallback(self) -> str:
        """Return the row of weights in view as a table."""
        words = _words(self.sentence)
        language = hand_set.SENTENCES[self.sentence].language
        weights = self.result["weights"][self.head][self.query]
        heads = "".join(f'<th scope="col" lang="{language}">{escape(word)}</th>' for word in words)
        cells = "".join(f"<td>{weight:.2f}</td>" for weight in weights)
        row = f'<th scope="row" lang="{language}">{escape(words[self.query])}</th>'
        return f"<table><tr><td></td>{heads}</tr><tr>{row}{cells}</tr></table>"

    @traitlets.default("features")
    def _opening_features(self) -> list[list[float]]:
        return _features(self.sentence)

    @traitlets.default("gains")
    def _opening_gains(self) -> list[float]:
        return list(hand_set.OPENING_GAINS)

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        ones = [1.0] * hand_set.NUM_HEADS
        return {
            "projections": {
                name: matrix.tolist() for name, matrix in hand_set.projections(ones).items()
            },
            "heads": list(hand_set.HEADS),
            "roles": list(hand_set.ROLES),
            "meanings": list(hand_set.MEANINGS),
            "sentences": [
                {
                    "text": text,
                    "language": sentence.language,
                    "words": _words(text),
                    "features": _features(text),
                }
                for text, sentence in hand_set.SENTENCES.items()
            ],
            "greatest_gain": GREATEST_GAIN,
            "opening": {"query": OPENING_QUERY, "gains": list(hand_set.OPENING_GAINS)},
        }

    @traitlets.observe("sentence")
    def _start_sentence(self, _change: object) -> None:
        self.features = _features(self.sentence)
        self.query = OPENING_QUERY

    @traitlets.validate("sentence")
    def _check_sentence(self, proposal: dict[str, Any]) -> str:
        sentence: str = proposal["value"]
        _refuse_as(hand_set.features, sentence)
        return sentence

    @traitlets.validate("head")
    def _check_head(self, proposal: dict[str, Any]) -> int:
        return _in_range("head", proposal["value"], hand_set.HEADS)

    @traitlets.validate("query")
    def _check_query(self, proposal: dict[str, Any]) -> int:
        return _in_range("query", proposal["value"], _words(self.sentence))

    @traitlets.validate("features")
    def _check_features(self, proposal: dict[str, Any]) -> list[list[float]]:
        features: list[list[float]] = proposal["value"]
        expected = (len(_words(self.sentence)), hand_set.EMBED_DIM)
        widths = sorted({len(row) for row in features})
        if len(features) != expected[0] or widths != [expected[1]]:
            raise traitlets.TraitError(
                f"features has {len(features)} rows of {widths} numbers, but {self.sentence!r} "
                f"needs {expected[0]} rows of {expected[1]}; start from "
                "mha_lib.widgets.hand_set.features(sentence).tolist()"
            )
        for row in features:
            _all_between("features", row, 0.0, 1.0)
        return features

    @traitlets.validate("gains")
    def _check_gains(self, proposal: dict[str, Any]) -> list[float]:
        gains: list[float] = proposal["value"]
        _refuse_as(hand_set.projections, gains)
        _all_between("gains", gains, 0.0, GREATEST_GAIN)
        return gains


def _words(sentence: str) -> list[str]:
    return [word.text for word in hand_set.SENTENCES[sentence].words]


def _features(sentence: str) -> list[list[float]]:
    rows: list[list[float]] = hand_set.features(sentence).tolist()
    return rows


def _refuse_as(make: Callable[[Any], object], value: object) -> None:
    """Turn mha_lib's own refusal of a value into a trait's."""
    try:
        make(value)
    except ValueError as refusal:
        raise traitlets.TraitError(str(refusal)) from None


def _in_range(name: str, index: int, things: tuple[str, ...] | list[str]) -> int:
    if not 0 <= index < len(things):
        listed = ", ".join(f"{place} {thing}" for place, thing in enumerate(things))
        raise traitlets.TraitError(
            f"{name}={index} is outside 0 to {len(things) - 1}; choose one of: {listed}"
        )
    return index


def _all_between(name: str, numbers: list[float], least: float, greatest: float) -> None:
    for number in numbers:
        if not isfinite(number) or not least <= number <= greatest:
            raise traitlets.TraitError(
                f"{name} holds {number}; every number must be between {least:g} and {greatest:g}"
            )
