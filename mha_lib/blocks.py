"""What Transformers are built of: the block, and the stack of blocks.

A block adds to each token what its attention found, then what an MLP makes of that. Both look
at the token through a LayerNorm (pre-norm, Xiong et al. 2020; so do GPT-2 and ViT), so that a
path of additions alone leads from the bottom of a model to its top.

Letters in shapes: B batch, N tokens, S tokens of a memory, d_model = embed_dim.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mha_lib.cache import KVCache
from mha_lib.checks import POSITIONS, check_size, check_switch, either
from mha_lib.layer_checks import check_layer_inputs
from mha_lib.multihead import MultiHeadAttention
from mha_lib.positions import sinusoidal
from mha_lib.tensor_checks import check_dtype, check_tensor
from mha_lib.trace import MultiHeadTrace


class Block(nn.Module):
    """One storey of a Transformer: attention, perhaps attention to a memory, and an MLP.

    Args:
        embed_dim: Width of a token, d_model.
        num_heads: How many heads.
        mlp_dim: Width inside the MLP; 4 * embed_dim unless given.
        cross: Whether its tokens look at a memory too, as a translator looks at the source.
        dropout: Probability with which an attention weight is dropped, or a number that is to
            be added to a token; in training only.
        options: Other options of `MultiHeadAttention`, such as num_kv_heads, but not device
            and dtype: use `.to()`. Causal, window and positions hold for the tokens themselves
            and not for a memory.

    Raises:
        ValueError, TypeError: As `MultiHeadAttention`.

    >>> block = Block(8, 2, cross=True)
    >>> words, picture = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
    >>> block(words, picture).shape
    torch.Size([3, 5, 8])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        mlp_dim: int | None = None,
        cross: bool = False,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        options["dropout"] = dropout
        self.attention = MultiHeadAttention(embed_dim, num_heads, **options)
        self.cross_attention = self.cross_norm = None
        if check_switch("cross", cross):
            options |= {"causal": False, "window": None, "positions": None}
            self.cross_attention = MultiHeadAttention(embed_dim, num_heads, **options)
            self.cross_norm = nn.LayerNorm(embed_dim)
        mlp_dim = 4 * embed_dim if mlp_dim is None else check_size("mlp_dim", mlp_dim)
        self.mlp = nn.Sequential(
            nn.Linear(embed_dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, embed_dim)
        )
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.mlp_norm = nn.LayerNorm(embed_dim)
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Let each token, (B, N, d_model), look around, then think for itself.

        The arguments are those of `Stack.forward`.

        Raises:
            ValueError: A memory or its mask without cross, or cross without a memory; else as
                `MultiHeadAttention.forward`, which calls x query and memory key.
            TypeError: As there.
        """
        # Here already: a LayerNorm comes before the attention, and complains in other words.
        check_layer_inputs(self.attention, x, x, x)
        cross = self.cross_attention is not None
        if (memory is not None) != cross or (memory_mask is not None and not cross):
            takes = "needs a memory: pass it" if cross else "takes no memory or mask: pass none"
            raise ValueError(f"a block with {cross=} {takes}, or make it with cross={not cross}")
        found = self.attention(self.attention_norm(x), key_mask=key_mask, cache=cache)
        x = x + self.drop(found)
        if self.cross_attention is not None and self.cross_norm is not None:
            found = self.cross_attention(self.cross_norm(x), memory, key_mask=memory_mask)
            x = x + self.drop(found)
        thought: Tensor = self.drop(self.mlp(self.mlp_norm(x)))
        return x + thought


class Stack(nn.Module):
    """Blocks on top of one another: what an encoder and a decoder share.

    Args:
        embed_dim: Width of a token inside the model, d_model.
        num_heads: How many heads each attention has.
        num_layers: How many blocks.
        vocab_size: How many kinds of tokens there are. Token numbers come in, and each kind has
            a learned vector. None: vectors come in.
        positions: "sinusoidal" (Vaswani et al. 2017) or "learned" patterns are added to the
            tokens before the first block; "rotary" or "alibi" are told to each attention; with
            None the model does not know the order of its tokens.
        max_length: How many tokens a sequence may have; None is any number, but "learned" needs
            one.
        dropout: See `Block`.
        options: Other options of `Block`, such as mlp_dim, window or num_kv_heads.

    Raises:
        ValueError: "learned" without max_length; else as `Block`.
        TypeError: As `Block`.

    >>> Stack(8, 2, 1, positions="alibi").blocks[0].attention.positions
    'alibi'
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_layers: int,
        *,
        vocab_size: int | None = None,
        positions: str | None = "sinusoidal",
        max_length: int | None = None,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.embed_dim = check_size("embed_dim", embed_dim)
        self.max_length = None if max_length is None else check_size("max_length", max_length)
        if positions not in (None, "learned", *POSITIONS):
            raise ValueError(f"{positions=} is not known; use {either(('learned', *POSITIONS))}")
        self.positions = positions
        self.embedding = self.places = None
        if vocab_size is not None:
            self.embedding = nn.Embedding(check_size("vocab_size", vocab_size), embed_dim)
            # Small, as a tied head needs it; on their way in, `_embed` makes tokens larger.
            nn.init.normal_(self.embedding.weight, std=embed_dim**-0.5)
        if positions == "learned":
            if self.max_length is None:
                raise ValueError("positions='learned' has a vector for each place; pass max_length")
            self.places = nn.Embedding(self.max_length, embed_dim)
        added = positions in ("sinusoidal", "learned")
        options |= {"dropout": dropout, "positions": None if added else positions}
        layers = range(check_size("num_layers", num_layers))
        self.blocks = nn.ModuleList(Block(embed_dim, num_heads, **options) for _ in layers)
        self.drop = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(embed_dim)
        self.head: nn.Module = nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        key_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        caches: Sequence[KVCache] | None = None,
    ) -> Tensor:
        """Send tokens through all blocks.

        Args:
            x: Token numbers (B, N), or vectors (B, N, d_model) without vocab_size.
            memory: (B, S, d_model), for blocks with cross.
            key_mask: Boolean, True = a real token and not padding, (B, N); with caches, theirs
                come first.
            memory_mask: The same for the memory, (B, S).
            caches: One for each block, with the keys and values of the tokens before x.

        Returns:
            (B, N, d_model) from an encoder and (B, N, vocab_size) from a decoder, logits.

        Raises:
            ValueError: Token numbers that are not below vocab_size, more tokens than max_length,
                not one cache for each block, or caches that hold different numbers of tokens;
                else as `Block.forward`.
            TypeError: Token numbers that are not int32 or int64, or caches that are none; else as
                `Block.forward`.
        """
        before = self._check_caches(caches)
        x = self.drop(self._embed(x, before))
        masks = {"key_mask": key_mask, "memory_mask": memory_mask}
        try:
            for i, block in enumerate(self.blocks):
                x = block(x, memory, **masks, cache=caches[i] if caches else None)
        except Exception:
            for cache in caches or ():
                cache.crop(before)  # else the first blocks would know more tokens than the last
            raise
        output: Tensor = self.head(self.norm(x))
        return output

    def _check_caches(self, caches: Sequence[KVCache] | None) -> int:
        """Return how many tokens the caches hold, if they are one for each block."""
        if caches is None:
            return 0
        way_out = "pass [KVCache() for _ in model.blocks]"
        if not isinstance(caches, Sequence) or not all(isinstance(c, KVCache) for c in caches):
            raise TypeError(f"caches is not a list of KVCache; {way_out}")
        if len(caches) != len(self.blocks):
            raise ValueError(f"got {len(caches)} caches; {way_out}")
        lengths = [cache.length for cache in caches]
        if len(set(lengths)) > 1:
            raise ValueError(f"caches hold {lengths} tokens, which should be the same; {way_out}")
        return lengths[0]

    def _embed(self, x: Tensor, before: int) -> Tensor:
        """Return tokens as vectors, (B, N, d_model), with the positions that are added to them."""
        if self.embedding is not None:
            check_token_numbers(x, self.embedding.num_embeddings)
            x = self.embedding(x) * math.sqrt(self.embed_dim)  # (B, N) -> (B, N, d_model)
        if check_tensor("x", x).dim() != 3 or x.shape[2] != self.embed_dim:
            raise ValueError(
                f"x has shape {tuple(x.shape)}, but the model takes (B, N, {self.embed_dim}); "
                "for token numbers make it with vocab_size"
            )
        check_dtype("x", x)
        length = before + x.shape[1]
        self.check_length(length)
        places = torch.arange(before, length, device=x.device)  # (N,)
        if self.positions == "sinusoidal":
            return x + sinusoidal(places, self.embed_dim, dtype=x.dtype)
        return x if self.places is None else x + self.places(places)

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the model was made for."""
        if self.max_length is not None and length > self.max_length:
            way_out = f"take fewer, or make the model with max_length={length}"
            raise ValueError(f"{length} tokens are above max_length={self.max_length}; {way_out}")


def check_token_numbers(tokens: Tensor, vocab_size: int) -> None:
    """Refuse what is not (B, N) whole numbers from 0 to vocab_size - 1."""
    if check_tensor("tokens", tokens).dtype not in (torch.int32, torch.int64):
        raise TypeError(
            f"tokens has dtype {tokens.dtype}; pass token numbers, such as tokens.long(), or for "
            "vectors make the model without vocab_size"
        )
    if tokens.dim() != 2 or tokens.numel() == 0:
        raise ValueError(
            f"tokens has shape {tuple(tokens.shape)}, but the model takes (B, N), each 1 or more; "
            "for a single sequence pass tokens.unsqueeze(0)"
        )
    # On the meta device there are no numbers; a compiler does not know them yet.
    if tokens.is_meta or torch.compiler.is_compiling():
        return
    least, most = int(tokens.min()), int(tokens.max())
    if least < 0 or most >= vocab_size:
        raise ValueError(
            f"tokens go from {least} to {most}, but with {vocab_size=} from 0 to {vocab_size - 1}"
        )


@contextmanager
def traced(model: nn.Module) -> Iterator[dict[str, MultiHeadTrace]]:
    """Write down what each `MultiHeadAttention` of a model does, in its last call.

    Yields:
        The trace of each, by its name in the model; empty until the model is called.

    >>> model = Stack(8, 2, num_layers=3)
    >>> with traced(model) as traces:
    ...     output = model(torch.randn(1, 5, 8))
    >>> traces["blocks.2.attention"].weights.shape
    torch.Size([1, 2, 5, 5])
    """
    layers = {m: name for name, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    traces: dict[str, MultiHeadTrace] = {}

    def ask_for_trace(_: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        return args, options | {"trace": True}

    def keep_trace(layer: Any, _: object, trace: MultiHeadTrace) -> Tensor:
        traces[layers[layer]] = trace
        return trace.output

    with ExitStack() as hooks:
        for layer in layers:
            hooks.enter_context(layer.register_forward_pre_hook(ask_for_trace, with_kwargs=True))
            hooks.enter_context(layer.register_forward_hook(keep_trace, prepend=True))
        yield traces
