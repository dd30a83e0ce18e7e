"""Attention one step after another: the formula as it is written, and every step kept.

Letters in shapes: B batch, h heads, h_kv key heads, L queries, S keys, N where L = S, d_k width
of a query and key, d_v width of a value.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_lib.backends.call import Call
from mha_lib.tensor_checks import autocast_is_on

WIDE = torch.float32
"""The narrowest numbers that scores and weights are computed in."""

Edit = Mapping[str, Callable[[Tensor], Tensor]]
"""For a step by its name, a function of what was computed, which returns what replaces it."""


class Steps(NamedTuple):
    """What `explicit` computes, in order; `AttentionTrace` says what each is.

    >>> Steps._fields[3:]
    ('scores', 'masked_scores', 'weights', 'head_out')
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    masked_scores: Tensor
    weights: Tensor
    head_out: Tensor


def explicit(call: Call, edit: Edit | None = None) -> Steps:
    """Compute attention one step after another, and keep every step.

    Half-precision inputs are widened to float32 first: bfloat16 keeps two to three digits, and
    the softmax turns a rounding error in a large score into a wrong weight.

    >>> q, k, v = torch.ones(3, 2, 1, 4, 8)  # each (B, h, N, d_k) = (2, 1, 4, 8)
    >>> explicit(Call(q, k, v, causal=True)).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000, 0.0000],
            [0.3333, 0.3333, 0.3333, 0.0000],
            [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    kind = "cpu" if call.query.is_cpu else call.query.device.type
    if autocast_is_on(kind):
        with torch.autocast(kind, enabled=False):  # it would narrow the scores again
            return explicit(call, edit)

    q = edited(edit, "q", call.query)  # (B, h, L, d_k)
    k = edited(edit, "k", call.key)  # (B, h_kv, S, d_k)
    v = edited(edit, "v", call.value)  # (B, h_kv, S, d_v)
    # keep: which keys each query may look at. blind: the queries that may look at none.
    keep, blind = call.visible_keys()  # (B, h, L, S) and (B, h, L, 1), or None: nothing hidden
    query, key, value = q, k, v
    if (groups := call.groups) > 1:
        # Each key head once for each of the query heads that share it.
        key = k.repeat_interleave(groups, dim=1)  # (B, h_kv, S, d_k) -> (B, h, S, d_k)
        value = v.repeat_interleave(groups, dim=1)  # (B, h_kv, S, d_v) -> (B, h, S, d_v)
    narrow = q.dtype.itemsize < WIDE.itemsize
    if narrow:
        query, key, value = query.to(WIDE), key.to(WIDE), value.to(WIDE)

    # How well does each query fit each key? (The scale is 1/sqrt(d_k) unless given.)
    # (The scale goes to the queries, which are fewer numbers than the scores.)
    scores = (query * call.scale) @ key.mT  # (B, h, L, S)
    if call.softcap is not None:
        scores = call.softcap * torch.tanh(scores / call.softcap)  # (B, h, L, S)
    scores = edited(edit, "scores", scores)

    # exp(-inf) = 0: what is hidden here gets no weight below.
    bias = call.bias_as(scores.dtype)
    masked_scores = scores if bias is None else scores + bias
    if keep is not None:
        masked_scores = masked_scores.masked_fill(~keep, -torch.inf)  # (B, h, L, S)
    masked_scores = edited(edit, "masked_scores", masked_scores)

    # Each row of scores becomes a row of weights, which sum to 1.
    weights = _softmax(masked_scores, blind)  # (B, h, L, S)
    if call.dropout:
        weights = F.dropout(weights, call.dropout)
    weights = edited(edit, "weights", weights)

    # Each query gets the mean of the values, by its weights.
    head_out = weights @ value  # (B, h, L, d_v)
    if narrow:
        head_out = head_out.to(q.dtype)
    head_out = edited(edit, "head_out", head_out)
    return Steps(q, k, v, scores, masked_scores, weights, head_out)


def edited(edit: Edit | None, name: str, step: Tensor) -> Tensor:
    """Return the step, or what `edit` puts in its place.

    Raises:
        TypeError: What it puts there is no tensor, or has another dtype.
        ValueError: It has another shape, or is on another device.

    >>> edited({"weights": lambda weights: weights * 0}, "weights", torch.ones(2))
    tensor([0., 0.])
    """
    if edit is None or name not in edit:
        return step
    new = edit[name](step)
    if not isinstance(new, Tensor):
        raise TypeError(
            f"edit[{name!r}] returned a {type(new).__name__}; return a tensor, "
            "and change a copy rather than the one it is given"
        )
    if new.shape != step.shape:
        raise ValueError(
            f"edit[{name!r}] returned shape {tuple(new.shape)}, but {name} has shape "
            f"{tuple(step.shape)}; return a tensor of the same shape"
        )
    if new.dtype != step.dtype or new.device != step.device:
        error = TypeError if new.dtype != step.dtype else ValueError
        raise error(
            f"edit[{name!r}] returned {new.dtype} on {new.device}, but {name} has {step.dtype} on "
            f"{step.device}; return x.to(like) of what it was given as like"
        )
    return new


def _softmax(masked_scores: Tensor, blind: Tensor | None) -> Tensor:
    """Softmax over the keys; a blind query, which sees none of them, gets weights of zero."""
    if blind is None:
        return masked_scores.softmax(dim=-1)
    # A row of -inf would divide 0 by 0, forward and backward: softmax zeros in its place.
    return masked_scores.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)
