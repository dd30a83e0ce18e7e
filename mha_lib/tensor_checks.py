"""What can be wrong with the tensors of `attention`, said with shapes and with the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from mha_lib.checks import check_switch, either, nearest_divisors, so_many

# What autocast turns into one another; it leaves float64 alone.
AUTOCAST_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
DTYPES = (*AUTOCAST_DTYPES, torch.float64)


def autocast_is_on(device_type: str) -> bool:
    """Whether torch.autocast narrows products on this kind of device now.

    >>> with torch.autocast("cpu"):
    ...     autocast_is_on("cpu")
    True
    """
    known = device_type in ("cpu", "cuda") or torch.amp.is_autocast_available(device_type)
    return known and torch.is_autocast_enabled(device_type)


def check_tensor(name: str, x: Tensor) -> Tensor:
    """Return `x` if it is a tensor.

    >>> check_tensor("mask", [True, False])
    Traceback (most recent call last):
    TypeError: mask is of type list; pass a torch.Tensor, for example torch.as_tensor(mask)
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name} is of type {type(x).__name__}; "
            f"pass a torch.Tensor, for example torch.as_tensor({name})"
        )
    if x.layout != torch.strided or x.is_nested:
        raise TypeError(
            f"{name} is sparse or nested; pass {name}.to_dense(), or {name}.to_padded_tensor(0) "
            "and a mask that hides the padding"
        )
    return x


def check_parameter_dtype(dtype: torch.dtype | None) -> None:
    """Refuse parameters that attention cannot compute with; None is torch's default dtype.

    >>> check_parameter_dtype(torch.int64)
    Traceback (most recent call last):
    TypeError: dtype=torch.int64 is not one that attention takes; use torch.float16, \
torch.bfloat16, torch.float32 or torch.float64
    """
    if dtype is not None and dtype not in DTYPES:
        *others, last = [str(each) for each in DTYPES]
        raise TypeError(
            f"dtype={dtype!r} is not one that attention takes; use {', '.join(others)} or {last}"
        )


def check_dtype(name: str, x: Tensor) -> None:
    """Refuse numbers that attention cannot compute with.

    >>> check_dtype("query", torch.tensor([7, 2]))
    Traceback (most recent call last):
    TypeError: query has dtype torch.int64; attention takes float16, bfloat16, float32 or float64, \
so pass query.float() (token numbers become vectors in an nn.Embedding first)
    """
    if x.dtype in DTYPES:
        return
    if x.is_complex():
        # .float() would drop the imaginary half without a word.
        way_out = f"torch.view_as_real({name}).flatten(-2), each number as two features"
    elif x.is_floating_point():
        way_out = f"{name}.float()"
    else:
        way_out = f"{name}.float() (token numbers become vectors in an nn.Embedding first)"
    *others, last = [str(each).removeprefix("torch.") for each in DTYPES]
    raise TypeError(
        f"{name} has dtype {x.dtype}; attention takes {', '.join(others)} or {last}, "
        f"so pass {way_out}"
    )


def check_mask(name: str, mask: Tensor, device: torch.device, *, takes_bias: bool = False) -> None:
    """Refuse a mask that is not boolean, or not on `device`.

    With `takes_bias` the message says that what is added to the scores has its own place.

    >>> check_mask("mask", torch.tensor([1, 0]), torch.device("cpu"))
    Traceback (most recent call last):
    TypeError: mask has dtype torch.int64; it must be boolean, True = keep. If 1 means keep pass \
mask.bool(); if 1 means ignore pass from_ignore_mask(mask.bool())
    """
    check_tensor(name, mask)
    if mask.dtype != torch.bool:
        added = ""
        if mask.is_floating_point():
            way_out = "pass it as bias" if takes_bias else f"(0 keeps, -inf hides) pass {name} == 0"
            added = f"If it is added to the scores {way_out}; "
        raise TypeError(
            f"{name} has dtype {mask.dtype}; it must be boolean, True = keep. "
            f"{added}{'if' if added else 'If'} 1 means keep pass {name}.bool(); "
            f"if 1 means ignore pass from_ignore_mask({name}.bool())"
        )
    if mask.device != device:
        raise ValueError(
            f"{name} is on {mask.device}, but query is on {device}; pass {name}.to({str(device)!r})"
        )


def check_broadcast(name: str, x: Tensor, B: int, h: int, L: int, S: int) -> None:
    """Refuse a mask or bias that does not broadcast to (B, h, L, S), and say on which axis.

    >>> check_broadcast("mask", torch.ones(5, 6, dtype=torch.bool), 2, 4, 5, 7)
    Traceback (most recent call last):
    ValueError: mask has shape (5, 6), which does not broadcast to (B, h, L, S) = (2, 4, 5, 7): \
its axis for keys has 6, and should have 7 or 1
    """
    target = (B, h, L, S)
    shape = tuple(x.shape)
    complaint = f"{name} has shape {shape}, which does not broadcast to (B, h, L, S) = {target}: "
    if len(shape) > 4:
        raise ValueError(f"{complaint}it has {len(shape)} axes, and should have 4 or fewer")
    meanings = ("batch", "heads", "queries", "keys")[4 - len(shape) :]
    for size, wanted, meaning in zip(shape, target[4 - len(shape) :], meanings, strict=True):
        if size in (1, wanted):
            continue
        hint = ""
        if len(shape) == 3 and meaning == "heads" and size == B:
            hint = f"; if it has one {name} for each sequence pass {name}[:, None]"
        elif len(shape) == 3 and meaning == "heads" and size == B * h:
            hint = f"; if batch and heads stand in one axis pass {name}.unflatten(0, {(B, h)})"
        if shape == (B, S):
            hint = f"; if it says which keys are real pass {name}[:, None, None]"
        should = f"{wanted} or 1" if wanted != 1 else "1"
        raise ValueError(
            f"{complaint}its axis for {meaning} has {size}, and should have {should}{hint}"
        )


# Below this size a mask of random entries looks like this too often.
_TELLING = 4


def check_not_inverted(mask: Tensor) -> None:
    """Refuse a mask that shows each query exactly the keys after it.

    That is a causal mask in the other convention, in which True = ignore. Only looked at on a
    CPU: elsewhere the look alone would make the program wait for the device.

    >>> check_not_inverted(torch.ones(4, 4, dtype=torch.bool).triu(1))
    Traceback (most recent call last):
    ValueError: mask hides from each query itself and all before it, and shows it what comes \
after: True must mean keep. If True means ignore pass from_ignore_mask(mask)
    """
    if mask.dim() < 2 or mask.device.type != "cpu" or torch.compiler.is_compiling():
        return
    N = mask.shape[-1]
    if mask.shape[-2] != N or N < _TELLING or mask.numel() == 0:
        return
    try:
        inverted = not mask[..., 0, 0].any() and torch.equal(mask, torch.ones_like(mask).triu(1))
    except RuntimeError:  # torch.func.vmap lets nobody look
        inverted = False
    if inverted:
        raise ValueError(
            "mask hides from each query itself and all before it, and shows it what comes after: "
            "True must mean keep. If True means ignore pass from_ignore_mask(mask)"
        )


def check_scores_inputs(
    mask: Tensor | None, bias: Tensor | None, query: Tensor, h: int, S: int
) -> None:
    """Refuse a mask or bias that cannot meet the scores, (B, h, L, S).

    >>> check_scores_inputs(None, torch.ones(5, 5).bool(), torch.ones(2, 5, 8), 4, 5)
    Traceback (most recent call last):
    TypeError: bias has dtype torch.bool; it is added to the scores, so it must be floating \
point. What hides keys goes into mask
    """
    B, L = query.shape[0], query.shape[-2]
    if mask is not None:
        check_mask("mask", mask, query.device, takes_bias=True)
        check_broadcast("mask", mask, B, h, L, S)
        check_not_inverted(mask)
    if bias is not None:
        check_tensor("bias", bias)
        if bias.dtype not in DTYPES:
            hint = ". What hides keys goes into mask" if bias.dtype == torch.bool else ""
            raise TypeError(
                f"bias has dtype {bias.dtype}; it is added to the scores, so it must be floating "
                f"point{hint}"
            )
        check_same_device("bias", bias, query)
        check_broadcast("bias", bias, B, h, L, S)


def check_options(trace: bool, edit: object, check_finite: bool, steps: Collection[str]) -> None:
    """Refuse switches that are none, and an edit of a step that there is not.

    >>> check_options(False, {"weight": abs}, False, ["scores", "weights"])
    Traceback (most recent call last):
    ValueError: edit has 'weight', which is no step; use 'scores' or 'weights'
    """
    if edit is None and type(trace) is bool and type(check_finite) is bool:
        return
    check_switch("trace", trace)
    check_switch("check_finite", check_finite)
    if edit is None:
        return
    if not isinstance(edit, Mapping):
        raise TypeError(f'edit is of type {type(edit).__name__}; pass {{"weights": function}}')
    for name, function in edit.items():
        if name not in steps:
            raise ValueError(f"edit has {name!r}, which is no step; use {either(list(steps))}")
        if not callable(function):
            raise TypeError(f"edit[{name!r}] is of type {type(function).__name__}; pass a function")


def check_attention_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> None:
    """Refuse what `attention` cannot use.

    >>> x = torch.ones(2, 5, 8)
    >>> check_attention_inputs(x, x, x)
    Traceback (most recent call last):
    ValueError: query has shape (2, 5, 8), but attention takes (B, h, L, d_k); for a single head \
pass query.unsqueeze(1)
    """
    for name, x, axes in (
        ("query", query, "(B, h, L, d_k)"),
        ("key", key, "(B, h, S, d_k)"),
        ("value", value, "(B, h, S, d_v)"),
    ):
        check_tensor(name, x)
        check_dtype(name, x)
        if x.dim() != 4:
            way_out = (
                f"for a single head pass {name}.unsqueeze(1)"
                if x.dim() == 3
                else "split the features into heads first, as MultiHeadAttention does"
            )
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, but attention takes {axes}; {way_out}"
            )
        if 0 in x.shape[1:]:
            raise ValueError(
                f"{name} has shape {tuple(x.shape)}, with nothing in it; "
                f"attention takes {axes}, each but B at least 1"
            )
        if x is not query:
            check_same_device(name, x, query)
            if x.dtype != query.dtype:
                raise TypeError(dtypes_differ(name, x, query))

    B, h, _, d_k = query.shape
    h_kv, S = key.shape[1], key.shape[2]
    for name, x in (("key", key), ("value", value)):
        if x.shape[0] != B:
            raise ValueError(
                f"{name} has batch {x.shape[0]}, but query has batch {B}; they must be the same, "
                f"so expand {name} where it is shared"
            )
    if value.shape[1] != h_kv:
        raise ValueError(
            f"value has {value.shape[1]} heads, but key has {h_kv}; each key needs its own value"
        )
    if h % h_kv:
        raise ValueError(
            f"query has {h} heads, which key and value with {h_kv} cannot be shared among; "
            f"give them {so_many(nearest_divisors(h, h_kv), 'head')}"
        )
    if key.shape[3] != d_k:
        raise ValueError(
            f"key has d_k={key.shape[3]}, but query has d_k={d_k}; a score is their dot product, "
            "so project both to one width"
        )
    check_same_length(S, value.shape[2])
    check_scores_inputs(mask, bias, query, h, S)


def check_same_device(name: str, x: Tensor, query: Tensor) -> None:
    """Refuse a tensor on another device than the query's.

    >>> check_same_device("key", torch.ones(1, device="meta"), torch.ones(1))
    Traceback (most recent call last):
    ValueError: key is on meta, but query is on cpu; pass key.to('cpu')
    """
    if x.device != query.device:
        raise ValueError(
            f"{name} is on {x.device}, but query is on {query.device}; "
            f"pass {name}.to({str(query.device)!r})"
        )


def check_same_length(S: int, values: int) -> None:
    """Refuse values that are not one for each of `S` keys.

    >>> check_same_length(3, 2)
    Traceback (most recent call last):
    ValueError: key has length 3, but value has length 2; each key needs its own value
    """
    if values != S:
        raise ValueError(
            f"key has length {S}, but value has length {values}; each key needs its own value"
        )


def dtypes_differ(name: str, x: Tensor, query: Tensor) -> str:
    """Say that `x` has another dtype than the query.

    >>> dtypes_differ("key", torch.ones(1).half(), torch.ones(1))
    'key has dtype torch.float16, but query has torch.float32; pass key.to(torch.float32)'
    """
    return f"{name} has dtype {x.dtype}, but query has {query.dtype}; pass {name}.to({query.dtype})"
