"""Multi-head attention, written to be read and made to be used.

Start with `backends/explicit.py` (the formula), then `multihead.py` (the layer around it) and
`functional.py` (the formula's options, and its faster ways).
"""

from mha_lib.backends.dispatch import Dispatch, last_dispatch
from mha_lib.cache import KVCache
from mha_lib.convert import from_torch, to_torch
from mha_lib.cost import layer_cost, model_cost
from mha_lib.explain import explain_mask
from mha_lib.functional import attention
from mha_lib.masks import (
    causal_mask,
    from_ignore_mask,
    key_mask_from_lengths,
    window_mask,
)
from mha_lib.multihead import MultiHeadAttention
from mha_lib.trace import AttentionTrace, MultiHeadTrace

__all__ = [
    "AttentionTrace",
    "Dispatch",
    "KVCache",
    "MultiHeadAttention",
    "MultiHeadTrace",
    "attention",
    "causal_mask",
    "explain_mask",
    "from_ignore_mask",
    "from_torch",
    "key_mask_from_lengths",
    "last_dispatch",
    "layer_cost",
    "model_cost",
    "to_torch",
    "window_mask",
]
