"""Heads of a pretrained model that are switched off, and two meanings of one word."""

import copy

import pytest
import torch

from mha_lib.pretrained import LayerTrace, Pretrained, Reading
from mha_lib.pretrained.meaning import apart, cosines, uses, word_vectors
from mha_lib.pretrained.pruning import heads_off, rank_correlation, sentence_vectors

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "."]


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> Pretrained:
    transformers = pytest.importorskip("transformers")
    vocabulary = tmp_path_factory.mktemp("bert") / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS), "utf-8")
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=12,
        num_attention_heads=3,
        num_hidden_layers=2,
        intermediate_size=8,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config, add_pooling_layer=False).double()
    for parameter in model.parameters():
        parameter.data.normal_()
    return Pretrained("small", model, transformers.BertTokenizerFast(vocab=str(vocabulary)))


def test_a_head_that_is_off_is_one_that_w_o_does_not_read(bert: Pretrained) -> None:
    whole = bert.read("the cat sat").layers
    with heads_off(bert, [(0, 2), (1, 0), (1, 1)]):
        off = bert.read("the cat sat").layers
    twin = Pretrained("twin", copy.deepcopy(bert.model), bert.tokenizer)
    for layer, heads in ((0, [2]), (1, [0, 1])):
        weight = twin.model.encoder.layer[layer].attention.output.dense.weight.data
        weight.view(12, 3, 4)[:, heads] = 0  # (d_model, h, d_k)
    for ours, theirs, before in zip(off, twin.read("the cat sat").layers, whole, strict=True):
        torch.testing.assert_close(ours.output, theirs.output)
        assert not torch.allclose(ours.output, before.output)
    again = bert.read("the cat sat").layers
    assert all(torch.equal(a.output, b.output) for a, b in zip(again, whole, strict=True))


def test_heads_come_back_when_something_goes_wrong(bert: Pretrained) -> None:
    whole = bert.read("the cat").layers[-1].output
    with pytest.raises(ZeroDivisionError), heads_off(bert, [(0, 0)]):
        _ = 1 / 0
    assert torch.equal(bert.read("the cat").layers[-1].output, whole)


def test_a_head_that_is_not_there_is_told(bert: Pretrained) -> None:
    with pytest.raises(
        ValueError, match=r"no head 2\.0; small has layers 0 to 1 with heads 0 to 2"
    ):
        heads_off(bert, [(2, 0)]).__enter__()
    hidden = type("Model", (), {"model": torch.nn.Linear(1, 1), "name": "other"})()
    with pytest.raises(TypeError, match="other is no encoder of BERT's kind"):
        heads_off(hidden, [(0, 0)]).__enter__()


def test_sentences_read_together_are_read_as_alone(bert: Pretrained) -> None:
    together = sentence_vectors(bert, ["the cat sat .", "cat"])  # the second is padded
    alone = bert.read("cat").layers[-1].output[0].mean(dim=0)
    torch.testing.assert_close(together[1], alone / alone.norm())


def test_rank_correlation_looks_at_order_alone_and_ties_share() -> None:
    x = torch.rand(9)
    assert rank_correlation(x, x.exp() * 3) == pytest.approx(1)
    assert rank_correlation(x, -x) == pytest.approx(-1)
    # Ranks 1.5 1.5 3 4 with 1 2 3 4: by hand.
    tied = rank_correlation(torch.tensor([2.0, 2.0, 5.0, 7.0]), torch.arange(4.0))
    assert tied == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_meanings_that_lie_apart_are_told_apart() -> None:
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    found = apart(cosines(rows), "aabb")
    assert found.nearest == 4
    assert found.same > 0.9 > 0.3 > found.other
    assert apart(cosines(rows), "abab").nearest == 0


def test_the_vectors_of_a_word_are_found_in_every_layer() -> None:
    states = torch.arange(24.0).reshape(3, 1, 4, 2)
    layers = tuple(LayerTrace(states[i], torch.zeros(1, 1, 4, 4), states[i + 1]) for i in (0, 1))
    pieces = ("[CLS]", "The", "Bank", "[SEP]")
    reading = Reading("toy", "The Bank", pieces, pieces, (), (), layers)
    assert torch.equal(word_vectors(reading, "bank"), states[:, 0, 2])
    with pytest.raises(ValueError, match="'river' is 0 tokens of"):
        word_vectors(reading, "river")


def test_each_labelled_use_has_the_word_once() -> None:
    found = uses()
    assert {use.meaning for use in found} == {"river", "money"}
    assert all(use.sentence.lower().split().count("bank") <= 1 for use in found)
