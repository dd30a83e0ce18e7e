"""The Python side of the demos of real models: what they take from the file, and live readings."""

import base64
import json

import numpy as np
import pytest
import torch
import traitlets

from mha_lib.pretrained import LayerTrace, Reading
from mha_lib.pretrained.relations import mean_weight
from mha_lib.widgets import HeadPruning, MeaningByLayer, RealHeads, assets


def read(rows: torch.Tensor, sentence: str = "a b", model: str = "mine") -> Reading:
    """A reading of [CLS] a b by a model of (layers, h) heads, with these weights."""
    x = torch.zeros(1, 3, 4)
    names, special = ("[CLS]", "a", "b"), (True, False, False)
    layers = tuple(LayerTrace(x, layer[None], x) for layer in rows)
    return Reading(model, sentence, names, names, special, (None, 0, 1), layers)


@pytest.fixture
def reading() -> Reading:
    return read(torch.rand(2, 3, 3, 3, dtype=torch.float64).softmax(dim=-1))


def test_every_sentence_of_the_file_can_be_chosen() -> None:
    demo = RealHeads(language="en")
    for place, sentence in enumerate(demo.recipe["sentences"]):
        demo.set_trait("layer", 0)
        demo.set_trait("query", 0)
        demo.set_trait("sentence", place)
        count = len(sentence["tokens"])
        assert np.shape(demo.result["shown"]) == (count, count)
        assert demo.result["relations"]["previous"]["best"]
    assert demo.recipe["date"] == assets.real_heads()["date"]


def test_what_is_shown_of_a_live_reading_is_the_library_s(reading: Reading) -> None:
    demo = RealHeads(reading, layer=1, head=2, words_only=True, language="en")
    shown, left_out = reading.without_special()
    half_a_step = 0.5 / 255
    # A row of what is left is divided by its sum, so rounding counts for as much more.
    close = {"atol": 8 * half_a_step, "rtol": 0}
    torch.testing.assert_close(torch.tensor(demo.result["shown"]).double(), shown[1, 2], **close)
    torch.testing.assert_close(
        torch.tensor(demo.result["left_out"]).double(), left_out[1, 2], **close
    )
    for name in ("previous", "next", "itself", "first"):
        score = mean_weight(name, [reading])
        assert demo.result["here"][name] == pytest.approx(score.heads[1][2], abs=half_a_step)
    assert demo.result["here"]["last"] is None
    assert demo.result["relations"] == {}
    steps = np.frombuffer(base64.b64decode(demo.result["weights"]), np.uint8).reshape(2, 3, 3, 3)
    assert np.abs(steps / 255 - reading.weights.numpy()).max() <= half_a_step + 1e-9


def test_the_courses_scores_are_not_told_of_a_reading_of_ones_own(reading: Reading) -> None:
    own = read(reading.weights, model="all-MiniLM-L6-v2")
    demo = RealHeads(own, language="en")
    assert demo.result["relations"] == {}
    assert "<td>" not in demo.fallback()


def test_readings_of_several_models_stand_side_by_side(reading: Reading) -> None:
    other = read(torch.full((1, 4, 3, 3), 1 / 3), "a b again", "theirs")
    demo = RealHeads(reading, other, reading, language="en")
    assert [model["heads"] for model in demo.recipe["models"]] == [3, 4]
    assert [sentence["model"] for sentence in demo.recipe["sentences"]] == [0, 1, 0]
    demo.sentence = 1
    demo.head = 3
    assert demo.result["shown"][0] == pytest.approx([1 / 3] * 3)


def test_a_head_that_is_not_there_is_told(reading: Reading) -> None:
    demo = RealHeads(reading, language="en")
    demo.layer = 2
    assert demo.result == {"error": "layer=2 is not there; it goes from 0 to 1"}
    assert RealHeads(reading, query=3).result["error"].startswith("query=3 is not there")


def test_the_page_holds_no_weights_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_STATIC", "1")
    demo = RealHeads(language="en")
    assert demo.result == {}
    html = demo.static_html()
    assert len(html) < 10_000
    assert "<td>0.2</td>" in demo.fallback()  # the head of the token before
    parts = assets.data_files()
    for model in demo.recipe["models"]:
        assert model["name"] in parts
    files = assets.site_assets()
    for name, data in parts.items():
        assert files[f"mha/data/{name}.js"].endswith(f"{json.dumps(data, ensure_ascii=False)});\n")
        if isinstance(data, str):
            assert data not in html


def test_each_layer_and_each_step_is_what_was_measured() -> None:
    meaning = MeaningByLayer(language="en")
    for layer, (same, other, nearest) in enumerate(meaning.recipe["apart"]):
        meaning.layer = layer
        found = (meaning.result["same"], meaning.result["other"], meaning.result["nearest"])
        assert found == (same, other, nearest)
        table = torch.tensor(meaning.result["table"])
        assert torch.equal(table, table.mT)
        assert torch.equal(table.diag(), torch.ones(8))
    pruning = HeadPruning(language="en")
    for name, order in pruning.recipe["orders"].items():
        pruning.order = name
        for steps, task in enumerate(order["task"]):
            pruning.steps = steps
            assert pruning.result["task"] == task
            assert pruning.result["off"] == order["heads"][: 8 * steps]
    with pytest.raises(traitlets.TraitError):
        HeadPruning(order="best")
    with pytest.raises(traitlets.TraitError):
        MeaningByLayer(layer=7)
