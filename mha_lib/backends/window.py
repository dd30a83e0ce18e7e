"""A sliding window in time and memory linear in N: cut into chunks, and attend in each.

A window leaves a query few of the N keys. Neighbouring queries see nearly the same ones, so C
queries meet together the W keys that any of them may look at: one small product of C by W
scores, of which only two corners are hidden. (Beltagy et al. 2020, Longformer, has chunks as
long as the window; shorter ones hide less.)

Letters in shapes: B batch, h heads, h_kv key heads, G = h / h_kv queries that share a key head,
L queries, S keys, C queries in a chunk, W keys that they meet, n chunks.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_lib.backends.call import Call, with_four_axes
from mha_lib.backends.sdpa import sdpa, with_positive_scale

# Shorter chunks keep the processor waiting, longer ones compute more scores that are hidden.
CHUNK = 64
# On a CPU, so many queries at a time: what their chunks need stays in its cache.
QUERIES_AT_A_TIME = 8192


def window_refuses(call: Call) -> str:
    """Say why chunks cannot compute this; "" where they can.

    >>> x = torch.ones(1, 1, 2, 4)
    >>> window_refuses(Call(x, x, x, causal=True, window=(8, None)))
    ''
    >>> window_refuses(Call(x, x, x, causal=True))
    "no window limits both sides; pass window=256, for example, or use 'sdpa'"
    """
    left, right = call.window or (None, None)
    if left is None or (right is None and not call.causal):
        return "no window limits both sides; pass window=256, for example, or use 'sdpa'"
    if call.bias is not None:
        return "chunks take no bias; leave it out, or use 'sdpa'"
    if call.softcap is not None:
        return f"chunks take no softcap={call.softcap}; leave it out, or use 'explicit' or 'flex'"
    if call.mask is not None and with_four_axes(call.mask).shape[2] > 1:
        return (
            f"mask has shape {tuple(call.mask.shape)}, a row for each query, and chunks take one "
            "for all; pass key_mask[:, None, None] where it hides padding, or use 'sdpa'"
        )
    return ""


def window(call: Call) -> Tensor:
    """Compute attention in a window, with torch's kernel for many chunks at once.

    Takes what `window_refuses` does not refuse. Time and memory grow with N * (W + C).

    >>> from mha_lib.backends.explicit import explicit
    >>> q, k, v = torch.randn(3, 2, 4, 100, 8, generator=torch.Generator().manual_seed(0))
    >>> call = Call(q, k, v, causal=True, window=(5, None))
    >>> torch.allclose(window(call), explicit(call).head_out, atol=1e-6)
    True
    """
    (B, h, L, _), (_, h_kv, S, d_v) = call.query.shape, call.value.shape
    if B == 0:  # nothing to cut
        return sdpa(call._replace(causal=False, window=None))
    left, right = reach(call)
    C = CHUNK if L > CHUNK else L  # not min: compiled, it would vary with L
    W = left + C + right  # from the first query's leftmost key to the last one's rightmost
    filling = -L % C  # queries that fill up the last chunk
    # Query 0 stands beside key S - L, and its window begins left of that: perhaps before key 0,
    # perhaps after it. Put in front what is missing (or, below 0, take off), and behind as well.
    missing = (left - (S - L), filling + right)

    query, scale = with_positive_scale(call)
    query = F.pad(query, (0, 0, 0, filling)) if filling else query  # (B, h, n * C, d_k)
    query = torch.unflatten(query, 1, (h_kv, -1))  # (B, h_kv, G, n * C, d_k)
    real = query.new_ones(1, 1, S, dtype=torch.bool)
    if call.mask is not None:
        real = with_four_axes(call.mask)[:, :, 0].expand(-1, -1, S)  # (1 or B, 1 or h, S)
    real = F.pad(real, missing)  # False for what was missing; (1 or B, 1 or h, n * C + W - C)
    # How many keys a window holds: what is real up to its end, less what is before its start.
    upto = F.pad(real.cumsum(-1), (1, 0))
    blind = upto[..., W - C + 1 :] == upto[..., : C - W - 1]  # (1 or B, 1 or h, n * C)

    batches, heads = [query, call.key, call.value], B * h_kv
    if query.device.type == "cpu" and not torch.compiler.is_compiling():
        heads = max(1, QUERIES_AT_A_TIME // (L * call.groups))
    elif len(real) == real.shape[1] == 1:  # nothing tells sequences apart, no more than heads
        batches = [x.flatten(0, 1)[None] for x in batches]  # (1, B * h_kv, ...)
    outputs = []
    for b, sequence in enumerate(zip(*batches, strict=True)):
        if b < len(real):  # else the one mask is for all
            hidden = _hidden(real[b], blind[b], W, C, query).expand(-1, len(sequence[1]), -1, -1)
        pieces = [torch.split(x, heads) for x in sequence]
        for q, k, v, hides in zip(*pieces, torch.split(hidden, heads, 1), strict=True):
            output = F.scaled_dot_product_attention(
                _chunks(q, C),  # (n, heads, G * C, d_k)
                _windows(F.pad(k, (0, 0, *missing)), W, C),  # (n, heads, W, d_k)
                _windows(F.pad(v, (0, 0, *missing)), W, C),  # (n, heads, W, d_v)
                attn_mask=hides,
                dropout_p=call.dropout,
                scale=scale,
            )  # (n, heads, G * C, d_v)
            output = torch.unflatten(output, 2, (-1, C))  # (n, heads, G, C, d_v)
            output = output.permute(1, 2, 0, 3, 4).flatten(2, 3)  # (heads, G, n * C, d_v)
            outputs.append(output[:, :, :L])
    output = torch.cat(outputs).view(B, h, L, d_v)  # (B * h_kv, G, L, d_v) -> (B, h, L, d_v)
    if call.mask is None and L <= S:  # then each query sees the key beside it
        return output
    return output.masked_fill(blind[..., :L, None], 0.0)


def reach(call: Call) -> tuple[int, int]:
    """Return how far a query sees to its left and right; further away there are no keys anyway.

    >>> x = torch.ones(1, 1, 3, 4)
    >>> reach(Call(x, x, x, window=(256, 0)))
    (2, 0)
    """
    left, right = call.window or (None, None)
    L, S = call.query.shape[2], call.key.shape[2]
    left = S - 1 if left is None or left >= S else left
    right = L - 1 if right is None or right >= L else right
    return left, 0 if call.causal else right


def _chunks(x: Tensor, C: int) -> Tensor:
    """Cut queries into chunks: (heads, G, n * C, d) -> (n, heads, G * C, d).

    Queries that share a key head stand in one chunk: so the keys need no copy for each.
    """
    x = torch.unflatten(x, 2, (-1, C))  # (heads, G, n * C, d) -> (heads, G, n, C, d)
    return x.permute(2, 0, 1, 3, 4).flatten(2, 3)  # (n, heads, G * C, d)


def _hidden(real: Tensor, blind: Tensor, W: int, C: int, query: Tensor) -> Tensor:
    """Return what is added to the scores of one sequence: 0, or -inf where a key is hidden.

    Args:
        real: (1 or h, n * C + W - C), which keys there are.
        blind: (1 or h, n * C), which queries see none of them.
        W: Keys of a chunk.
        C: Queries of a chunk.
        query: (B, h_kv, G, n * C, d_k), for its groups, dtype and device.

    Returns:
        (n, 1 or h_kv, G * C, W).
    """
    # The window of a chunk's query i are the keys i to i + W - C among those of the chunk.
    place = torch.arange(W, device=query.device)  # (W,)
    place = place - torch.arange(C, device=query.device)[:, None]  # (C, W)
    in_window = (place >= 0) & (place <= W - C)
    keep = real.unfold(-1, W, C)[:, :, None] & in_window  # (1 or h, n, C, W)
    keep = keep.flatten(1, 2)  # (1 or h, n * C, W)
    # Softmax needs a key: give a blind query the first at hand, and take the result away later.
    keep[..., 0] |= blind
    groups = query.shape[2]
    mine = 1 if len(keep) == 1 else groups
    keep = torch.unflatten(keep, 0, (-1, mine))  # (1 or h_kv, 1 or G, n * C, W)
    keep = _chunks(keep.expand(-1, groups, -1, -1), C)  # (n, 1 or h_kv, G * C, W)
    return query.new_zeros(()).where(keep, -torch.inf)


class Windows(torch.autograd.Function):
    """Show each chunk its part of the keys, without copying: (heads, rows, d) -> (n, heads, W, d).

    This is `Tensor.unfold`, but for the way back: a key's gradient is the sum over the windows
    that it stands in, and adding up C rows of every window at a time is twice as fast.

    >>> x = torch.arange(5.0).view(1, 5, 1).requires_grad_()
    >>> y = Windows.apply(x, 3, 2)
    >>> y.squeeze()
    tensor([[0., 1., 2.],
            [2., 3., 4.]], grad_fn=<SqueezeBackward0>)
    >>> y.sum().backward()
    >>> x.grad.squeeze()
    tensor([1., 1., 2., 1., 1.])
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, W: int, C: int) -> Tensor:
        """Cut windows of W rows, each C rows after the last."""
        return x.unfold(1, W, C).permute(1, 0, 3, 2)  # (heads, n, d, W) -> (n, heads, W, d)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:
        """Remember the step."""
        ctx.C = inputs[2]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Add up the windows where they overlap."""
        n, heads, W, d = grad.shape
        C: int = ctx.C
        steps = -(-W // C)
        total = grad.new_zeros(heads, n - 1 + steps, C, d)
        for step in range(steps):
            part = grad[:, :, step * C : (step + 1) * C]  # (n, heads, C or less, d)
            total[:, step : step + n, : part.shape[2]] += part.transpose(0, 1)
        return total.flatten(1, 2)[:, : (n - 1) * C + W], None, None  # (heads, rows, d)


_windows: Callable[[Tensor, int, int], Tensor] = Windows.apply
