"""The Python side of the demos whose models are trained: GrammarHeads and CopyHeads."""

import base64

import numpy as np
import pytest
import torch
import traitlets

from mha_lib.experiments import grammar, induction
from mha_lib.experiments.grammar import GrammarModel
from mha_lib.experiments.induction import CopyModel
from mha_lib.widgets import CopyHeads, GrammarHeads
from mha_lib.widgets.trained import packed, rounded


@pytest.fixture(scope="module")
def grammar_model() -> GrammarModel:
    return grammar.train_grammar(3, steps=150)[0]


@pytest.fixture(scope="module")
def copy_model() -> CopyModel:
    return induction.train_copying(steps=150, every=150)[0]


def test_packed_numbers_are_the_rounded_ones(grammar_model: GrammarModel) -> None:
    kept = rounded(grammar_model).state_dict()
    for name, entry in packed(grammar_model).items():
        counts = np.frombuffer(base64.b64decode(entry["data"]), dtype=np.int8)
        numbers = torch.tensor(counts.astype(float) * entry["step"]).reshape(entry["shape"])
        assert torch.equal(numbers, kept[name])
        exact = grammar_model.state_dict()[name].double()
        assert (numbers - exact).abs().max() <= 0.5001 * entry["step"]


def test_the_grammar_demo_tells_what_the_model_says(grammar_model: GrammarModel) -> None:
    demo = GrammarHeads(grammar_model)
    words, markers = torch.tensor([demo.words]), torch.tensor([demo.markers])
    sentences = grammar.relate(words, markers)
    assert demo.result["places"] == sentences.places[0].tolist()
    with torch.no_grad():
        chances = grammar_model.eval()(words, markers).softmax(dim=-1)[0]
        weights = grammar_model.trace(words, markers).weights[0]
    # Rounding to 8 bits is all that lies between the model and the page.
    torch.testing.assert_close(
        torch.tensor(demo.result["chances"]), chances.max(dim=-1).values, atol=6e-2, rtol=0
    )
    torch.testing.assert_close(torch.tensor(demo.result["weights"]), weights, atol=6e-2, rtol=0)
    # It opens where all three answers are elsewhere.
    assert demo.markers[demo.query] == grammar.MARKER_NAMES.index("O1")


def test_heads_that_are_off_bring_nothing(grammar_model: GrammarModel) -> None:
    demo = GrammarHeads(grammar_model)
    on = demo.result
    demo.heads = [False, False, False]
    assert demo.result["weights"] == on["weights"]
    assert demo.result["guesses"] != on["guesses"]


def test_a_sentence_that_is_none_is_told_in_words(grammar_model: GrammarModel) -> None:
    demo = GrammarHeads(grammar_model, words=[0, 1, 2, 4, 8, 9, 12, 13])
    assert "one partner" in demo.result["error"]
    with pytest.raises(traitlets.TraitError, match="each of 3 heads"):
        GrammarHeads(grammar_model, heads=[True])


def test_the_copying_demo_tells_what_the_model_says(copy_model: CopyModel) -> None:
    demo = CopyHeads(copy_model, pattern="acegik")
    assert demo.result["tokens"] == [24, *([0, 2, 4, 6, 8, 10] * 2)]
    with torch.no_grad():
        chances = copy_model.eval()(torch.tensor([demo.result["tokens"]])).softmax(dim=-1)[0]
    torch.testing.assert_close(
        torch.tensor(demo.result["chances"]), chances.max(dim=-1).values, atol=6e-2, rtol=0
    )
    weights = torch.tensor(demo.result["weights"])
    assert weights.shape == (2, 2, 13, 13)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 13))
    assert torch.equal(weights, weights.tril())


@pytest.mark.parametrize("pattern", ["ab", "abcdefghijk", "ab1", "xyz"])
def test_a_pattern_of_other_letters_is_refused(copy_model: CopyModel, pattern: str) -> None:
    with pytest.raises(traitlets.TraitError, match="3 to 10 letters from A to X"):
        CopyHeads(copy_model, pattern=pattern)


def test_a_page_without_scripts_shows_the_numbers(
    grammar_model: GrammarModel, copy_model: CopyModel
) -> None:
    assert "previous" in GrammarHeads(grammar_model).fallback()
    assert "▷" in CopyHeads(copy_model).fallback()
