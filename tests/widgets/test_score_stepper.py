"""The score stepper's Python side: what it answers is the formula, and its draw tells the truth."""

import itertools
import json
import math
import statistics

import pytest
import torch
import traitlets

from mha_lib.widgets import ScoreStepper, assets
from mha_lib.widgets.score_stepper import NUM_KEYS, WIDTHS

EACH = ("scores", "scaled", "weights", "slopes")


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("d_k", WIDTHS)
def test_every_number_follows_the_formula(d_k: int, scale: bool) -> None:
    demo = ScoreStepper(d_k=d_k, scale=scale)
    for temperature in (0.25, 1.0, 8.0):
        demo.temperature = temperature
        query, *keys = [row[:d_k] for row in (demo.recipe["query"], *demo.recipe["keys"])]
        scores = [dot(query, key) for key in keys]
        divisor = (math.sqrt(d_k) if scale else 1) * temperature
        scaled = [score / divisor for score in scores]
        powers = [math.exp(each - max(scaled)) for each in scaled]
        weights = [power / sum(powers) for power in powers]
        expected = {
            "scores": scores,
            "scaled": scaled,
            "weights": weights,
            "slopes": [weight * (1 - weight) for weight in weights],
        }
        for name, row in expected.items():
            assert demo.result[name] == pytest.approx(row, abs=1e-9), name
        entropy = -sum(weight * math.log(weight) for weight in weights if weight)
        assert demo.result["entropy"] == pytest.approx(entropy, abs=1e-9)
        assert (demo.result["d_k"], demo.result["divisor"]) == (d_k, pytest.approx(divisor))


def dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_a_slope_is_what_a_nudge_to_the_scaled_score_does() -> None:
    result = ScoreStepper(d_k=8, scale=True).result
    nudge = 1e-6
    for key in range(NUM_KEYS):
        scaled = torch.tensor(result["scaled"], dtype=torch.float64)
        scaled[key] += nudge
        moved = scaled.softmax(-1)[key].item() - result["weights"][key]
        assert moved / nudge == pytest.approx(result["slopes"][key], abs=1e-5)


def test_a_temperature_of_the_root_of_d_k_is_the_scale() -> None:
    cool = ScoreStepper(d_k=64, scale=True).result
    assert ScoreStepper(d_k=64, scale=False, temperature=8).result == cool


def test_the_draw_is_of_mean_0_and_variance_1_with_one_decimal() -> None:
    recipe = ScoreStepper().recipe
    rows = [recipe["query"], *recipe["keys"]]
    assert [len(row) for row in rows] == [WIDTHS[-1]] * (1 + NUM_KEYS)
    numbers = list(itertools.chain(*rows))
    assert abs(statistics.fmean(numbers)) < 0.05
    assert statistics.pvariance(numbers) == pytest.approx(1, abs=0.05)
    assert all(number == round(number, 1) for number in numbers)


def test_the_draw_is_as_typical_as_the_note_says() -> None:
    """At no width is its greatest weight far from the median of 200 other draws."""
    numbers = torch.Generator().manual_seed(1)
    q = torch.randn(200, 1, WIDTHS[-1], generator=numbers)
    k = torch.randn(200, NUM_KEYS, WIDTHS[-1], generator=numbers)
    for d_k in WIDTHS:
        scores = (q[..., :d_k] @ k[..., :d_k].mT)[:, 0]
        for scale, rows in ((False, scores), (True, scores / math.sqrt(d_k))):
            usual = rows.softmax(-1).amax(-1).median().item()
            ours = max(ScoreStepper(d_k=d_k, scale=scale).result["weights"])
            assert ours == pytest.approx(usual, abs=0.2), (d_k, scale)


def test_what_the_chapter_says_was_just_seen() -> None:
    """Without the scale one key takes all as d_k grows; with it the weights stay as they are."""
    sharpest = {d_k: max(ScoreStepper(d_k=d_k).result["weights"]) for d_k in WIDTHS}
    assert sharpest[4] < 0.6
    assert sharpest[64] > 0.98
    assert sharpest[1024] > 0.999
    # The row that is named as an exception.
    assert 0.9 < sharpest[256] < 0.95
    assert max(ScoreStepper(d_k=256).result["slopes"]) > 0.05
    for d_k in WIDTHS:
        result = ScoreStepper(d_k=d_k, scale=True).result
        assert 0.25 < max(result["weights"]) < 0.5
        assert max(result["slopes"]) > 0.2


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("d_k", 5, "4, 8, 16"),
        ("temperature", 0.0, "outside 0.25 to 8"),
        ("temperature", 9.0, "outside 0.25 to 8"),
        ("temperature", math.nan, "outside 0.25 to 8"),
        ("key", 5, "outside 0 to 4"),
        ("key", -1, "outside 0 to 4"),
        ("scale", "yes", "boolean"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_the_way_out(
    name: str, value: object, way_out: str
) -> None:
    demo = ScoreStepper()
    with pytest.raises(traitlets.TraitError, match=way_out):
        setattr(demo, name, value)
    with pytest.raises(traitlets.TraitError, match=way_out):
        ScoreStepper(**{name: value})


def test_the_site_carries_inputs_result_and_a_fallback_without_words() -> None:
    demo = ScoreStepper()
    html = demo.static_html()
    assert 'score_stepper.js" data-texts' in html
    assert '"d_k": 64, "scale": false' in html
    assert "<td>10.10</td><td>10.10</td><td>0.986</td>" in demo.fallback()
    assert len(html) < 50_000
    json.dumps(demo.get_state(["result", "recipe"]), allow_nan=False)


def test_quiz_numbers_are_those_of_the_formula() -> None:
    asked = assets.quiz_text("scaled-dot-product", "en")["questions"]
    answers = {each["id"]: each["answer"] for each in asked if each["kind"] == "number"}
    q, k = torch.tensor([2.0, 1.0, 0.0, 3.0]), torch.tensor([1.0, 4.0, 5.0, 2.0])
    assert answers["scaled-score"] == (q @ k / math.sqrt(4)).item()
    # Two keys, the scaled scores ln 3 apart: the weights stand as 3 to 1.
    weights = torch.tensor([math.log(3), 0.0]).softmax(-1)
    assert answers["weighted-sum"] == pytest.approx((weights @ torch.tensor([8.0, 4.0])).item())
