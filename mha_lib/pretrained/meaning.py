"""One word in two meanings: how far apart a model puts them, layer by layer.

At layer 0 a word's vector is its own in the table of embeddings, with its place in the sentence
added: the same word is nearly the same everywhere. What differs further up, attention has brought.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_lib.pretrained.reading import Reading
from mha_lib.pretrained.relations import LABELLED

WORD = "bank"


class Use(NamedTuple):
    """A sentence with the word in it, and which of its meanings it has there.

    >>> Use("river", "The bank was muddy.").meaning
    'river'
    """

    meaning: str
    sentence: str


def uses() -> list[Use]:
    """Read the labelled sentences.

    >>> [use.meaning for use in uses()].count("river")
    4
    """
    lines = (LABELLED / "bank.txt").read_text("utf-8").splitlines()
    return [Use(*line.split(" | ")) for line in lines if not line.startswith("#")]


def word_vectors(reading: Reading, word: str) -> Tensor:
    """Return a word's vector before the first layer and after each, (layers + 1, d_model).

    Raises:
        ValueError: The word is not one token, or stands there more than once.
    """
    at = [i for i, piece in enumerate(reading.pieces) if piece.lower() == word]
    if len(at) != 1:
        raise ValueError(
            f"{word!r} is {len(at)} tokens of {reading.tokens}; choose a sentence that has it "
            "once, and a word that the model does not cut"
        )
    states = [reading.layers[0].input, *(layer.output for layer in reading.layers)]
    return torch.stack([state[0, at[0]] for state in states])


def cosines(rows: Tensor) -> Tensor:
    """Return the cosine of each row with each, (..., n, n) of (..., n, d)."""
    units = rows / rows.norm(dim=-1, keepdim=True)
    table: Tensor = units @ units.mT
    return table


class Apart(NamedTuple):
    """How far apart two meanings are, at one layer.

    `same` is the mean cosine of two uses with one meaning, `other` of two with different ones;
    `nearest` says of how many uses the nearest other use has the same meaning.

    >>> Apart(0.9, 0.8, 8).nearest
    8
    """

    same: float
    other: float
    nearest: int


def apart(table: Tensor, meanings: Sequence[str]) -> Apart:
    """Compare the cosines within meanings and between them.

    Args:
        table: (n, n), cosines.
        meanings: For each of the n uses, its meaning.

    >>> apart(torch.tensor([[1.0, 0.9, 0.5], [0.9, 1.0, 0.5], [0.5, 0.5, 1.0]]), "aab").nearest
    2
    """
    alike = torch.tensor([[a == b for b in meanings] for a in meanings])  # (n, n)
    pairs = ~torch.eye(len(meanings), dtype=torch.bool)
    nearest = table.masked_fill(~pairs, -torch.inf).argmax(dim=-1)  # (n)
    right = alike[torch.arange(len(meanings)), nearest]
    same, other = (float(table[chosen].mean()) for chosen in (pairs & alike, ~alike))
    return Apart(same, other, int(right.sum()))


def by_layer(read: Callable[[str], Reading]) -> dict[str, Any]:
    """Measure the word's uses at every layer.

    Returns:
        `word`; `uses`, meaning and sentence of each; `cosines`, (layers + 1, n, n); and `apart`,
        for each of those layers what `Apart` says.
    """
    found = uses()
    vectors = torch.stack([word_vectors(read(use.sentence), WORD) for use in found], dim=1)
    tables = cosines(vectors)  # (layers + 1, n, d_model) -> (layers + 1, n, n)
    meanings = [use.meaning for use in found]
    return {
        "word": WORD,
        "uses": [list(use) for use in found],
        "cosines": tables.tolist(),
        "apart": [list(apart(table, meanings)) for table in tables],
    }
