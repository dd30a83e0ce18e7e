"""MaskPainter: who may look at whom, and what becomes of the weights?"""

from html import escape
from typing import Any

import torch
import traitlets
from torch import Tensor

from mha_lib import causal_mask, from_ignore_mask
from mha_lib.widgets import hand_set
from mha_lib.widgets.base import CourseWidget

SENTENCE = "The cat sat on the mat"
PAD = "[pad]"
HEAD = hand_set.HEADS.index("meaning")
# Gentler than the head explorer's, so that no row has all its weight on one or two words.
GAIN = 4.0
N = len(SENTENCE.split())
PADDED_LENGTH = 3
# Two weights that differ by less are the same: rounding alone makes them differ.
_SAME = 1e-9


class MaskPainter(CourseWidget):
    """One hand-set head under any mask: tick who may look at whom, see the rows of weights.

    Args:
        length: How many words of the sentence are real; the others are padding.
        reading: What a ticked entry of the mask means: "keep", as everywhere in mha_lib, or
            "ignore", as in `torch.nn.MultiheadAttention`.
        when: Whether the mask is applied "before" the softmax (-inf) or "after" it (zeros),
            which is wrong.
        mask: (6, 6), booleans; rows are queries, columns keys.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `keep` (who may look at whom, whatever the reading), `scores` and `weights`,
    each (N, N), by `MultiHeadAttention`; `sums` (N,) of the rows; and the numbers of the rows
    that are `blind` (they may look at nothing) or that `leak` (they change when the score of a
    word that they may not look at changes).

    >>> demo = MaskPainter(when="after")
    >>> [round(total, 2) for total in demo.result["sums"]]
    [0.17, 0.14, 0.5, 0.67, 0.83, 1.0]
    """

    module = "mask_painter.js"
    inputs = ("length", "reading", "when", "mask")
    constants = ("recipe",)

    length = traitlets.Int(N).tag(sync=True)
    reading = traitlets.Enum(("keep", "ignore"), "keep").tag(sync=True)
    when = traitlets.Enum(("before", "after"), "before").tag(sync=True)
    mask = traitlets.List(traitlets.List(traitlets.Bool())).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Run the head under the mask, and once more with the hidden scores changed."""
        mask = torch.tensor(self.mask)  # (N, N)
        keep = from_ignore_mask(mask) if self.reading == "ignore" else mask
        scores, weights = self._attend(keep, hidden_scores_rise=0.0)
        _, others = self._attend(keep, hidden_scores_rise=1.0)
        leaks = (weights - others).abs().amax(dim=-1) > _SAME  # (N,)
        return {
            "length": self.length,
            "keep": keep.tolist(),
            "scores": scores.tolist(),
            "weights": weights.tolist(),
            "sums": weights.sum(dim=-1).tolist(),
            "blind": _numbers(~keep.any(dim=-1)),
            "leaks": _numbers(leaks),
        }

    def _attend(self, keep: Tensor, hidden_scores_rise: float) -> tuple[Tensor, Tensor]:
        """Return the head's scores and weights, each (N, N)."""
        edit = {"scores": lambda scores: scores + hidden_scores_rise * ~keep}
        mask = None
        if self.when == "before":
            # A causal mask turned round is refused where it comes alone. Here it is to be seen,
            # so it comes in a batch with one that hides nothing.
            mask = torch.stack([keep, torch.ones_like(keep)])[:, None]  # (B, 1, N, N)
        else:
            edit["weights"] = lambda weights: weights * keep
        x = _features(self.length).expand(2, -1, -1)  # (B, N, d_model)
        with torch.no_grad():
            heads = hand_set.hand_set_heads([GAIN] * hand_set.NUM_HEADS)
            trace = heads(x, mask=mask, edit=edit, trace=True)
        return trace.scores[0, HEAD], trace.weights[0, HEAD]

    def fallback(self) -> str:
        """Return the weights and their sums as a table."""
        words = [
            f'<th lang="en" scope="{{scope}}">{escape(word)}</th>' for word in _words(self.length)
        ]
        head = "".join(word.format(scope="col") for word in words)
        rows = [f"<tr><td></td>{head}<td>Σ</td></tr>"]
        for word, row, total in zip(
            words, self.result["weights"], self.result["sums"], strict=True
        ):
            cells = "".join(f"<td>{number:.2f}</td>" for number in (*row, total))
            rows.append(f"<tr>{word.format(scope='row')}{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"

    @traitlets.default("mask")
    def _opening_mask(self) -> list[list[bool]]:
        mask: list[list[bool]] = causal_mask(N).tolist()
        return mask

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        with torch.no_grad():
            heads = hand_set.hand_set_heads([GAIN] * hand_set.NUM_HEADS)
            trace = heads(_features(N), trace=True)
        return {
            "words": _words(N),
            "pad": PAD,
            "queries": trace.q[0, HEAD].tolist(),  # (N, d_k)
            "keys": trace.k[0, HEAD].tolist(),  # (N, d_k)
            "padded_length": PADDED_LENGTH,
        }

    @traitlets.validate("length")
    def _check_length(self, proposal: dict[str, Any]) -> int:
        length: int = proposal["value"]
        if not 1 <= length <= N:
            raise traitlets.TraitError(
                f"length={length} is outside 1 to {N}; say how many of {SENTENCE!r}'s {N} words "
                "are real, the others are padding"
            )
        return length

    @traitlets.validate("mask")
    def _check_mask(self, proposal: dict[str, Any]) -> list[list[bool]]:
        mask: list[list[bool]] = proposal["value"]
        widths = sorted({len(row) for row in mask})
        if len(mask) != N or widths != [N]:
            raise traitlets.TraitError(
                f"mask has {len(mask)} rows of {widths} entries, but the sentence needs {N} rows "
                f"of {N}; start from mha_lib.causal_mask({N}).tolist()"
            )
        return mask


def _words(length: int) -> list[str]:
    words = SENTENCE.split()
    return [*words[:length], *[PAD] * (N - length)]


def _features(length: int) -> Tensor:
    """Return the words' vectors, (1, N, d_model); padding is all zeros."""
    x = hand_set.features(SENTENCE)  # (N, d_model)
    x[length:] = 0
    return x[None]


def _numbers(rows: Tensor) -> list[int]:
    numbers: list[int] = rows.nonzero().flatten().tolist()
    return numbers
