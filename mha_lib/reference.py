"""Multi-head attention as plainly as it can be said: NumPy, float64, one number after another.

Nothing here is fast. The tests hold everything else in the library against it.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Mask | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[Array, Array]:
    """Attend with one query after another, in one head after another.

    Args:
        query: (B, h, L, d_k).
        key: (B, h, S, d_k).
        value: (B, h, S, d_v).
        mask: Boolean, True = keep, broadcastable to (B, h, L, S).
        causal: Query i of L may look at keys 0 to i + S - L.
        scale: What the scores are multiplied by; 1/sqrt(d_k) unless given.

    Returns:
        The output (B, h, L, d_v) and the weights (B, h, L, S).

    >>> one_query = np.array([[[[4.0, 0.0]]]])
    >>> two_keys = np.array([[[[1.0, 0.0], [0.0, 1.0]]]])
    >>> output, weights = attention(one_query, two_keys, np.array([[[[10.0], [20.0]]]]))
    >>> weights.round(3)
    array([[[[0.944, 0.056]]]])
    """
    B, h, L, d_k = query.shape
    S, d_v = value.shape[2:]
    scale = 1 / math.sqrt(d_k) if scale is None else scale
    keep = (
        np.ones((B, h, L, S), dtype=bool) if mask is None else np.broadcast_to(mask, (B, h, L, S))
    )

    output = np.zeros((B, h, L, d_v))
    weights = np.zeros((B, h, L, S))
    for b in range(B):
        for head in range(h):
            for i in range(L):
                seen = [
                    j for j in range(S) if keep[b, head, i, j] and (not causal or j <= i + S - L)
                ]
                if not seen:
                    continue
                scores = [float(query[b, head, i] @ key[b, head, j]) * scale for j in seen]
                # Taking the greatest score away changes no weight, and exp cannot overflow.
                exps = [math.exp(score - max(scores)) for score in scores]
                for j, exp in zip(seen, exps, strict=True):
                    weights[b, head, i, j] = exp / sum(exps)
                    output[b, head, i] += weights[b, head, i, j] * value[b, head, j]
    return output, weights


def multi_head_attention(
    query: Array,
    key: Array,
    value: Array,
    parameters: dict[str, Array],
    num_heads: int,
    *,
    mask: Mask | None = None,
    causal: bool = False,
) -> tuple[Array, Array]:
    """Attend in every head in turn, each with its own slice of the projections.

    Args:
        query: (B, L, d_model).
        key: (B, S, kdim).
        value: (B, S, vdim).
        parameters: The layer's `state_dict` as arrays: "q_proj.weight", "q_proj.bias" and so
            on; biases may be missing.
        num_heads: How many heads, h.
        mask: Boolean, True = keep, broadcastable to (B, h, L, S).
        causal: Query i of L may look at keys 0 to i + S - L.

    Returns:
        The output (B, L, d_model) and the weights (B, h, L, S).

    >>> x = np.array([[[1.0, 0.0], [0.0, 1.0]]])  # (1, 2, 2): two tokens
    >>> names = ["q_proj", "k_proj", "v_proj", "out_proj"]
    >>> identity = {f"{name}.weight": np.eye(2) for name in names}
    >>> output, weights = multi_head_attention(x, x, x, identity, num_heads=2)
    >>> weights.round(3)
    array([[[[0.731, 0.269],
             [0.5  , 0.5  ]],
    <BLANKLINE>
            [[0.5  , 0.5  ],
             [0.269, 0.731]]]])
    """

    def project(name: str, x: Array) -> Array:
        projected: Array = x @ parameters[f"{name}.weight"].T + parameters.get(f"{name}.bias", 0.0)
        return projected

    def head_slices(x: Array) -> Array:
        return np.stack(np.split(x, num_heads, axis=-1), axis=1)  # (B, N, h*d) -> (B, h, N, d)

    heads, weights = attention(
        head_slices(project("q_proj", query)),
        head_slices(project("k_proj", key)),
        head_slices(project("v_proj", value)),
        mask=mask,
        causal=causal,
    )
    concat = np.concatenate([heads[:, head] for head in range(num_heads)], axis=-1)  # (B, L, h*d)
    return project("out_proj", concat), weights
