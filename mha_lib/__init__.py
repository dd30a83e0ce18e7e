"""Multi-head attention, written to be read and made to be used.

Start with `functional.py` (the formula), then `multihead.py` (the layer around it).
"""

from mha_lib.convert import from_torch, to_torch
from mha_lib.functional import attention
from mha_lib.masks import causal_mask, from_ignore_mask, key_mask_from_lengths
from mha_lib.multihead import MultiHeadAttention
from mha_lib.trace import AttentionTrace, MultiHeadTrace

__all__ = [
    "AttentionTrace",
    "MultiHeadAttention",
    "MultiHeadTrace",
    "attention",
    "causal_mask",
    "from_ignore_mask",
    "from_torch",
    "key_mask_from_lengths",
    "to_torch",
]
