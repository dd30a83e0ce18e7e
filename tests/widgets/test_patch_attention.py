"""The picture's Python side: tokens by PatchEmbedding's rule, and who looks at which patch."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from mha_lib.widgets import PatchAttention
from mha_lib.widgets.patch_attention import GAINS, MIDDLE, PATCH_SIZES, WORDS
from mha_lib.widgets.picture import COLOURS, SIZE, seaside, things
from tests.widgets.refusals import assert_refused


def weights(demo: PatchAttention) -> Tensor:
    """The weights where their patches are: (H / p, W / p)."""
    across = SIZE // demo.patch_size
    return torch.tensor(demo.result["weights"], dtype=torch.float64).view(across, across)


def colours(patch_size: int) -> Tensor:
    """Each patch's mean colour from the middle, by pooling and not by patches: (N, 3)."""
    pooled = torch.nn.functional.avg_pool2d(seaside(torch.float64), patch_size)  # (1, 3, n, n)
    middle = torch.tensor(MIDDLE, dtype=torch.float64)
    return pooled.flatten(2)[0].T - middle


def share_of(thing: str, patch_size: int) -> Tensor:
    """How much of each patch a thing fills, from 0 to 1: (H / p, W / p)."""
    is_there = torch.tensor([[float(each == thing) for each in row] for row in things()])
    return torch.nn.functional.avg_pool2d(is_there[None], patch_size)[0]


@pytest.mark.parametrize("patch_size", PATCH_SIZES)
def test_every_patch_is_a_token_and_half_the_size_makes_four_times_as_many(patch_size: int) -> None:
    for kind in GAINS:
        demo = PatchAttention(patch_size=patch_size, kind=kind)
        assert len(demo.result["weights"]) == (SIZE // patch_size) ** 2
        assert sum(demo.result["weights"]) == pytest.approx(1)


@pytest.mark.parametrize("patch_size", PATCH_SIZES)
def test_the_scores_compare_mean_colours(patch_size: int) -> None:
    demo = PatchAttention(patch_size=patch_size, pixel=[SIZE - 1, SIZE - 1])
    tokens = colours(patch_size)
    assert demo.result["asks"] == len(tokens) - 1
    expected = GAINS["colour"] * tokens @ tokens[-1] / 3**0.5  # (N,)
    torch.testing.assert_close(torch.tensor(demo.result["scores"], dtype=torch.float64), expected)


def test_the_sea_finds_the_sea_on_the_other_side_of_the_boat() -> None:
    found = weights(PatchAttention())
    assert found[2, 0] == pytest.approx(float(found[2, 3]))
    assert found[2, 3] > 2 * found[2, 1:3].max()
    assert found[:2].sum() < 0.01  # neither sky nor sun


@pytest.mark.parametrize("patch_size", PATCH_SIZES)
@pytest.mark.parametrize("word", WORDS)
def test_a_word_finds_the_patches_that_show_it(word: str, patch_size: int) -> None:
    found = weights(PatchAttention(patch_size=patch_size, kind="word", word=word))
    row, column = divmod(int(found.argmax()), SIZE // patch_size)
    share = share_of(word, patch_size)
    assert share[row, column] == share.max()


@pytest.mark.parametrize("patch_size", PATCH_SIZES)
def test_a_patch_that_looks_for_its_place_finds_itself_then_its_neighbours(patch_size: int) -> None:
    demo = PatchAttention(patch_size=patch_size, kind="place", pixel=[9, 17])
    found = weights(demo)
    row, column = 9 // patch_size, 17 // patch_size
    near = [found[row + a, column + b] for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))]
    far = torch.cat([found[row + 2 :].flatten(), found[:, column + 2 :].flatten()])
    assert found.argmax() == demo.result["asks"]
    assert min(near) > far.max()
    torch.testing.assert_close(torch.stack(near), near[0].expand(4))


def test_what_a_patch_shows_does_not_matter_to_the_place_head() -> None:
    """Turned round by half, the picture's corners get each other's weights."""
    one, other = (weights(PatchAttention(kind="place", pixel=[at, at])) for at in (0, SIZE - 1))
    torch.testing.assert_close(one, other.flip(0, 1))


def test_the_pixel_keeps_its_place_when_patches_shrink() -> None:
    demo = PatchAttention(pixel=[17, 9])
    assert demo.result["asks"] == 2 * 4 + 1
    demo.patch_size = 4
    assert demo.result["asks"] == 4 * 8 + 2


def test_the_page_can_draw_the_picture_from_the_recipe() -> None:
    recipe = PatchAttention().recipe
    drawn = [[recipe["colours"][int(digit)] for digit in line] for line in recipe["pixels"]]
    torch.testing.assert_close(torch.tensor(drawn).permute(2, 0, 1), seaside()[0])
    assert recipe["words"] == list(COLOURS)


BAD = [
    ("patch_size", 5, "5"),
    ("kind", "shape", "colour"),
    ("word", "cat", "sun"),
    ("pixel", [32, 0], "pixel=[32, 0] is no place in the picture; give a row and a column, each"),
    ("pixel", [0, -1], "pixel=[0, -1] is no place in the picture"),
    ("pixel", [3], "such as [16, 0]"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(PatchAttention, name, value, message)


def test_the_fallback_shows_each_weight_at_its_place() -> None:
    rows = PatchAttention(kind="word", word="sun").fallback().split("<tr>")[1:]
    cells = [re.findall(r"<td>([^<]+)</td>", row) for row in rows]
    assert [len(row) for row in cells] == [4] * 4
    assert cells[0] == ["0.00", "0.00", "0.00", "0.99"]
