"""How far each head follows a relation, and what else would get the same score.

Two kinds of scores, both from 0 to 1. Where a relation is a place (the token before), the score
is the **mean weight** there. Where people have labelled which word belongs to which, it is how
often the labelled word gets the **most weight** of all words: special tokens and the word itself
do not count, since a head may rest there.

Each comes with what is to be had without the relation: by chance, by looking a fixed number of
tokens away, and by the best head of the same model before any training.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mha_lib.pretrained.reading import Reading

LABELLED = Path(__file__).parent / "labelled"
KINDS = ("object", "pronoun", "pair", "compound")


class Link(NamedTuple):
    """A relation from one word of a sentence to another, both counted from 0.

    >>> Link("object", 1, 2).kind
    'object'
    """

    kind: str
    query: int
    key: int


class Labelled(NamedTuple):
    """A sentence, and the links in it that people have labelled.

    >>> Labelled("I see it", (Link("object", 1, 2),)).links[0].key
    2
    """

    sentence: str
    links: tuple[Link, ...]


def labelled(language: str) -> list[Labelled]:
    """Read the labelled sentences of a language ("en", "vi" or "ms").

    >>> labelled("vi")[1]
    Labelled(sentence='Tôi yêu Việt Nam', links=(Link(kind='object', query=1, key=2), \
Link(kind='compound', query=3, key=2)))
    """
    text = (LABELLED / f"{language}.txt").read_text("utf-8")
    return [parse(line) for line in text.splitlines() if not line.startswith("#")]


def parse(line: str) -> Labelled:
    """Read a line such as "tôi yêu anh | object: yêu>anh".

    Raises:
        ValueError: A kind that is not known, or a word that does not stand there once.

    >>> parse("a cat and a cat | pair: cat#1>cat#2").links
    (Link(kind='pair', query=1, key=4),)
    """
    sentence, *parts = line.split(" | ")
    words = sentence.split()
    links = []
    for part in parts:
        kind, pairs = part.split(": ")
        if kind not in KINDS:
            raise ValueError(f"{line!r}: {kind!r} is not one of {', '.join(KINDS)}")
        for pair in pairs.split(", "):
            query, key = (_place(word, words, line) for word in pair.split(">"))
            links.append(Link(kind, query, key))
    return Labelled(sentence, tuple(links))


def _place(name: str, words: list[str], line: str) -> int:
    word, _, which = name.partition("#")
    places = [i for i, each in enumerate(words) if each == word]
    if not places or (len(places) > 1 and not which):
        raise ValueError(
            f"{line!r}: {name!r} stands there {len(places)} times; name a word of the sentence, "
            "and write word#2 for the second of two"
        )
    return places[int(which or 1) - 1]


class Score(NamedTuple):
    """What the heads get in one relation.

    Attributes:
        heads: (layers, h), each head's score.
        places: How many places it is measured at.
        chance: What looking everywhere alike would get.
        offset: The fixed distance that gets most, and what it gets; None where the relation
            is such a distance itself.

    >>> Score([[0.5]], 10, 0.2, None).best()
    (0, 0)
    """

    heads: list[list[float]]
    places: int
    chance: float
    offset: tuple[int, float] | None

    def best(self) -> tuple[int, int]:
        """Return the layer and the head with the highest score, from 0."""
        places = [(layer, head) for layer, row in enumerate(self.heads) for head in range(len(row))]
        return max(places, key=lambda place: self.heads[place[0]][place[1]])


Pairs = list[tuple[int, int]]
Places = Callable[[Sequence[bool], Sequence[int | None]], Pairs]


def _plain(special: Sequence[bool]) -> list[int]:
    return [i for i, added in enumerate(special) if not added]


def _next_to(step: int) -> Places:
    def pairs(special: Sequence[bool], _: Sequence[int | None]) -> Pairs:
        plain = _plain(special)
        return [(i, i + step) for i in plain if i + step in plain]

    return pairs


def _special(which: int) -> Places:
    def pairs(special: Sequence[bool], _: Sequence[int | None]) -> Pairs:
        # Where the tokenizer adds one token only, it is the first: the last is not another.
        added = [i for i, mark in enumerate(special) if mark]
        there = added[which:][:1] if which == 0 or len(added) > 1 else []
        return [(i, key) for i in _plain(special) for key in there]

    return pairs


def _same_word(_: Sequence[bool], words: Sequence[int | None]) -> Pairs:
    return [
        (i, j)
        for i, word in enumerate(words)
        for j, other in enumerate(words)
        if i != j and word is not None and word == other
    ]


PLACES: dict[str, Places] = {
    "previous": _next_to(-1),
    "next": _next_to(1),
    "itself": _next_to(0),
    "first": _special(0),
    "last": _special(-1),
    "same_word": _same_word,
}
"""For each relation that is a place: pairs of a token and where the relation leads from it.

Given are, for each token, whether it is special, and its word. `same_word` leads to the other
tokens of a word that is cut into several.
"""


def mean_weight(name: str, readings: Sequence[Reading]) -> Score | None:
    """Measure how much weight each head has at a place such as "previous", mean over tokens.

    A head that looks at all N tokens alike has 1/N: that is `chance`. None where no token has
    such a place.
    """
    weights: list[Tensor] = []
    chances = []
    for reading in readings:
        for query, key in PLACES[name](reading.special, reading.words):
            weights.append(reading.weights[:, :, query, key])
            chances.append(1 / len(reading.tokens))
    if not weights:
        return None
    return Score(torch.stack(weights).mean(dim=0).tolist(), len(weights), mean(chances), None)


def most_weight(kind: str, sentences: Sequence[Labelled], readings: Sequence[Reading]) -> Score:
    """Measure how often the word that a link leads to gets the most weight of all words.

    A word of several tokens is looked for at its first. `chance` is that of a head that takes
    one of the words, but not the word itself, by lot.
    """
    hits: list[Tensor] = []
    offsets: list[int] = []
    chances = []
    for each, reading in zip(sentences, readings, strict=True):
        starts = first_tokens(reading)
        # Words and tokens are counted alike only where no word is cut at a hyphen or a full stop.
        if len(starts) != len(each.sentence.split()):
            raise ValueError(
                f"{each.sentence!r} has {len(each.sentence.split())} words, and {reading.model} "
                f"reads {len(starts)}: {reading.tokens}; leave out signs between words"
            )
        for link in each.links:
            if link.kind != kind:
                continue
            query, key = starts[link.query], starts[link.key]
            barred = torch.tensor(reading.special)
            barred[query] = True
            row = reading.weights[:, :, query].masked_fill(barred, -1.0)  # (layers, h, N)
            hits.append((row.argmax(dim=-1) == key).double())
            offsets.append(key - query)
            chances.append(1 / int((~barred).sum()))
    [(offset, times)] = Counter(offsets).most_common(1)
    shares = torch.stack(hits).mean(dim=0).tolist()
    return Score(shares, len(hits), mean(chances), (offset, times / len(hits)))


def first_tokens(reading: Reading) -> list[int]:
    """Return for each word where its first token stands."""
    starts: dict[int, int] = {}
    for token, word in enumerate(reading.words):
        if word is not None:
            starts.setdefault(word, token)
    return list(starts.values())


def measure(
    sentences: Sequence[Labelled],
    read: Callable[[str], Reading],
    untrained: Callable[[str], Reading],
) -> dict[str, dict[str, Any]]:
    """Measure every relation that the sentences have, in a model and in one without training.

    Args:
        sentences: What is read.
        read: The model's own `read`.
        untrained: The same of a model of the same form, with random weights.

    Returns:
        By the relation's name: `heads`, `places`, `chance` and `offset` as in `Score`, `best`,
        the layer and head of the highest, and `untrained`, the highest without training.
    """
    ours = [read(each.sentence) for each in sentences]
    random = [untrained(each.sentence) for each in sentences]
    kinds = [
        kind for kind in KINDS if any(link.kind == kind for s in sentences for link in s.links)
    ]
    found = {}
    for name in (*PLACES, *kinds):
        score, other = (
            mean_weight(name, read) if name in PLACES else most_weight(name, sentences, read)
            for read in (ours, random)
        )
        if score is None or other is None:
            continue
        layer, head = other.best()
        found[name] = score._asdict() | {
            "best": score.best(),
            "untrained": other.heads[layer][head],
        }
    return found
