"""What a reader would pick instead of mha_lib's layer, each as plain as it is usually written.

No measurement itself: `benchmarks.attention` uses it. Shapes in the letters of mha_lib.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_lib import AttentionTrace, MultiHeadAttention


class Textbook(nn.Module):
    """The formula line by line, with every score in memory."""

    def __init__(self, d_model: int, h: int, hidden: Tensor | None) -> None:
        super().__init__()
        self.h = h
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.hidden = hidden  # (N, N), True = ignore

    def split(self, x: Tensor) -> Tensor:
        """(B, N, d_model) -> (B, h, N, d_k)."""
        B, N, d_model = x.shape
        return x.view(B, N, self.h, d_model // self.h).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, d_model) -> (B, N, d_model)."""
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # (B, h, N, N)
        if self.hidden is not None:
            scores = scores.masked_fill(self.hidden, -torch.inf)
        weights = scores.softmax(dim=-1)  # (B, h, N, N)
        concat = (weights @ v).transpose(1, 2).reshape(x.shape)  # (B, N, d_model)
        output: Tensor = self.out_proj(concat)
        return output


class Fused(nn.Module):
    """One product for all three projections, and torch's fused kernel."""

    def __init__(self, d_model: int, h: int, causal: bool) -> None:
        super().__init__()
        self.h = h
        self.causal = causal
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, d_model) -> (B, N, d_model)."""
        B, N, d_model = x.shape
        qkv = self.qkv_proj(x).view(B, N, 3, self.h, d_model // self.h)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, h, N, d_k)
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        output: Tensor = self.out_proj(heads.transpose(1, 2).reshape(B, N, d_model))
        return output


class Contender(NamedTuple):
    """A layer, and how self-attention is asked of it."""

    module: nn.Module
    call: Callable[[Tensor], object]


def output_of(result: object) -> Tensor:
    """Return the output, (B, N, d_model): the whole result, or a part of it.

    >>> output_of((torch.ones(1), None))
    tensor([1.])
    """
    if isinstance(result, Tensor):
        return result
    if isinstance(result, tuple):  # nn.MultiheadAttention gives the weights as well
        return output_of(result[0])
    assert isinstance(result, AttentionTrace)
    return result.output


@torch.no_grad()
def contenders(
    d_model: int, h: int, causal_length: int | None, device: str
) -> dict[str, Contender]:
    """Make our layer and its peers, all with the same weights.

    Args:
        d_model: Width of a token.
        h: Number of heads.
        causal_length: N where each token sees only itself and those before it, else None.
        device: Where they are.
    """
    causal = causal_length is not None
    hidden = None  # True = ignore, as torch's layer and the textbook have it
    if causal_length is not None:
        hidden = torch.ones(causal_length, causal_length, dtype=torch.bool, device=device).triu(1)
    ours = MultiHeadAttention(d_model, h, causal=causal)
    textbook = Textbook(d_model, h, hidden)
    textbook.load_state_dict(ours.state_dict())

    three = (ours.q_proj, ours.k_proj, ours.v_proj)
    weight = torch.cat([projection.weight for projection in three])  # (3 * d_model, d_model)
    bias = torch.cat([projection.bias for projection in three])  # (3 * d_model,)
    fused = Fused(d_model, h, causal)
    theirs = nn.MultiheadAttention(d_model, h, batch_first=True)
    for target, source in (
        (fused.qkv_proj.weight, weight),
        (fused.qkv_proj.bias, bias),
        (theirs.in_proj_weight, weight),
        (theirs.in_proj_bias, bias),
    ):
        target.copy_(source)
    fused.out_proj.load_state_dict(ours.out_proj.state_dict())
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())

    for module in (ours, textbook, fused, theirs):
        module.to(device)
    masked = {"attn_mask": hidden, "is_causal": causal}
    return {
        "ours": Contender(ours, ours),
        "trace": Contender(ours, lambda x: ours(x, trace=True)),
        "fused": Contender(fused, fused),
        "torch": Contender(theirs, lambda x: theirs(x, x, x, need_weights=False, **masked)),
        "torch+w": Contender(theirs, lambda x: theirs(x, x, x, **masked)),
        "textbook": Contender(textbook, textbook),
    }
