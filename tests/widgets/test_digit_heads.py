"""The Python side of DigitHeads, and the model behind it."""

from collections.abc import Callable

import pytest
import torch
import traitlets

from mha_lib.blocks import traced
from mha_lib.experiments import digits
from mha_lib.experiments.digits import DigitModel
from mha_lib.widgets import DigitHeads
from mha_lib.widgets.digit_heads import SIGNS


@pytest.fixture(scope="module")
def model() -> DigitModel:
    return digits.train_digits(steps=100)[0]


def test_no_digit_is_both_trained_on_and_held_out() -> None:
    known, held_out = digits.load()
    assert known.images.shape == (1437, 1, 8, 8)
    assert held_out.images.shape == (360, 1, 8, 8)
    for part in (known, held_out):
        assert (part.images.min(), part.images.max()) == (0, 1)
        assert part.labels.unique().tolist() == list(range(10))
    twins = torch.cdist(held_out.images.flatten(1), known.images.flatten(1))
    assert twins.min() > 0


def test_without_scikit_learn_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sklearn.datasets", None)
    digits.load.cache_clear()
    with pytest.raises(ImportError, match=r"mha-course\[digits\]"):
        digits.load()


def test_it_learns_to_read_digits_that_it_has_not_seen(model: DigitModel) -> None:
    assert digits.accuracy(DigitModel()) < 0.25
    assert digits.accuracy(model) > 0.4


def test_it_tells_what_the_model_says(model: DigitModel) -> None:
    demo = DigitHeads(model, digit=5, query=7)
    (image,) = (entry["pixels"] for entry in demo.recipe["digits"][5:6])
    pixels = torch.tensor([[SIGNS.index(sign) for sign in row] for row in image]) / 16
    with torch.no_grad(), traced(model) as traces:
        chances = model(pixels[None, None]).softmax(dim=-1)[0]
    # Rounding to 8 bits is all that lies between the model and the page.
    torch.testing.assert_close(torch.tensor(demo.result["chances"]), chances, atol=6e-2, rtol=0)
    for mine, trace in zip(demo.result["weights"], traces.values(), strict=True):
        torch.testing.assert_close(torch.tensor(mine), trace.weights[0, :, 7], atol=6e-2, rtol=0)


def test_one_digit_of_each_kind_is_offered_then_mistakes(model: DigitModel) -> None:
    demo = DigitHeads(model)
    offered = demo.recipe["digits"]
    assert [entry["shows"] for entry in offered[:10]] == list(range(10))
    assert [entry["wrong"] for entry in offered[10:]] == [True, True]
    for place, entry in enumerate(offered):
        demo.digit = place
        chances = demo.result["chances"]
        assert (chances.index(max(chances)) != entry["shows"]) == entry["wrong"]


def test_it_opens_where_the_class_token_looks_most_at_one_patch(model: DigitModel) -> None:
    demo = DigitHeads(model)
    most = [max(weights[1:]) for weights in demo.result["weights"][1]]
    assert (demo.layer, demo.head, demo.query) == (1, most.index(max(most)), 0)
    assert demo.fallback().count("<td>") == 16


@pytest.mark.parametrize(
    "wrong", [{"digit": 12}, {"layer": 2}, {"head": -1}, {"query": 17}], ids=str
)
def test_other_values_are_refused(model: DigitModel, wrong: dict[str, int]) -> None:
    make: Callable[[], DigitHeads] = lambda: DigitHeads(model, **wrong)  # noqa: E731
    with pytest.raises(traitlets.TraitError):
        make()
