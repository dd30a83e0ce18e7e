"""EmbeddingMap: what does it mean that two words are near?"""

from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
import torch
import traitlets
from torch import Tensor
from torch.nn.functional import cosine_similarity

from mha_lib.widgets.base import CourseWidget

FEATURES = ("animal", "soft", "four_legs", "furniture")
# Invented. Horse and fish differ in their legs alone: a map without these shows them as one.
WORDS = {
    "cat": (0.9, 0.8, 0.7, 0.1),
    "dog": (0.9, 0.6, 0.8, 0.0),
    "kitten": (0.8, 0.9, 0.6, 0.1),
    "horse": (0.9, 0.3, 1.0, 0.0),
    "fish": (0.9, 0.3, 0.0, 0.0),
    "table": (0.0, 0.1, 0.9, 0.9),
    "chair": (0.0, 0.3, 0.9, 0.8),
    "sofa": (0.0, 0.9, 0.5, 1.0),
    "cushion": (0.0, 1.0, 0.0, 0.4),
    "mat": (0.0, 0.6, 0.0, 0.5),
}
# What the map is drawn on: two features, or the two principal directions.
PRINCIPAL = "principal"
VIEWS: dict[str, list[int]] = {
    f"{FEATURES[across]}-{FEATURES[up]}": [across, up]
    for across, up in combinations(range(len(FEATURES)), 2)
} | {PRINCIPAL: []}
MOST_ADDED = 5
LONGEST_WORD = 12


class EmbeddingMap(CourseWidget):
    """Ten words with four invented features each, on a flat map and by their cosines.

    Args:
        added: The reader's own words, at most 5, each {"word": ..., "features": four numbers
            from 0 to 1 in the order of `FEATURES`, not all 0}.
        view: What the map is drawn on, one of `VIEWS`: two features, or "principal" for the two
            directions in which the ten words differ most.
        selected: The word that the others are compared with, from 0; added ones come last.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `view` and `selected`, all `words` with their `rows` (N, 4), the `directions`
    that the map is drawn on (2, 4), the words' `points` on it (N, 2), and `cosines` (N,), each
    word's with the selected one.

    >>> demo = EmbeddingMap(selected=0)
    >>> [f"{cosine:.2f}" for cosine in demo.result["cosines"][:3]]
    ['1.00', '0.98', '0.99']
    >>> demo.added = [{"word": "tiger", "features": [0.9, 0.4, 0.9, 0.0]}]
    >>> round(demo.result["cosines"][-1], 2)
    0.94
    """

    module = "embedding_map.js"
    # The selected word last: those that were added say which there are.
    inputs = ("added", "view", "selected")
    constants = ("recipe",)

    added = traitlets.List(traitlets.Dict()).tag(sync=True)
    view = traitlets.Enum(tuple(VIEWS), "animal-soft").tag(sync=True)
    selected = traitlets.Int(list(WORDS).index("horse")).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Place every word on the map, and compare it with the selected one."""
        features = [*WORDS.values(), *(each["features"] for each in self.added)]
        rows = torch.tensor(features, dtype=torch.float64)  # (N, 4)
        directions, centre = self._map()
        points = (rows - centre) @ directions.T  # (N, 2)
        cosines = cosine_similarity(rows[self.selected], rows, dim=-1)  # (N,)
        return {
            "view": self.view,
            "selected": self.selected,
            "words": self._words(),
            "rows": rows.tolist(),
            "directions": directions.tolist(),
            "points": points.tolist(),
            "cosines": cosines.tolist(),
        }

    def _map(self) -> tuple[Tensor, Tensor]:
        """Return the map's two directions, (2, 4), and what lies at its zero, (4,)."""
        if self.view == PRINCIPAL:
            return _principal()
        directions = torch.eye(len(FEATURES), dtype=torch.float64)[VIEWS[self.view]]  # (2, 4)
        return directions, directions.new_zeros(len(FEATURES))

    def fallback(self) -> str:
        """Return every word's features, and its cosine with the selected word, as a table."""
        head = "".join(f'<th scope="col" lang="en">{each}</th>' for each in FEATURES)
        lines = [f"<tr><td></td>{head}<td>cos</td></tr>"]
        result = self.result
        # Added words are a reader's own text, and no output needs to carry them.
        for word, row, cosine in zip(WORDS, result["rows"], result["cosines"], strict=False):
            cells = "".join(f"<td>{number:.1f}</td>" for number in row)
            lines.append(
                f'<tr><th scope="row" lang="en">{word}</th>{cells}<td>{cosine:.2f}</td></tr>'
            )
        return f"<table>{''.join(lines)}</table>"

    def _words(self) -> list[str]:
        return [*WORDS, *(each["word"] for each in self.added)]

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        return {
            "features": list(FEATURES),
            "words": list(WORDS),
            "rows": [list(row) for row in WORDS.values()],
            "views": VIEWS,
            "most_added": MOST_ADDED,
            "longest_word": LONGEST_WORD,
        }

    @traitlets.observe("added")
    def _keep_selected_in_range(self, _change: object) -> None:
        self.selected = min(self.selected, len(self._words()) - 1)

    @traitlets.validate("added")
    def _check_added(self, proposal: dict[str, Any]) -> list[dict[str, Any]]:
        added: list[dict[str, Any]] = proposal["value"]
        if len(added) > MOST_ADDED:
            raise traitlets.TraitError(
                f"added holds {len(added)} words; the map has room for {MOST_ADDED}"
            )
        there = set(WORDS)
        for each in added:
            _check_word(each, there)
            there.add(each["word"])
        return added

    @traitlets.validate("selected")
    def _check_selected(self, proposal: dict[str, Any]) -> int:
        selected: int = proposal["value"]
        words = self._words()
        if not 0 <= selected < len(words):
            listed = ", ".join(f"{place} {word}" for place, word in enumerate(words))
            raise traitlets.TraitError(
                f"selected={selected} is outside 0 to {len(words) - 1}; choose one of: {listed}"
            )
        return selected


def _principal() -> tuple[Tensor, Tensor]:
    """Return the two directions in which the ten words differ most, (2, 4), and their mean."""
    rows = np.array(list(WORDS.values()))  # (10, 4)
    centre = rows.mean(axis=0)  # (4,)
    _, _, right = np.linalg.svd(rows - centre)  # right: (4, 4), the strongest direction first
    directions = right[:2]  # (2, 4)
    # A direction and its opposite serve alike: take the one whose largest number is above 0.
    largest = np.abs(directions).argmax(axis=1)  # (2,)
    signs = np.sign(directions[[0, 1], largest])  # (2,)
    return torch.from_numpy(directions * signs[:, None]), torch.from_numpy(centre)


def _check_word(each: dict[str, Any], there: set[str]) -> None:
    """Raise TraitError if this is no new word with features."""
    if set(each) != {"word", "features"}:
        raise traitlets.TraitError(
            f"added holds {each!r}; give each word as "
            '{"word": "tiger", "features": [0.9, 0.4, 0.9, 0.0]}'
        )
    word, features = each["word"], each["features"]
    if not isinstance(word, str) or not 1 <= len(word.strip()) == len(word) <= LONGEST_WORD:
        raise traitlets.TraitError(
            f"added holds word={word!r}; give a text of 1 to {LONGEST_WORD} characters, "
            "with no space around it"
        )
    if word in there:
        raise traitlets.TraitError(
            f"added holds word={word!r}, which is on the map already; take another"
        )
    numbers = list(features) if isinstance(features, list | tuple) else []
    usable = all(isinstance(n, int | float) and isfinite(n) and 0 <= n <= 1 for n in numbers)
    if len(numbers) != len(FEATURES) or not usable or not any(numbers):
        raise traitlets.TraitError(
            f"added gives {word!r} features={features!r}; give {len(FEATURES)} numbers from 0 to "
            f"1, not all 0, for {', '.join(FEATURES)}"
        )
