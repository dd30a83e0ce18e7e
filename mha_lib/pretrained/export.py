"""The file of real heads that the site shows: made here, committed, and never made by the site.

    python -m mha_lib.pretrained export

Everything is computed in float64 and written in few digits. So another processor, which adds in
another order, writes the same file: the difference is far below the last digit.
"""

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mha_lib.experiments.training import one_thread
from mha_lib.pretrained import meaning, pruning
from mha_lib.pretrained.loading import Pretrained, transformers_library
from mha_lib.pretrained.packaged import PACKAGES, load_packaged
from mha_lib.pretrained.reading import Reading
from mha_lib.pretrained.relations import labelled, measure

FILE = Path(__file__).parents[1] / "widgets" / "data" / "real_heads.json"
ENGLISH = "all-MiniLM-L6-v2"
STEPS = 255  # a weight is a whole number of steps from 0 to 1: one byte
DIGITS = 3  # of a score


class Shown(NamedTuple):
    """A sentence that the site shows: its name there, its language, and what it says."""

    name: str
    language: str
    text: str


SENTENCES = {
    "all-MiniLM-L6-v2": (
        Shown("cat-mat", "en", "The cat sat on the mat."),
        Shown("meat", "en", "The hungry dog ate the fresh meat."),
        Shown("movie", "en", "The boy said that he liked the movie."),
        Shown("queen", "en", "The king spoke to the queen about war."),
        Shown("river-bank", "en", "We sat on the grassy bank of the river."),
        Shown("money-bank", "en", "The bank raised its interest rates again."),
    ),
    "multilingual-e5-small": (
        Shown("viet-nam", "vi", "Tôi yêu Việt Nam"),
        Shown("library", "vi", "học sinh đọc sách trong thư viện"),
        Shown("seasons", "vi", "mùa hè nóng còn mùa đông lạnh"),
        Shown("kucing", "ms", "Kucing itu duduk di atas tikar."),
        Shown("kopi", "ms", "ayah minum kopi dan ibu minum teh"),
        Shown("kereta", "ms", "dia naik kereta api ke pasar"),
    ),
}
LANGUAGES = {"all-MiniLM-L6-v2": ("en",), "multilingual-e5-small": ("vi", "ms")}


@one_thread()
def export(date: str, path: Path = FILE) -> None:
    """Read every sentence with its model, and write the file.

    Args:
        date: The day it was made, as 2026-11-30. It is told, not looked up, so that the same
            call makes the same file on any day.
        path: Where it goes.

    Raises:
        ModuleNotFoundError: transformers or a package that carries a model is not installed.
    """
    models = {name: _model(name) for name in PACKAGES}
    english = load_packaged(ENGLISH, dtype=torch.float64)
    found = {
        "date": date,
        "models": models,
        "meaning": _rounded(meaning.by_layer(english.read)),
        "pruning": _rounded(pruning.measure(english)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, ensure_ascii=False, indent=1)
    path.write_text(f"{text}\n", "utf-8")


def _model(name: str) -> dict[str, Any]:
    model = load_packaged(name, dtype=torch.float64)
    sentences = [each for language in LANGUAGES[name] for each in labelled(language)]
    scores = measure(sentences, model.read, untrained(model).read)
    config = model.model.config
    return {
        **PACKAGES[name].origin(),
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "measured": {"sentences": len(sentences), "relations": _rounded(scores)},
        "sentences": [
            {"name": each.name, "language": each.language} | packed(model.read(each.text))
            for each in SENTENCES[name]
        ],
    }


def untrained(model: Pretrained, seed: int = 0) -> Pretrained:
    """Return a model of the same form whose weights are as before any training."""
    transformers = transformers_library()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin = transformers.AutoModel.from_config(model.model.config)
    return Pretrained(f"untrained {model.name}", twin.to(model.model.dtype), model.tokenizer)


def packed(reading: Reading) -> dict[str, Any]:
    """Write a reading in few bytes: its tokens, and its weights as base64 of one byte each.

    `weights` are all heads of all layers, (layers, h, N, N) in that order; a byte is how many
    of 255 steps a weight is.
    """
    steps = (reading.weights * STEPS).round().to(torch.uint8)  # (layers, h, N, N)
    return {
        "text": reading.sentence,
        "tokens": list(reading.pieces),
        "special": [int(special) for special in reading.special],
        "words": list(reading.words),
        "weights": base64.b64encode(steps.cpu().numpy().tobytes()).decode(),
    }


def _rounded(found: Any) -> Any:
    """Return the same with every number cut to a few digits."""
    if isinstance(found, float):
        return round(found, DIGITS)
    if isinstance(found, dict):
        return {name: _rounded(each) for name, each in found.items()}
    if isinstance(found, list | tuple):
        return [_rounded(each) for each in found]
    return found
