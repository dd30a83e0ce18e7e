"""What can be wrong with a tensor, said with its shape and with the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from mha_lib.multihead import MultiHeadAttention

# What autocast turns into one another; it leaves float64 alone.
AUTOCAST_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
DTYPES = (*AUTOCAST_DTYPES, torch.float64)


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


def check_mask(name: str, mask: Tensor, device: torch.device) -> None:
    """Refuse a mask that is not boolean, or not on `device`.

    >>> check_mask("mask", torch.tensor([1, 0]), torch.device("cpu"))
    Traceback (most recent call last):
    TypeError: mask has dtype torch.int64; it must be boolean, True = keep. If 1 means keep pass \
mask.bool(); if 1 means ignore pass from_ignore_mask(mask.bool())
    """
    check_tensor(name, mask)
    if mask.dtype != torch.bool:
        way_out = (
            f"If it is added to the scores (0 keeps, -inf hides) pass {name} == 0"
            if mask.is_floating_point()
            else f"If 1 means keep pass {name}.bool()"
        )
        raise TypeError(
            f"{name} has dtype {mask.dtype}; it must be boolean, True = keep. {way_out}; "
            f"if 1 means ignore pass from_ignore_mask({name}.bool())"
        )
    if mask.device != device:
        raise ValueError(
            f"{name} is on {mask.device}, but query is on {device}; pass {name}.to({str(device)!r})"
        )


def check_mask_shape(mask: Tensor, B: int, h: int, L: int, S: int) -> None:
    """Refuse a mask that does not broadcast to (B, h, L, S), and say on which axis.

    >>> check_mask_shape(torch.ones(5, 6, dtype=torch.bool), 2, 4, 5, 7)
    Traceback (most recent call last):
    ValueError: mask has shape (5, 6), which does not broadcast to (B, h, L, S) = (2, 4, 5, 7): \
its axis for keys has 6, and should have 7 or 1
    """
    target = (B, h, L, S)
    shape = tuple(mask.shape)
    complaint = f"mask has shape {shape}, which does not broadcast to (B, h, L, S) = {target}: "
    if len(shape) > 4:
        raise ValueError(f"{complaint}it has {len(shape)} axes, and should have 4 or fewer")
    meanings = ("batch", "heads", "queries", "keys")[4 - len(shape) :]
    for size, wanted, meaning in zip(shape, target[4 - len(shape) :], meanings, strict=True):
        if size in (1, wanted):
            continue
        hint = ""
        if len(shape) == 3 and meaning == "heads" and size == B:
            hint = "; if it has one mask for each sequence pass mask[:, None]"
        if shape == (B, S):
            hint = "; if it says which keys are real pass mask[:, None, None]"
        should = f"{wanted} or 1" if wanted != 1 else "1"
        raise ValueError(
            f"{complaint}its axis for {meaning} has {size}, and should have {should}{hint}"
        )


def check_attention_inputs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
) -> None:
    """Refuse what `attention` cannot use.

    >>> x = torch.ones(2, 5, 8)
    >>> check_attention_inputs(x, x, x, None)
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
            _check_same_device(name, x, query)
            if x.dtype != query.dtype:
                raise TypeError(_dtypes_differ(name, x, query))

    B, h, L, d_k = query.shape
    S = key.shape[2]
    for name, x in (("key", key), ("value", value)):
        if x.shape[0] != B or x.shape[1] != h:
            raise ValueError(
                f"{name} has batch {x.shape[0]} and {x.shape[1]} heads, but query has batch {B} "
                f"and {h} heads; they must be the same, so expand {name} where it is shared"
            )
    if key.shape[3] != d_k:
        raise ValueError(
            f"key has d_k={key.shape[3]}, but query has d_k={d_k}; a score is their dot product, "
            "so project both to one width"
        )
    _check_same_length(S, value.shape[2])
    if mask is not None:
        check_mask("mask", mask, query.device)
        check_mask_shape(mask, B, h, L, S)


def check_layer_inputs(
    layer: "MultiHeadAttention",
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    mask: Tensor | None,
    key_mask: Tensor | None,
) -> None:
    """Refuse what `layer.forward` cannot use.

    >>> from mha_lib import MultiHeadAttention
    >>> check_layer_inputs(MultiHeadAttention(8, 2), torch.ones(5, 8), None, None, None, None)
    Traceback (most recent call last):
    ValueError: query has shape (5, 8), but the layer takes (B, L, embed_dim); for a single \
sequence pass query.unsqueeze(0)
    """
    if key is None and value is not None:
        raise ValueError("value was given without key; pass the key that goes with it")
    _check_tokens("query", query, "L", "embed_dim", layer.embed_dim)
    _check_fits_weights(query, layer)

    given_key = query if key is None else key
    given_value = given_key if value is None else value
    if key is None and layer.kdim != query.shape[2]:
        raise ValueError(_not_given("key", "query", query, "kdim", layer.kdim))
    if key is not None:
        _check_tokens("key", key, "S", "kdim", layer.kdim)
        _check_goes_with_query("key", key, query)
    if value is None and layer.vdim != given_key.shape[2]:
        raise ValueError(_not_given("value", "key", given_key, "vdim", layer.vdim))
    if value is not None:
        _check_tokens("value", value, "S", "vdim", layer.vdim)
        _check_goes_with_query("value", value, query)
        _check_same_length(given_key.shape[1], given_value.shape[1])

    B, L, S = query.shape[0], query.shape[1], given_key.shape[1]
    if mask is not None:
        check_mask("mask", mask, query.device)
        check_mask_shape(mask, B, layer.num_heads, L, S)
    if key_mask is not None:
        check_mask("key_mask", key_mask, query.device)
        if key_mask.shape != (B, S):
            raise ValueError(
                f"key_mask has shape {tuple(key_mask.shape)}, but keys are (B, S) = {(B, S)}; "
                "it says for each key of each sequence whether it is real, and what depends on "
                "the query or the head goes into mask"
            )


def _check_tokens(name: str, x: Tensor, length: str, width_name: str, width: int) -> None:
    """Refuse what is not (B, length, width) floating-point numbers."""
    check_tensor(name, x)
    check_dtype(name, x)
    if x.dim() != 3:
        way_out = {
            2: f"; for a single sequence pass {name}.unsqueeze(0)",
            4: "; the layer splits the heads itself",
        }.get(x.dim(), "")
        raise ValueError(
            f"{name} has shape {tuple(x.shape)}, but the layer takes (B, {length}, {width_name})"
            f"{way_out}"
        )
    if x.shape[1] == 0:
        raise ValueError(f"{name} has no tokens, its shape is {tuple(x.shape)}; pass at least one")
    if x.shape[2] != width:
        raise ValueError(
            f"{name} has width {x.shape[2]}, but the layer has {width_name}={width}; "
            f"pass {name} with {width} features, or make the layer with {width_name}={x.shape[2]}"
        )


def float_weight(projection: nn.Module) -> Tensor | None:
    """Return the matrix that `projection` multiplies by, None where that is not so simple.

    A projection may have been quantised, wrapped or replaced since the layer was made; it then
    brings its own rule for what it can meet.

    >>> float_weight(nn.Linear(4, 6)).shape
    torch.Size([6, 4])
    >>> float_weight(nn.Identity())
    """
    if isinstance(projection, nn.Linear) and projection.weight.is_floating_point():
        return projection.weight
    return None


def _check_fits_weights(query: Tensor, layer: "MultiHeadAttention") -> None:
    """Refuse a query that the layer's weights cannot meet."""
    weight = float_weight(layer.q_proj)
    if weight is None:
        return
    if query.device != weight.device:
        raise ValueError(
            f"query is on {query.device}, but the layer is on {weight.device}; "
            f"pass query.to({str(weight.device)!r}), or move the layer"
        )
    if not _dtypes_meet(query, weight):
        raise TypeError(
            f"query has dtype {query.dtype}, but the layer has {weight.dtype}; "
            f"pass query.to({weight.dtype}), or turn the layer with layer.to({query.dtype})"
        )


def _check_goes_with_query(name: str, x: Tensor, query: Tensor) -> None:
    """Refuse keys or values whose batch, device or dtype is not the query's."""
    if x.shape[0] != query.shape[0]:
        raise ValueError(
            f"{name} has batch {x.shape[0]}, but query has batch {query.shape[0]}; "
            f"they must be the same, so expand {name} where it is shared"
        )
    _check_same_device(name, x, query)
    if not _dtypes_meet(x, query):
        raise TypeError(_dtypes_differ(name, x, query))


def _check_same_device(name: str, x: Tensor, query: Tensor) -> None:
    if x.device != query.device:
        raise ValueError(
            f"{name} is on {x.device}, but query is on {query.device}; "
            f"pass {name}.to({str(query.device)!r})"
        )


def _check_same_length(S: int, values: int) -> None:
    if values != S:
        raise ValueError(
            f"key has length {S}, but value has length {values}; each key needs its own value"
        )


def _dtypes_meet(x: Tensor, other: Tensor) -> bool:
    """Whether a product can take both, on the device of `x`."""
    if x.dtype == other.dtype:
        return True
    kind = x.device.type
    autocast_is_on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return autocast_is_on and x.dtype in AUTOCAST_DTYPES and other.dtype in AUTOCAST_DTYPES


def _dtypes_differ(name: str, x: Tensor, query: Tensor) -> str:
    return f"{name} has dtype {x.dtype}, but query has {query.dtype}; pass {name}.to({query.dtype})"


def _not_given(name: str, source: str, x: Tensor, width_name: str, width: int) -> str:
    return (
        f"{name} was not given, so it is {source}, with width {x.shape[2]}; "
        f"but the layer has {width_name}={width}: pass {name}"
    )
