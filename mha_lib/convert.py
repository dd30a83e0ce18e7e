"""From `torch.nn.MultiheadAttention` to this library's layer, and back."""

import torch
from torch import Tensor, nn

from mha_lib.layer_checks import check_float_projections
from mha_lib.multihead import MultiHeadAttention


def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make a layer that computes what `module` computes, with copies of its weights.

    The new layer is batch first whatever `module` is, and all its parameters are trainable.
    It returns the output alone, and is called in other words:

    - `key_padding_mask=ignore` is `key_mask=from_ignore_mask(ignore)`
    - `attn_mask=ignore`, boolean, (L, S), is `mask=from_ignore_mask(ignore)`
    - `attn_mask=added`, floating point, is `bias=added`
    - an `attn_mask` (B*h, L, S) is first to become `attn_mask.unflatten(0, (B, h))`
    - `is_causal=True` is `layer.causal = True`, for all calls; it needs no mask
    - `need_weights=True` is `trace=True`: `weights` has those of every head, `.mean(dim=1)` the
      average that `module` returns

    Args:
        module: Any but one with add_bias_kv or add_zero_attn.

    Raises:
        ValueError: `module` has add_bias_kv or add_zero_attn.
        TypeError: `module` is something else.

    >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(3, 5, 8)
    >>> torch.allclose(from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-6)
    True
    """
    if not isinstance(module, nn.MultiheadAttention):
        raise TypeError(
            f"module is of type {type(module).__name__}; "
            "from_torch takes a torch.nn.MultiheadAttention"
        )
    for option, is_on in (
        ("add_bias_kv", module.bias_k is not None),
        ("add_zero_attn", module.add_zero_attn),
    ):
        if is_on:
            raise ValueError(
                f"module was made with {option}=True, which adds a key that belongs to no token; "
                f"MultiHeadAttention has no such key, so make module with {option}=False"
            )
    layer = MultiHeadAttention(
        module.embed_dim,
        module.num_heads,
        kdim=module.kdim,
        vdim=module.vdim,
        bias=module.in_proj_bias is not None,
        dropout=module.dropout,
        device=module.out_proj.weight.device,
        dtype=module.out_proj.weight.dtype,
    )
    _copy(_torch_parameters(module), _our_parameters(layer))
    return layer.train(module.training)


def to_torch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Make a batch-first `torch.nn.MultiheadAttention` that computes what `layer` computes.

    It gets copies of the weights. Its boolean masks say what to ignore, True = ignore: pass it
    `key_padding_mask=~key_mask`, and `attn_mask=~mask` where mask is (L, S). Another mask it
    takes with batch and heads in one axis, `~mask.expand(B, h, L, S).flatten(0, 1)`, (B*h, L, S).

    Args:
        layer: One whose heads share embed_dim among them, and that is not causal.

    Raises:
        ValueError: `layer` has what torch's module has not: another head_dim, fewer key heads,
            a window, positions, causal=True.
        TypeError: `layer` is something else, or a projection of it is no `nn.Linear` any more.

    >>> ours = MultiHeadAttention(8, 2)
    >>> x = torch.randn(3, 5, 8)
    >>> torch.allclose(to_torch(ours)(x, x, x)[0], ours(x), atol=1e-6)
    True
    """
    if not isinstance(layer, MultiHeadAttention):
        raise TypeError(
            f"layer is of type {type(layer).__name__}; to_torch takes a mha_lib.MultiHeadAttention"
        )
    check_float_projections(layer, "convert the layer", only_read=True)
    if layer.num_heads * layer.head_dim != layer.embed_dim:
        raise ValueError(
            f"num_heads={layer.num_heads} times head_dim={layer.head_dim} is not "
            f"embed_dim={layer.embed_dim}; torch.nn.MultiheadAttention has no other head width, "
            "so make layer without head_dim"
        )
    for option, plain in (("num_kv_heads", layer.num_heads), ("window", None), ("positions", None)):
        if getattr(layer, option) != plain:
            raise ValueError(
                f"layer has {option}={getattr(layer, option)!r}, which torch.nn.MultiheadAttention "
                f"has not; make layer without {option}"
            )
    if layer.causal:
        raise ValueError(
            "layer has causal=True; torch.nn.MultiheadAttention is told so at each call instead: "
            "set layer.causal = False, convert, and call it with attn_mask=~causal_mask(L, S)"
        )
    module = nn.MultiheadAttention(
        layer.embed_dim,
        layer.num_heads,
        kdim=layer.kdim,
        vdim=layer.vdim,
        bias=len(_our_parameters(layer)) > 4,
        dropout=layer.dropout,
        batch_first=True,
        device=layer.out_proj.weight.device,
        dtype=layer.out_proj.weight.dtype,
    )
    _copy(_our_parameters(layer), _torch_parameters(module))
    return module.train(layer.training)


def _our_parameters(layer: MultiHeadAttention) -> list[Tensor]:
    """Weights, then biases, in the order query, key, value, output."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    weights: list[Tensor] = [projection.weight for projection in projections]
    biases: list[Tensor | None] = [projection.bias for projection in projections]
    if all(bias is None for bias in biases):
        return weights
    # torch's module has all four or none: for one that is missing, zeros do the same.
    pairs = zip(weights, biases, strict=True)
    return weights + [w.new_zeros(len(w)) if bias is None else bias for w, bias in pairs]


def _torch_parameters(module: nn.MultiheadAttention) -> list[Tensor]:
    """The same order; torch packs the three input projections into one matrix if it can."""
    packed = module.in_proj_weight is not None
    weights = (
        list(module.in_proj_weight.chunk(3))
        if packed
        else [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    )
    biases: list[Tensor] = []
    if module.in_proj_bias is not None:
        biases = [*module.in_proj_bias.chunk(3), module.out_proj.bias]
    return [*weights, module.out_proj.weight, *biases]


@torch.no_grad()
def _copy(sources: list[Tensor], targets: list[Tensor]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
