"""Who may look at whom. One convention everywhere: boolean, True = keep.

Letters in shapes: B batch, h heads, L queries, S keys.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mha_lib.checks import Window, check_size, check_window, given
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
    return window_mask(L, S, window=(None, 0), device=device)


def window_mask(
    L: int,
    S: int | None = None,
    *,
    window: int | tuple[int | None, int | None],
    device: torch.device | str | None = None,
) -> Tensor:
    """Let each query look at the keys near it only (Beltagy et al. 2020, Longformer).

    The last query stands beside the last key, as in `causal_mask`.

    Args:
        L: Number of queries.
        S: Number of keys; L unless given.
        window: How many keys a query sees on each side of the key beside it; two numbers are
            (left, right), None is no limit on that side. (None, 0) is the causal mask.
        device: Where the mask is made.

    Returns:
        (L, S), boolean, True = keep.

    Raises:
        ValueError: L or S is below 1, or window below 0.
        TypeError: L, S or window is not a whole number.

    >>> window_mask(4, window=1).int()
    tensor([[1, 1, 0, 0],
            [1, 1, 1, 0],
            [0, 1, 1, 1],
            [0, 0, 1, 1]], dtype=torch.int32)
    """
    L = check_size("L", L)
    S = L if S is None else check_size("S", S)
    left, right = check_window(window) or (None, None)
    return _band(L, S, left, right, device)


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
    mask: Tensor | None,
    causal: bool,
    L: int,
    S: int,
    device: torch.device,
    window: Window | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """Combine all that hides keys, and find the blind queries, which may look at none.

    Takes what `attention` has checked.

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
    left, right = (None, None) if window is None else window
    right = 0 if causal else right
    # The last query stands beside key S - 1 and the first beside key S - L: a limit that even
    # they do not meet hides nothing. So a single causal query, the newest token, sees all.
    left = None if left is None or left >= S - 1 else left
    right = None if right is None or right >= L - 1 else right

    keep = None if left is right is None else _band(L, S, left, right, device)[None, None]
    # Where causal and window hide alone, each query sees the key beside it. Only where there
    # are more queries than keys do the first have none beside them, and perhaps none in reach.
    some_are_blind = right is not None and right < L - S
    if mask is not None:
        mask = mask[(None,) * (4 - mask.dim())]  # torch's kernels want 4 axes
        keep = mask if keep is None else keep & mask
        some_are_blind = True
    if keep is None or not some_are_blind:
        return keep, None
    return keep, ~keep.any(dim=-1, keepdim=True)


def _band(
    L: int, S: int, left: int | None, right: int | None, device: torch.device | str | None
) -> Tensor:
    """Keep for query i the keys i + S - L - left to i + S - L + right; None is no limit."""
    band = torch.ones(L, S, dtype=torch.bool, device=device)
    if right is not None:
        band = band.tril(S - L + right)
    if left is not None:
        band = band.triu(S - L - left)
    return band
