"""Transformers: encoder, decoder and both together, small enough to train while a reader waits.

They are made where torch makes its tensors: move them with `.to(...)`, or make them under
`with torch.device(...)`.

Letters in shapes: B batch, N tokens, S source tokens, d_model = embed_dim, C channels, H height
and W width of an image, p = patch_size.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from mha_lib.blocks import Stack, check_token_numbers
from mha_lib.cache import KVCache
from mha_lib.checks import check_number, check_size, check_switch
from mha_lib.layer_checks import check_fits_weight
from mha_lib.tensor_checks import check_tensor


class Encoder(Stack):
    """A Transformer that reads: each token sees the whole sequence.

    Args and errors are those of `Stack`.

    >>> encoder = Encoder(8, 2, 2, vocab_size=100)
    >>> encoder(torch.tensor([[4, 8, 15, 16]])).shape  # (B, N) -> (B, N, d_model)
    torch.Size([1, 4, 8])
    """


class Decoder(Stack):
    """A Transformer that writes: a token sees itself and those before it, and says what is next.

    Args:
        embed_dim, num_heads, num_layers, vocab_size: See `Stack`.
        tied: Whether a token's vector on the way in is also what the output is compared with
            (Press and Wolf 2017), so that one matrix does for two.
        options: Other options of `Stack` and `Block`; cross=True lets it look at a memory.

    Raises:
        ValueError, TypeError: As `Stack`.

    >>> decoder = Decoder(8, 2, 2, vocab_size=100)
    >>> decoder(torch.tensor([[4, 8, 15, 16]])).shape  # (B, N) -> (B, N, vocab_size)
    torch.Size([1, 4, 100])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_layers: int,
        *,
        vocab_size: int,
        tied: bool = False,
        **options: Any,
    ) -> None:
        sizes, vocab_size = (embed_dim, num_heads, num_layers), check_size("vocab_size", vocab_size)
        super().__init__(*sizes, vocab_size=vocab_size, causal=True, **options)
        self.vocab_size = vocab_size
        self.head = nn.Linear(embed_dim, vocab_size, bias=False)
        if check_switch("tied", tied) and self.embedding is not None:
            self.head.weight = self.embedding.weight

    def generate(
        self,
        tokens: Tensor,
        steps: int,
        memory: Tensor | None = None,
        *,
        memory_mask: Tensor | None = None,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
        cached: bool = True,
    ) -> Tensor:
        """Write on, token by token. With dropout, call `eval()` first.

        Args:
            tokens: (B, N), the beginning, without padding.
            steps: How many tokens to add.
            memory: See `forward`.
            memory_mask: See `forward`.
            temperature: 0 takes the likeliest token; above 0, each is drawn by
                softmax(logits / temperature).
            generator: What draws; torch's own unless given.
            cached: Keep keys and values; else all are computed anew for each token, and the
                tokens are the same.

        Returns:
            (B, N + steps), the beginning and what was added.

        Raises:
            ValueError: More tokens than max_length, or a temperature below 0; else as `forward`.
            TypeError: steps is not a whole number, temperature no number or cached no switch;
                else as `forward`.

        >>> decoder = Decoder(8, 2, 1, vocab_size=100)
        >>> decoder.generate(torch.tensor([[4, 8, 15]]), steps=2).shape
        torch.Size([1, 5])
        """
        must_be = "0 or more; use 0.0 or 1.0"
        if not 0 <= check_number("temperature", temperature, must_be) < math.inf:
            raise ValueError(f"temperature={temperature!r} is not {must_be}")
        check_switch("cached", cached)
        check_token_numbers(tokens, self.vocab_size)
        length = tokens.shape[1] + check_size("steps", steps)
        self.check_length(length)
        caches = [KVCache(length) for _ in self.blocks] if cached else None
        new = tokens
        with torch.no_grad():
            for _ in range(steps):
                read = new if cached else tokens
                logits = self(read, memory, memory_mask=memory_mask, caches=caches)[:, -1].float()
                if temperature == 0:
                    new = logits.argmax(dim=-1, keepdim=True)  # (B, vocab_size) -> (B, 1)
                else:
                    # From the greatest down, so that a small temperature makes no infinity.
                    logits = logits - logits.amax(dim=-1, keepdim=True)
                    logits = logits / max(temperature, torch.finfo(logits.dtype).tiny)
                    new = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator)
                tokens = torch.cat([tokens, new], dim=1)  # (B, N + 1)
        return tokens


class EncoderDecoder(nn.Module):
    """A Transformer that reads one sequence and writes another (Vaswani et al. 2017).

    Args:
        embed_dim, num_heads, num_layers: Of the encoder and of the decoder; see `Stack`.
        source_vocab: How many kinds of tokens are read; with None vectors are, an image's patches
            perhaps.
        target_vocab: How many kinds of tokens are written.
        tied: See `Decoder`.
        options: Other options of `Stack` and `Block`, for both.

    Raises:
        ValueError, TypeError: As `Stack`.

    >>> model = EncoderDecoder(8, 2, 1, source_vocab=50, target_vocab=60)
    >>> source, target = torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[2, 7]])
    >>> model(source, target).shape, model.generate(source, target, steps=4).shape
    (torch.Size([1, 2, 60]), torch.Size([1, 6]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_layers: int,
        *,
        source_vocab: int | None,
        target_vocab: int,
        tied: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        sizes = (embed_dim, num_heads, num_layers)
        self.encoder = Encoder(*sizes, vocab_size=source_vocab, **options)
        self.decoder = Decoder(*sizes, vocab_size=target_vocab, cross=True, tied=tied, **options)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
    ) -> Tensor:
        """Say for each target token which one may come next, given the source.

        Args:
            source: Token numbers (B, S), or vectors (B, S, d_model) without source_vocab.
            target: Token numbers (B, N).
            source_mask: Boolean, True = a real token and not padding, (B, S).
            target_mask: The same for the target, (B, N).

        Returns:
            Logits (B, N, target_vocab).

        Raises:
            ValueError, TypeError: As `Stack.forward`.
        """
        memory = self.encoder(source, key_mask=source_mask)  # (B, S, d_model)
        logits: Tensor = self.decoder(target, memory, key_mask=target_mask, memory_mask=source_mask)
        return logits

    def generate(
        self,
        source: Tensor,
        tokens: Tensor,
        steps: int,
        *,
        source_mask: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        """Write on from `tokens`, (B, N), with the source in mind; see `Decoder.generate`."""
        with torch.no_grad():
            memory = self.encoder(source, key_mask=source_mask)
        return self.decoder.generate(tokens, steps, memory, memory_mask=source_mask, **options)


class PatchEmbedding(nn.Module):
    """Cut an image into square patches, and make each a token (Dosovitskiy et al. 2021, ViT).

    Args:
        embed_dim: Width of a token, d_model.
        patch_size: Height and width of a patch in pixels, p.
        channels: How many numbers a pixel has, C.
        class_token: Whether one more token comes first, a learned one that belongs to no patch,
            in which the model can gather what it says of the whole image.

    Raises:
        ValueError: A size below 1.
        TypeError: A size that is not a whole number, or class_token that is no switch.

    >>> patches = PatchEmbedding(8, patch_size=16, class_token=True)
    >>> patches(torch.randn(2, 3, 224, 224)).shape  # 14 * 14 patches and the class token
    torch.Size([2, 197, 8])
    """

    def __init__(
        self, embed_dim: int, patch_size: int, *, channels: int = 3, class_token: bool = False
    ) -> None:
        super().__init__()
        self.patch_size = check_size("patch_size", patch_size)
        self.channels = check_size("channels", channels)
        embed_dim = check_size("embed_dim", embed_dim)
        self.projection = nn.Linear(self.channels * self.patch_size**2, embed_dim)
        check_switch("class_token", class_token)
        self.class_token = nn.Parameter(torch.zeros(1, 1, embed_dim)) if class_token else None

    def forward(self, images: Tensor) -> Tensor:
        """Return the patches as tokens, row by row.

        Args:
            images: (B, C, H, W), floating point; p divides H and W.

        Returns:
            (B, N, d_model), N = H / p * W / p, and one more with a class token.

        Raises:
            ValueError: Other axes, another number of channels, or a size that p does not divide.
            TypeError: Pixels that are not floating point, or not of the layer's dtype.
        """
        p, C = self.patch_size, self.channels
        if not check_tensor("images", images).is_floating_point():
            raise TypeError(f"images has dtype {images.dtype}; pass images.float() / 255")
        fits = images.dim() == 4 and images.shape[1] == C
        if not fits or any(size == 0 or size % p for size in images.shape[2:]):
            raise ValueError(
                f"images has shape {tuple(images.shape)}, but it takes (B, {C}, H, W), H and "
                f"W multiples of {p}; for one image pass images[None], for channels last "
                "images.movedim(-1, 1), and crop what does not divide"
            )
        check_fits_weight("images", images, self.projection)
        B, _, H, W = images.shape
        patches = images.reshape(B, C, H // p, p, W // p, p)  # (B, C, H, W), H and W cut in two
        patches = patches.permute(0, 2, 4, 1, 3, 5)  # (B, H / p, W / p, C, p, p)
        x: Tensor = self.projection(patches.flatten(3).flatten(1, 2))  # (B, N, C * p * p)
        if self.class_token is None:
            return x
        first = self.class_token.expand(B, -1, -1).to(x.dtype)  # (B, 1, d_model)
        return torch.cat([first, x], dim=1)  # (B, N + 1, d_model)
