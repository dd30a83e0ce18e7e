"""The Python side of "query, key, value by hand"."""

import ast
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from mha_lib.widgets import QkvByHand, qkv_by_hand
from tests.widgets.refusals import assert_refused

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "en" / "query-key-value.md"
CAT, SAT, ON, MAT = range(4)


def test_it_opens_where_sat_looks_at_cat_and_mat() -> None:
    demo = QkvByHand()
    weights = demo.result["weights"]
    assert demo.query == SAT
    assert weights[SAT][CAT] + weights[SAT][MAT] > 0.9
    assert weights[CAT][SAT] > 0.9
    assert weights[MAT][SAT] > 0.9


def test_the_result_is_the_formulas() -> None:
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(3, 4, 2, generator=generator, dtype=torch.float64)
    W_Q, W_K, W_V = matrices
    result = QkvByHand(W_Q=W_Q.tolist(), W_K=W_K.tolist(), W_V=W_V.tolist()).result
    x = torch.tensor(qkv_by_hand.X, dtype=torch.float64)
    products = (x @ W_Q) @ (x @ W_K).T
    weights = (products / math.sqrt(2)).softmax(-1)
    expected = {
        "q": x @ W_Q,
        "k": x @ W_K,
        "v": x @ W_V,
        "products": products,
        "scores": products / math.sqrt(2),
        "weights": weights,
        "mix": weights @ (x @ W_V),
    }
    assert result.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(torch.tensor(result[name], dtype=torch.float64), tensor)


def test_one_matrix_for_queries_and_keys_makes_scores_symmetric_and_sat_self_absorbed() -> None:
    demo = QkvByHand()
    demo.W_Q = demo.W_K
    scores = torch.tensor(demo.result["scores"])
    torch.testing.assert_close(scores, scores.T)
    assert scores.diagonal().min() >= 0
    assert demo.result["weights"][SAT][SAT] > 0.5


def test_w_v_moves_no_weight() -> None:
    demo = QkvByHand()
    before = demo.result
    demo.W_V = [[1.0, 2.0]] * 4
    assert demo.result["weights"] == before["weights"]
    assert demo.result["mix"] != before["mix"]


def test_the_chapter_and_the_demo_hold_the_same_numbers() -> None:
    text = CHAPTER.read_text("utf-8")
    demo = QkvByHand()
    for name, numbers in [("X", qkv_by_hand.X), *((n, getattr(demo, n)) for n in demo.inputs[1:])]:
        found = re.search(rf"^{name} = torch\.tensor\((.*?)\)", text, re.MULTILINE | re.DOTALL)
        assert found, name
        assert ast.literal_eval(found[1]) == [list(row) for row in numbers]


BAD = [
    ("query", 4, "query=4 is outside 0 to 3; choose one of: 0 cat, 1 sat, 2 on, 3 mat"),
    ("query", -1, "query=-1 is outside"),
    ("W_Q", [[0.0, 1.0]] * 3, "W_Q has 3 rows of [2] numbers; give 4 rows of 2"),
    ("W_K", [[0.0]] * 4, "W_K has 4 rows of [1] numbers; give 4 rows of 2"),
    ("W_V", [[0.0, 21.0]] * 4, "W_V holds 21.0; every number must be between -20 and 20"),
    ("W_V", [[0.0, math.nan]] * 4, "W_V holds nan"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(QkvByHand, name, value, message)


def test_the_fallback_shows_the_opening_row_without_words_of_ours() -> None:
    pieces = [piece for piece in re.split(r"<[^>]*>", QkvByHand().fallback()) if piece]
    assert pieces == ["cat", "sat", "on", "mat", "sat", "0.53", "0.02", "0.03", "0.42"]
