"""The embedding map's Python side: cosines, and where the words lie on each map."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from mha_lib.widgets import EmbeddingMap, embedding_map
from mha_lib.widgets.embedding_map import FEATURES, MOST_ADDED, PRINCIPAL, VIEWS, WORDS
from tests.widgets.refusals import assert_refused

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "en" / "embeddings.md"
TIGER = {"word": "tiger", "features": [0.9, 0.4, 0.9, 0.0]}
NAMES = list(WORDS)


def tensor(numbers: Any) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def test_it_opens_where_the_map_and_the_cosine_disagree() -> None:
    result = EmbeddingMap().result
    horse, fish, dog = (NAMES.index(word) for word in ("horse", "fish", "dog"))
    assert result["selected"] == horse
    assert result["points"][horse] == result["points"][fish]
    assert result["cosines"][fish] < 0.7
    others = [cosine for word, cosine in enumerate(result["cosines"]) if word != horse]
    assert max(others) == result["cosines"][dog]


@pytest.mark.parametrize("selected", range(len(WORDS) + 1))
def test_cosines_follow_the_formula(selected: int) -> None:
    result = EmbeddingMap(added=[TIGER], selected=selected).result
    assert result["words"] == [*NAMES, "tiger"]
    rows = result["rows"]
    for row, cosine in zip(rows, result["cosines"], strict=True):
        product = sum(a * b for a, b in zip(row, rows[selected], strict=True))
        assert cosine == pytest.approx(product / math.hypot(*row) / math.hypot(*rows[selected]))
    assert result["cosines"][selected] == pytest.approx(1)


@pytest.mark.parametrize("view", [view for view in VIEWS if view != PRINCIPAL])
def test_a_map_of_two_features_shows_these(view: str) -> None:
    result = EmbeddingMap(view=view, added=[TIGER]).result
    across, up = (FEATURES.index(name) for name in view.split("-"))
    assert result["points"] == [[row[across], row[up]] for row in result["rows"]]


def test_every_pair_of_features_has_its_map() -> None:
    assert len(VIEWS) == len(FEATURES) * (len(FEATURES) - 1) // 2 + 1


def test_the_principal_map_keeps_as_much_of_the_differences_as_two_directions_can() -> None:
    result = EmbeddingMap(view=PRINCIPAL).result
    rows = tensor(list(WORDS.values()))
    moved = rows - rows.mean(dim=0)  # (10, 4)
    directions, points = tensor(result["directions"]), tensor(result["points"])
    torch.testing.assert_close(directions @ directions.T, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(points, moved @ directions.T)
    # The eigenvalues of the scatter are another way to what an SVD finds.
    strongest = torch.linalg.eigvalsh(moved.T @ moved).flip(0)[:2]
    torch.testing.assert_close(points.square().sum(dim=0), strongest)
    assert all(direction[direction.abs().argmax()] > 0 for direction in directions)


def test_an_added_word_does_not_turn_the_map() -> None:
    before = EmbeddingMap(view=PRINCIPAL).result
    after = EmbeddingMap(view=PRINCIPAL, added=[TIGER]).result
    assert after["points"][: len(WORDS)] == before["points"]
    assert after["directions"] == before["directions"]


def test_the_chapter_and_the_demo_have_the_same_cat_dog_and_table() -> None:
    text = CHAPTER.read_text("utf-8")
    for word in ("cat", "dog", "table"):
        found = re.search(rf"^{word} = torch\.tensor\(\[(.*)\]\)", text, re.MULTILINE)
        assert found
        assert tuple(map(float, found[1].split(","))) == WORDS[word]


def test_what_the_demo_asks_for_can_be_done() -> None:
    between = {"word": "between", "features": [0.5, 0.4, 0.8, 0.5]}
    cosines = EmbeddingMap(added=[between], selected=len(WORDS)).result["cosines"]
    assert min(cosines[NAMES.index("cat")], cosines[NAMES.index("table")]) > 0.8


def test_words_taken_away_take_the_selection_with_them() -> None:
    demo = EmbeddingMap(added=[TIGER], selected=len(WORDS))
    demo.added = []
    assert demo.selected == len(WORDS) - 1
    assert demo.result["words"] == NAMES


@pytest.mark.parametrize(
    ("added", "way_out"),
    [
        ([TIGER, TIGER], "which is on the map already; take another"),
        ([{**TIGER, "word": "cat"}], "which is on the map already; take another"),
        ([{**TIGER, "word": ""}], "give a text of 1 to 12 characters"),
        ([{**TIGER, "word": " tiger"}], "no space around it"),
        ([{**TIGER, "word": "hippopotamuses"}], "give a text of 1 to 12 characters"),
        ([{**TIGER, "features": [0.0] * 4}], "give 4 numbers from 0 to 1, not all 0"),
        ([{**TIGER, "features": [0.1] * 3}], "give 4 numbers from 0 to 1, not all 0"),
        ([{**TIGER, "features": [0.1, 0.1, 0.1, 1.1]}], "give 4 numbers from 0 to 1, not all 0"),
        ([{**TIGER, "features": [0.1, 0.1, 0.1, math.nan]}], "give 4 numbers from 0 to 1"),
        ([{**TIGER, "features": "soft"}], "give 4 numbers from 0 to 1, not all 0"),
        ([{"word": "tiger"}], 'give each word as {"word": "tiger", "features"'),
        (
            [{**TIGER, "word": f"tiger {number}"} for number in range(MOST_ADDED + 1)],
            "added holds 6 words; the map has room for 5",
        ),
    ],
)
def test_a_word_that_cannot_be_is_refused_with_the_way_out(added: Any, way_out: str) -> None:
    assert_refused(EmbeddingMap, "added", added, way_out)


def test_a_selection_or_view_that_is_not_there_is_refused() -> None:
    assert_refused(EmbeddingMap, "selected", 10, "choose one of: 0 cat, 1 dog")
    assert_refused(EmbeddingMap, "selected", -1, "is outside 0 to 9")
    assert_refused(EmbeddingMap, "view", "feline", PRINCIPAL)


def test_the_site_carries_inputs_result_and_a_fallback_without_sentences() -> None:
    demo = EmbeddingMap(selected=0)
    assert '"view": "animal-soft"' in demo.static_html()
    pieces = [piece for piece in re.split(r"<[^>]*>", demo.fallback()) if piece]
    assert pieces[:5] == [*embedding_map.FEATURES, "cos"]
    assert pieces[5:11] == ["cat", "0.9", "0.8", "0.7", "0.1", "1.00"]
    assert len(pieces) == 5 + 6 * len(WORDS)
    json.dumps(demo.get_state(["result", "recipe"]), allow_nan=False)
