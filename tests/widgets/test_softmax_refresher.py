"""The softmax refresher's Python side: what it answers is the formula."""

import json
import math
import re
from typing import Any

import pytest
import torch
import traitlets

from mha_lib.widgets import SoftmaxRefresher, assets
from mha_lib.widgets.softmax_refresher import GREATEST, LEAST, OPENING

NUMBERS = [list(OPENING), [0.0] * 4, [5.0, -5.0, 0.3, 1.5], [LEAST] * 4, [GREATEST] * 4]


@pytest.mark.parametrize("numbers", NUMBERS)
def test_every_number_follows_the_formula(numbers: list[float]) -> None:
    result = SoftmaxRefresher(numbers=numbers).result
    powers = [math.exp(number) for number in numbers]
    assert result["numbers"] == numbers
    assert result["powers"] == pytest.approx(powers, rel=1e-12)
    assert result["total"] == pytest.approx(sum(powers), rel=1e-12)
    assert result["weights"] == pytest.approx([power / sum(powers) for power in powers], rel=1e-12)
    assert sum(result["weights"]) == pytest.approx(1, abs=1e-12)


def test_the_same_added_to_all_changes_no_weight() -> None:
    demo = SoftmaxRefresher()
    before = demo.result
    demo.numbers = [number + 1 for number in OPENING]
    assert demo.result["weights"] == pytest.approx(before["weights"], abs=1e-12)
    assert demo.result["total"] == pytest.approx(math.e * before["total"])


@pytest.mark.parametrize(
    ("numbers", "way_out"),
    [
        ([1.0, 2.0], "holds 2 numbers; give 4"),
        ([0.0, 0.0, 0.0, 5.5], "must be between -5 and 5"),
        ([math.nan, 0.0, 0.0, 0.0], "must be between -5 and 5"),
        ("many", "expected a float"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(numbers: Any, way_out: str) -> None:
    demo = SoftmaxRefresher()
    with pytest.raises(traitlets.TraitError, match=way_out):
        demo.numbers = numbers
    with pytest.raises(traitlets.TraitError, match=way_out):
        SoftmaxRefresher(numbers=numbers)


def test_the_site_carries_inputs_result_and_a_fallback_without_words() -> None:
    demo = SoftmaxRefresher()
    assert '"numbers": [2.0, 1.0, 0.0, -1.0]' in demo.static_html()
    pieces = [piece for piece in re.split(r"<[^>]*>", demo.fallback()) if piece]
    assert pieces[:4] == ["x", "e", "x", "softmax"]
    assert pieces[4:7] == ["2", "7.39", "0.64"]
    assert pieces[-3:] == ["+", "11.48", "1.00"]
    json.dumps(demo.get_state(["result", "recipe"]), allow_nan=False)


def test_quiz_numbers_are_those_of_the_formula() -> None:
    asked = assets.quiz_text("refresher", "en")["questions"]
    answers = {each["id"]: each["answer"] for each in asked if each["kind"] == "number"}
    assert answers == {
        "dot-product": torch.tensor([2.0, 0, 3]) @ torch.tensor([1.0, 5, 4]),
        "one-number": (torch.tensor([[1.0, 2], [3, 4]]) @ torch.tensor([[5.0, 6], [7, 8]]))[1, 0],
    }
    # Powers 6, 3 and 1: the largest number has 6 of 10 parts.
    assert torch.tensor([6.0, 3, 1]).log().softmax(0)[0].item() == pytest.approx(0.6)
