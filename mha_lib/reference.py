"""Multi-head attention as plainly as it can be said: NumPy, float64, one number after another.

Nothing here is fast. The tests hold everything else in the library against it.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Window = int | tuple[int | None, int | None]


def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Mask | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: Window | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> tuple[Array, Array]:
    """Attend with one query after another, in one head after another.

    Args:
        query: (B, h, L, d_k).
        key: (B, h_kv, S, d_k); h is a multiple of h_kv, and neighbouring heads share a key head.
        value: (B, h_kv, S, d_v).
        mask: Boolean, True = keep, broadcastable to (B, h, L, S).
        bias: Added to the scores, broadcastable to (B, h, L, S); -inf hides.
        causal: Query i of L may look at keys 0 to i + S - L.
        window: (left, right): query i may look at keys i + S - L - left to i + S - L + right.
        scale: What the scores are multiplied by; 1/sqrt(d_k) unless given.
        softcap: Scores become softcap * tanh(score / softcap).

    Returns:
        The output (B, h, L, d_v) and the weights (B, h, L, S).

    >>> one_query = np.array([[[[4.0, 0.0]]]])
    >>> two_keys = np.array([[[[1.0, 0.0], [0.0, 1.0]]]])
    >>> output, weights = attention(one_query, two_keys, np.array([[[[10.0], [20.0]]]]))
    >>> weights.round(3)
    array([[[[0.944, 0.056]]]])
    """
    B, h, L, d_k = query.shape
    h_kv, S, d_v = value.shape[1:]
    scale = 1 / math.sqrt(d_k) if scale is None else scale
    keep = np.broadcast_to(True if mask is None else mask, (B, h, L, S))
    added = np.broadcast_to(0.0 if bias is None else bias, (B, h, L, S))
    left, right = window if isinstance(window, tuple) else (window, window)

    output = np.zeros((B, h, L, d_v))
    weights = np.zeros((B, h, L, S))
    for b in range(B):
        for head in range(h):
            kv_head = head // (h // h_kv)
            for i in range(L):
                beside = i + S - L  # the last query stands beside the last key
                scores = {}
                for j in range(S):
                    hidden = (
                        not keep[b, head, i, j]
                        or (causal and j > beside)
                        or (left is not None and j < beside - left)
                        or (right is not None and j > beside + right)
                        or added[b, head, i, j] == -math.inf
                    )
                    if hidden:
                        continue
                    score = float(query[b, head, i] @ key[b, kv_head, j]) * scale
                    if softcap is not None:
                        score = softcap * math.tanh(score / softcap)
                    scores[j] = score + float(added[b, head, i, j])
                # Taking the greatest score away changes no weight, and exp cannot overflow.
                exps = {j: math.exp(score - max(scores.values())) for j, score in scores.items()}
                for j, exp in exps.items():
                    weights[b, head, i, j] = exp / sum(exps.values())
                    output[b, head, i] += weights[b, head, i, j] * value[b, kv_head, j]
    return output, weights


def multi_head_attention(
    query: Array,
    key: Array,
    value: Array,
    parameters: dict[str, Array],
    num_heads: int,
    *,
    num_kv_heads: int | None = None,
    mask: Mask | None = None,
    bias: Array | None = None,
    causal: bool = False,
    window: Window | None = None,
    head_mask: Array | None = None,
    positions: str | None = None,
) -> tuple[Array, Array]:
    """Attend in every head in turn, each with its own slice of the projections.

    Args:
        query: (B, L, d_model).
        key: (B, S, kdim).
        value: (B, S, vdim).
        parameters: The layer's `state_dict` as arrays: "q_proj.weight", "q_proj.bias" and so
            on; biases may be missing.
        num_heads: How many heads, h.
        num_kv_heads: How many key heads, h_kv; h unless given.
        mask, bias, causal, window: As for `attention`.
        head_mask: What each head's output is multiplied by, (h,) or (B, h).
        positions: None, "rotary", "alibi" or "sinusoidal". Keys stand at 0 to S - 1, queries at
            S - L to S - 1.

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
    L, S = query.shape[1], key.shape[1]
    query_places, key_places = range(S - L, S), range(S)
    if positions == "sinusoidal":
        query = query + sinusoidal(query_places, query.shape[2])
        key = key + sinusoidal(key_places, key.shape[2])
        value = value + sinusoidal(key_places, value.shape[2])

    def heads_of(name: str, x: Array, number: int) -> Array:
        projected = x @ parameters[f"{name}.weight"].T + parameters.get(f"{name}.bias", 0.0)
        return np.stack(np.split(projected, number, axis=-1), axis=1)  # (B, N, h*d) -> (B, h, N, d)

    h_kv = num_heads if num_kv_heads is None else num_kv_heads
    q = heads_of("q_proj", query, num_heads)
    k = heads_of("k_proj", key, h_kv)
    v = heads_of("v_proj", value, h_kv)
    if positions == "rotary":
        q, k = rotary(q, query_places), rotary(k, key_places)
    if positions == "alibi":
        slopes = [alibi_slope(head, num_heads) for head in range(num_heads)]
        distances = [[abs(place - j) for j in key_places] for place in query_places]
        bias = (0.0 if bias is None else bias) - np.multiply.outer(slopes, distances)  # (h, L, S)

    heads, weights = attention(q, k, v, mask=mask, bias=bias, causal=causal, window=window)
    if head_mask is not None:
        heads = heads * head_mask[..., None, None]
    concat = np.concatenate([heads[:, head] for head in range(num_heads)], axis=-1)  # (B, L, h*d)
    output = concat @ parameters["out_proj.weight"].T + parameters.get("out_proj.bias", 0.0)
    return output, weights


def sinusoidal(places: Iterable[int], width: int) -> Array:
    """One row of sines and cosines for each place (Vaswani et al. 2017): (N, width).

    >>> sinusoidal([0, 1], 3).round(3)
    array([[0.   , 1.   , 0.   ],
           [0.841, 0.54 , 0.002]])
    """
    return np.array(
        [
            [
                math.cos(place / 10000 ** ((column - 1) / width))
                if column % 2
                else math.sin(place / 10000 ** (column / width))
                for column in range(width)
            ]
            for place in places
        ]
    )


def rotary(x: Array, places: Iterable[int]) -> Array:
    """Turn features 0 and 1, 2 and 3 and so on of each token (Su et al. 2021): (B, h, N, d_k).

    >>> rotary(np.array([[[[1.0, 0.0]]]]), [1]).round(3)
    array([[[[0.54 , 0.841]]]])
    """
    turned = np.empty_like(x)
    d_k = x.shape[3]
    for n, place in enumerate(places):
        for i in range(0, d_k, 2):
            angle = place / 10000 ** (i / d_k)
            turn = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
            turned[:, :, n, i : i + 2] = x[:, :, n, i : i + 2] @ np.array(turn)
    return turned


def alibi_slope(head: int, num_heads: int) -> float:
    """What one step of distance costs in this head (Press et al. 2022).

    >>> [alibi_slope(head, 3) for head in range(3)]
    [0.0625, 0.00390625, 0.25]
    """
    power = 1
    while 2 * power <= num_heads:
        power *= 2
    if head < power:
        return float(2 ** (-8 * (head + 1) / power))
    return alibi_slope(2 * (head - power), 2 * power)  # every other one of twice as many heads
