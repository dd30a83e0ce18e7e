"""What attention costs, in one layer and in models whose sizes were published.

All is counted from sizes; nothing is run. FLOPs are counted as torch's `FlopCounterMode` does:
2 for a multiplication and its addition, and only in products of matrices.

Letters: B batch, h heads, h_kv key heads, N tokens (seq), d_k width of a head.
"""

from dataclasses import dataclass

from mha_lib.checks import check_head_dim, check_kv_heads, check_size, check_switch, either

_COUNT = ("", "thousand", "million", "billion", "trillion")
_FLOPS = ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP")
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True)
class Cost:
    """What one layer or one model costs, for one batch.

    Attributes:
        parameters: Weights and biases; those that are used twice count once.
        projection_flops: Forward, the four projections. They grow with N.
        product_flops: Forward, q @ k.mT and weights @ v. They grow with N * N.
        other_flops: Forward, what else a model multiplies: its MLPs, its way in and out.
        score_bytes: One (B, h, N, N) tensor, in one layer. The "explicit" backend holds up to
            three, in float32 at least; a fused kernel never holds one.
        kv_cache_bytes: The keys and values that all layers keep while they generate, each
            B * h_kv * N * d_k numbers in a layer; 0 for a model that does not generate.

    >>> small = Cost(16, projection_flops=8, product_flops=4, score_bytes=4, kv_cache_bytes=8)
    >>> small.forward_flops, small.training_flops
    (12, 36)
    """

    parameters: int
    projection_flops: int
    product_flops: int
    score_bytes: int
    kv_cache_bytes: int
    other_flops: int = 0

    @property
    def forward_flops(self) -> int:
        """FLOPs of one forward pass."""
        return self.projection_flops + self.product_flops + self.other_flops

    @property
    def training_flops(self) -> int:
        """FLOPs of one forward and one backward pass, 3 times those of the forward pass.

        A product A @ B has two of its size going back: one makes the gradient of A, one that
        of B. An input that needs no gradient saves one, as a ViT's image does. FlashAttention
        does more: it computes the scores again on the way back (Dao et al. 2022).
        """
        return 3 * self.forward_flops

    def table(self) -> str:
        """Write the costs as a table of text, each exactly and rounded; what is 0 is left out.

        Rounded FLOPs are decimal (1 kFLOP is 1,000), bytes are binary (1 KiB is 1,024).

        >>> print(layer_cost(768, 12, seq=512).table())
        parameters                  2,362,368      2.4 million
        forward FLOPs           3,221,225,472      3.2 GFLOP
          projections           2,415,919,104      2.4 GFLOP
          products                805,306,368    805.3 MFLOP
        training FLOPs          9,663,676,416      9.7 GFLOP
        score bytes, one layer     12,582,912     12.0 MiB
        KV-cache bytes              3,145,728      3.0 MiB
        """
        rows = (
            ("parameters", self.parameters, _COUNT),
            ("forward FLOPs", self.forward_flops, _FLOPS),
            ("  projections", self.projection_flops, _FLOPS),
            ("  products", self.product_flops, _FLOPS),
            ("  all else", self.other_flops, _FLOPS),
            ("training FLOPs", self.training_flops, _FLOPS),
            ("score bytes, one layer", self.score_bytes, _BYTES),
            ("KV-cache bytes", self.kv_cache_bytes, _BYTES),
        )
        width = max(len(f"{number:,}") for _, number, _ in rows)
        return "\n".join(
            f"{label:22}  {number:>{width},}  {_rounded(number, units)}"
            for label, number, units in rows
            if number
        )


def layer_cost(
    embed_dim: int,
    num_heads: int,
    *,
    seq: int,
    batch: int = 1,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    bias: bool = True,
    bytes_per_number: int = 4,
) -> Cost:
    """Count what one `MultiHeadAttention` costs in self-attention.

    All N * N scores count, whether a mask hides them or not, as in `FlopCounterMode`: "explicit"
    computes them all; with causal=True a fused kernel leaves out most of the hidden half.

    Args:
        embed_dim: Width of a token, d_model.
        num_heads: How many heads, h.
        seq: How many tokens, N.
        batch: How many sequences, B.
        num_kv_heads: How many key heads, h_kv; as many as heads unless given.
        head_dim: Width of one head, d_k; embed_dim / num_heads unless given.
        bias: Whether the four projections have one.
        bytes_per_number: 4 for float32, 2 for float16 and bfloat16.

    Raises:
        ValueError: Sizes below 1, or that do not fit together.
        TypeError: A size that is not a whole number, or a bias that is not True or False.

    >>> full = layer_cost(4096, 32, seq=8192, bytes_per_number=2)
    >>> grouped = layer_cost(4096, 32, num_kv_heads=8, seq=8192, bytes_per_number=2)
    >>> full.kv_cache_bytes // grouped.kv_cache_bytes, full.score_bytes == grouped.score_bytes
    (4, True)
    """
    d_model, h = check_size("embed_dim", embed_dim), check_size("num_heads", num_heads)
    d_k, h_kv = check_head_dim(d_model, h, head_dim), check_kv_heads(h, num_kv_heads)
    N, B = check_size("seq", seq), check_size("batch", batch)
    size = check_size("bytes_per_number", bytes_per_number)

    weights = 2 * d_model * (h + h_kv) * d_k  # W_Q and W_O, W_K and W_V
    biases = (h + 2 * h_kv) * d_k + d_model if check_switch("bias", bias) else 0
    return Cost(
        parameters=weights + biases,
        projection_flops=2 * B * N * weights,
        product_flops=2 * 2 * B * h * N * N * d_k,  # q @ k.mT and weights @ v
        score_bytes=B * h * N * N * size,
        kv_cache_bytes=2 * B * h_kv * N * d_k * size,
    )


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a Transformer with learned positions, whose MLPs are 4 * d_model wide inside.

    Attributes:
        counted: Which parts of it `model_cost` counts.
        layers: How many blocks, of attention, an MLP of two matrices and two LayerNorms.
        embed_dim: Width of a token, d_model.
        num_heads: Heads in each layer.
        positions: Rows of the position table: the longest sequence.
        vocabulary: Rows of the token table.
        other_rows: BERT's two segments; ViT's class token.
        patch_dim: How many numbers a patch of an image has; 0 for text.
        head_out: Outputs of the layer that reads the first token: BERT's pooler, ViT's classes.
        generates: Looks back only, and predicts the next token with the token table.
        num_kv_heads: Key heads in each layer; as many as heads unless given.

    >>> MODELS["gpt3"].layers * MODELS["gpt3"].num_heads  # heads in all
    9216
    """

    counted: str
    layers: int
    embed_dim: int
    num_heads: int
    positions: int
    vocabulary: int = 0
    other_rows: int = 0
    patch_dim: int = 0
    head_out: int = 0
    generates: bool = False
    num_kv_heads: int | None = None


def _bert(layers: int, d_model: int, h: int) -> ModelSizes:
    counted = "token, position and segment tables, blocks, pooler; no pre-training heads"
    # 512 positions, 30,522 pieces of words.
    return ModelSizes(counted, layers, d_model, h, 512, 30522, other_rows=2, head_out=d_model)


def _gpt(layers: int, d_model: int, h: int, positions: int = 1024) -> ModelSizes:
    counted = "token and position tables, blocks; the token table is also the output (tied)"
    # 50,257 pieces of words.
    return ModelSizes(counted, layers, d_model, h, positions, 50257, generates=True)


# The sizes that were published with each model, and are in its released settings: Devlin et al.
# 2019 (BERT, uncased), Radford et al. 2019 (GPT-2), Brown et al. 2020 (GPT-3), Dosovitskiy et al.
# 2021 (ViT, for images of 224 x 224).
MODELS = {
    "bert-base": _bert(12, 768, 12),
    "bert-large": _bert(24, 1024, 16),
    "gpt2-small": _gpt(12, 768, 12),
    "gpt2-medium": _gpt(24, 1024, 16),
    "gpt2-large": _gpt(36, 1280, 20),
    "gpt2-xl": _gpt(48, 1600, 25),
    # Half of its layers look at nearby keys only; here each counts as looking at all of them.
    "gpt3": _gpt(96, 12288, 96, positions=2048),
    "vit-b-16": ModelSizes(
        "patch embedding, class token, position table, blocks, a head of 1,000 classes",
        layers=12,
        embed_dim=768,
        num_heads=12,
        positions=14 * 14 + 1,  # the patches, and the class token
        other_rows=1,
        patch_dim=16 * 16 * 3,
        head_out=1000,
    ),
}


def model_cost(
    model: str | ModelSizes,
    *,
    seq: int | None = None,
    batch: int = 1,
    bytes_per_number: int = 4,
) -> Cost:
    """Count what a whole model costs.

    Args:
        model: A name in `MODELS`, or sizes of your own.
        seq: How many tokens, N; as many as the model has positions unless given.
        batch: How many sequences, B.
        bytes_per_number: 4 for float32, 2 for float16 and bfloat16.

    Raises:
        ValueError: An unknown name, a size below 1, or a longer sequence than the model takes.
        TypeError: A size that is not a whole number.

    >>> model_cost("gpt2-small").parameters
    124439808
    >>> for N in (128, 1024):  # how large is the share that grows with N * N?
    ...     cost = model_cost("gpt2-small", seq=N)
    ...     print(round(cost.product_flops / cost.forward_flops, 2))
    0.02
    0.13
    >>> from dataclasses import replace
    >>> grouped = replace(MODELS["gpt3"], num_kv_heads=8)  # one that never was
    >>> model_cost("gpt3").kv_cache_bytes // model_cost(grouped).kv_cache_bytes
    12
    """
    if not isinstance(model, ModelSizes) and model not in list(MODELS):
        raise ValueError(f"model={model!r} is not known; use {either(list(MODELS))}")
    sizes = model if isinstance(model, ModelSizes) else MODELS[model]
    N = sizes.positions if seq is None else check_size("seq", seq)
    if sizes.positions < N:
        name = "these sizes" if isinstance(model, ModelSizes) else model
        raise ValueError(
            f"seq={N} is more than the {sizes.positions} positions of {name}; use "
            f"{sizes.positions} or fewer, or count a layer, which has no such limit: layer_cost"
        )
    d_model, h, layers = sizes.embed_dim, sizes.num_heads, sizes.layers
    layer = layer_cost(
        d_model,
        h,
        num_kv_heads=sizes.num_kv_heads,
        seq=N,
        batch=batch,
        bytes_per_number=bytes_per_number,
    )

    mlp = 2 * d_model * 4 * d_model  # the weights of its two matrices
    block = layer.parameters + mlp + 5 * d_model + 2 * 2 * d_model  # biases; two LayerNorms
    # Rows of d_model numbers: those of the tables, and the two of one more LayerNorm.
    rows = sizes.vocabulary + sizes.positions + sizes.other_rows + 2
    patches = (sizes.patch_dim + 1) * d_model if sizes.patch_dim else 0
    # Multiplications in one sequence; a ViT's class token comes from no patch.
    multiplied = layers * N * mlp + (N - 1) * sizes.patch_dim * d_model + sizes.head_out * d_model
    if sizes.generates:
        multiplied += N * d_model * sizes.vocabulary
    return Cost(
        parameters=layers * block + rows * d_model + patches + sizes.head_out * (d_model + 1),
        projection_flops=layers * layer.projection_flops,
        product_flops=layers * layer.product_flops,
        other_flops=2 * batch * multiplied,
        score_bytes=layer.score_bytes,
        kv_cache_bytes=layers * layer.kv_cache_bytes if sizes.generates else 0,
    )


def _rounded(number: int, units: tuple[str, ...]) -> str:
    """Round to one digit after the point, in the unit that fits.

    >>> _rounded(1_048_575, _BYTES)
    '    1.0 MiB'
    """
    step = 1024 if units is _BYTES else 1000
    power = 0
    while round(number / step**power, 1) >= step and power < len(units) - 1:
        power += 1
    digits = f"{number / step**power:,.1f}" if power else f"{number:,}  "
    return f"{digits:>7} {units[power]}".rstrip()
