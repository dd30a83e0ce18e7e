"""Handwritten digits, and a small Vision Transformer (Dosovitskiy et al. 2021) that reads them.

The digits are those that scikit-learn carries, 8 by 8 pixels: 1,797 of the *Optical recognition of
handwritten digits* of the UCI repository (Alpaydin and Kaynak 1998, CC BY 4.0). Nothing is
downloaded.

Letters in shapes: B batch, C = 1 channel, N = 17 tokens (the class token and 16 patches), h heads.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_lib.experiments.training import Progress, Way, one_thread, seeded, train
from mha_lib.models import Encoder, PatchEmbedding

SIZE, PATCH, KINDS = 8, 2, 10
BRIGHTEST = 16  # pixels go from 0, paper, to 16, ink
HELD_OUT = 360  # the last ones, about a fifth: a model never trains on them


class Digits(NamedTuple):
    """Images (B, C, 8, 8), from 0 to 1, and which digit each shows, (B,)."""

    images: Tensor
    labels: Tensor


@cache
def load() -> tuple[Digits, Digits]:
    """Return the digits to train on and those held out.

    Raises:
        ImportError: scikit-learn is not installed.

    >>> known, held_out = load()
    >>> tuple(known.images.shape), tuple(held_out.labels.shape)
    ((1437, 1, 8, 8), (360,))
    """
    try:
        from sklearn.datasets import load_digits  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            'the digits come with scikit-learn, which is an extra: pip install "mha-course[digits]"'
        ) from None
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None] / BRIGHTEST  # (B, C, 8, 8)
    labels = torch.tensor(found.target)  # (B,)
    return (
        Digits(images[:-HELD_OUT], labels[:-HELD_OUT]),
        Digits(images[-HELD_OUT:], labels[-HELD_OUT:]),
    )


class DigitModel(nn.Module):
    """A Vision Transformer that says which digit an image shows.

    Args:
        num_heads: How many heads each layer has.
        num_layers: How many layers.
        embed_dim: Width of a token, d_model.

    >>> DigitModel()(torch.zeros(2, 1, 8, 8)).shape  # (B, C, H, W) -> (B, 10), logits
    torch.Size([2, 10])
    """

    def __init__(self, num_heads: int = 4, num_layers: int = 2, *, embed_dim: int = 32) -> None:
        super().__init__()
        self.patches = PatchEmbedding(embed_dim, PATCH, channels=1, class_token=True)
        self.encoder = Encoder(
            embed_dim,
            num_heads,
            num_layers,
            positions="learned",
            max_length=1 + (SIZE // PATCH) ** 2,
            mlp_dim=2 * embed_dim,
        )
        self.head = nn.Linear(embed_dim, KINDS)

    def forward(self, images: Tensor) -> Tensor:
        """Read (B, C, 8, 8), and name the digit from the class token: (B, 10), logits."""
        tokens = self.encoder(self.patches(images))  # (B, N, d_model)
        logits: Tensor = self.head(tokens[:, 0])
        return logits


@one_thread()
def accuracy(model: DigitModel) -> float:
    """Measure how many of the held-out digits the model names rightly.

    >>> 0 <= accuracy(DigitModel()) <= 1
    True
    """
    held_out = load()[1]
    device = model.head.weight.device
    with torch.no_grad():
        named = model(held_out.images.to(device)).argmax(dim=-1).cpu()  # (B,)
    return float((named == held_out.labels).float().mean())


def train_digits(
    num_heads: int = 4,
    *,
    seed: int = 0,
    steps: int = 400,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[DigitModel, Way]:
    """Train a model on all digits but those held out.

    Args:
        num_heads: How many heads each of its 2 layers has.
        seed: Decides the weights at the start and the order of the digits.
        steps: How many batches of 64 digits.
        device: "cuda" trains on a GPU.
        progress: See `train`.

    Returns:
        The model, and how it went; the one score is the accuracy on held-out digits.

    >>> model, way = train_digits(steps=2)
    >>> len(model.encoder.blocks), way.curve
    (2, [])
    """
    known = load()[0]
    with seeded(seed) as generator:
        model = DigitModel(num_heads).to(device)

        def loss() -> Tensor:
            drawn = torch.randint(len(known.labels), (64,), generator=generator)  # (B,)
            logits = model(known.images[drawn].to(device))  # (B, 10)
            return F.cross_entropy(logits, known.labels[drawn].to(device))

        way = train(
            model,
            loss,
            lambda: (accuracy(model),),
            steps=steps,
            learning_rate=3e-3,
            weight_decay=0.05,
            decay=True,
            progress=progress,
        )
    return model, way
