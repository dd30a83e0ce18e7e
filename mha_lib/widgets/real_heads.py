"""RealHeads: what do the heads of models do that others have trained on real text?"""

import base64
from html import escape
from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor

from mha_lib.pretrained.export import STEPS, packed
from mha_lib.pretrained.reading import Reading, without
from mha_lib.pretrained.relations import PLACES
from mha_lib.widgets import assets
from mha_lib.widgets.base import CourseWidget, on_site

OPENING = {"sentence": 6, "layer": 7, "head": 11, "query": 2}  # yêu looks at Tôi
ABOUT = ("source", "licence", "package", "bits", "layers", "heads")


class RealHeads(CourseWidget):
    """Every head of a pretrained model on a sentence, and what each head follows.

    Args:
        readings: What `mha_lib.pretrained.load(NAME).read(SENTENCE)` returned, any number of
            them; without any, the course's own file of two models and a dozen sentences.
        sentence: Which of the sentences, from 0.
        layer, head: Which head, both from 0.
        query: The token that looks, from 0.
        words_only: Whether special tokens are left out, each row of what is left summing to 1.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is below 0 or of another type.

    What is not there, as layer 12 of 12, is said in `result["error"]`: traits that are set one by
    one may not fit yet.

    Else `result` holds `of`, what was chosen; and `weights`, all heads' as bytes in base64, of
    shape (layers, h, N, N), a byte being how many of 255 steps a weight is. Of the chosen head it
    holds `shown`, its weights as they are drawn, (n, n); `left_out`, what each of those n tokens
    gives to special tokens; and `here`, the mean weight in this sentence at each relation that is
    a place, None where there is no such place. `relations` is what was measured over many
    sentences, empty for readings of one's own. For the site the result is empty: the page fills
    it in once it is looked at.

    >>> demo = RealHeads(language="en")
    >>> [round(weight, 2) for weight in demo.result["shown"][2]]  # yêu, at <s> Tôi yêu ...
    [0.08, 0.71, 0.12, 0.02, 0.01, 0.07]
    """

    module = "real_heads.js"
    inputs = ("sentence", "layer", "head", "query", "words_only")
    constants = ("recipe",)

    sentence = traitlets.Int(0, min=0).tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)
    query = traitlets.Int(0, min=0).tag(sync=True)
    words_only = traitlets.Bool(False).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, *readings: Reading, **options: Any) -> None:
        models, sentences = _of_readings(readings) if readings else _of_file()
        date = "" if readings else assets.real_heads()["date"]
        self.set_trait("recipe", {"date": date, "models": models, "sentences": sentences})
        self._data = {_key(models, each): each.pop("weights") for each in sentences}
        super().__init__(**(({} if readings else OPENING) | options))

    def compute(self) -> dict[str, Any]:
        """Look at the chosen head, by mha_lib."""
        if on_site():
            return {}  # the page asks for the data when the demo comes into view
        sentence, model = self._chosen()
        name = _key(self.recipe["models"], sentence)
        special, words = sentence["special"], sentence["words"]
        weights = _unpacked(self._data[name], model["layers"], model["heads"], len(special))
        weights = weights[self.layer, self.head]  # (N, N)
        keep_all = [False] * len(special)
        shown, left_out = without(weights, special if self.words_only else keep_all)
        here = {}
        for relation, places in PLACES.items():
            found = [float(weights[query, key]) for query, key in places(special, words)]
            here[relation] = sum(found) / len(found) if found else None
        return {
            "of": [self.sentence, self.layer, self.head, self.words_only],
            "weights": self._data[name],
            "shown": shown.tolist(),
            "left_out": left_out.tolist(),
            "here": here,
            "relations": self._relations(model),
        }

    def _relations(self, model: dict[str, Any]) -> dict[str, Any]:
        """Return what was measured on a model of the file; nothing for readings of one's own."""
        if not self.recipe["date"]:
            return {}
        measured: dict[str, Any] = assets.real_heads()["models"][model["name"]]["measured"]
        relations: dict[str, Any] = measured["relations"]
        return relations

    def _chosen(self) -> tuple[dict[str, Any], dict[str, Any]]:
        sentences, models = self.recipe["sentences"], self.recipe["models"]
        _check("sentence", self.sentence, len(sentences))
        sentence = sentences[self.sentence]
        model = models[sentence["model"]]
        for name, most in (("layer", model["layers"]), ("head", model["heads"])):
            _check(name, getattr(self, name), most)
        _check("query", self.query, len(sentence["tokens"]))
        return sentence, model

    def fallback(self) -> str:
        """Return, for each model and relation, the best head and its score, as a table."""
        rows = []
        for model in self.recipe["models"]:
            for relation, score in self._relations(model).items():
                layer, head = score["best"]
                cells = (relation, f"{layer}.{head}", score["heads"][layer][head], score["chance"])
                inner = "".join(f"<td>{cell}</td>" for cell in cells)
                rows.append(f"<tr><th>{escape(model['name'])}</th>{inner}</tr>")
        return f"<table>{''.join(rows)}</table>"


def _check(name: str, value: int, count: int) -> None:
    if value >= count:
        raise ValueError(f"{name}={value} is not there; it goes from 0 to {count - 1}")


def _key(models: list[dict[str, Any]], sentence: dict[str, Any]) -> str:
    return f"{models[sentence['model']]['name']}.{sentence['name']}"


def _unpacked(data: str, layers: int, heads: int, count: int) -> Tensor:
    steps = np.frombuffer(base64.b64decode(data), dtype=np.uint8).astype(np.float64)
    return torch.from_numpy(steps / STEPS).reshape(layers, heads, count, count)


def _of_file() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    models, sentences = [], []
    for place, (name, held) in enumerate(assets.real_heads()["models"].items()):
        measured = {"measured": held["measured"]["sentences"]}
        models.append({"name": name} | {key: held[key] for key in ABOUT} | measured)
        sentences += [each | {"model": place} for each in held["sentences"]]
    return models, sentences


def _of_readings(
    readings: tuple[Reading, ...],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    names = list(dict.fromkeys(reading.model for reading in readings))
    models = [
        {"name": name, "source": name, "layers": len(weights), "heads": weights.shape[1]}
        for name in names
        for weights in [next(each.weights for each in readings if each.model == name)]
    ]
    sentences = [
        {"name": str(place), "language": "", "model": names.index(reading.model)} | packed(reading)
        for place, reading in enumerate(readings)
    ]
    return models, sentences
