"""The drawn picture: what is where, and that its two forms say the same."""

import torch

from mha_lib.widgets.picture import COLOURS, SIZE, seaside, things


def test_each_pixel_has_the_colour_of_what_it_belongs_to() -> None:
    image = seaside()
    assert image.shape == (1, 3, SIZE, SIZE)
    colours = torch.tensor([[COLOURS[thing] for thing in row] for row in things()])  # (H, W, C)
    torch.testing.assert_close(image[0], colours.permute(2, 0, 1))


def test_everything_is_in_it_where_it_belongs() -> None:
    where: dict[str, list[tuple[int, int]]] = {name: [] for name in COLOURS}
    for row, line in enumerate(things()):
        for column, thing in enumerate(line):
            where[thing].append((row, column))
    assert all(where.values())
    lowest = {name: max(row for row, _ in pixels) for name, pixels in where.items()}
    assert lowest["sun"] < lowest["sky"] < lowest["boat"] < lowest["sea"] < lowest["grass"]
    # The boat divides the sea, so what is alike stands apart.
    assert {things()[19][column] for column in (0, SIZE - 1)} == {"sea"}


def test_it_can_be_had_in_double_precision() -> None:
    assert seaside(torch.float64).dtype == torch.float64
