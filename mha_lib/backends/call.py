"""What every backend is given: the arguments of `attention`, checked and made uniform."""

from typing import NamedTuple

import torch
from torch import Tensor

from mha_lib.checks import Window
from mha_lib.masks import visible_keys


class Call(NamedTuple):
    """One call of `attention`. A backend takes this and returns the output, (B, h, L, d_v).

    Attributes:
        query: (B, h, L, d_k).
        key: (B, h_kv, S, d_k). Each key head serves h / h_kv query heads that stand together.
        value: (B, h_kv, S, d_v).
        mask: Boolean, True = keep, broadcastable to (B, h, L, S).
        bias: Floating point, added to the scores, broadcastable to (B, h, L, S).
        causal: Query i may look at keys 0 to i + S - L.
        window: (left, right): query i may look at keys i + S - L - left to i + S - L + right.
        scale: What the scores are multiplied by.
        softcap: The scores are squeezed between -softcap and softcap, before bias and mask.
        dropout: Probability with which a weight is dropped.

    >>> import torch
    >>> query, key = torch.ones(1, 4, 3, 8), torch.ones(1, 2, 3, 8)
    >>> Call(query, key, key).groups
    2
    """

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    bias: Tensor | None = None
    causal: bool = False
    window: Window | None = None
    scale: float = 1.0
    softcap: float | None = None
    dropout: float = 0.0

    @property
    def groups(self) -> int:
        """How many query heads share one key head, h / h_kv."""
        return self.query.size(1) // self.key.size(1)

    def bias_as(self, dtype: torch.dtype) -> Tensor | None:
        """Return the bias in `dtype`, where what is finite stays finite.

        Models hide with the least float32 as well as with -inf. In float16 both were -inf, and
        a row of it a blind query that `visible_keys` knows nothing of.
        """
        if self.bias is None:
            return None
        bias, most = self.bias.to(dtype), torch.finfo(dtype).max
        if torch.finfo(self.bias.dtype).max <= most:
            return bias
        return bias.clamp(-most, most).where(self.bias.isfinite(), bias)

    def visible_keys(self) -> tuple[Tensor | None, Tensor | None]:
        """Combine all that hides keys: mask, causal, window, and -inf in the bias.

        Returns:
            keep, broadcastable to (B, h, L, S), and blind, broadcastable to (B, h, L, 1); each
            None where there is none to speak of, as `masks.visible_keys` says.
        """
        mask = self.mask
        if mask is None and self.bias is None and self.window is None and not self.causal:
            return None, None
        L, S = self.query.shape[2], self.key.shape[2]
        if self.bias is not None:
            shows = self.bias != float("-inf")  # a NaN too: to hide it would be to pass over it
            mask = shows if mask is None else mask & shows
        return visible_keys(mask, self.causal, L, S, self.query.device, self.window)


def with_four_axes(x: Tensor) -> Tensor:
    """Put axes of size 1 in front, for kernels that want all four.

    >>> import torch
    >>> with_four_axes(torch.ones(3, 5)).shape
    torch.Size([1, 1, 3, 5])
    """
    return x[(None,) * (4 - x.dim())]
