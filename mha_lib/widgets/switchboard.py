"""Switchboard: in each of a Transformer's three kinds of attention, who asks and who answers?"""

from html import escape
from typing import Any, NamedTuple

import torch
import traitlets
from torch import Tensor

from mha_lib import attention
from mha_lib.widgets.base import CourseWidget

ROLES = ("marker", "adjective", "noun", "verb")
D_K = len(ROLES)
GAIN = 6.0
# What a word of a role looks for in its own sentence, and how much.
WANTED = {
    "marker": {"noun": 1.0},
    "adjective": {"noun": 1.0},
    "noun": {"adjective": 1.0, "verb": 0.75, "marker": 0.5},
    "verb": {"noun": 1.0},
}


class Token(NamedTuple):
    """A token, what it is, and what its row needs from the source to say what comes next.

    >>> Token("mèo", "noun", "adjective").needs
    'adjective'
    """

    text: str
    role: str | None
    needs: str | None = None


SOURCE = (
    Token("The", "marker"),
    Token("black", "adjective"),
    Token("cat", "noun"),
    Token("sat", "verb"),
)
# What the decoder is given while it learns: the translation behind a token that starts it. The
# row of each token says the next one. "Con" goes before the name of an animal, so it takes the
# noun to choose it; and no word of the source says that the sentence ends.
TARGET = (
    Token("[start]", None, "noun"),
    Token("Con", "marker", "noun"),
    Token("mèo", "noun", "adjective"),
    Token("đen", "adjective", "verb"),
    Token("ngồi", "verb"),
)
LANGUAGES = {"source": "en", "target": "vi"}
# Who asks, who answers, and whether what comes later is hidden.
KINDS: dict[str, tuple[str, str, bool]] = {
    "encoder": ("source", "source", False),
    "decoder": ("target", "target", True),
    "cross": ("target", "source", False),
}
OPENING_QUERY = 2


class Switchboard(CourseWidget):
    """Two sentences and one choice: which of them asks, and which of them answers.

    Args:
        kind: "encoder" (self-attention of the source), "decoder" (masked self-attention of the
            translation) or "cross" (the translation asks, the source answers).
        written: How many tokens the decoder has, 1 to 5. Changing it or the kind moves `query`
            to the last token that asks, where it would be beyond.
        query: The token that asks, from 0.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds the `kind`, the sentences that it `asks` and `answers` with ("source" or
    "target") and, by `mha_lib.attention`, `keep` (who may look at whom), `scores` and `weights`,
    each (L, S).

    >>> demo = Switchboard()
    >>> [round(weight, 2) for weight in demo.result["weights"][demo.query]]
    [0.04, 0.87, 0.04, 0.04]
    """

    module = "switchboard.js"
    # The query last: the other two say which there are.
    inputs = ("kind", "written", "query")
    constants = ("recipe",)

    kind = traitlets.Enum(tuple(KINDS), "cross").tag(sync=True)
    written = traitlets.Int(len(TARGET)).tag(sync=True)
    query = traitlets.Int(OPENING_QUERY).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def compute(self) -> dict[str, Any]:
        """Let one sentence ask and one answer, by mha_lib."""
        asks, answers, causal = KINDS[self.kind]
        matrices = _projections(cross=asks != answers)
        sentences = {"source": _features(SOURCE), "target": _features(TARGET)[: self.written]}
        q = sentences[asks] @ matrices["W_Q"]  # (L, d_k)
        k = sentences[answers] @ matrices["W_K"]  # (S, d_k)
        v = sentences[answers] @ matrices["W_V"]  # (S, d_k)
        trace = attention(q[None, None], k[None, None], v[None, None], causal=causal, trace=True)
        return {
            "kind": self.kind,
            "asks": asks,
            "answers": answers,
            "keep": trace.masked_scores[0, 0].isfinite().tolist(),
            "scores": trace.scores[0, 0].tolist(),
            "weights": trace.weights[0, 0].tolist(),
        }

    def fallback(self) -> str:
        """Return the weights as a table, with a cross where a cell is shut."""
        asks, answers = self.result["asks"], self.result["answers"]
        columns = "".join(_header(answers, word, "col") for word in self._words(answers))
        rows = [f"<td></td>{columns}"]
        table = zip(self._words(asks), self.result["keep"], self.result["weights"], strict=True)
        for word, keep, weights in table:
            cells = [
                f"<td>{weight:.2f}</td>" if kept else "<td>✕</td>"
                for kept, weight in zip(keep, weights, strict=True)
            ]
            rows.append(_header(asks, word, "row") + "".join(cells))
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def _words(self, sentence: str) -> list[str]:
        return _texts(SOURCE) if sentence == "source" else _texts(TARGET)[: self.written]

    @traitlets.default("recipe")
    def _recipe(self) -> dict[str, Any]:
        sentences = {"source": SOURCE, "target": TARGET}
        return {
            "sentences": {
                name: {
                    "language": LANGUAGES[name],
                    "words": _texts(tokens),
                    "features": _features(tokens).tolist(),  # (N, d_model)
                }
                for name, tokens in sentences.items()
            },
            "kinds": {
                kind: {"asks": asks, "answers": answers, "causal": causal}
                for kind, (asks, answers, causal) in KINDS.items()
            },
            "projections": {
                name: {each: matrix.tolist() for each, matrix in _projections(cross=cross).items()}
                for name, cross in (("self", False), ("cross", True))
            },
        }

    @traitlets.observe("kind", "written")
    def _keep_query_in_range(self, _change: object) -> None:
        self.query = min(self.query, len(self._words(KINDS[self.kind][0])) - 1)

    @traitlets.validate("written")
    def _check_written(self, proposal: dict[str, Any]) -> int:
        written: int = proposal["value"]
        if not 1 <= written <= len(TARGET):
            raise traitlets.TraitError(
                f"written={written} is outside 1 to {len(TARGET)}; say how many of "
                f"{' '.join(_texts(TARGET))!r}'s tokens the decoder has"
            )
        return written

    @traitlets.validate("query")
    def _check_query(self, proposal: dict[str, Any]) -> int:
        query: int = proposal["value"]
        words = self._words(KINDS[self.kind][0])
        if not 0 <= query < len(words):
            listed = ", ".join(f"{place} {word}" for place, word in enumerate(words))
            raise traitlets.TraitError(
                f"query={query} is outside 0 to {len(words) - 1}; with kind={self.kind!r} and "
                f"written={self.written} choose one of: {listed}"
            )
        return query


def _texts(tokens: tuple[Token, ...]) -> list[str]:
    return [token.text for token in tokens]


def _features(tokens: tuple[Token, ...]) -> Tensor:
    """What each token is, then what its row needs: (N, d_model), d_model = 2 * d_k."""
    rows = [[float(role == each) for each in ROLES] for _, role, _ in tokens]
    needs = [[float(need == each) for each in ROLES] for _, _, need in tokens]
    return torch.tensor([a + b for a, b in zip(rows, needs, strict=True)], dtype=torch.float64)


def _projections(*, cross: bool) -> dict[str, Tensor]:
    """W_Q, W_K and W_V, each (d_model, d_k); a kind of attention has matrices of its own."""
    table = [[WANTED[mine].get(yours, 0.0) for yours in ROLES] for mine in ROLES]
    wanted = GAIN * torch.tensor(table, dtype=torch.float64)  # (d_k, d_k)
    eye = torch.eye(D_K, dtype=torch.float64)
    none = torch.zeros_like(eye)
    asks = [none, GAIN * eye] if cross else [wanted, none]
    is_ = torch.cat([eye, none])
    return {"W_Q": torch.cat(asks), "W_K": is_, "W_V": is_}


def _header(sentence: str, word: str, scope: str) -> str:
    return f'<th scope="{scope}" lang="{LANGUAGES[sentence]}">{escape(word)}</th>'
