"""A small picture, drawn by a few rules: what the chapters and demos show a model that sees.

It has sky with a sun, a sea with a boat, and a strip of grass. Each thing has one colour, so a
reader can tell what any patch of it shows.
"""

import torch
from torch import Tensor

SIZE = 32
"""Height and width in pixels."""

COLOURS: dict[str, tuple[float, float, float]] = {
    "sky": (0.60, 0.85, 1.00),
    "sun": (1.00, 0.85, 0.10),
    "sea": (0.05, 0.30, 0.60),
    "boat": (0.80, 0.15, 0.10),
    "grass": (0.15, 0.70, 0.15),
}
"""What there is in the picture, and the red, green and blue of it, each from 0 to 1."""


def things() -> list[list[str]]:
    """Return what each pixel belongs to, row by row: one of the names in `COLOURS`.

    >>> things()[0][0], things()[31][0]
    ('sky', 'grass')
    """
    return [[_thing(row, column) for column in range(SIZE)] for row in range(SIZE)]


def seaside(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the picture as a batch of one image: (1, 3, 32, 32), each number from 0 to 1.

    Args:
        dtype: What its numbers are.

    >>> seaside().shape
    torch.Size([1, 3, 32, 32])
    """
    pixels = [[COLOURS[thing] for thing in row] for row in things()]  # (H, W, C)
    return torch.tensor(pixels, dtype=dtype).permute(2, 0, 1)[None]  # (B, C, H, W)


def _thing(row: int, column: int) -> str:
    if row >= 28 - column // 8:
        return "grass"
    hull = 18 <= row <= 21 and row - 10 <= column <= 38 - row
    sail = 8 <= row <= 17 and 12 <= column <= 12 + (row - 8) // 2
    if hull or sail:
        return "boat"
    if row >= 14:
        return "sea"
    # The middle of the sun lies between four pixels.
    if (row - 5.5) ** 2 + (column - 26.5) ** 2 <= 4.6**2:
        return "sun"
    return "sky"
