"""PatchAttention: a picture cut into patches. Which of them does a patch, or a word, look at?"""

import math
from typing import Any

import torch
import traitlets
from torch import Tensor

from mha_lib import attention
from mha_lib.models import PatchEmbedding
from mha_lib.widgets.base import CourseWidget
from mha_lib.widgets.picture import COLOURS, SIZE, seaside, things

PATCH_SIZES = (8, 4)
WORDS = tuple(COLOURS)
KINDS = ("colour", "place", "word")
# A colour is measured from here, so that unlike colours have products below 0. It lies between
# the picture's own.
MIDDLE = (0.45, 0.6, 0.6)
# Chosen by eye: lower, and the weights are nearly even; higher, and one patch takes everything.
GAINS = {"colour": 30.0, "place": 12.0, "word": 30.0}
D_COLOUR, D_PLACE = 3, 4
D_MODEL = D_COLOUR + D_PLACE
OPENING_PIXEL = [16, 0]  # in the sea, left of the boat


class PatchAttention(CourseWidget):
    """A small picture as patches, and one query that looks at all of them.

    A patch's token is its mean colour and its place, a word's the colour of what it names. One
    hand-set head compares colours, one compares places.

    Args:
        patch_size: Height and width of a patch in pixels, 8 or 4.
        kind: Who asks: a patch for its "colour", a patch for its "place", or a "word".
        pixel: Row and column of a pixel, each 0 to 31: the patch that holds it asks.
        word: The word that asks, one of `WORDS`.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the `kind`, the `patch_size`, `asks` (the number of the patch that asks, or
    the word) and, by `mha_lib.attention`, `scores` and `weights`, each (N,), the patches row by
    row.

    >>> demo = PatchAttention(kind="word", word="sun")
    >>> [round(weight, 2) for weight in demo.result["weights"][:4]]
    [0.0, 0.0, 0.0, 0.99]
    """

    module = "patch_attention.js"
    inputs = ("patch_size", "kind", "pixel", "word")
    constants = ("recipe",)

    patch_size = traitlets.Enum(PATCH_SIZES, PATCH_SIZES[0]).tag(sync=True)
    kind = traitlets.Enum(KINDS, KINDS[0]).tag(sync=True)
    pixel = traitlets.List(traitlets.Int(), OPENING_PIXEL).tag(sync=True)
    word = traitlets.Enum(WORDS, "sun").tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Let the patch or the word ask, and all patches answer, by mha_lib."""
        x = _tokens(self.patch_size)  # (N, d_model)
        row, column = (place // self.patch_size for place in self.pixel)
        patch = row * (SIZE // self.patch_size) + column
        asking = _word(self.word) if self.kind == "word" else x[patch]  # (d_model,)
        W_Q, W_K = _matrices(self.kind)
        q = asking[None] @ W_Q  # (1, d_k)
        k = x @ W_K  # (N, d_k)
        trace = attention(q[None, None], k[None, None], x[None, None], trace=True)
        return {
            "kind": self.kind,
            "patch_size": self.patch_size,
            "asks": self.word if self.kind == "word" else patch,
            "scores": trace.scores[0, 0, 0].tolist(),
            "weights": trace.weights[0, 0, 0].tolist(),
        }

    def fallback(self) -> str:
        """Return the weights as a table, each where its patch is in the picture."""
        across = SIZE // self.patch_size
        weights = [f"<td>{weight:.2f}</td>" for weight in self.result["weights"]]
        rows = ("".join(weights[start : start + across]) for start in range(0, across**2, across))
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            # Each pixel as a digit, its place among the colours: a sixth of the colours' length.
            "pixels": ["".join(str(WORDS.index(thing)) for thing in row) for row in things()],
            "colours": [list(colour) for colour in COLOURS.values()],
            "middle": list(MIDDLE),
            "words": list(WORDS),
            "patch_sizes": list(PATCH_SIZES),
            "kinds": list(KINDS),
            "matrices": {
                kind: dict(zip(("W_Q", "W_K"), (m.tolist() for m in _matrices(kind)), strict=True))
                for kind in KINDS
            },
        }

    @traitlets.validate("pixel")
    def _check_pixel(self, proposal: dict[str, Any]) -> list[int]:
        pixel: list[int] = proposal["value"]
        if len(pixel) != 2 or not all(0 <= place < SIZE for place in pixel):
            raise traitlets.TraitError(
                f"pixel={pixel} is no place in the picture; give a row and a column, each from 0 "
                f"to {SIZE - 1}, such as {OPENING_PIXEL}"
            )
        return pixel


def _tokens(patch_size: int) -> Tensor:
    """Each patch's mean colour, measured from the middle, and its place: (N, d_model)."""
    embedding = PatchEmbedding(D_MODEL, patch_size).double()
    area = patch_size**2
    eye = torch.eye(D_COLOUR, dtype=torch.float64)
    with torch.no_grad():
        embedding.projection.weight.zero_()
        embedding.projection.bias.zero_()
        mean = eye.repeat_interleave(area, dim=1) / area  # (3, 3 * p * p)
        embedding.projection.weight[:D_COLOUR] = mean
        embedding.projection.bias[:D_COLOUR] = -torch.tensor(MIDDLE, dtype=torch.float64)
        x: Tensor = embedding(seaside(torch.float64))[0]  # (N, d_model)
    x[:, D_COLOUR:] += _places(patch_size)
    return x


def _places(patch_size: int) -> Tensor:
    """Each patch's row and column as hands of two clocks: (N, 4).

    From the first edge to the last a hand goes half round, so the product of two patches is
    largest where they are near.
    """
    across = SIZE // patch_size
    middles = (torch.arange(across, dtype=torch.float64) + 0.5) * patch_size
    angle = middles / SIZE * math.pi  # (across,)
    rows, columns = angle.repeat_interleave(across), angle.repeat(across)  # (N,) each
    return torch.stack([rows.cos(), rows.sin(), columns.cos(), columns.sin()], dim=1)


def _word(word: str) -> Tensor:
    """The colour of what the word names, and no place: (d_model,)."""
    colour = torch.tensor(COLOURS[word], dtype=torch.float64)
    middle = torch.tensor(MIDDLE, dtype=torch.float64)
    return torch.cat([colour - middle, torch.zeros(D_PLACE, dtype=torch.float64)])


def _matrices(kind: str) -> tuple[Tensor, Tensor]:
    """W_Q and W_K, each (d_model, d_k): they pick the colour or the place, W_Q makes it larger."""
    eye = torch.eye(D_MODEL, dtype=torch.float64)
    pick = eye[:, D_COLOUR:] if kind == "place" else eye[:, :D_COLOUR]
    return GAINS[kind] * pick, pick
