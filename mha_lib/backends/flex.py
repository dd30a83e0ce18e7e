"""torch's flex_attention: a fused kernel, compiled for what a call does to its scores."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from mha_lib.backends.call import Call, with_four_axes
from mha_lib.backends.sdpa import sdpa
from mha_lib.backends.window import reach

DEVICES = ("cpu", "cuda", "xpu")
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def flex_refuses(call: Call) -> str:
    """Say why flex_attention cannot compute this; "" where it can.

    >>> x = torch.ones(1, 1, 2, 4, requires_grad=True)
    >>> flex_refuses(Call(x, x, x))
    "flex_attention has no backward on a CPU; compute under torch.no_grad(), or use 'sdpa'"
    """
    dtype, kind = call.query.dtype, call.query.device.type
    if kind not in DEVICES:
        return f"flex_attention does not run on {kind!r}; use a CPU or a GPU, or 'sdpa'"
    if dtype not in DTYPES:
        return f"flex_attention does not take {dtype}; pass float32 or narrower, or use 'sdpa'"
    if call.dropout:
        return f"flex_attention has no dropout={call.dropout}; leave it out, or use 'sdpa'"
    given = (call.query, call.key, call.value, call.bias)
    trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    if trains and kind == "cpu":
        return "flex_attention has no backward on a CPU; compute under torch.no_grad(), or use " + (
            "'sdpa'" if call.softcap is None else "'explicit'"
        )
    return ""


def flex(call: Call) -> Tensor:
    """Compute attention with torch's `flex_attention` (Dong et al. 2024, "Flex Attention").

    Takes what `flex_refuses` does not refuse. torch compiles a kernel for each kind of call:
    with or without mask, bias, softcap, groups; each dtype and head size. That takes seconds.
    After so many kinds (8, `torch._dynamo.config.recompile_limit`) torch warns, and computes
    further ones step by step. The kernel skips blocks of keys that no query of a block may see;
    to find them, every call looks at all L * S pairs.

    Raises:
        RuntimeError: There is no compiler, or it failed.
    """
    # Inside what a caller compiles, its kernel stays a kernel of its own. Not as a decorator: that
    # would import torch's compiler along with this library, which takes as long as torch itself.
    run: Callable[[Call], Tensor] = torch.compiler.disable(_run)  # type: ignore[no-untyped-call]
    return run(call)


def _run(call: Call) -> Tensor:
    """Give the call to the compiled kernel."""
    from torch._dynamo.exc import TorchDynamoException  # slow to import, and rarely needed

    if call.query.shape[0] == 0:  # nothing to compile for
        return sdpa(Call(call.query, call.key, call.value))
    (B, h, L, _), S, device = call.query.shape, call.key.shape[2], call.query.device
    mask, bias = (
        None if x is None else with_four_axes(x).expand(B, h, L, S) for x in (call.mask, call.bias)
    )
    tensors = [call.query, call.key, call.value, mask, bias]
    if device.type == "cpu":  # there it takes nothing that requires a gradient, even in no_grad
        tensors = [x if x is None else x.detach() for x in tensors]
    # Numbers go in as tensors: as numbers they would be compiled in, and each be a kind of call.
    places = torch.tensor([S - L, *reach(call)], device=device)
    factors = torch.tensor([call.scale, call.softcap or 0.0], device=device, dtype=torch.float32)
    limited = call.causal or call.window is not None
    try:
        return _compiled(_flex)(*tensors, places, factors, limited, call.softcap is not None)
    except TorchDynamoException as error:
        raise RuntimeError(
            "backend='flex' could not compile its kernel. On a CPU this takes a C++ compiler: "
            "install g++, or name yours in the environment variable CXX; on a GPU it takes "
            "Triton. Or use another backend. torch says: " + str(error).partition("\n")[0]
        ) from error


_compiled: Callable[[Callable[..., Tensor]], Callable[..., Tensor]] = cache(torch.compile)


def _flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    places: Tensor,
    factors: Tensor,
    limited: bool,
    capped: bool,
) -> Tensor:
    """Say what becomes of a score and which are hidden: what `flex` hands to the compiler.

    Takes mask and bias as (B, h, L, S), places as (S - L, left, right), factors as (scale,
    softcap), and whether there is a limit on places, and a softcap.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    (B, h, L, _), S = query.shape, key.shape[2]

    def score_mod(score: Tensor, b: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        score = score * factors[0]
        if capped:
            score = factors[1] * torch.tanh(score / factors[1])
        return score if bias is None else score + bias[b, head, i, j]

    def mask_mod(b: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
        away = j - (i + places[0])  # how far key j is to the right of the place beside query i
        keep = (away >= -places[1]) & (away <= places[2])
        if mask is not None:
            keep = keep & mask[b, head, i, j]
        return keep if bias is None else keep & (bias[b, head, i, j] > -torch.inf)

    blocks = None
    differ = mask is not None or bias is not None  # between sequences or heads
    if limited or differ:
        blocks = create_block_mask(
            mask_mod, B if differ else None, h if differ else None, L, S, device=query.device
        )
    grouped = h != key.shape[1]
    output: Tensor = flex_attention(
        query, key, value, score_mod, blocks, scale=1.0, enable_gqa=grouped
    )
    return output
