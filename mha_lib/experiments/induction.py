"""Sequences that repeat, and a model of attention alone that learns to copy them.

A pattern of random letters comes, and comes again. Nothing but the pattern's first round tells
what follows in the second: whoever wants to predict it must find the same letter further up and
say what came after it there. Two layers can do that, by an *induction head* (Elhage et al. 2021,
Olsson et al. 2022): a head of the first layer tells each token which one stood before it, and a
head of the second looks for the token that was preceded by the letter it stands on.

Letters in shapes: B batch, N tokens, V letters, h heads.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_lib.blocks import traced
from mha_lib.experiments.training import Progress, Way, one_thread, seeded, train
from mha_lib.multihead import MultiHeadAttention

LETTERS = 24
START = LETTERS  # the number of the token that opens each sequence
SHORTEST, LONGEST = 6, 12  # letters of a pattern
LENGTH = 2 * LONGEST  # letters that are drawn for a sequence


class Repeats(NamedTuple):
    """Sequences that repeat: `tokens` (B, 1 + LENGTH), and `periods` (B).

    >>> repeats = draw(2, torch.Generator().manual_seed(0))
    >>> tokens, period = repeats.tokens[0, 1:], int(repeats.periods[0])
    >>> bool((tokens[period:] == tokens[:-period]).all())
    True
    """

    tokens: Tensor
    periods: Tensor

    def told(self) -> Tensor:
        """Return which tokens can be known from those before, (B, LENGTH): the second round on."""
        places = torch.arange(LENGTH, device=self.tokens.device)  # (LENGTH)
        return places >= self.periods[:, None] + 1  # the first letter of a round tells where it is


def draw(count: int, generator: torch.Generator, period: int | None = None) -> Repeats:
    """Draw sequences, each with a period by chance unless one is given.

    With a given period no letter stands twice in a pattern, so that there is only one place to
    look at.

    >>> draw(3, torch.Generator().manual_seed(0), period=7).periods
    tensor([7, 7, 7])
    """
    if period is None:
        periods = torch.randint(SHORTEST, LONGEST + 1, (count,), generator=generator)
        pattern = torch.randint(LETTERS, (count, LONGEST), generator=generator)
    else:
        periods = torch.full((count,), period)
        pattern = torch.rand(count, LETTERS, generator=generator).argsort(dim=-1)[:, :period]
    places = torch.arange(LENGTH) % periods[:, None]  # (B, LENGTH)
    start = torch.full((count, 1), START)
    return Repeats(torch.cat([start, pattern.gather(1, places)], dim=1), periods)


class CopyModel(nn.Module):
    """Layers of causal attention with rotary positions, and nothing else, that predict a letter.

    Args:
        num_layers: How many layers.
        num_heads: How many heads each has.
        embed_dim: Width of a token, d_model.

    >>> CopyModel()(torch.tensor([[START, 3, 5, 3]])).shape  # (B, N) -> (B, N, V)
    torch.Size([1, 4, 24])
    """

    def __init__(self, num_layers: int = 2, *, num_heads: int = 2, embed_dim: int = 32) -> None:
        super().__init__()
        self.letter = nn.Embedding(LETTERS + 1, embed_dim)
        nn.init.normal_(self.letter.weight, std=0.5)
        self.layers = nn.ModuleList(
            MultiHeadAttention(embed_dim, num_heads, bias=False, causal=True, positions="rotary")
            for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(num_layers + 1))
        self.head = nn.Linear(embed_dim, LETTERS, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Predict at each token the letter that comes next: (B, N) -> (B, N, V), logits."""
        x = self.letter(tokens)  # (B, N, d_model)
        for norm, layer in zip(self.norms, self.layers, strict=False):
            x = x + layer(norm(x))  # (B, N, d_model)
        logits: Tensor = self.head(self.norms[-1](x))
        return logits


class HeadScores(NamedTuple):
    """What each head of each layer does, (layers, h), as mean weights from 0 to 1.

    `previous` is the weight on the token before. `induction` is how much more weight the token
    after the last place of the same letter gets than whatever stands as far back in sequences of
    other periods: so a head that looks a fixed way back, or spreads its weight over all places
    that could be meant, has about 0. It is the least of several periods. `accuracy` is the
    model's own, where the next letter can be known.

    >>> HeadScores([[0.9, 0.1], [0.2, 0.1]], [[0.0, 0.1], [0.8, 0.1]], 1.0).induction[1][0]
    0.8
    """

    previous: list[list[float]]
    induction: list[list[float]]
    accuracy: float


@one_thread()
def head_scores(
    model: CopyModel, *, count: int = 64, seed: int = 1, periods: tuple[int, ...] = (7, 9, 12)
) -> HeadScores:
    """Measure what each head does, on new sequences.

    Args:
        model: What is measured.
        count: How many sequences for each period.
        seed: Which ones.
        periods: How long the patterns are. With one period alone there is nothing to compare with,
            and `induction` lies: a head that looks that far back whatever stands there gets 1.

    >>> len(head_scores(CopyModel(num_layers=1), count=2).previous)
    1
    """
    generator = torch.Generator().manual_seed(seed)
    device = model.head.weight.device
    previous, maps, right, asked = [], [], 0.0, 0
    with torch.no_grad(), traced(model) as traces:
        for period in periods:
            tokens = draw(count, generator, period).tokens.to(device)
            logits = model(tokens[:, :-1])  # (B, LENGTH, V)
            weights = torch.stack([trace.weights.mean(dim=0) for trace in traces.values()])
            maps.append(weights)  # (layers, h, LENGTH, LENGTH)
            later = torch.arange(1, LENGTH)
            previous.append(weights[:, :, later, later - 1].mean(dim=-1))  # (layers, h)
            at = _second_round(period)  # (n)
            right += float((logits[:, at].argmax(dim=-1) == tokens[:, at + 1]).sum())
            asked += count * len(at)
    induction = []
    for period, weights in zip(periods, maps, strict=True):
        at = _second_round(period)  # (n)
        after = at - period + 1  # (n), where the first round went on
        here = weights[:, :, at, after].mean(dim=-1)  # (layers, h)
        others = [w[:, :, at, after].mean(dim=-1) for w in maps if w is not weights]
        induction.append(here - torch.stack(others).mean(dim=0) if others else here)
    return HeadScores(
        torch.stack(previous).mean(dim=0).tolist(),
        torch.stack(induction).amin(dim=0).tolist(),
        right / asked,
    )


def _second_round(period: int) -> Tensor:
    """Return the queries whose letter has stood there before, with what came after it."""
    return torch.arange(period + 1, min(2 * period, LENGTH - 1))


def train_copying(
    num_layers: int = 2,
    *,
    seed: int = 0,
    steps: int = 300,
    every: int = 25,
    period: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> tuple[CopyModel, Way]:
    """Train a model on sequences that repeat.

    Args:
        num_layers: How many layers of attention; with one it fails.
        seed: Decides the weights at the start and all sequences.
        steps: How many batches of 32 sequences.
        every: How many steps lie between two points of the curve.
        period: The length of every pattern; drawn for each sequence unless given.
        device: "cuda" trains on a GPU.
        progress: See `train`.

    Returns:
        The model, and how it went; the scores are: the best induction score of a head in the
        last layer, the best previous-token score in the first, and the accuracy.

    >>> model, way = train_copying(steps=2, every=1)
    >>> len(model.layers), len(way.curve)
    (2, 2)
    """
    with seeded(seed) as generator:
        model = CopyModel(num_layers).to(device)

        def loss() -> Tensor:
            repeats = draw(32, generator, period)
            told = repeats.told().to(device)
            tokens = repeats.tokens.to(device)
            logits = model(tokens[:, :-1])  # (B, LENGTH, V)
            return F.cross_entropy(logits[told], tokens[:, 1:][told])

        def scores() -> tuple[float, ...]:
            now = head_scores(model)
            return max(now.induction[-1]), max(now.previous[0]), now.accuracy

        way = train(
            model,
            loss,
            scores,
            steps=steps,
            learning_rate=5e-3,
            betas=(0.9, 0.98),
            warm_up=50,
            every=every,
            progress=progress,
        )
    return model, way
