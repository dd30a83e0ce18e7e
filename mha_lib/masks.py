"""Who may look at whom. One convention everywhere: boolean, True = keep.

Letters in shapes: B batch, h heads, L queries, S keys.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_lib.checks import check_size, given
from mha_lib.tensor_checks import check_tensor


def causal_mask(
    L: int, S: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """Let each query look at itself and at what came before it.

    The last query stands beside the last key. So with L < S the queries are the newest L of S
    tokens, and with L > S the first L - S queries see no key at all.

    Args:
        L: Number of queries.
        S: Number of keys; L unless given.
        device: Where the mask is made.

    Returns:
        (L, S), boolean, True = keep.

    Raises:
        ValueError: L or S is below 1.
        TypeError: L or S is not a whole number.

    >>> causal_mask(3).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    >>> causal_mask(2, 4).int()
    tensor([[1, 1, 1, 0],
            [1, 1, 1, 1]], dtype=torch.int32)
    """
    L = check_size("L", L)
    S = L if S is None else check_size("S", S)
    return torch.ones(L, S, dtype=torch.bool, device=device).tril(S - L)


def key_mask_from_lengths(lengths: Tensor | Sequence[int], max_length: int | None = None) -> Tensor:
    """Keep the real tokens of each sequence and hide its padding, which comes at the end.

    Args:
        lengths: How many real tokens each sequence has, (B,), whole numbers.
        max_length: Number of keys S; the greatest length unless given.

    Returns:
        (B, S), boolean, True = a real token: what `MultiHeadAttention` takes as `key_mask`.

    Raises:
        ValueError: Not one axis, no sequence, a length below 0 or above max_length, or only
            lengths of 0 and no max_length.
        TypeError: Lengths that are not whole numbers.

    >>> key_mask_from_lengths([3, 1]).int()
    tensor([[1, 1, 1],
            [1, 0, 0]], dtype=torch.int32)
    """
    if not isinstance(lengths, Tensor):
        try:
            lengths = torch.tensor(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"{given('lengths', lengths)} is not one whole number for each sequence; "
                "pass a list such as [3, 1]"
            ) from None
    if lengths.dim() != 1 or lengths.numel() == 0:
        raise ValueError(
            f"lengths has shape {tuple(lengths.shape)}; pass one length for each sequence, (B,)"
        )
    if lengths.dtype == torch.bool or lengths.is_floating_point() or lengths.is_complex():
        raise TypeError(f"lengths has dtype {lengths.dtype}; pass whole numbers, such as [3, 1]")
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 0:
        raise ValueError(f"lengths has {shortest}; a length is 0 or more")
    if longest == 0 and max_length is None:
        raise ValueError(
            "lengths has no length above 0, so the number of keys is not known; pass max_length"
        )
    S = check_size("max_length", longest if max_length is None else max_length)
    if longest > S:
        raise ValueError(f"lengths has {longest}, above max_length={S}; use {longest} or more")
    positions = torch.arange(S, device=lengths.device)  # (S,)
    return positions < lengths[:, None]  # (B, S)


def from_ignore_mask(ignore: Tensor) -> Tensor:
    """Turn a mask in which True = ignore into ours, in which True = keep.

    `torch.nn.MultiheadAttention` and `torch.nn.Transformer` take boolean masks that say what
    to ignore; `scaled_dot_product_attention` and this library take what to keep. Such a mask
    enters here and nowhere else.

    Args:
        ignore: Boolean, any shape.

    Returns:
        The same shape, boolean, True = keep.

    Raises:
        TypeError: The mask is not boolean.

    >>> from_ignore_mask(torch.tensor([False, False, True]))
    tensor([ True,  True, False])
    """
    ignore = check_tensor("ignore", ignore)
    if ignore.dtype == torch.bool:
        return ~ignore
    if ignore.is_floating_point():
        raise TypeError(
            f"ignore has dtype {ignore.dtype}; it must be boolean, True = ignore. For a mask that "
            "is added to the scores (0 keeps, -inf hides) pass ignore == 0 as mask"
        )
    raise TypeError(
        f"ignore has dtype {ignore.dtype}; it must be boolean. If 1 means ignore pass "
        "from_ignore_mask(ignore.bool()); if 1 means keep pass ignore.bool() as mask"
    )


def visible_keys(
    mask: Tensor | None, causal: bool, L: int, S: int, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """Combine all that hides keys, and find the blind queries, which may look at none.

    Returns:
        keep, boolean with 4 axes, broadcastable to (B, h, L, S); None where nothing is hidden.
        blind, boolean with 4 axes, broadcastable to (B, h, L, 1); None where no query can be
        blind, so that the caller may leave out the work.

    >>> keep, blind = visible_keys(torch.tensor([False, True]), True, 2, 2, torch.device("cpu"))
    >>> keep[0, 0]
    tensor([[False, False],
            [False,  True]])
    >>> blind[0, 0]
    tensor([[ True],
            [False]])
    """
    # A single query is the newest token: it may look at all of them.
    keep = causal_mask(L, S, device=device)[None, None] if causal and L > 1 else None
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())]  # torch's kernels want 4 axes
        keep = mask if keep is None else keep & mask
    # By causality alone each query sees itself, unless there are more queries than keys.
    if keep is None or (mask is None and L <= S):
        return keep, None
    return keep, ~keep.any(dim=-1, keepdim=True)
