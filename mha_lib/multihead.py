"""The layer: project, split into heads, attend in each, merge, project once more.

Letters in shapes: B batch, h heads, h_kv key heads, L queries, S keys, d_model = embed_dim,
d_k = head_dim.
"""

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

from mha_lib.backends.call import Call
from mha_lib.backends.explicit import Edit, Steps, edited
from mha_lib.cache import KVCache
from mha_lib.checks import (
    check_backend,
    check_causal,
    check_dropout,
    check_head_dim,
    check_kv_heads,
    check_positions,
    check_size,
    check_switch,
    check_window,
)
from mha_lib.functional import attend
from mha_lib.layer_checks import (
    check_fits_weights,
    check_float_projections,
    check_layer_inputs,
    check_prunable,
    float_weight,
    refuse_unknown,
)
from mha_lib.positions import alibi_bias, alibi_slopes, rotary, sinusoidal
from mha_lib.tensor_checks import check_options, check_parameter_dtype
from mha_lib.trace import MultiHeadTrace, check_finite_steps


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own small space (Vaswani et al. 2017).

    Args:
        embed_dim: Width of a query token and of the output, d_model.
        num_heads: How many heads, h.
        num_kv_heads: How many key heads, h_kv; num_heads unless given. With fewer, h / h_kv
            neighbouring heads share one (Ainslie et al. 2023, grouped-query attention).
        head_dim: Width of one head, d_k; embed_dim / num_heads unless given.
        kdim: Width of a key token; embed_dim unless given.
        vdim: Width of a value token; embed_dim unless given.
        bias: Whether the four projections have one.
        dropout: Probability with which a weight is dropped, in training only.
        causal: Hide the keys that come later than the query, in every call.
        window: How far a query sees, in every call; see `attention`.
        positions: How tokens know where they stand: "rotary" turns queries and keys, "alibi"
            takes from the scores of keys far away, "sinusoidal" adds a pattern to the tokens
            before they are projected; None: they do not. The last query stands beside the last
            key. See `positions.py`.
        backend: What computes the attention; see `attention`.
        device: Where the parameters are made.
        dtype: Their dtype: float16, bfloat16, float32 or float64; torch's default unless given.

    The four projections are `nn.Linear`: q_proj, k_proj, v_proj, out_proj. They are made in
    this order and begin as `nn.Linear` begins.

    Raises:
        ValueError: num_heads does not divide embed_dim and head_dim is not given; num_kv_heads
            does not divide num_heads; a size below 1; dropout outside [0, 1); an unknown
            backend or kind of positions; rotary positions with an odd head_dim.
        TypeError: A size that is not a whole number, a switch that is not True or False, or a
            dtype that attention cannot use.

    >>> layer = MultiHeadAttention(embed_dim=8, num_heads=2)
    >>> x = torch.randn(3, 5, 8)  # (B, N, d_model)
    >>> layer(x).shape
    torch.Size([3, 5, 8])
    >>> layer(x, trace=True).weights.shape
    torch.Size([3, 2, 5, 5])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        window: int | tuple[int | None, int | None] | None = None,
        positions: str | None = None,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Check the sizes and make the four projections."""
        super().__init__()
        self.embed_dim = check_size("embed_dim", embed_dim)
        self.num_heads = check_size("num_heads", num_heads)
        self.num_kv_heads = check_kv_heads(self.num_heads, num_kv_heads)
        self.head_dim = check_head_dim(self.embed_dim, self.num_heads, head_dim)
        self.kdim = self.embed_dim if kdim is None else check_size("kdim", kdim)
        self.vdim = self.embed_dim if vdim is None else check_size("vdim", vdim)
        self.dropout = check_dropout(dropout)
        self.causal = check_causal(causal)
        self.window = check_window(window)
        self.positions = check_positions(positions, self.head_dim)
        self.backend = check_backend(backend)
        check_switch("bias", bias)
        check_parameter_dtype(dtype)

        # One matrix holds the projections of all heads: rows i*d_k to (i+1)*d_k are head i's.
        heads_dim = self.num_heads * self.head_dim  # h * d_k
        kv_dim = self.num_kv_heads * self.head_dim  # h_kv * d_k
        self.q_proj = nn.Linear(self.embed_dim, heads_dim, bias, device, dtype)
        self.k_proj = nn.Linear(self.kdim, kv_dim, bias, device, dtype)
        self.v_proj = nn.Linear(self.vdim, kv_dim, bias, device, dtype)
        self.out_proj = nn.Linear(heads_dim, self.embed_dim, bias, device, dtype)
        self.slopes: Tensor
        if positions == "alibi":
            # Part of the state: of the heads that pruning leaves, each keeps its slope.
            self.register_buffer("slopes", alibi_slopes(self.num_heads, device=device))

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        bias: Tensor | None = None,
        head_mask: Tensor | None = None,
        cache: KVCache | None = None,
        trace: bool = False,
        edit: Edit | None = None,
        check_finite: bool = False,
        **unknown: object,
    ) -> Tensor | MultiHeadTrace:
        """Let each query token gather from the key and value tokens, once in every head.

        Args:
            query: (B, L, embed_dim).
            key: (B, S, kdim); query unless given (self-attention).
            value: (B, S, vdim); key unless given.
            mask: Boolean, True = keep, broadcastable to (B, h, L, S).
            key_mask: Boolean, True = a real token and not padding, (B, S). Padding must be
                finite all the same, and so must all that `mask` hides.
            bias: Floating point, added to the scores, broadcastable to (B, h, L, S).
            head_mask: One factor or boolean, True = keep, for what each head found: (h,) or
                (B, h). It takes heads away without cutting them out.
            cache: Keys and values of the tokens before query, to which those of query are
                appended; S counts them all. For causal self-attention, as in generation.
            trace: Return every step instead of the output alone.
            edit: For a step by its name in the trace, a function that returns what is to stand
                in its place.
            check_finite: Refuse the first step that holds NaN or infinity.

        Returns:
            (B, L, embed_dim), or a `MultiHeadTrace` whose `output` is that. Never a pair, as
            torch's layer returns: the weights are `layer(x, trace=True).weights`.

        Raises:
            ValueError: Sizes or devices that do not fit together; a cache where there can be
                none; with check_finite, a step that is not finite.
            TypeError: A dtype that is not the layer's, or a mask that is not boolean.

        >>> layer = MultiHeadAttention(8, 2, kdim=6, vdim=6)
        >>> words, picture = torch.randn(3, 5, 8), torch.randn(3, 7, 6)
        >>> layer(words, picture).shape  # cross-attention: words look at the picture
        torch.Size([3, 5, 8])
        """
        if unknown:
            refuse_unknown(unknown)
        check_layer_inputs(self, query, key, value, mask, key_mask, bias, head_mask, cache)
        check_options(trace, edit, check_finite, MultiHeadTrace.STEP_NAMES)
        key = query if key is None else key
        value = key if value is None else value
        if check_finite:
            check_finite_steps({"query": query, "key": key, "value": value})
        if key_mask is not None:
            key_mask = key_mask[:, None, None, :]  # (B, S) -> (B, 1, 1, S)
            mask = key_mask if mask is None else mask & key_mask

        # Project, and give each head its own slice of the features.
        before = 0 if cache is None else cache.length  # tokens
        q, k, v = self._project(query, key, value, before)  # (B, h or h_kv, L or S, d_k)
        if cache is not None:
            k, v = cache.append(k, v)  # (B, h_kv, S, d_k), the tokens before query among them
        if self.positions == "alibi":
            farness = alibi_bias(self.slopes.float(), q.shape[2], k.shape[2])  # (h, L, S)
            bias = farness if bias is None else bias + farness

        # Attend in every head at once: to the product, a head is one more batch axis.
        call = Call(
            q,
            k,
            v,
            mask,
            bias,
            self.causal,
            self.window,
            scale=self.head_dim**-0.5,
            dropout=self.dropout if self.training else 0.0,
        )
        try:
            heads = attend(call, self.backend, trace, edit, check_finite)
            head_out = heads.head_out if isinstance(heads, Steps) else heads  # (B, h, L, d_k)
            if head_mask is not None:
                head_out = _masked_heads(head_out, head_mask)  # (B, h, L, d_k)

            # Lay the heads side by side and let W_O mix them.
            concat = merge_heads(head_out)  # (B, h, L, d_k) -> (B, L, h*d_k)
            concat = edited(edit, "concat", concat)
            out_proj = cast(nn.Module, self._modules["out_proj"])  # found at once, as in _project
            output: Tensor = out_proj(concat)  # (B, L, h*d_k) -> (B, L, d_model)
            output = edited(edit, "output", output)
            if check_finite:
                check_finite_steps({"concat": concat, "output": output})
        except Exception:
            if cache is not None:
                cache.crop(before)  # what was refused has not been
            raise
        if not trace or not isinstance(heads, Steps):
            return output
        return MultiHeadTrace(*heads[:-1], head_out, output, concat, float_weight(out_proj))

    def _project(
        self, query: Tensor, key: Tensor, value: Tensor, before: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Make queries, keys and values, and tell them where their tokens stand.

        Takes tokens (B, L, embed_dim), (B, S, kdim) and (B, S, vdim), and how many tokens stood
        before the keys; returns q (B, h, L, d_k), k and v (B, h_kv, S, d_k).
        """
        if self.positions is not None:
            L, S = query.shape[1], before + key.shape[1]
            # The last query stands beside the last key.
            query_places = torch.arange(S - L, S, device=query.device)  # (L,)
            key_places = torch.arange(before, S, device=query.device)  # (S,)
        if self.positions == "sinusoidal":
            query = query + sinusoidal(query_places, self.embed_dim, dtype=query.dtype)
            key = key + sinusoidal(key_places, self.kdim, dtype=key.dtype)
            value = value + sinusoidal(key_places, self.vdim, dtype=value.dtype)

        # `self.q_proj` would search everywhere else first, and a small layer wait for that.
        projections = cast(dict[str, nn.Module], self._modules)
        try:
            # (B, N, width) -> (B, N, heads * d_k) -> (B, heads, N, d_k)
            q = split_heads(projections["q_proj"](query), self.head_dim)
            k = split_heads(projections["k_proj"](key), self.head_dim)
            v = split_heads(projections["v_proj"](value), self.head_dim)
        except RuntimeError:
            check_fits_weights(query, self)
            raise

        if self.positions == "rotary":
            q, k = rotary(q, query_places), rotary(k, key_places)
        return q, k, v

    def prune_heads(self, heads: Iterable[int]) -> None:
        """Cut heads out for good: their rows of W_Q, W_K and W_V, their columns of W_O.

        The layer gets smaller and faster, and computes what it did with those heads masked
        (Michel et al. 2019). The heads left are numbered anew, from 0. The parameters are new
        ones: make the optimizer after pruning. To load the state of a pruned layer, make one
        with the heads that are left and with head_dim.

        Args:
            heads: Their numbers. Heads that share a key head go together.

        Raises:
            ValueError: There is no such head, none would be left, or a key head would lose a
                part of its heads.
            TypeError: A number that is not whole, or a projection that is no `nn.Linear` now.

        >>> layer, x = MultiHeadAttention(8, 4), torch.randn(1, 5, 8)
        >>> masked = layer(x, head_mask=torch.tensor([True, False, True, False]))
        >>> layer.prune_heads([1, 3])
        >>> layer.num_heads, torch.allclose(layer(x), masked, atol=1e-6)
        (2, True)
        """
        stay = check_prunable(heads, self.num_heads, self.num_kv_heads)
        check_float_projections(self, "prune its heads")
        groups = self.num_heads // self.num_kv_heads
        kv_stay = [head // groups for head in stay[::groups]]
        _keep_heads(self.q_proj, stay, self.head_dim)
        _keep_heads(self.k_proj, kv_stay, self.head_dim)
        _keep_heads(self.v_proj, kv_stay, self.head_dim)
        _keep_heads(self.out_proj, stay, self.head_dim, columns=True)
        if self.positions == "alibi":
            self.slopes = self.slopes[stay]
        self.num_heads, self.num_kv_heads = len(stay), len(kv_stay)

    def extra_repr(self) -> str:
        """Say in `print(layer)` what the four projections do not show."""
        told: dict[str, object] = {"embed_dim": self.embed_dim, "num_heads": self.num_heads}
        if self.num_kv_heads != self.num_heads:
            told["num_kv_heads"] = self.num_kv_heads
        told |= {"head_dim": self.head_dim, "dropout": self.dropout, "causal": self.causal}
        if self.window is not None:
            told["window"] = self.window
        if self.positions is not None:
            told["positions"] = self.positions
        told["backend"] = self.backend
        return ", ".join(f"{name}={value!r}" for name, value in told.items())


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """Cut the features into heads: (B, N, h * d_k) -> (B, h, N, d_k).

    >>> x = torch.tensor([[[1, 2, 3, 4], [5, 6, 7, 8]]])  # (1, 2, 4): two tokens
    >>> split_heads(x, head_dim=2)[0, 0]  # the first head has the first two features of each
    tensor([[1, 2],
            [5, 6]])
    """
    B, N, width = x.shape
    x = x.view(B, N, width // head_dim, head_dim)  # (B, N, h * d_k) -> (B, N, h, d_k)
    return x.transpose(1, 2)  # (B, N, h, d_k) -> (B, h, N, d_k)


def merge_heads(x: Tensor) -> Tensor:
    """Lay the heads side by side again: (B, h, N, d_v) -> (B, N, h * d_v).

    >>> x = torch.randn(3, 5, 8)
    >>> torch.equal(merge_heads(split_heads(x, head_dim=4)), x)
    True
    """
    # transpose only changes the order in which memory is read; flatten copies where it must.
    return x.transpose(1, 2).flatten(2)  # (B, N, h, d_v) -> (B, N, h * d_v)


def _masked_heads(head_out: Tensor, head_mask: Tensor) -> Tensor:
    """Multiply what each head found by its factor, or put zeros where it is False."""
    head_mask = head_mask[..., None, None]  # (h,) or (B, h) -> (..., h, 1, 1)
    if head_mask.dtype == torch.bool:
        return head_out.masked_fill(~head_mask, 0.0)
    return head_out * head_mask.to(head_out.dtype)


@torch.no_grad()
def _keep_heads(linear: nn.Linear, heads: list[int], head_dim: int, columns: bool = False) -> None:
    """Keep these heads' rows of a projection, or columns, and no other."""
    features = torch.arange(head_dim, device=linear.weight.device)
    starts = torch.tensor(heads, device=linear.weight.device)[:, None] * head_dim
    index = (starts + features).flatten()  # (heads, d_k) -> (heads * d_k,)
    weight = linear.weight.index_select(1 if columns else 0, index)
    linear.weight = nn.Parameter(weight, linear.weight.requires_grad)
    linear.out_features, linear.in_features = weight.shape
    if linear.bias is not None and not columns:
        linear.bias = nn.Parameter(linear.bias[index], linear.bias.requires_grad)
