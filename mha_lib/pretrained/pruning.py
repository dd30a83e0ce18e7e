"""Switch a model's heads off, more and more, and see what is lost.

Two things are watched. A **task**: how well the likeness of two sentences' vectors follows the
grades that people gave them (Spearman's rank correlation, 1 being the same order). And the **gap**
between two meanings of one word (`meaning.py`), which the sentence's other words must bring. A
task that needs little of what the heads bring does not notice when they go.

Heads go in three orders. **one_shot**: each is switched off alone, and those that change the
sentences' vectors least go first. **greedy**: the same, but measured anew after every few.
**random**: by lot, several times. No grade is looked at to find an order.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mha_lib.pretrained.loading import Pretrained
from mha_lib.pretrained.meaning import WORD, apart, cosines, uses
from mha_lib.pretrained.relations import LABELLED, labelled

Head = tuple[int, int]
"""A layer and a head, both from 0."""

STEP = 8  # heads that go at once
LOTS = 3  # random orders
_WATCHED = 10  # sentences by which heads are ranked


@contextmanager
def heads_off(model: Pretrained, off: Iterable[Head]) -> Iterator[None]:
    """Let heads bring nothing: what they found is 0 before W_O.

    Raises:
        ValueError: There is no such head.
        TypeError: The model is none of BERT's kind, whose parts we know.
    """
    encoder = getattr(model.model, "encoder", None)
    layers = getattr(encoder, "layer", None)
    if layers is None:
        raise TypeError(
            f"{model.name} is no encoder of BERT's kind, so we do not know where its heads end; "
            'take such a one, as load_packaged("all-MiniLM-L6-v2") gives'
        )
    count = model.model.config.num_attention_heads
    gone: dict[int, list[int]] = {}
    for layer, head in off:
        if not (0 <= layer < len(layers) and 0 <= head < count):
            raise ValueError(
                f"there is no head {layer}.{head}; {model.name} has layers 0 to {len(layers) - 1} "
                f"with heads 0 to {count - 1}"
            )
        gone.setdefault(layer, []).append(head)

    def silencer(heads: list[int]) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
        def silence(_: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
            found = given[0].clone()  # (B, N, h * d_k)
            found.view(*found.shape[:-1], count, -1)[..., heads, :] = 0  # (B, N, h, d_k)
            return (found,)

        return silence

    hooks = [
        layers[layer].attention.output.dense.register_forward_pre_hook(silencer(heads))
        for layer, heads in gone.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def last_states(model: Pretrained, sentences: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Read several sentences at once, which is quicker than `read`.

    Returns:
        What the last layer gives, (n, N, d_model); the tokens' numbers, (n, N); and where there
        is a token and no padding, (n, N).
    """
    encoded = model.tokenizer(list(sentences), padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model.model(**encoded).last_hidden_state
    return states, encoded["input_ids"], encoded["attention_mask"].bool()


def sentence_vectors(model: Pretrained, sentences: Sequence[str]) -> Tensor:
    """Return a vector of length 1 for each sentence, the mean of its tokens, (n, d_model)."""
    states, _, real = last_states(model, sentences)
    sums = (states * real[..., None]).sum(dim=1)  # (n, N, d_model) -> (n, d_model)
    units: Tensor = sums / sums.norm(dim=-1, keepdim=True)
    return units


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Return Spearman's rank correlation; equal numbers share the mean of their ranks.

    >>> round(rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 9.0, 4.0])), 3)
    0.5
    """

    def ranks(x: Tensor) -> Tensor:
        below = (x[:, None] > x[None, :]).sum(dim=1)
        equal = (x[:, None] == x[None, :]).sum(dim=1)
        return below + (equal - 1) / 2 - (len(x) - 1) / 2  # their mean is 0

    first, second = ranks(a).double(), ranks(b).double()
    return float(first @ second / (first.norm() * second.norm()))


class Watch:
    """What is lost of a model, measured on the committed sentences.

    Args:
        model: An encoder of BERT's kind.
    """

    def __init__(self, model: Pretrained) -> None:
        self.model = model
        lines = (LABELLED / "pairs.txt").read_text("utf-8").splitlines()
        rows = [line.split(" | ") for line in lines if not line.startswith("#")]
        self.grades = torch.tensor([float(grade) for grade, _, _ in rows], dtype=torch.float64)
        self.left, self.right = ([row[side] for row in rows] for side in (1, 2))
        self.uses = uses()
        # Every other one, so that all kinds are among them.
        self.watched = [each.sentence for each in labelled("en")[::2]][:_WATCHED]
        self.whole = sentence_vectors(model, self.watched)
        config = model.model.config
        self.heads: list[Head] = [
            (layer, head)
            for layer in range(config.num_hidden_layers)
            for head in range(config.num_attention_heads)
        ]

    def task(self) -> float:
        """Return how well the model's likeness of sentences follows people's grades."""
        vectors = sentence_vectors(self.model, self.left + self.right)
        first, second = vectors.chunk(2)
        return rank_correlation((first * second).sum(dim=-1), self.grades)

    def gap(self) -> float:
        """Return how much nearer uses of one meaning are than uses of two, after the last layer."""
        states, numbers, _ = last_states(self.model, [use.sentence for use in self.uses])
        rows = states[numbers == self.model.tokenizer.convert_tokens_to_ids(WORD)]  # (n, d_model)
        same, other, _ = apart(cosines(rows), [use.meaning for use in self.uses])
        return same - other

    def change(self, off: Iterable[Head]) -> float:
        """Return how far the watched sentences' vectors move without these heads."""
        with heads_off(self.model, off):
            now = sentence_vectors(self.model, self.watched)
        return float((1 - (now * self.whole).sum(dim=-1)).mean())

    def curve(self, order: Sequence[Head]) -> dict[str, list[float]]:
        """Return task and gap with none off, then more and more of an order."""
        found: dict[str, list[float]] = {"task": [], "gap": []}
        for count in range(0, len(order) + 1, STEP):
            with heads_off(self.model, order[:count]):
                found["task"].append(self.task())
                found["gap"].append(self.gap())
        return found


def orders_by_change(watch: Watch) -> tuple[list[Head], list[Head]]:
    """Return the orders one_shot and greedy: those that change least go first."""
    order: list[Head] = []
    first: list[Head] = []
    while left := [head for head in watch.heads if head not in order]:
        changes = {head: watch.change([*order, head]) for head in left}
        ranked = sorted(left, key=changes.__getitem__)
        first = first or ranked  # nothing is off yet: each alone
        order += ranked[:STEP]
    return first, order


def measure(model: Pretrained) -> dict[str, Any]:
    """Take all heads of a model away in each order.

    Returns:
        `step`, how many heads lie between two points of a curve; `orders`, by name the heads as
        they go, and what `Watch.curve` says of each; and `lots`, the curves of the other random
        orders, which show how far luck goes.
    """
    watch = Watch(model)
    lots = [random.Random(seed).sample(watch.heads, len(watch.heads)) for seed in range(LOTS)]
    one_shot, greedy = orders_by_change(watch)
    orders = {"one_shot": one_shot, "greedy": greedy, "random": lots[0]}
    return {
        "step": STEP,
        "pairs": len(watch.grades),
        "orders": {
            name: {"heads": [list(head) for head in order]} | watch.curve(order)
            for name, order in orders.items()
        },
        "lots": [watch.curve(order) for order in lots[1:]],
    }
