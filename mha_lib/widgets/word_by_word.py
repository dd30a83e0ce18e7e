"""WordByWord: while a sentence is written, what must be computed anew, and what can be kept?"""

from functools import cache
from html import escape
from typing import Any

import torch
import traitlets
from torch import Tensor, nn

from mha_lib import KVCache, MultiHeadAttention
from mha_lib.widgets.base import CourseWidget

# The model of the masking chapter's code: it is set by hand and knows one sentence.
VOCABULARY = ("the", "cat", "sat", "on", "mat", ".")
FIRST, STOP = "the", "."
FOLLOWS = {"the": "cat", "cat": "sat", "sat": "on", "on": "the", "mat": "."}
ASKS = {("the", "on"): 8.0}  # a "the" looks for an "on", and no other word for anything
SPEAKS = {("on", "mat"): 2.0}  # an "on" that was found speaks for "mat"
D_MODEL = len(VOCABULARY)  # one head, so d_k is the same


class WordByWord(CourseWidget):
    """A tiny model with one layer of attention writes a sentence, with a KV cache or without.

    Args:
        step: Which word is being chosen, from 1; step n has n words to look at.
        cache: Whether the keys and values of earlier steps are kept.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `step`, `cache`, and the `words` so far (S,), as numbers of the vocabulary. Of
    what this step computes: `projected`, the places of the L words that went through the layer;
    `keep`, `scores` and `weights` (L, S). Of the choice, with a number for each word of the
    vocabulary: `table`, `found` (by attention) and `logits`, their sum; and the word chosen,
    `next`. `work` holds, "with" and "without" a cache, the numbers of `words` projected and of
    `scores` at each step so far. `same_words` and `apart` compare the two ways: are the words
    the same, and how far apart are the newest word's weights and logits at most?

    >>> demo = WordByWord(step=5)
    >>> VOCABULARY[demo.result["next"]], demo.result["projected"]
    ('mat', [4])
    >>> [round(weight, 2) for weight in demo.result["weights"][-1]]
    [0.03, 0.03, 0.03, 0.87, 0.03]
    >>> demo.result["work"]["with"]["words"], demo.result["work"]["without"]["words"]
    ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5])
    """

    module = "word_by_word.js"
    inputs = ("step", "cache")
    constants = ("recipe",)

    step = traitlets.Int(5).tag(sync=True)
    cache = traitlets.Bool(True).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Let the model write as far as `step`, both ways, by mha_lib."""
        ways = {"with": _written(cached=True), "without": _written(cached=False)}
        steps = {way: run[: self.step] for way, run in ways.items()}
        pairs = list(zip(steps["with"], steps["without"], strict=True))
        return {
            "step": self.step,
            "cache": self.cache,
            **steps["with" if self.cache else "without"][-1],
            "work": {
                way: {
                    "words": [len(step["projected"]) for step in run],
                    "scores": [sum(map(len, step["scores"])) for step in run],
                }
                for way, run in steps.items()
            },
            "same_words": all(one["next"] == other["next"] for one, other in pairs),
            "apart": max(_apart(one, other) for one, other in pairs),
        }

    def fallback(self) -> str:
        """Return the newest word's weights over the words so far, and what was chosen."""
        words = [VOCABULARY[word] for word in self.result["words"]]
        head = "".join(f'<th scope="col" lang="en">{escape(word)}</th>' for word in words)
        cells = "".join(f"<td>{weight:.2f}</td>" for weight in self.result["weights"][-1])
        chosen = f'<td lang="en">→ {escape(VOCABULARY[self.result["next"]])}</td>'
        newest = f'<th scope="row" lang="en">{escape(words[-1])}</th>'
        return f"<table><tr><td></td>{head}<td></td></tr><tr>{newest}{cells}{chosen}</tr></table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "vocabulary": list(VOCABULARY),
            "first": VOCABULARY.index(FIRST),
            "steps": len(_written(cached=True)),
            "embeddings": _embeddings().tolist(),  # (vocabulary, d_model)
            "follows": _follows().tolist(),  # (vocabulary, vocabulary)
            # Each (d_model, d_model), to be multiplied from the right: Q = X W_Q.
            "projections": {name: matrix.tolist() for name, matrix in _projections().items()},
        }

    @traitlets.validate("step")
    def _check_step(self, proposal: dict[str, Any]) -> int:
        step: int = proposal["value"]
        last = len(_written(cached=True))
        if not 1 <= step <= last:
            raise traitlets.TraitError(
                f"step={step} is outside 1 to {last}; the model begins with {FIRST!r} and has "
                f"written its sentence after {last} steps"
            )
        return step


@cache
def _written(*, cached: bool) -> list[dict[str, Any]]:
    """Let the model write until it stops, and return what was computed at each step."""
    layer, kept = _layer(), KVCache() if cached else None
    projected: list[int] = []  # how many words k_proj was given, call after call
    layer.k_proj.register_forward_hook(lambda _module, _given, k: projected.append(k.shape[1]))
    words, steps = [VOCABULARY.index(FIRST)], []
    while words[-1] != VOCABULARY.index(STOP):
        x = _embeddings()[words[-1:] if cached else words][None]  # (1, L, d_model), L is 1 or S
        with torch.no_grad():
            trace = layer(x, cache=kept, trace=True)
        table, found = _follows()[words[-1]], trace.output[0, -1]  # (vocabulary,) each
        logits = table + found  # (vocabulary,)
        steps.append(
            {
                "words": list(words),
                "projected": list(range(len(words) - projected[-1], len(words))),
                "keep": trace.masked_scores[0, 0].isfinite().tolist(),
                "scores": trace.scores[0, 0].tolist(),
                "weights": trace.weights[0, 0].tolist(),
                "table": table.tolist(),
                "found": found.tolist(),
                "logits": logits.tolist(),
                "next": int(logits.argmax()),
            }
        )
        words.append(steps[-1]["next"])
    return steps


def _apart(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Return the greatest difference between two ways of computing one step."""
    a, b = (
        torch.tensor([*step["weights"][-1], *step["logits"]], dtype=torch.float64)
        for step in (one, other)
    )  # (S + vocabulary,) each
    return (a - b).abs().max().item()


def _embeddings() -> Tensor:
    """Return each word as a 1 in its own place, (vocabulary, d_model)."""
    return torch.eye(D_MODEL, dtype=torch.float64)


def _follows() -> Tensor:
    """Row: a word; column: 1 for the word that comes next, (vocabulary, vocabulary)."""
    return _table(dict.fromkeys(FOLLOWS.items(), 1.0))


def _projections() -> dict[str, Tensor]:
    """W_Q to W_O, each (d_model, d_model): a word's key and value are the word itself."""
    word = _embeddings()
    return {"W_Q": _table(ASKS), "W_K": word, "W_V": word, "W_O": _table(SPEAKS)}


def _layer() -> MultiHeadAttention:
    """Return the layer of attention that holds these matrices."""
    layer = MultiHeadAttention(D_MODEL, 1, bias=False, causal=True, dtype=torch.float64)
    linears: list[nn.Linear] = [layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj]
    with torch.no_grad():
        for linear, matrix in zip(linears, _projections().values(), strict=True):
            # nn.Linear multiplies by its weight transposed.
            linear.weight.copy_(matrix.T)
    return layer


def _table(entries: dict[tuple[str, str], float]) -> Tensor:
    """Return zeros with these entries, by row and column word, (vocabulary, vocabulary)."""
    table = torch.zeros(D_MODEL, D_MODEL, dtype=torch.float64)
    for (row, column), number in entries.items():
        table[VOCABULARY.index(row), VOCABULARY.index(column)] = number
    return table
