"""Three heads whose weights are set by hand, so that a reader can see what each one looks for.

A word is 18 numbers, d_model = h * d_k = 3 * 6, in three blocks of six: what role the word
plays in its sentence, what it means, where it stands. Head 1 (syntax) compares roles, head 2
(meaning) compares meanings, head 3 (position) compares places. All three pass on meanings:

    W_Q   reads a head's own block and turns it into what the word is looking for
    W_K   reads the same block as it is: what a word offers
    W_V   reads the meaning block, in every head: what a word has to tell
    W_O   adds the three heads' findings up in the meaning block of the output

Trained heads are rarely this clean. The weights are set, the attention is not: it is
`MultiHeadAttention`, unchanged.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mha_lib.multihead import MultiHeadAttention

HEADS = ("syntax", "meaning", "position")
NUM_HEADS = len(HEADS)  # h
HEAD_DIM = 6  # d_k
EMBED_DIM = NUM_HEADS * HEAD_DIM  # d_model

ROLES = ("subject", "verb", "object", "article", "preposition", "complement")
MEANINGS = ("person", "feeling", "country", "animal", "rest", "surface")
MEANING_BLOCK = slice(HEAD_DIM, 2 * HEAD_DIM)

OPENING_GAINS = (8.0, 8.0, 8.0)
"""How sharply each head looks: its W_Q is what it wants, times this. At 0 all words are equal."""


class Word(NamedTuple):
    """A word with the one role and the one meaning that it is given here.

    >>> Word("yêu", "verb", "feeling").role
    'verb'
    """

    text: str
    role: str
    meaning: str | None


class Sentence(NamedTuple):
    """Words in order, and the language they are in.

    >>> len(Sentence("vi", (Word("Việt", "object", "country"),)).words)
    1
    """

    language: str
    words: tuple[Word, ...]


SENTENCES: Mapping[str, Sentence] = {
    "Tôi yêu Việt Nam": Sentence(
        "vi",
        (
            Word("Tôi", "subject", "person"),
            Word("yêu", "verb", "feeling"),
            Word("Việt", "object", "country"),
            Word("Nam", "object", "country"),
        ),
    ),
    "The cat sat on the mat": Sentence(
        "en",
        (
            Word("The", "article", None),
            Word("cat", "subject", "animal"),
            Word("sat", "verb", "rest"),
            Word("on", "preposition", None),
            Word("the", "article", None),
            Word("mat", "complement", "surface"),
        ),
    ),
}

# What a word that has a feature looks for in other words, and how much.
WANTED_ROLES: Mapping[str, Mapping[str, float]] = {
    "subject": {"verb": 1.0},
    "verb": {"subject": 1.0, "object": 1.0, "preposition": 1.0},
    "object": {"verb": 1.0},
    "article": {"subject": 1.0, "object": 1.0, "complement": 1.0},
    "preposition": {"verb": 1.0, "complement": 1.0},
    "complement": {"preposition": 1.0},
}
WANTED_MEANINGS: Mapping[str, Mapping[str, float]] = {
    "person": {"feeling": 1.0},
    "feeling": {"country": 1.0, "person": 0.25},
    "country": {"country": 1.0, "feeling": 0.5},
    "animal": {"rest": 1.0, "surface": 1.0},
    "rest": {"animal": 1.0, "surface": 1.0},
    "surface": {"animal": 1.0, "rest": 0.5},
}
WANTED_DISTANCES: Mapping[int, float] = {-1: 1.0, 1: 0.75}


def features(sentence: str) -> Tensor:
    """Return a sentence's words as vectors, (N, d_model), float64.

    Raises:
        ValueError: when the sentence is not one of `SENTENCES`.

    >>> features("Tôi yêu Việt Nam").shape
    torch.Size([4, 18])
    """
    if sentence not in SENTENCES:
        known = " or ".join(repr(each) for each in SENTENCES)
        raise ValueError(f"sentence={sentence!r} has no features set by hand; use {known}")
    words = SENTENCES[sentence].words
    x = torch.zeros(len(words), EMBED_DIM, dtype=torch.float64)
    # Views of x, each (N, d_k): what is written into them stands in x.
    roles, meanings, places = x.view(len(words), NUM_HEADS, HEAD_DIM).unbind(1)
    for place, word in enumerate(words):
        roles[place, ROLES.index(word.role)] = 1.0
        if word.meaning is not None:
            meanings[place, MEANINGS.index(word.meaning)] = 1.0
        places[place, place] = 1.0
    return x


def projections(gains: Sequence[float] = OPENING_GAINS) -> dict[str, Tensor]:
    """Return W_Q, W_K, W_V and W_O, each (d_model, d_model), float64, so that Q = X W_Q.

    Args:
        gains: One number per head; head i's columns of W_Q are multiplied by gains[i].

    Raises:
        ValueError: when there is not one gain for each head.

    >>> projections()["W_Q"].shape
    torch.Size([18, 18])
    """
    if len(gains) != NUM_HEADS:
        raise ValueError(f"gains={list(gains)!r} has {len(gains)} numbers; give {NUM_HEADS}")
    wanted = (
        _wanted_by_name(ROLES, WANTED_ROLES),
        _wanted_by_name(MEANINGS, WANTED_MEANINGS),
        _wanted_by_place(),
    )  # each (d_k, d_k)
    w_q = torch.zeros(EMBED_DIM, EMBED_DIM, dtype=torch.float64)
    for head, want in enumerate(wanted):
        own = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
        w_q[own, own] = gains[head] * want

    eye = torch.eye(EMBED_DIM, dtype=torch.float64)
    meaning = eye[:, MEANING_BLOCK]  # (d_model, d_k)
    return {
        "W_Q": w_q,
        "W_K": eye,
        "W_V": meaning.repeat(1, NUM_HEADS),
        "W_O": meaning.T.repeat(NUM_HEADS, 1),
    }


def hand_set_heads(gains: Sequence[float] = OPENING_GAINS) -> MultiHeadAttention:
    """Return a `MultiHeadAttention` (float64, no bias) that holds these weights.

    >>> x = features("Tôi yêu Việt Nam").unsqueeze(0)  # (1, N, d_model)
    >>> weights = hand_set_heads()(x, trace=True).weights[0]  # (h, N, N)
    >>> [round(weight, 2) for weight in weights[1, 1].tolist()]  # meaning: where yêu looks
    [0.04, 0.02, 0.47, 0.47]
    """
    layer = MultiHeadAttention(EMBED_DIM, NUM_HEADS, bias=False, dtype=torch.float64)
    linears = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    with torch.no_grad():
        for linear, matrix in zip(linears, projections(gains).values(), strict=True):
            # nn.Linear multiplies by its weight transposed.
            linear.weight.copy_(matrix.T)
    return layer


def _wanted_by_name(names: Sequence[str], wants: Mapping[str, Mapping[str, float]]) -> Tensor:
    """Row: what the word is; column: what it looks for there, (d_k, d_k)."""
    table = [[wants[mine].get(yours, 0.0) for yours in names] for mine in names]
    return torch.tensor(table, dtype=torch.float64)


def _wanted_by_place() -> Tensor:
    """Row: where the word stands; column: the place it looks at, (d_k, d_k)."""
    places = range(HEAD_DIM)
    table = [[WANTED_DISTANCES.get(yours - mine, 0.0) for yours in places] for mine in places]
    return torch.tensor(table, dtype=torch.float64)
