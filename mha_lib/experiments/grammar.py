"""A made-up language with three relations, and a model that must find all three at once.

A sentence has 8 tokens. Each is a word with a marker on it, as in a language with cases. The
words come from 4 of 8 classes, two from each; the markers are subject, verb, object and adverb
of two clauses; the order is free. At each token the model must name three words:

- **previous**: the word before it (by position);
- **partner**: the other word of its class (by meaning);
- **governor**: for a subject, object or adverb the verb of its clause, for a verb its subject
  (by grammar).

The model has one attention layer and no MLP. So whatever it knows of another token, a head has
brought. The number of its parameters does not depend on the number of heads.

Letters in shapes: B batch, N = 8 tokens, R = 3 relations, W = 32 words, h heads.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_lib.experiments.training import Progress, Way, one_thread, seeded, train
from mha_lib.multihead import MultiHeadAttention
from mha_lib.trace import MultiHeadTrace

CLASSES = 8
MEMBERS = 4  # words of a class
WORDS = CLASSES * MEMBERS  # word w is of class w // MEMBERS
LENGTH = 8  # tokens of a sentence, and markers
RELATIONS = ("previous", "partner", "governor")
ROLES = ("subject", "verb", "object", "adverb")  # marker m is role m % 4 in clause m // 4
# How words and markers are written: the words of a class share their stem.
_STEMS, _ENDINGS = ("mil", "tar", "nek", "sof", "ban", "rud", "pev", "gol"), ("a", "e", "i", "o")
WORD_NAMES = tuple(stem + ending for stem in _STEMS for ending in _ENDINGS)
MARKER_NAMES = ("S1", "V1", "O1", "A1", "S2", "V2", "O2", "A2")
_GOVERNORS = torch.tensor([1, 0, 1, 1, 5, 4, 5, 5])  # the marker that governs each marker


class Sentences(NamedTuple):
    """Sentences, and where the token stands that each relation asks for.

    `words` (B, N), `markers` (B, N), `places` (B, N, R). The first token has no previous one:
    its place there is its own, and does not count.

    >>> sentences = draw(2, torch.Generator().manual_seed(0))
    >>> tuple(sentences.words.shape), tuple(sentences.answers().shape)
    ((2, 8), (2, 8, 3))
    """

    words: Tensor
    markers: Tensor
    places: Tensor

    def answers(self) -> Tensor:
        """Return the words that are asked for, (B, N, R)."""
        words = self.words[:, :, None].expand_as(self.places)  # (B, N, R)
        return words.gather(1, self.places)


def relate(words: Tensor, markers: Tensor) -> Sentences:
    """Find for each token of given sentences the tokens that the relations ask for.

    Args:
        words: (B, N), two of each of 4 classes.
        markers: (B, N), each once.

    Raises:
        ValueError: A sentence of another length, a word without exactly one partner, or a marker
            that does not stand there once.

    >>> words = torch.tensor([[0, 4, 8, 12, 13, 9, 5, 1]])
    >>> relate(words, torch.arange(8)[None]).places[0, 3]  # an adverb, of clause 0
    tensor([2, 4, 1])
    """
    if words.shape != markers.shape or words.dim() != 2 or words.shape[1] != LENGTH:
        raise ValueError(
            f"words {tuple(words.shape)} and markers {tuple(markers.shape)} should both be "
            f"(B, {LENGTH}): a sentence has {LENGTH} tokens, each with a marker"
        )
    if not torch.equal(markers.sort(dim=1).values, torch.arange(LENGTH).expand_as(markers)):
        raise ValueError(f"each marker from 0 to {LENGTH - 1} stands once; got {markers.tolist()}")
    classes = words // MEMBERS  # (B, N)
    same = classes[:, :, None] == classes[:, None, :]  # (B, N, N)
    same &= ~torch.eye(LENGTH, dtype=torch.bool)
    if not (same.sum(dim=-1) == 1).all():
        raise ValueError(
            f"each word needs one partner of its class; got classes {classes.tolist()}"
        )
    previous = (torch.arange(LENGTH) - 1).clamp(min=0).expand_as(words)  # (B, N)
    partner = same.int().argmax(dim=-1)  # (B, N)
    place_of_marker = markers.argsort(dim=1)  # (B, N)
    governor = place_of_marker.gather(1, _GOVERNORS[markers])  # (B, N)
    return Sentences(words, markers, torch.stack([previous, partner, governor], dim=-1))


def draw(count: int, generator: torch.Generator) -> Sentences:
    """Draw sentences: classes, words, markers and order are all by chance.

    >>> draw(1, torch.Generator().manual_seed(0)).markers.sort().values
    tensor([[0, 1, 2, 3, 4, 5, 6, 7]])
    """

    def shuffled(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).argsort(dim=-1)

    pairs = LENGTH // 2
    classes = shuffled(count, CLASSES)[:, :pairs]  # (B, 4)
    members = shuffled(count, pairs, MEMBERS)[:, :, :2]  # (B, 4, 2)
    words = (classes[:, :, None] * MEMBERS + members).reshape(count, LENGTH)  # (B, 4, 2) -> (B, N)
    words = words.gather(1, shuffled(count, LENGTH))
    return relate(words, shuffled(count, LENGTH))


class GrammarModel(nn.Module):
    """One attention layer without an MLP, which names three words at each token.

    Args:
        num_heads: How many heads, h.
        embed_dim: Width of a token, d_model.
        head_dim: Width of a head; embed_dim / num_heads unless given.
        unit_variance: Whether the numbers of queries and keys start with variance 1, so that a
            score's variance is d_k before it is scaled (Vaswani et al. 2017); else with 1/3, and
            a score's variance is d_k / 9.

    >>> model = GrammarModel(num_heads=3)
    >>> sum(p.numel() for p in model.parameters())  # the same for every number of heads
    16608
    """

    def __init__(
        self,
        num_heads: int,
        *,
        embed_dim: int = 48,
        head_dim: int | None = None,
        unit_variance: bool = False,
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(WORDS, embed_dim)
        self.marker = nn.Embedding(LENGTH, embed_dim)
        self.place = nn.Embedding(LENGTH, embed_dim)
        for table in (self.word, self.marker, self.place):
            nn.init.normal_(table.weight, std=0.6)
        self.norm = nn.LayerNorm(embed_dim)
        self.attention = MultiHeadAttention(embed_dim, num_heads, head_dim=head_dim)
        if unit_variance:  # a LayerNorm comes before, so that its inputs have variance 1
            for projection in (self.attention.q_proj, self.attention.k_proj):
                nn.init.normal_(projection.weight, std=embed_dim**-0.5)
        self.last_norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, len(RELATIONS) * WORDS)

    def forward(
        self,
        words: Tensor,
        markers: Tensor,
        *,
        head_mask: Tensor | None = None,
        scaled: bool = True,
    ) -> Tensor:
        """Name the three words at each token.

        Args:
            words: (B, N).
            markers: (B, N).
            head_mask: (h,), True = keep; see `MultiHeadAttention.forward`.
            scaled: Whether scores are divided by sqrt(d_k), as they should be.

        Returns:
            (B, N, R, W), logits.
        """
        x = self.word(words) + self.marker(markers) + self.place.weight  # (B, N, d_model)
        unscale = self.attention.head_dim**0.5
        edit = None if scaled else {"scores": lambda scores: scores * unscale}
        found = self.attention(self.norm(x), head_mask=head_mask, edit=edit)  # (B, N, d_model)
        logits: Tensor = self.head(self.last_norm(x + found))  # (B, N, R*W)
        return logits.view(*words.shape, len(RELATIONS), WORDS)  # (B, N, R*W) -> (B, N, R, W)

    def trace(self, words: Tensor, markers: Tensor) -> MultiHeadTrace:
        """Return every step of the attention."""
        x = self.word(words) + self.marker(markers) + self.place.weight  # (B, N, d_model)
        steps: MultiHeadTrace = self.attention(self.norm(x), trace=True)
        return steps


def train_grammar(
    num_heads: int,
    *,
    seed: int = 0,
    steps: int = 800,
    embed_dim: int = 48,
    head_dim: int | None = None,
    scaled: bool = True,
    unit_variance: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[GrammarModel, Way]:
    """Train a model on the made-up language, from new sentences at each step.

    Args:
        num_heads: How many heads.
        seed: Decides the weights at the start and all sentences.
        steps: How many batches of 64 sentences.
        embed_dim, head_dim, unit_variance: See `GrammarModel`.
        scaled: See `GrammarModel.forward`.
        device: "cuda" trains on a GPU.
        progress: See `train`.

    Returns:
        The model, and how it went; the scores are the accuracy in each relation.

    >>> model, way = train_grammar(num_heads=3, steps=2)
    >>> model.attention.num_heads, way.curve
    (3, [])
    """
    with seeded(seed) as generator:
        model = GrammarModel(
            num_heads, embed_dim=embed_dim, head_dim=head_dim, unit_variance=unit_variance
        ).to(device)

        def loss() -> Tensor:
            sentences = Sentences(*(each.to(device) for each in draw(64, generator)))
            logits = model(sentences.words, sentences.markers, scaled=scaled)  # (B, N, R, W)
            each = F.cross_entropy(
                logits.flatten(0, 2), sentences.answers().flatten(), reduction="none"
            )  # (B*N*R)
            return each[_counted(sentences).flatten()].mean()

        way = train(
            model,
            loss,
            lambda: accuracy(model, 128, seed=seed + 1, scaled=scaled),
            steps=steps,
            learning_rate=3e-3,
            weight_decay=0.01,
            decay=True,
            progress=progress,
        )
    return model, way


def accuracy(
    model: GrammarModel,
    count: int = 1024,
    *,
    seed: int = 1,
    head_mask: Tensor | None = None,
    scaled: bool = True,
) -> tuple[float, ...]:
    """Measure how often the model names the right word, for each relation.

    Args:
        model: What is measured.
        count: How many sentences, all of them new.
        seed: Which ones.
        head_mask: See `GrammarModel.forward`: takes heads away.
        scaled: See `GrammarModel.forward`.

    >>> len(accuracy(GrammarModel(3), count=4))
    3
    """

    def right(sentences: Sentences) -> Tensor:
        logits: Tensor = model(
            sentences.words, sentences.markers, head_mask=head_mask, scaled=scaled
        )
        return (logits.argmax(dim=-1) == sentences.answers()).float()  # (B, N, R)

    return _mean_by_relation(model, right, count, seed)


def attention_mass(model: GrammarModel, count: int = 1024, *, seed: int = 1) -> list[list[float]]:
    """Measure how much weight each head puts on the token that each relation asks for.

    Returns:
        For each head, for each relation, the mean weight; a head that looks everywhere alike
        has 1 / 8.

    >>> [len(row) for row in attention_mass(GrammarModel(2), count=4)]
    [3, 3]
    """
    return [
        list(_mean_by_relation(model, partial(_mass, model, head), count, seed))
        for head in range(model.attention.num_heads)
    ]


def _mass(model: GrammarModel, head: int, sentences: Sentences) -> Tensor:
    weights = model.trace(sentences.words, sentences.markers).weights[:, head]  # (B, N, N)
    return weights.gather(2, sentences.places)  # (B, N, R)


@one_thread()
def _mean_by_relation(
    model: GrammarModel, measure: Callable[[Sentences], Tensor], count: int, seed: int
) -> tuple[float, ...]:
    """Average (B, N, R) over sentences and tokens, where a relation asks for a token."""
    device = model.head.weight.device
    drawn = draw(count, torch.Generator().manual_seed(seed))
    sentences = Sentences(*(each.to(device) for each in drawn))
    with torch.no_grad():
        counted = _counted(sentences)
        measured = measure(sentences) * counted  # (B, N, R)
    return tuple((measured.sum(dim=(0, 1)) / counted.sum(dim=(0, 1))).tolist())


def _counted(sentences: Sentences) -> Tensor:
    """Return where a relation asks for a token, (B, N, R): all but the word before the first."""
    counted = torch.ones_like(sentences.places, dtype=torch.bool)
    counted[:, 0, 0] = False
    return counted
