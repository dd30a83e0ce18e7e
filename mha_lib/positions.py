"""Where a token stands. Attention itself does not see it: a sentence is a bag of words to it.

Three ways to tell it: add a pattern to each token (`sinusoidal`), turn each query and key
(`rotary`), or take something off the score of keys that are far away (`alibi_bias`).

Letters in shapes: B batch, h heads, N tokens, L queries, S keys, d_k width of a query and key.
"""

import torch
from torch import Tensor

from mha_lib.checks import check_size, given
from mha_lib.tensor_checks import check_dtype, check_parameter_dtype, check_tensor


def sinusoidal(positions: Tensor, width: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """Give each position a pattern of waves, to be added to its token (Vaswani et al. 2017).

    Columns 2i and 2i + 1 are the sine and cosine of position / 10000^(2i / width): the hands
    of a clock, the first fast, each later one slower. The pattern of the position s steps on
    is the same pattern turned, whatever the position.

    Args:
        positions: (N,), whole numbers.
        width: How many numbers describe one position; the width of a token.
        dtype: Of the result; torch's default unless given.

    Returns:
        (N, width).

    Raises:
        ValueError: Positions with more or fewer axes than one, or width below 1.
        TypeError: Positions or width that are not whole numbers, or a dtype that attention
            cannot use.

    >>> sinusoidal(torch.arange(3), 4)
    tensor([[ 0.0000,  1.0000,  0.0000,  1.0000],
            [ 0.8415,  0.5403,  0.0100,  0.9999],
            [ 0.9093, -0.4161,  0.0200,  0.9998]])
    """
    _check_positions(positions)
    width = check_size("width", width)
    check_parameter_dtype(dtype)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    angles = _angles(positions, width, dtype)
    waves = torch.stack((angles.sin(), angles.cos()), dim=-1)  # (N, hands, 2)
    return waves.flatten(-2)[:, :width].to(dtype)  # (N, hands, 2) -> (N, width)


def rotary(x: Tensor, positions: Tensor) -> Tensor:
    """Turn each query or key by angles that grow with its position (Su et al. 2021, RoFormer).

    Features 2i and 2i + 1 are a point in a plane, and turn together by
    position / 10000^(2i / d_k). Where both queries and keys are turned, a score depends on how
    far apart the two stand and not on where: turning both by the same angle changes nothing.

    Args:
        x: (B, h, N, d_k), queries or keys; d_k is even.
        positions: (N,), whole numbers; they may be negative.

    Returns:
        (B, h, N, d_k), computed in float32 at least and returned in the dtype of x.

    Raises:
        ValueError: An odd d_k, other axes than these, or positions that are not one for each
            token or on another device.
        TypeError: Positions that are not whole numbers, or a dtype that attention cannot use.

    >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])  # (1, 1, 2, 2): two tokens, both [1, 0]
    >>> rotary(x, torch.tensor([0, 1]))[0, 0]  # the second has turned by 1 radian
    tensor([[1.0000, 0.0000],
            [0.5403, 0.8415]])
    """
    check_dtype("x", check_tensor("x", x))
    if x.dim() != 4:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but rotary takes (B, h, N, d_k); "
            "split the features into heads first, as MultiHeadAttention does"
        )
    N, d_k = x.shape[2:]
    if d_k % 2:
        raise ValueError(
            f"x has d_k={d_k}, which is odd; rotary turns features two by two, "
            f"so use head_dim={d_k + 1}, or another even number"
        )
    _check_positions(positions)
    if positions.shape[0] != N:  # not len, which would tie a compiled layer to one N
        raise ValueError(
            f"positions has {len(positions)} of them, but x has N={N} tokens; pass one for each"
        )
    if positions.device != x.device:
        raise ValueError(
            f"positions is on {positions.device}, but x is on {x.device}; "
            f"pass positions.to({str(x.device)!r})"
        )
    angles = _angles(positions, d_k, x.dtype)  # (N, d_k / 2)
    cos, sin = angles.cos(), angles.sin()
    across, up = x[..., 0::2].to(angles.dtype), x[..., 1::2].to(angles.dtype)  # (B, h, N, d_k / 2)
    turned = torch.stack((across * cos - up * sin, across * sin + up * cos), dim=-1)
    return turned.flatten(-2).to(x.dtype)  # (B, h, N, d_k / 2, 2) -> (B, h, N, d_k)


def alibi_slopes(num_heads: int, *, device: torch.device | str | None = None) -> Tensor:
    """Say how much each head minds distance (Press et al. 2022, ALiBi).

    For 8 heads the slopes are 1/2, 1/4 and so on to 1/256: the first heads look close by, the
    last ones far. In general they are powers of 2^(-8/h). Where h is no power of two, the paper
    takes the slopes of the greatest power of two below it, then every other one of the next.

    Args:
        num_heads: How many heads, h.
        device: Where the slopes are made.

    Returns:
        (h,), float32.

    Raises:
        ValueError: num_heads is below 1.
        TypeError: num_heads is not a whole number.

    >>> alibi_slopes(4)
    tensor([0.2500, 0.0625, 0.0156, 0.0039])
    """
    num_heads = check_size("num_heads", num_heads)
    below = 2 ** (num_heads.bit_length() - 1)  # the greatest power of two that is not above h
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    slopes += [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)]
    return torch.tensor(slopes[:num_heads], dtype=torch.float32, device=device)


def alibi_bias(slopes: Tensor, L: int, S: int) -> Tensor:
    """Take from each score a little for each step between query and key (Press et al. 2022).

    The last query stands beside the last key. The paper has causal attention only, where keys
    are never later than the query; here a later key costs what an earlier one as far away does.

    Args:
        slopes: (h,), what one step costs in each head, from `alibi_slopes`.
        L: Number of queries.
        S: Number of keys.

    Returns:
        (h, L, S), of the slopes' dtype: what `attention` takes as `bias`.

    Raises:
        ValueError: Slopes with more or fewer axes than one, or L or S below 1.
        TypeError: Slopes that are not floating point, or L or S that are not whole numbers.

    >>> alibi_bias(torch.tensor([0.5]), 2, 3)
    tensor([[[-0.5000, -0.0000, -0.5000],
             [-1.0000, -0.5000, -0.0000]]])
    """
    check_dtype("slopes", check_tensor("slopes", slopes))
    if slopes.dim() != 1:
        raise ValueError(
            f"slopes has shape {tuple(slopes.shape)}; pass one slope for each head, (h,)"
        )
    L, S = check_size("L", L), check_size("S", S)
    beside = torch.arange(S - L, S, device=slopes.device)[:, None]  # (L, 1), each query's place
    distance = (beside - torch.arange(S, device=slopes.device)).abs()  # (L, S)
    return -slopes[:, None, None] * distance  # (h, 1, 1) * (L, S) -> (h, L, S)


def _angles(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Where each position's clock hands point, one hand for two features: (N, hands).

    Float32 at least: bfloat16 has no whole numbers of its own between 256 and 258.
    """
    wide = torch.promote_types(dtype, torch.float32)
    first_features = torch.arange(0, width, 2, device=positions.device, dtype=wide)  # (hands,)
    return positions.to(wide)[:, None] * 10000.0 ** (-first_features / width)  # (N, hands)


def _check_positions(positions: Tensor) -> None:
    check_tensor("positions", positions)
    dtype = positions.dtype
    if dtype == torch.bool or dtype.is_floating_point or dtype.is_complex:
        raise TypeError(f"positions has dtype {dtype}; pass whole numbers, such as torch.arange(N)")
    if positions.dim() != 1:
        raise ValueError(
            f"{given('positions', positions)} is not one position for each token, (N,); "
            "pass torch.arange(N), for example"
        )
