"""The Python side of the demo that writes word by word."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from myst_nb.core.read import read_myst_markdown_notebook

from mha_lib.widgets import WordByWord
from mha_lib.widgets.word_by_word import VOCABULARY
from tests.widgets.refusals import assert_refused

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "en" / "masking.md"
SENTENCE = ["the", "cat", "sat", "on", "the", "mat", "."]
STEPS = range(1, len(SENTENCE))
BOTH = pytest.mark.parametrize("cache", [True, False], ids=["with", "without"])


def texts(words: list[int]) -> list[str]:
    return [VOCABULARY[word] for word in words]


@BOTH
@pytest.mark.parametrize("step", STEPS)
def test_each_step_has_the_words_so_far_and_chooses_the_next(step: int, cache: bool) -> None:
    result = WordByWord(step=step, cache=cache).result
    assert texts(result["words"]) == SENTENCE[:step]
    assert VOCABULARY[result["next"]] == SENTENCE[step]
    logits = torch.tensor(result["logits"])
    torch.testing.assert_close(
        logits, torch.tensor(result["table"]) + torch.tensor(result["found"])
    )
    # No choice is a near thing: rounding cannot change the sentence.
    first, second = logits.topk(2).values
    assert first - second > 0.4


@pytest.mark.parametrize("step", STEPS)
def test_the_cache_leaves_out_all_rows_but_the_last_and_changes_nothing(step: int) -> None:
    kept, anew = (WordByWord(step=step, cache=cache).result for cache in (True, False))
    assert kept["projected"] == [step - 1]
    assert anew["projected"] == list(range(step))
    for name, size in (("weights", (step, step)), ("scores", (step, step))):
        assert torch.tensor(kept[name]).shape == (1, step)
        assert torch.tensor(anew[name]).shape == size
        torch.testing.assert_close(torch.tensor(kept[name][-1]), torch.tensor(anew[name][-1]))
    assert torch.equal(torch.tensor(anew["keep"]), torch.ones(step, step).tril().bool())
    assert all(kept["keep"][0])
    assert kept["same_words"]
    assert kept["apart"] < 1e-12
    for shared in ("work", "same_words", "apart", "words", "table", "next"):
        assert kept[shared] == anew[shared]


def test_the_work_grows_as_the_chapter_says() -> None:
    work = WordByWord(step=STEPS[-1]).result["work"]
    N = len(STEPS)
    totals = {way: (sum(each["words"]), sum(each["scores"])) for way, each in work.items()}
    assert totals == {
        "with": (N, N * (N + 1) // 2),
        "without": (N * (N + 1) // 2, N * (N + 1) * (2 * N + 1) // 6),
    }
    assert totals == {"with": (6, 21), "without": (21, 91)}
    words = " ".join(CHAPTER.read_text("utf-8").split())
    assert "21 words projected in place of 6, and 91 scores in place of 21" in words


def test_it_opens_where_attention_overrules_the_table() -> None:
    demo = WordByWord()
    result = demo.result
    assert (demo.step, demo.cache) == (5, True)
    by_table = VOCABULARY[result["table"].index(max(result["table"]))]
    assert (by_table, VOCABULARY[result["next"]]) == ("cat", "mat")
    assert texts(result["words"])[result["weights"][0].index(max(result["weights"][0]))] == "on"
    for step in set(STEPS) - {5}:
        other = WordByWord(step=step).result
        assert other["table"].index(max(other["table"])) == other["next"]
        assert len({round(weight, 9) for weight in other["weights"][0]}) == 1


def test_it_is_the_model_of_the_chapters_code() -> None:
    """What the demo shows is what the reader computes below it."""
    cells = read_myst_markdown_notebook(CHAPTER.read_text("utf-8"), path=CHAPTER)["cells"]
    (model,) = (cell.source for cell in cells if "follows = " in cell.source)
    chapter: dict[str, Any] = {}
    exec(f"import torch\nimport mha_lib\n{model}", chapter)
    recipe = WordByWord().recipe
    layer = chapter["layer"]
    linears = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    for matrix, linear in zip(recipe["projections"].values(), linears, strict=True):
        assert torch.equal(torch.tensor(matrix), linear.weight.T)
    assert chapter["vocabulary"] == recipe["vocabulary"]
    assert torch.equal(chapter["follows"], torch.tensor(recipe["follows"]))
    assert torch.equal(chapter["one_hot"], torch.tensor(recipe["embeddings"]))
    assert chapter["THE"] == recipe["first"]


BAD = [
    ("step", 0, "step=0 is outside 1 to 6; the model begins with 'the' and has written its"),
    ("step", 7, "step=7 is outside 1 to 6"),
    ("step", "last", "int"),
    ("cache", "yes", "boolean"),
]


@pytest.mark.parametrize(("name", "value", "message"), BAD)
def test_bad_values_are_refused_with_the_way_out(name: str, value: Any, message: str) -> None:
    assert_refused(WordByWord, name, value, message)


def test_the_fallback_shows_the_newest_row_and_the_choice() -> None:
    shown = re.findall(r">([^<]+)<", WordByWord(step=2).fallback())
    assert shown == ["the", "cat", "cat", "0.50", "0.50", "→ sat"]
