"""What can be wrong with the tensors of a layer, said with shapes and with the way out.

Nothing here computes attention; reading the library, leave this file for last.
"""

import operator
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mha_lib.cache import KVCache
from mha_lib.tensor_checks import (
    AUTOCAST_DTYPES,
    DTYPES,
    autocast_is_on,
    check_dtype,
    check_mask,
    check_same_device,
    check_same_length,
    check_scores_inputs,
    check_tensor,
    dtypes_differ,
)

if TYPE_CHECKING:
    from mha_lib.multihead import MultiHeadAttention


_IN_TORCH = {
    "key_padding_mask": "pass key_mask=~key_padding_mask: True = keep",
    "attn_mask": "pass mask=from_ignore_mask(attn_mask) if it is boolean, else bias=attn_mask",
    "is_causal": "make the layer with causal=True",
    "need_weights": "call with trace=True and read .weights",
    "average_attn_weights": "call with trace=True and take .weights.mean(dim=1)",
}


def refuse_unknown(names: Collection[str]) -> None:
    """Refuse the first of arguments that the layer has not, and say what torch's is called here.

    >>> refuse_unknown(["need_weights"])
    Traceback (most recent call last):
    TypeError: the layer takes no need_weights; call with trace=True and read .weights
    """
    name = next(iter(names))
    way_out = _IN_TORCH.get(name, "help(MultiHeadAttention.forward) says what it takes")
    raise TypeError(f"the layer takes no {name}; {way_out}")


def check_layer_inputs(
    layer: "MultiHeadAttention",
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    bias: Tensor | None = None,
    head_mask: Tensor | None = None,
    cache: KVCache | None = None,
) -> None:
    """Refuse what `layer.forward` cannot use.

    >>> from mha_lib import MultiHeadAttention
    >>> check_layer_inputs(MultiHeadAttention(8, 2), torch.ones(5, 8), None, None)
    Traceback (most recent call last):
    ValueError: query has shape (5, 8), but the layer takes (B, L, embed_dim); for a single \
sequence pass query.unsqueeze(0)
    """
    if key is None and value is not None:
        raise ValueError("value was given without key; pass the key that goes with it")
    alone = mask is None and key_mask is None and bias is None and head_mask is None
    if key is None and _plainly_fits(query, layer):
        if not alone or cache is not None:
            _check_scores_and_heads(layer, query, query, mask, key_mask, bias, head_mask, cache)
        return
    _check_tokens("query", query, "L", "embed_dim", layer.embed_dim)
    check_fits_weights(query, layer)

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
        check_same_length(given_key.shape[1], given_value.shape[1])

    if cache is not None and key is not None:
        raise ValueError(
            "cache was given with key, but it holds the keys of the tokens before query; "
            "call the layer with query alone, or without cache"
        )
    _check_scores_and_heads(layer, query, given_key, mask, key_mask, bias, head_mask, cache)


def _plainly_fits(query: Tensor, layer: "MultiHeadAttention") -> bool:
    """Whether nothing can be wrong with self-attention over `query`: the quick answer.

    It says again what the checks below say one by one, each with its message. A small layer
    would wait longer for those than for its products.
    """
    if not isinstance(query, Tensor) or query.layout != torch.strided or query.is_nested:
        return False
    shape = query.shape
    if len(shape) != 3 or query.dtype not in DTYPES:
        return False
    return shape[1] > 0 and shape[2] == layer.embed_dim == layer.kdim == layer.vdim


def _check_scores_and_heads(
    layer: "MultiHeadAttention",
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    key_mask: Tensor | None,
    bias: Tensor | None,
    head_mask: Tensor | None,
    cache: KVCache | None,
) -> None:
    """Refuse what cannot meet the scores, (B, h, L, S), or the heads."""
    if cache is not None:
        _check_cache(cache, layer)
    if mask is None and bias is None and key_mask is None and head_mask is None:
        return
    B, S = query.shape[0], key.shape[1] + (0 if cache is None else cache.length)
    check_scores_inputs(mask, bias, query, layer.num_heads, S)
    if key_mask is not None:
        check_mask("key_mask", key_mask, query.device)
        if key_mask.shape != (B, S):
            cached = "" if cache is None else f", {cache.length} of them in the cache"
            raise ValueError(
                f"key_mask has shape {tuple(key_mask.shape)}, but keys are (B, S) = {(B, S)}"
                f"{cached}; it says for each key of each sequence whether it is real, and what "
                "depends on the query or the head goes into mask"
            )
    if head_mask is not None:
        _check_head_mask(head_mask, B, layer.num_heads, query)


def _check_cache(cache: KVCache, layer: "MultiHeadAttention") -> None:
    """Refuse a cache where keys of earlier calls have no meaning."""
    if not isinstance(cache, KVCache):
        raise TypeError(f"cache is of type {type(cache).__name__}; pass a mha_lib.KVCache()")
    if not layer.causal:
        raise ValueError(
            "cache was given, but the layer has causal=False: in a full pass earlier tokens would "
            "see later ones, which a cache cannot do; make the layer with causal=True"
        )
    if not cache.is_for(layer):
        raise ValueError("cache holds the keys of another layer; make one KVCache() for each layer")


def _check_head_mask(head_mask: Tensor, B: int, h: int, query: Tensor) -> None:
    """Refuse what is not one number or switch for each head."""
    check_tensor("head_mask", head_mask)
    if head_mask.dtype != torch.bool and not head_mask.is_floating_point():
        raise TypeError(
            f"head_mask has dtype {head_mask.dtype}; pass booleans, True = keep, or floating-point "
            "factors"
        )
    check_same_device("head_mask", head_mask, query)
    if head_mask.shape not in ((h,), (B, h)):
        raise ValueError(
            f"head_mask has shape {tuple(head_mask.shape)}; pass one entry for each of {h} heads, "
            f"({h},), or for each sequence too, ({B}, {h})"
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

    A projection may have been quantised, split, wrapped or replaced since the layer was made; it
    then brings its own rule for what it can meet.

    >>> float_weight(nn.Linear(4, 6)).shape
    torch.Size([6, 4])
    >>> float_weight(nn.Identity())
    """
    if not isinstance(projection, nn.Linear):
        return None
    # A plain parameter lies here; `projection.weight` would first look everywhere else.
    weight: Tensor | None = projection._parameters.get("weight")
    if weight is None:
        weight = projection.weight
    # Of a DTensor, which is no plain Parameter, each process holds a part.
    whole = type(weight) is nn.Parameter or not hasattr(weight, "full_tensor")
    return weight if whole and weight.is_floating_point() else None


def check_float_projections(
    layer: "MultiHeadAttention", to_do: str, *, only_read: bool = False
) -> None:
    """Refuse a layer of which a projection is no plain matrix any more.

    To be read only, a matrix may be computed from others, as torch's parametrizations do.

    >>> from mha_lib import MultiHeadAttention
    >>> layer = MultiHeadAttention(8, 2)
    >>> layer.v_proj = nn.Identity()
    >>> check_float_projections(layer, "convert it")
    Traceback (most recent call last):
    TypeError: layer.v_proj is not an nn.Linear with floating-point weights of its own, but \
Identity(); convert it as it was before that was quantised, split, parametrized or replaced
    """
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        projection = layer.get_submodule(name)
        weight = float_weight(projection)
        own = dict(projection.named_parameters(recurse=False))
        if weight is None or not (only_read or "weight" in own):
            raise TypeError(
                f"layer.{name} is not an nn.Linear with floating-point weights of its own, but "
                f"{projection}; {to_do} as it was before that was quantised, split, parametrized "
                "or replaced"
            )


def check_fits_weights(query: Tensor, layer: "MultiHeadAttention") -> None:
    """Refuse a query that the layer's weights cannot meet.

    Torch refuses such a query by itself, so in plain self-attention this is asked after it did:
    to ask first would cost a small layer a tenth of its time.

    >>> from mha_lib import MultiHeadAttention
    >>> check_fits_weights(torch.ones(1, 5, 8).double(), MultiHeadAttention(8, 2))
    Traceback (most recent call last):
    TypeError: query has dtype torch.float64, but the layer has torch.float32; pass \
query.to(torch.float32), or turn the layer with layer.to(torch.float64)
    """
    check_fits_weight("query", query, layer.q_proj)


def check_fits_weight(name: str, x: Tensor, projection: nn.Module) -> None:
    """Refuse what the weight of a projection cannot meet.

    >>> check_fits_weight("images", torch.ones(1, 8).half(), nn.Linear(8, 8))
    Traceback (most recent call last):
    TypeError: images has dtype torch.float16, but the layer has torch.float32; pass \
images.to(torch.float32), or turn the layer with layer.to(torch.float16)
    """
    weight = float_weight(projection)
    if weight is None:
        return
    if x.device != weight.device:
        raise ValueError(
            f"{name} is on {x.device}, but the layer is on {weight.device}; "
            f"pass {name}.to({str(weight.device)!r}), or move the layer"
        )
    if not _dtypes_meet(x, weight):
        raise TypeError(
            f"{name} has dtype {x.dtype}, but the layer has {weight.dtype}; "
            f"pass {name}.to({weight.dtype}), or turn the layer with layer.to({x.dtype})"
        )


def _check_goes_with_query(name: str, x: Tensor, query: Tensor) -> None:
    """Refuse keys or values whose batch, device or dtype is not the query's."""
    if x.shape[0] != query.shape[0]:
        raise ValueError(
            f"{name} has batch {x.shape[0]}, but query has batch {query.shape[0]}; "
            f"they must be the same, so expand {name} where it is shared"
        )
    check_same_device(name, x, query)
    if not _dtypes_meet(x, query):
        raise TypeError(dtypes_differ(name, x, query))


def _dtypes_meet(x: Tensor, other: Tensor) -> bool:
    """Whether a product can take both, on the device of `x`."""
    if x.dtype == other.dtype:
        return True
    both = x.dtype in AUTOCAST_DTYPES and other.dtype in AUTOCAST_DTYPES
    return both and autocast_is_on(x.device.type)


def _not_given(name: str, source: str, x: Tensor, width_name: str, width: int) -> str:
    return (
        f"{name} was not given, so it is {source}, with width {x.shape[2]}; "
        f"but the layer has {width_name}={width}: pass {name}"
    )


def check_prunable(heads: object, num_heads: int, num_kv_heads: int) -> list[int]:
    """Return the heads that stay when `heads` are taken out.

    Raises:
        ValueError: There is no such head; none would stay; heads that share a key head do not
            go together.
        TypeError: They are not whole numbers.

    >>> check_prunable([1], 4, 4)
    [0, 2, 3]
    >>> check_prunable([1], 4, 2)
    Traceback (most recent call last):
    ValueError: heads=[1] takes a part of heads 0 to 1, which share a key head; take all of them \
or none
    """
    if isinstance(heads, Tensor):
        heads = heads.tolist()  # so that True is no longer 1
    if not isinstance(heads, Iterable) or isinstance(heads, str | bytes):
        raise TypeError(f"heads={heads!r} is not a list of heads; pass [0, 2], for example")
    gone: set[int] = set()
    for head in heads:
        if isinstance(head, bool) or not hasattr(head, "__index__"):
            raise TypeError(f"heads has {head!r}, which is not a whole number; pass [0, 2]")
        number = operator.index(head)
        if not 0 <= number < num_heads:
            raise ValueError(f"heads has {number}, but the heads are 0 to {num_heads - 1}")
        gone.add(number)
    if len(gone) == num_heads:
        raise ValueError(f"heads has all {num_heads} heads; leave at least one")
    groups = num_heads // num_kv_heads
    for first in range(0, num_heads, groups):
        group = range(first, first + groups)
        if 0 < len(gone.intersection(group)) < groups:
            raise ValueError(
                f"heads={sorted(gone)} takes a part of heads {first} to {group[-1]}, which share a "
                "key head; take all of them or none"
            )
    return [head for head in range(num_heads) if head not in gone]
