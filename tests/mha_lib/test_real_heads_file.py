"""The committed file of real heads: what is in it, and that it can be made again."""

import base64
import gzip
import json

import numpy as np
import pytest

from mha_lib.pretrained.__main__ import main
from mha_lib.pretrained.export import FILE

HELD = json.loads(FILE.read_text("utf-8"))
MODELS = HELD["models"]
SENTENCES = [(model, each) for model in MODELS.values() for each in model["sentences"]]


def weights_of(model: dict, sentence: dict) -> np.ndarray:
    count = len(sentence["tokens"])
    steps = np.frombuffer(base64.b64decode(sentence["weights"]), np.uint8)
    return steps.reshape(model["layers"], model["heads"], count, count) / 255


def test_it_says_what_it_is_made_from_and_is_small() -> None:
    assert HELD["date"] == "2026-11-30"
    for model in MODELS.values():
        assert model["licence"] in ("Apache-2.0", "MIT")
        assert model["revision"].startswith("sha256 ")
        assert model["source"].count("/") == 1
    assert len(gzip.compress(FILE.read_bytes())) < 400_000


@pytest.mark.parametrize(("model", "sentence"), SENTENCES, ids=[s["name"] for _, s in SENTENCES])
def test_rows_sum_to_one_but_for_rounding(model: dict, sentence: dict) -> None:
    weights = weights_of(model, sentence)
    rounding = 0.5 / 255 * len(sentence["tokens"])
    assert np.abs(weights.sum(axis=-1) - 1).max() <= rounding


def test_the_heads_of_toi_yeu_viet_nam() -> None:
    model = MODELS["multilingual-e5-small"]
    [sentence] = [each for each in model["sentences"] if each["name"] == "viet-nam"]
    assert sentence["tokens"] == ["<s>", "Tôi", "yêu", "Việt", "Nam", "</s>"]
    weights = weights_of(model, sentence)
    assert weights[7, 11, 2].argmax() == 1  # yêu looks at Tôi
    assert weights[0, 7, 2].argmax() == 3  # yêu looks at Việt
    assert weights[2, 5, 4].argmax() == 3  # Nam looks at Việt


def test_what_the_chapter_claims_of_heads_and_baselines() -> None:
    english = MODELS["all-MiniLM-L6-v2"]["measured"]["relations"]
    best = {name: max(map(max, score["heads"])) for name, score in english.items()}
    assert best["previous"] > 0.99
    for kind in ("object", "pronoun", "pair"):
        assert best[kind] > english[kind]["offset"][1] + 0.3
        assert best[kind] > english[kind]["untrained"] + 0.3
    # What looks like grammar and is only a place: the second syllable follows the first.
    vietnamese = MODELS["multilingual-e5-small"]["measured"]["relations"]
    assert vietnamese["compound"]["offset"] == [-1, 1.0]
    assert vietnamese["compound"]["best"] == vietnamese["previous"]["best"]
    assert vietnamese["object"]["offset"][1] >= max(map(max, vietnamese["object"]["heads"]))


def test_what_the_chapter_claims_of_one_word_in_two_meanings() -> None:
    layers = HELD["meaning"]["apart"]
    gaps = [same - other for same, other, _ in layers]
    assert gaps[0] < 0.02 < 0.08 < gaps[-1]
    assert min(nearest for _, _, nearest in layers[1:5]) == len(HELD["meaning"]["uses"])


def test_what_the_chapter_claims_of_heads_that_go() -> None:
    orders = HELD["pruning"]["orders"]
    for order in [*orders.values(), *HELD["pruning"]["lots"]]:
        assert order["task"][0] == orders["greedy"]["task"][0]
        # A third of the heads is not missed by the task; nor are all of them missed much.
        assert order["task"][3] > 0.95 * order["task"][0]
        assert order["task"][-1] > 0.8 * order["task"][0]
        # The meanings are.
        assert order["gap"][-1] < 0.05 * order["gap"][0]
    for order in orders.values():
        assert len({tuple(head) for head in order["heads"]}) == 72


@pytest.mark.slow
def test_it_is_made_again_bit_for_bit(tmp_path, capsys) -> None:
    main(["export", "--out", str(tmp_path / "again.json")])
    assert (tmp_path / "again.json").read_bytes() == FILE.read_bytes()
