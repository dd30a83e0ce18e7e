"""The layer: project, split into heads, attend in each, merge, project once more.

Letters in shapes: B batch, h heads, L queries, S keys, d_model = embed_dim, d_k = head_dim.
"""

import torch
from torch import Tensor, nn

from mha_lib.checks import (
    check_backend,
    check_causal,
    check_dropout,
    check_head_dim,
    check_size,
    check_switch,
)
from mha_lib.functional import attention
from mha_lib.tensor_checks import check_layer_inputs, check_parameter_dtype, float_weight
from mha_lib.trace import AttentionTrace, MultiHeadTrace


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own small space (Vaswani et al. 2017).

    Args:
        embed_dim: Width of a query token and of the output, d_model.
        num_heads: How many heads, h.
        head_dim: Width of one head, d_k; embed_dim / num_heads unless given.
        kdim: Width of a key token; embed_dim unless given.
        vdim: Width of a value token; embed_dim unless given.
        bias: Whether the four projections have one.
        dropout: Probability with which a weight is dropped, in training only.
        causal: Hide the keys that come later than the query, in every call.
        backend: What computes the attention: "auto", "explicit" or "sdpa"; see `attention`.
        device: Where the parameters are made.
        dtype: Their dtype: float16, bfloat16, float32 or float64; torch's default unless given.

    The four projections are `nn.Linear`: q_proj, k_proj, v_proj, out_proj. They are made in
    this order and begin as `nn.Linear` begins.

    Raises:
        ValueError: num_heads does not divide embed_dim and head_dim is not given; a size
            below 1; dropout outside [0, 1); an unknown backend.
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
        head_dim: int | None = None,
        kdim: int | None = None,
        vdim: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        causal: bool = False,
        backend: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Check the sizes and make the four projections."""
        super().__init__()
        self.embed_dim = check_size("embed_dim", embed_dim)
        self.num_heads = check_size("num_heads", num_heads)
        self.head_dim = check_head_dim(self.embed_dim, self.num_heads, head_dim)
        self.kdim = self.embed_dim if kdim is None else check_size("kdim", kdim)
        self.vdim = self.embed_dim if vdim is None else check_size("vdim", vdim)
        self.dropout = check_dropout(dropout)
        self.causal = check_causal(causal)
        self.backend = check_backend(backend)
        check_switch("bias", bias)
        check_parameter_dtype(dtype)

        # One matrix holds the projections of all heads: rows i*d_k to (i+1)*d_k are head i's.
        heads_dim = self.num_heads * self.head_dim  # h * d_k
        self.q_proj = nn.Linear(self.embed_dim, heads_dim, bias, device, dtype)
        self.k_proj = nn.Linear(self.kdim, heads_dim, bias, device, dtype)
        self.v_proj = nn.Linear(self.vdim, heads_dim, bias, device, dtype)
        self.out_proj = nn.Linear(heads_dim, self.embed_dim, bias, device, dtype)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        trace: bool = False,
    ) -> Tensor | MultiHeadTrace:
        """Let each query token gather from the key and value tokens, once in every head.

        Args:
            query: (B, L, embed_dim).
            key: (B, S, kdim); query unless given (self-attention).
            value: (B, S, vdim); key unless given.
            mask: Boolean, True = keep, broadcastable to (B, h, L, S).
            key_mask: Boolean, True = a real token and not padding, (B, S). Padding must be
                finite all the same, and so must all that `mask` hides.
            trace: Return every step instead of the output alone.

        Returns:
            (B, L, embed_dim), or a `MultiHeadTrace` whose `output` is that.

        Raises:
            ValueError: Sizes or devices that do not fit together.
            TypeError: A dtype that is not the layer's, or a mask that is not boolean.

        >>> layer = MultiHeadAttention(8, 2, kdim=6, vdim=6)
        >>> words, picture = torch.randn(3, 5, 8), torch.randn(3, 7, 6)
        >>> layer(words, picture).shape  # cross-attention: words look at the picture
        torch.Size([3, 5, 8])
        """
        check_layer_inputs(self, query, key, value, mask, key_mask)
        key = query if key is None else key
        value = key if value is None else value
        if key_mask is not None:
            key_mask = key_mask[:, None, None, :]  # (B, S) -> (B, 1, 1, S)
            mask = key_mask if mask is None else mask & key_mask

        # Project, then give each head its own slice of the features.
        q = split_heads(self.q_proj(query), self.head_dim)  # (B, L, h*d_k) -> (B, h, L, d_k)
        k = split_heads(self.k_proj(key), self.head_dim)  # (B, S, h*d_k) -> (B, h, S, d_k)
        v = split_heads(self.v_proj(value), self.head_dim)  # (B, S, h*d_k) -> (B, h, S, d_k)

        # Attend in every head at once: to the product, a head is one more batch axis.
        heads: Tensor | AttentionTrace = attention(
            q,
            k,
            v,
            mask=mask,
            causal=self.causal,
            dropout=self.dropout if self.training else 0.0,
            backend=self.backend,
            trace=trace,
        )
        head_out = heads.output if isinstance(heads, AttentionTrace) else heads  # (B, h, L, d_k)

        # Lay the heads side by side and let W_O mix them.
        concat = merge_heads(head_out)  # (B, h, L, d_k) -> (B, L, h*d_k)
        output: Tensor = self.out_proj(concat)  # (B, L, h*d_k) -> (B, L, d_model)
        if isinstance(heads, AttentionTrace):
            return MultiHeadTrace.of(
                heads, concat=concat, output=output, out_weight=float_weight(self.out_proj)
            )
        return output

    def extra_repr(self) -> str:
        """Say in `print(layer)` what the four projections do not show."""
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, head_dim={self.head_dim}, "
            f"dropout={self.dropout}, causal={self.causal}, backend={self.backend!r}"
        )


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
    B, h, N, d_v = x.shape
    # transpose only changes the order in which memory is read, so that view would refuse here;
    # reshape copies where it must.
    return x.transpose(1, 2).reshape(B, N, h * d_v)  # (B, N, h, d_v) -> (B, N, h * d_v)
