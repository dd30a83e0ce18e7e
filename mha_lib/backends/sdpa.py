"""The same output from torch's own kernels, of which the fused never hold all the scores."""

from torch import Tensor
from torch.nn import functional as F

from mha_lib.backends.call import Call, with_four_axes


def sdpa_refuses(call: Call) -> str:
    """Say why torch's kernels cannot compute this; "" where they can."""
    if call.softcap is not None:
        return f"torch's kernels have no softcap={call.softcap}; use 'explicit' or 'flex'"
    return ""


def sdpa(call: Call) -> Tensor:
    """Compute attention with torch's `scaled_dot_product_attention`.

    A fused kernel is exact: it walks over the keys block by block and corrects the softmax as
    it goes (Dao et al. 2022, FlashAttention). Where torch has none for a case, such as dropout
    on a CPU, it computes step by step as well.

    >>> import torch
    >>> from mha_lib.backends.explicit import explicit
    >>> q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    >>> call = Call(q, k, v, causal=True, scale=0.5)
    >>> torch.allclose(sdpa(call), explicit(call).head_out, atol=1e-6)
    True
    """
    query, scale = with_positive_scale(call)
    _, h, L, _ = query.shape
    _, h_kv, S, _ = call.key.shape
    # torch aligns is_causal top-left; with L == S that is the same as our bottom-right, and
    # the kernel then skips the hidden blocks, which it cannot do for a mask.
    if call.mask is None and call.bias is None and call.window is None and L == S:
        return F.scaled_dot_product_attention(
            query,
            call.key,
            call.value,
            dropout_p=call.dropout,
            is_causal=call.causal,
            scale=scale,
            enable_gqa=h != h_kv,
        )
    keep, blind = call.visible_keys()
    # What a kernel makes of a row with no key differs between kernels and versions: show it
    # every key, then take the result away.
    shown = keep if keep is None or blind is None else keep | blind
    bias = call.bias_as(query.dtype)
    if bias is not None:
        bias = with_four_axes(bias)
        shown = bias if shown is None else bias.masked_fill(~shown, float("-inf"))
        shown = shown if blind is None else shown.masked_fill(blind, 0.0)
    output = F.scaled_dot_product_attention(
        query,
        call.key,
        call.value,
        attn_mask=shown,
        dropout_p=call.dropout,
        scale=scale,
        enable_gqa=h != h_kv,
    )
    return output if blind is None else output.masked_fill(blind, 0.0)


def with_positive_scale(call: Call) -> tuple[Tensor, float]:
    """Return the query and a scale above 0 that give the same scores.

    A kernel may hide with -inf before it multiplies by the scale, and look for the greatest
    score before as well. Both are right for a scale above 0 only: let the query take the sign.

    >>> import torch
    >>> x = torch.ones(1, 1, 1, 2)
    >>> with_positive_scale(Call(x, x, x, scale=-0.5))
    (tensor([[[[-1., -1.]]]]), 0.5)
    """
    if call.scale > 0:
        return call.query, call.scale
    return (-call.query, -call.scale) if call.scale < 0 else (call.query * 0.0, 1.0)
