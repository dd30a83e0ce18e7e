"""The formula, softmax(Q K^T / sqrt(d_k)) V, behind one door with several ways to compute it.

Letters in shapes: B batch, h heads, h_kv key heads, L queries, S keys, d_k width of a query and
key, d_v width of a value.
"""

from typing import Literal, TypedDict, Unpack, overload

from torch import Tensor

from mha_lib.backends.call import Call
from mha_lib.backends.dispatch import FUSED, choose
from mha_lib.backends.explicit import Edit, Steps, explicit
from mha_lib.checks import (
    check_backend,
    check_causal,
    check_dropout,
    check_scale,
    check_softcap,
    check_window,
)
from mha_lib.tensor_checks import check_attention_inputs, check_options
from mha_lib.trace import AttentionTrace, check_finite_steps


class Options(TypedDict, total=False):
    """The options of `attention`, said once more for type checkers; readers may skip this."""

    mask: Tensor | None
    bias: Tensor | None
    causal: bool
    window: int | tuple[int | None, int | None] | None
    scale: float | None
    softcap: float | None
    dropout: float
    backend: str
    edit: Edit | None
    check_finite: bool


@overload
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    trace: Literal[False] = ...,
    **options: Unpack[Options],
) -> Tensor: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, trace: Literal[True], **options: Unpack[Options]
) -> AttentionTrace: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, trace: bool, **options: Unpack[Options]
) -> Tensor | AttentionTrace: ...
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    trace: bool = False,
    edit: Edit | None = None,
    check_finite: bool = False,
) -> Tensor | AttentionTrace:
    """Mix the values, for each query by its own weights over the keys (Vaswani et al. 2017).

    A key is used where mask, causal and window all allow it. A query that may look at no key
    gets zeros, and sends no gradient back. Hidden keys and values must be finite all the same:
    a NaN behind a mask may reach the output, as in torch.

    Args:
        query: (B, h, L, d_k).
        key: (B, h_kv, S, d_k). With h_kv below h, h / h_kv neighbouring query heads share a key
            head (Ainslie et al. 2023, grouped-query attention).
        value: (B, h_kv, S, d_v).
        mask: Boolean, True = keep, broadcastable to (B, h, L, S).
        bias: Floating point, added to the scores, broadcastable to (B, h, L, S); -inf hides.
        causal: Hide the keys that come later than the query. The last query stands beside
            the last key, so with L < S the queries are the newest tokens.
        window: How far a query sees from where it stands: (left, right), or one number for both;
            None is no limit. A window of (2, 0) keeps the query's own key and two before it.
        scale: What the scores are multiplied by; 1/sqrt(d_k) unless given. To learn it, pass
            1.0 and multiply query by it.
        softcap: Squeeze the scores between -softcap and softcap by softcap * tanh(score /
            softcap), before bias and mask (Gemma Team 2024, Gemma 2).
        dropout: Probability with which a weight is dropped, at least 0 and below 1. It is
            applied whenever it is above 0: the caller knows whether this is training.
        backend: "explicit" is the formula line by line, with scores and softmax in float32
            or wider; "sdpa" is torch's `scaled_dot_product_attention`, whose fused kernels
            never hold all the scores; "window" computes only the scores that a bounded window
            shows; "flex" is torch's `flex_attention`, compiled at its first call. "auto" chooses
            among the first three, and `last_dispatch` says why. Second derivatives and
            forward-mode ones need "explicit": torch's fused kernels, which the others rest on,
            have none.
        trace: Return every step instead of the output alone. The other backends have no steps
            to show, so a trace is always computed by "explicit".
        edit: For a step by its name in the trace, a function that returns what is to stand in
            its place, and leaves what it is given as it is: `edit={"weights": lambda weights:
            weights * 0}`. Also computed by "explicit".
        check_finite: Look at every step, and refuse the first that holds NaN or infinity. Also
            computed by "explicit".

    Returns:
        (B, h, L, d_v), or an `AttentionTrace` whose `output` is that.

    Raises:
        ValueError: Sizes, devices or numbers that do not fit together; a backend that cannot
            compute this; with check_finite, a step that is not finite.
        TypeError: A dtype that cannot be used, a mask that is not boolean, or an option that
            is not the number or switch it must be.

    >>> import torch
    >>> query = torch.tensor([[[[4.0, 0.0]]]])  # (1, 1, 1, 2): one query, which asks for [1, 0]
    >>> key = torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]])  # (1, 1, 2, 2): two keys
    >>> value = torch.tensor([[[[10.0], [20.0]]]])  # (1, 1, 2, 1): what each key has to give
    >>> attention(query, key, value).round(decimals=2)
    tensor([[[[10.5600]]]])
    >>> attention(query, key, value, trace=True).weights.round(decimals=3)
    tensor([[[[0.9440, 0.0560]]]])
    """
    check_attention_inputs(query, key, value, mask, bias)
    call = Call(
        query,
        key,
        value,
        mask,
        bias,
        check_causal(causal),
        check_window(window),
        query.shape[-1] ** -0.5 if scale is None else check_scale(scale),
        check_softcap(softcap),
        check_dropout(dropout),
    )
    check_backend(backend)
    check_options(trace, edit, check_finite, AttentionTrace.STEP_NAMES)
    done = attend(call, backend, trace, edit, check_finite)
    if isinstance(done, Tensor):
        return done
    return AttentionTrace(*done, done.head_out) if trace else done.head_out


def attend(
    call: Call, backend: str, trace: bool, edit: Edit | None, check_finite: bool
) -> Tensor | Steps:
    """Compute what `attention` has checked; the layer, which checks for itself, starts here.

    Returns:
        (B, h, L, d_v), or all steps where the caller wants to see, change or check them.

    >>> import torch
    >>> q, k, v = torch.ones(3, 1, 2, 4, 8)
    >>> attend(Call(q, k, v), "auto", False, None, False).shape
    torch.Size([1, 2, 4, 8])
    """
    dispatch = choose(call, backend, trace or check_finite or edit is not None)
    if dispatch.backend != "explicit":
        return FUSED[dispatch.backend][1](call)
    steps = explicit(call, edit)
    if check_finite:
        check_finite_steps(steps._asdict())
    return steps
