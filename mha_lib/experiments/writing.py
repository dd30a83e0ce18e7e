"""A small decoder that learns to write on from a text, letter by letter.

The text is the course's own: plain sentences of its English chapters, frozen in `prose.txt` by
`python -m book.prose`. A token is a letter, so nothing but 32 signs has to be known.

Letters in shapes: B batch, N tokens, V = 32 signs, h heads.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_lib.experiments.training import Progress, Way, one_thread, seeded, train
from mha_lib.models import Decoder

ALPHABET = " abcdefghijklmnopqrstuvwxyz,.?'-"
LENGTH = 48  # letters that are read at once
_PROSE = Path(__file__).with_name("prose.txt")


class Prose(NamedTuple):
    """A text as numbers of letters: what is learned from, and the last tenth, held out."""

    known: Tensor
    held_out: Tensor


@cache
def load() -> Prose:
    """Return the text, its sentences one after another.

    >>> written(load().known[:65])
    'the address may have a typing error in it, or the page has moved.'
    """
    _, *lines = _PROSE.read_text("utf-8").splitlines()
    letters = spelled(" ".join(lines))
    part = len(letters) * 9 // 10
    return Prose(letters[:part], letters[part:])


def spelled(text: str) -> Tensor:
    """Return the numbers of a text's letters, (N,).

    Raises:
        ValueError: A letter that the model does not know.

    >>> spelled("a cab")
    tensor([1, 0, 3, 1, 2])
    """
    if others := sorted(set(text) - set(ALPHABET)):
        raise ValueError(f"the model knows no {others[0]!r}; it knows {ALPHABET!r}")
    return torch.tensor([ALPHABET.index(letter) for letter in text])


def written(letters: Tensor) -> str:
    """Return the text that numbers of letters, (N,), stand for.

    >>> written(torch.tensor([1, 0, 3, 1, 2]))
    'a cab'
    """
    return "".join(ALPHABET[number] for number in letters.tolist())


def make_writer(num_heads: int = 4, num_layers: int = 2, *, embed_dim: int = 40) -> Decoder:
    """Return a decoder for the alphabet, not trained.

    >>> sum(p.numel() for p in make_writer().parameters())
    27840
    """
    return Decoder(
        embed_dim,
        num_heads,
        num_layers,
        vocab_size=len(ALPHABET),
        tied=True,
        positions="rotary",
        mlp_dim=2 * embed_dim,
    )


@one_thread()
def accuracy(model: Decoder) -> float:
    """Measure how often the likeliest letter is the one that comes, in the text held out.

    >>> accuracy(make_writer()) < 0.3
    True
    """
    held_out = load().held_out
    rows = held_out[: len(held_out) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)  # (B, N+1)
    rows = rows.to(next(model.parameters()).device)
    with torch.no_grad():
        named = model(rows[:, :-1]).argmax(dim=-1)  # (B, N)
    return float((named == rows[:, 1:]).float().mean())


def pair_accuracy() -> float:
    """Return the accuracy of whoever knows the last letter alone, and what mostly follows it.

    >>> 0.2 < pair_accuracy() < 0.4
    True
    """
    known, held_out = load()
    pairs = torch.zeros(len(ALPHABET), len(ALPHABET))  # (V, V)
    one = torch.ones(len(known) - 1)
    pairs.index_put_((known[:-1], known[1:]), one, accumulate=True)
    usual = pairs.argmax(dim=1)  # (V,)
    return float((usual[held_out[:-1]] == held_out[1:]).float().mean())


def train_writer(
    num_heads: int = 4,
    *,
    seed: int = 0,
    steps: int = 400,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[Decoder, Way]:
    """Train a decoder to say at each letter which one comes next.

    Args:
        num_heads: How many heads each of its 2 layers has.
        seed: Decides the weights at the start and the pieces of text.
        steps: How many batches of 32 pieces.
        device: "cuda" trains on a GPU.
        progress: See `train`.

    Returns:
        The model, and how it went; the one score is the accuracy in the text held out.

    >>> model, way = train_writer(steps=2)
    >>> len(model.blocks), way.curve
    (2, [])
    """
    known = load().known
    with seeded(seed) as generator:
        model = make_writer(num_heads).to(device)

        def loss() -> Tensor:
            starts = torch.randint(len(known) - LENGTH, (32, 1), generator=generator)  # (B, 1)
            pieces = known[starts + torch.arange(LENGTH + 1)].to(device)  # (B, N + 1)
            logits = model(pieces[:, :-1])  # (B, N, V)
            return F.cross_entropy(logits.flatten(0, 1), pieces[:, 1:].flatten())

        way = train(
            model,
            loss,
            lambda: (accuracy(model),),
            steps=steps,
            learning_rate=5e-3,
            betas=(0.9, 0.98),
            weight_decay=0.05,
            decay=True,
            progress=progress,
        )
    return model, way
