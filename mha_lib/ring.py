"""Ring attention: a sequence too long for one process, cut into blocks, a block on each rank.

A rank is one process of `torch.distributed`; the ranks are numbered from 0. Letters in shapes:
B batch, h heads, h_kv key heads, g = h / h_kv, L queries and S keys that one rank holds.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from mha_lib.checks import check_causal, check_scale
from mha_lib.tensor_checks import check_attention_inputs, check_mask

Group = dist.ProcessGroup | None
"""The ranks that work together; None is all of them."""


def merge(out1: Tensor, lse1: Tensor, out2: Tensor, lse2: Tensor) -> tuple[Tensor, Tensor]:
    """Join the attention over some keys with the attention over others, exactly.

    A softmax over some of the keys divides by a sum over these alone. Its logarithm, the
    log-sum-exp, says how much these keys weigh. So attention over all keys is the mean of the two
    outputs, weighted by the two sums (Milakov & Gimelshein 2018, "Online normalizer calculation
    for softmax").

    Args:
        out1: (..., L, d_v), attention over the first keys; zeros where a query saw none.
        lse1: (..., L), log(sum(exp(scores))) over these keys; -inf where a query saw none.
        out2: Like out1, over the other keys.
        lse2: Like lse1, over the other keys.

    Returns:
        (..., L, d_v) and (..., L): the same two over all the keys.

    Raises:
        ValueError: Shapes that do not fit together.

    >>> out, lse = torch.tensor([[3.0]]), torch.tensor([1.0]).log()  # these keys weigh 1
    >>> merge(out, lse, torch.tensor([[7.0]]), torch.tensor([3.0]).log())  # (1 * 3 + 3 * 7) / 4
    (tensor([[6.]]), tensor([1.3863]))
    """
    shapes = [tuple(x.shape) for x in (out1, lse1, out2, lse2)]
    if not (shapes[0] == shapes[2] and shapes[1] == shapes[3] == shapes[0][:-1]):
        raise ValueError(
            f"out1, lse1, out2, lse2 have shapes {', '.join(map(str, shapes))}; "
            "they should be (..., L, d_v), (..., L), (..., L, d_v), (..., L)"
        )
    lse = torch.logaddexp(lse1, lse2)  # (..., L)
    # exp(lse1) / (exp(lse1) + exp(lse2)) is a sigmoid, which no size of lse makes overflow. A
    # query that saw no key on either side has -inf - (-inf) = NaN there: any share will do.
    share1 = (lse1 - lse2).masked_fill(lse.isneginf(), 0.0).sigmoid()[..., None]  # (..., L, 1)
    return share1 * out1 + (1 - share1) * out2, lse


def ring_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    key_mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    group: Group = None,
) -> Tensor:
    """Attend over a sequence of which each rank holds one block (Liu et al. 2023, Ring Attention).

    The queries stay at home. The keys and values go round from rank to rank, and travel while a
    rank works with those it has; `merge` joins what it found. So a rank never holds more than two
    blocks of keys, or the scores of more than one block against another. The backward pass goes
    round once more: every rank must call it.

    Args:
        query: (B, h, L, d_k), this rank's block; rank r holds queries r * L to (r + 1) * L - 1.
        key: (B, h_kv, S, d_k), this rank's block of the keys, h a multiple of h_kv.
        value: (B, h_kv, S, d_v).
        key_mask: Boolean, True = a real key, (B, S), for this rank's keys.
        causal: Hide the keys that come later than the query, in the whole sequence. The last
            query of all stands beside the last key of all.
        scale: What the scores are multiplied by; 1/sqrt(d_k) unless given.
        group: The ranks of the ring, in their order; all unless given.

    Returns:
        (B, h, L, d_v), this rank's block of the output; zeros for a query that sees no key.

    Raises:
        RuntimeError: torch.distributed is not initialised, or a second derivative is computed.
        ValueError: Blocks or options that differ between ranks, sizes that do not fit together,
            or a group that this rank is not in.
        TypeError: A dtype that cannot be used.

    >>> from mha_lib import attention
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = torch.randn(2, 4, 5, 8)
    >>> torch.allclose(ring_attention(x, x, x), attention(x, x, x), atol=1e-6)
    True
    >>> dist.destroy_process_group()
    """
    _check_ranks_agree(
        group, query=query, key=key, value=value, key_mask=key_mask, causal=causal, scale=scale
    )
    check_attention_inputs(query, key, value)
    scale = query.shape[3] ** -0.5 if scale is None else check_scale(scale)
    B, h, L, d_k = query.shape
    h_kv, S = key.shape[1:3]
    if key_mask is None:
        key_mask = torch.ones(B, S, dtype=torch.bool, device=query.device)
    check_mask("key_mask", key_mask, query.device)
    if key_mask.shape != (B, S):
        raise ValueError(
            f"key_mask has shape {tuple(key_mask.shape)}, but the keys of a rank are "
            f"(B, S) = {(B, S)}; pass the part of the mask that is about these"
        )
    places = None
    if check_causal(causal):
        # The last query of all stands beside the last key of all.
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        first = rank * L + ranks * (S - L)
        places = torch.arange(first, first + L, device=query.device).repeat(h // h_kv)  # (g * L,)
    # To their key head, the g query heads that share it are one head with g times the queries.
    query = query.reshape(B, h_kv, h // h_kv * L, d_k)  # (B, h, L, d_k) -> (B, h_kv, g * L, d_k)
    output: Tensor = _Ring.apply(query, key, value, key_mask, places, scale, group)  # type: ignore[no-untyped-call]
    return output.reshape(B, h, L, value.shape[3])  # (B, h_kv, g * L, d_v) -> (B, h, L, d_v)


class _Ring(torch.autograd.Function):
    """Attention in one round, and its gradients in another.

    Left to itself, autograd would keep the scores of every block. This keeps the log-sum-exp of
    each query and computes the scores anew (Dao et al. 2022, FlashAttention).
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_mask: Tensor,
        places: Tensor | None,
        scale: float,
        group: Group,
    ) -> Tensor:
        """Take where the queries stand in the whole sequence as `places`, if that matters."""
        q = query.to(torch.promote_types(query.dtype, torch.float32))  # (B, h_kv, g * L, d_k)
        out = q.new_zeros(*q.shape[:-1], value.shape[-1])  # (B, h_kv, g * L, d_v)
        lse = q.new_full(q.shape[:-1], -torch.inf)  # (B, h_kv, g * L)
        with torch.autocast(q.device.type, enabled=False):
            for owner, (k, v, real) in _round([key, value, key_mask], group):
                scores = _scores(q, k, real, places, owner, scale)  # (B, h_kv, g * L, S)
                block_lse = scores.logsumexp(dim=-1)  # (B, h_kv, g * L)
                weights = (scores - _finite(block_lse)[..., None]).exp()  # (B, h_kv, g * L, S)
                out, lse = merge(out, lse, weights @ v.to(q.dtype), block_lse)
        ctx.save_for_backward(query, key, value, key_mask, places, out, lse)
        ctx.scale, ctx.group = scale, group
        return out.to(query.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_output: Tensor) -> tuple[Tensor | None, ...]:
        """Give each block's gradients to the block: they travel with it, and so come home."""
        query, key, value, key_mask, places, out, lse = ctx.saved_tensors
        q, d_out = query.to(out.dtype), d_output.to(out.dtype)
        d_q, d_k, d_v = (torch.zeros_like(x, dtype=out.dtype) for x in (query, key, value))
        # A softmax takes from the gradient of each weight their mean, by the weights.
        mean = (d_out * out).sum(dim=-1, keepdim=True)  # (B, h_kv, g * L, 1)
        with torch.autocast(q.device.type, enabled=False):
            for owner, (k, v, real) in _round([key, value, key_mask], ctx.group):
                scores = _scores(q, k, real, places, owner, ctx.scale)  # (B, h_kv, g * L, S)
                weights = (scores - _finite(lse)[..., None]).exp()  # (B, h_kv, g * L, S)
                d_scores = weights * (d_out @ v.to(q.dtype).mT - mean) * ctx.scale
                d_q += d_scores @ k.to(q.dtype)
                d_k += d_scores.mT @ q
                d_v += weights.mT @ d_out
                d_k, d_v = _pass_on([d_k, d_v], ctx.group)()
        return (*(x.to(query.dtype) for x in (d_q, d_k, d_v)), None, None, None, None)


def _scores(
    q: Tensor, k: Tensor, real: Tensor, places: Tensor | None, owner: int, scale: float
) -> Tensor:
    """Score this rank's queries by the keys of rank `owner`; -inf where a key is hidden."""
    keep = real[:, None, None, :]  # (B, S) -> (B, 1, 1, S)
    if places is not None:
        S = k.shape[2]
        key_places = torch.arange(owner * S, (owner + 1) * S, device=k.device)  # (S,)
        keep = keep & (key_places <= places[:, None])  # (B, 1, g * L, S)
    scores = q @ k.to(q.dtype).mT * scale  # (B, h_kv, g * L, S)
    return scores.masked_fill(~keep, -torch.inf)


def _round(blocks: list[Tensor], group: Group) -> Iterator[tuple[int, list[Tensor]]]:
    """Yield every rank's blocks in turn, and whose they are; one's own come first."""
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    for step in range(ranks):
        # They set out before the caller works with them: the work hides the time on the way.
        arrive = _pass_on(blocks, group) if step < ranks - 1 else list
        yield (rank - step) % ranks, blocks
        blocks = arrive()


def _pass_on(blocks: list[Tensor], group: Group) -> Callable[[], list[Tensor]]:
    """Send to the next rank; return what waits for, and returns, what the one before sent.

    Several may be on the way at once: what is sent first is received first.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if ranks == 1:
        return lambda: blocks
    leaving = [block.contiguous() for block in blocks]
    coming = [torch.empty_like(block) for block in leaving]
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(act, block, group=group, group_peer=peer % ranks)
            for act, peer, some in ((dist.isend, rank + 1, leaving), (dist.irecv, rank - 1, coming))
            for block in some
        ]
    )

    def arrive() -> list[Tensor]:
        for work in works:
            work.wait()
        return coming

    return arrive


def _finite(lse: Tensor) -> Tensor:
    """Put 0 where a query saw no key: exp(-inf - 0) is 0, but -inf - (-inf) is NaN."""
    return lse.masked_fill(lse.isneginf(), 0.0)


def _check_ranks_agree(group: Group, **arguments: object) -> None:
    """Refuse what differs between the ranks, on all of them: if one raised alone, others waited.

    After this, every other check fails on all ranks or on none.
    """
    if not dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is not initialised; start the program with torchrun, and first call "
            "torch.distributed.init_process_group('gloo'), or 'nccl' on GPUs"
        )
    if dist.get_rank(group) < 0:
        raise ValueError(f"rank {dist.get_rank()} is not in group; call this on its ranks alone")
    call = ", ".join(f"{name}={_told(value)}" for name, value in arguments.items())
    calls = [call] * dist.get_world_size(group)
    dist.all_gather_object(calls, call, group)
    for rank, other in enumerate(calls):
        if other != calls[0]:
            raise ValueError(
                f"rank {rank} of the ring differs from rank 0: {other} against {calls[0]}; pass "
                f"blocks of one shape and the same options on each (pad the sequence to a "
                f"multiple of {len(calls)} tokens, and hide the padding with key_mask)"
            )


def _told(value: object) -> object:
    """Say of a tensor what must be the same on every rank: not its numbers."""
    if not isinstance(value, Tensor):
        return value
    grad = ", needs a gradient" if value.requires_grad and torch.is_grad_enabled() else ""
    return f"{tuple(value.shape)} {value.dtype} on {value.device.type}{grad}"
