"""The formula: softmax(Q K^T / sqrt(d_k)) V, once spelled out and once fused.

Letters in shapes: B batch, h heads, L queries, S keys, d_k width of a query and key,
d_v width of a value.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, TypedDict, Unpack, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_lib.checks import (
    check_backend,
    check_causal,
    check_dropout,
    check_scale,
    check_switch,
)
from mha_lib.masks import visible_keys
from mha_lib.tensor_checks import check_attention_inputs
from mha_lib.trace import AttentionTrace


class Options(TypedDict, total=False):
    """The options of `attention`, said once more for type checkers; readers may skip this."""

    mask: Tensor | None
    causal: bool
    scale: float | None
    dropout: float
    backend: str


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    trace: Literal[False] = ...,
    **options: Unpack[Options],
) -> Tensor: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, trace: Literal[True], **options: Unpack[Options]
) -> AttentionTrace: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, trace: bool, **options: Unpack[Options]
) -> Tensor | AttentionTrace: ...
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    trace: bool = False,
) -> Tensor | AttentionTrace:
    """Mix the values, for each query by its own weights over the keys (Vaswani et al. 2017).

    Args:
        query: (B, h, L, d_k).
        key: (B, h, S, d_k).
        value: (B, h, S, d_v).
        mask: Boolean, True = keep, broadcastable to (B, h, L, S). A query that may look at
            no key gets zeros, and sends no gradient back. Hidden keys and values must be finite
            all the same: a NaN behind the mask may reach the output, as in torch.
        causal: Hide the keys that come later than the query. The last query stands beside
            the last key, so with L < S the queries are the newest tokens.
        scale: What the scores are multiplied by; 1/sqrt(d_k) unless given. To learn it, pass
            1.0 and multiply query by it.
        dropout: Probability with which a weight is dropped, at least 0 and below 1. It is
            applied whenever it is above 0: the caller knows whether this is training.
        backend: "explicit" is the formula line by line, with scores and softmax in float32
            or wider; "sdpa" is torch's `scaled_dot_product_attention`, whose fused kernels
            never hold all the scores; "auto" chooses, at present always "sdpa". Second
            derivatives need "explicit": the fused kernels have none.
        trace: Return every step instead of the output alone. The fused backend has no steps
            to show, so a trace is always computed by the explicit one.

    Returns:
        (B, h, L, d_v), or an `AttentionTrace` whose `output` is that.

    Raises:
        ValueError: Sizes, devices or numbers that do not fit together.
        TypeError: A dtype that cannot be used, a mask that is not boolean, or an option that
            is not the number or switch it must be.

    >>> query = torch.tensor([[[[4.0, 0.0]]]])  # (1, 1, 1, 2): one query, which asks for [1, 0]
    >>> key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])  # (1, 1, 2, 2): two keys
    >>> value = torch.tensor([[[[10.0], [20.0]]]])  # (1, 1, 2, 1): what each key has to give
    >>> attention(query, key, value).round(decimals=2)
    tensor([[[[10.5600]]]])
    >>> attention(query, key, value, trace=True).weights.round(decimals=3)
    tensor([[[[0.9440, 0.0560]]]])
    """
    check_attention_inputs(query, key, value, mask)
    check_causal(causal)
    check_switch("trace", trace)
    check_backend(backend)
    dropout = check_dropout(dropout)
    scale = query.shape[-1] ** -0.5 if scale is None else check_scale(scale)
    if trace:
        return explicit_attention(query, key, value, mask, causal, scale, dropout)
    if backend == "explicit":
        return explicit_attention(query, key, value, mask, causal, scale, dropout).output
    return fused_attention(query, key, value, mask, causal, scale, dropout)


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> AttentionTrace:
    """Compute attention one step after another, and keep every step.

    Takes what `attention` has checked. Half-precision inputs are widened to float32 first:
    bfloat16 keeps two to three digits, and the softmax turns a rounding error in a large score
    into a wrong weight.

    >>> q, k, v = torch.ones(3, 2, 1, 4, 8)  # each (B, h, N, d_k) = (2, 1, 4, 8)
    >>> explicit_attention(q, k, v, None, True, 1.0, 0.0).weights[0, 0]
    tensor([[1.0000, 0.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000, 0.0000],
            [0.3333, 0.3333, 0.3333, 0.0000],
            [0.2500, 0.2500, 0.2500, 0.2500]])
    """
    keep, blind = visible_keys(mask, causal, query.shape[-2], key.shape[-2], query.device)
    wide = torch.promote_types(query.dtype, torch.float32)
    with _without_autocast(query.device):
        # How well does each query fit each key?
        scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale  # (B, h, L, S)

        # exp(-inf) = 0: what is hidden here gets no weight below.
        masked_scores = scores
        if keep is not None:
            masked_scores = scores.masked_fill(~keep, -torch.inf)  # (B, h, L, S)

        # Each row of scores becomes a row of weights, which sum to 1.
        weights = _softmax(masked_scores, blind)  # (B, h, L, S)
        weights = F.dropout(weights, dropout)

        # Each query gets the mean of the values, by its weights.
        head_out = weights @ value.to(wide)  # (B, h, L, d_v)
    head_out = head_out.to(query.dtype)
    return AttentionTrace(
        q=query,
        k=key,
        v=value,
        scores=scores,
        masked_scores=masked_scores,
        weights=weights,
        head_out=head_out,
        output=head_out,
    )


def _softmax(masked_scores: Tensor, blind: Tensor | None) -> Tensor:
    """Softmax over the keys; a blind query, which sees none of them, gets weights of zero."""
    if blind is None:
        return masked_scores.softmax(dim=-1)
    # A row of -inf would divide 0 by 0, forward and backward: softmax zeros in its place.
    return masked_scores.masked_fill(blind, 0.0).softmax(dim=-1).masked_fill(blind, 0.0)


def _without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Keep autocast from narrowing the scores again, where the device has an autocast."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
) -> Tensor:
    """Compute the same output with torch's kernels, of which the fused never hold all scores.

    Takes what `attention` has checked. A fused kernel is exact: it walks over the keys block
    by block and corrects the softmax as it goes (Dao et al. 2022, FlashAttention). Where torch
    has none for a case, such as dropout on a CPU, it computes step by step as well.

    >>> q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    >>> steps = explicit_attention(q, k, v, None, True, 0.5, 0.0)
    >>> torch.allclose(fused_attention(q, k, v, None, True, 0.5, 0.0), steps.output, atol=1e-6)
    True
    """
    # A kernel may hide with -inf before it multiplies by the scale, and look for the greatest
    # score before as well. Both are right for a scale above 0 only: let query take the sign.
    if scale < 0:
        query, scale = -query, -scale
    elif scale == 0:
        query, scale = query * 0.0, 1.0

    L, S = query.shape[-2], key.shape[-2]
    # torch aligns is_causal top-left; with L == S that is the same as our bottom-right, and
    # the kernel then skips the hidden blocks, which it cannot do for a mask.
    if mask is None and L == S:
        return F.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=causal, scale=scale
        )
    keep, blind = visible_keys(mask, causal, L, S, query.device)
    # What a kernel makes of a row with no key differs between kernels and versions: show it
    # every key, then take the result away.
    shown = keep if keep is None or blind is None else keep | blind
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=shown, dropout_p=dropout, scale=scale
    )
    return output if blind is None else output.masked_fill(blind, 0.0)
