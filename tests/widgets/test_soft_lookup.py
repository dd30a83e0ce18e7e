"""The soft lookup's Python side: scores, weights and blend, beside what a hard lookup finds."""

import json
import math
import re
from typing import Any

import pytest

from mha_lib.widgets import SoftLookup
from mha_lib.widgets.soft_lookup import DICTIONARY, SCALES
from tests.widgets.refusals import assert_refused

NORTH, EAST, SOUTH, WEST = range(4)
# In whole tenths, as the sliders give them.
QUERIES = [[x / 10, y / 10] for x in range(-10, 11, 2) for y in range(-10, 11)]


def test_it_opens_with_an_answer_that_no_key_has() -> None:
    result = SoftLookup().result
    assert (result["exact"], result["nearest"]) == (-1, [EAST])
    assert DICTIONARY[NORTH].value < result["answer"] < DICTIONARY[EAST].value - 1


@pytest.mark.parametrize("query", [[0.8, 0.6], [0.0, 0.0], [-1.0, 1.0], [0.25, -0.7]])
@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0, 64.0])
def test_every_number_follows_the_formula(query: list[float], scale: float) -> None:
    result = SoftLookup(query=query, scale=scale).result
    scores = [scale * sum(a * b for a, b in zip(query, e.key, strict=True)) for e in DICTIONARY]
    powers = [math.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]
    answer = sum(weight * e.value for weight, e in zip(weights, DICTIONARY, strict=True))
    assert (result["query"], result["scale"]) == (query, scale)
    assert result["scores"] == pytest.approx(scores, abs=1e-12)
    assert result["weights"] == pytest.approx(weights, abs=1e-12)
    assert result["answer"] == pytest.approx(answer, abs=1e-12)


def test_at_the_greatest_sharpness_soft_and_nearest_agree_wherever_one_key_is_nearest() -> None:
    demo = SoftLookup(scale=SCALES[-1])
    ties = 0
    for query in QUERIES:
        demo.query = query
        nearest, answer = demo.result["nearest"], demo.result["answer"]
        values = [DICTIONARY[key].value for key in nearest]
        ties += len(values) > 1
        assert answer == pytest.approx(sum(values) / len(values), abs=0.05), query
    assert 0 < ties < len(QUERIES) / 5


def test_with_sharpness_0_the_query_does_not_matter() -> None:
    demo = SoftLookup(scale=0.0)
    for query in ([0.0, 1.0], [-0.3, 0.9]):
        demo.query = query
        assert demo.result["weights"] == [0.25] * 4
        assert demo.result["answer"] == 14


def test_a_query_that_is_a_key_is_found_and_a_soft_lookup_still_blends() -> None:
    for place, entry in enumerate(DICTIONARY):
        demo = SoftLookup(query=list(entry.key), scale=1.0)
        assert (demo.result["exact"], demo.result["nearest"]) == (place, [place])
        assert abs(demo.result["answer"] - entry.value) > 1


def test_the_keys_are_equally_long_so_the_nearest_has_the_largest_score() -> None:
    assert {math.hypot(*entry.key) for entry in DICTIONARY} == {1.0}


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("query", [0.5], "give how far east, then how far north"),
        ("query", [0.5, 1.5], "is not two numbers from -1 to 1"),
        ("query", [math.nan, 0.0], "is not two numbers from -1 to 1"),
        ("scale", -1.0, "is outside 0 to 64; give a number between them"),
        ("scale", 65.0, "is outside 0 to 64"),
        ("scale", math.nan, "is outside 0 to 64"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(name: str, value: Any, way_out: str) -> None:
    assert_refused(SoftLookup, name, value, way_out)


def test_the_site_carries_inputs_result_and_a_fallback_without_sentences() -> None:
    demo = SoftLookup()
    assert '"query": [0.8, 0.6]' in demo.static_html()
    pieces = [piece for piece in re.split(r"<[^>]*>", demo.fallback()) if piece]
    assert pieces[4:8] == ["north", "4", "1.20", "0.38"]
    assert pieces[-3:] == ["Σ", "8.4", "1"]
    json.dumps(demo.get_state(["result", "recipe"]), allow_nan=False)
