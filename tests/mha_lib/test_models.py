"""The Transformers: equal to torch's, causal, the same with caches and without; and they learn."""

import copy
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from mha_lib import KVCache, MultiHeadAttention, key_mask_from_lengths
from mha_lib.blocks import Block, Stack, traced
from mha_lib.models import Decoder, Encoder, EncoderDecoder, PatchEmbedding
from mha_lib.probes import causality, dependence, permutation_equivariance

POSITIONS = [None, "sinusoidal", "learned", "rotary", "alibi"]


def says(text: str) -> str:
    """Match the whole message."""
    return f"^{re.escape(text)}$"


def numbers(*shape: int, below: int = 11) -> torch.Tensor:
    return torch.randint(below, shape)


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- the block ---


def copy_attention(layer, torchs) -> None:
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    weights, biases = torchs.in_proj_weight.chunk(3), torchs.in_proj_bias.chunk(3)
    for projection, weight, bias in zip(projections, weights, biases, strict=True):
        projection.weight.data, projection.bias.data = weight.clone(), bias.clone()
    layer.out_proj.load_state_dict(torchs.out_proj.state_dict())


def disturb(model: nn.Module) -> None:
    """Give the norms and biases numbers that are not 1 and 0."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_is_torchs_pre_norm_layer(causal):
    torchs = nn.TransformerEncoderLayer(
        16, 4, 24, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    disturb(torchs)
    block = Block(16, 4, mlp_dim=24, causal=causal)
    copy_attention(block.attention, torchs.self_attn)
    for ours, theirs in (
        (block.attention_norm, torchs.norm1),
        (block.mlp_norm, torchs.norm2),
        (block.mlp[0], torchs.linear1),
        (block.mlp[2], torchs.linear2),
    ):
        ours.load_state_dict(theirs.state_dict())
    x, keep = torch.randn(3, 6, 16), key_mask_from_lengths([6, 4, 5])
    ignore_future = nn.Transformer.generate_square_subsequent_mask(6) if causal else None
    expected = torchs(
        x, src_mask=ignore_future, src_key_padding_mask=torch.where(keep, 0.0, -torch.inf)
    )
    torch.testing.assert_close(block(x, key_mask=keep), expected)


def test_a_block_with_a_memory_is_torchs_decoder_layer():
    torchs = nn.TransformerDecoderLayer(
        16, 4, dim_feedforward=64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    )
    disturb(torchs)
    block = Block(16, 4, cross=True, causal=True)
    copy_attention(block.attention, torchs.self_attn)
    copy_attention(block.cross_attention, torchs.multihead_attn)
    for ours, theirs in (
        (block.attention_norm, torchs.norm1),
        (block.cross_norm, torchs.norm2),
        (block.mlp_norm, torchs.norm3),
        (block.mlp[0], torchs.linear1),
        (block.mlp[2], torchs.linear2),
    ):
        ours.load_state_dict(theirs.state_dict())
    x, memory, keep = torch.randn(2, 5, 16), torch.randn(2, 7, 16), key_mask_from_lengths([7, 3])
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    expected = torchs(x, memory, tgt_mask=mask, memory_key_padding_mask=~keep)
    torch.testing.assert_close(block(x, memory, memory_mask=keep), expected)


def test_dropout_is_for_training_only():
    block = Block(16, 4, dropout=0.5)
    x = torch.randn(2, 5, 16)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


# --- models ---


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("options", [{}, {"num_kv_heads": 2}, {"window": 2}])
def test_shapes_and_causality(positions, options, device):
    options |= {"positions": positions, "max_length": 9}
    encoder = Encoder(16, 4, 2, vocab_size=11, **options).to(device)
    decoder = Decoder(16, 4, 2, vocab_size=11, **options).to(device)
    tokens = torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 0, 1]], device=device)
    assert encoder(tokens).shape == (2, 6, 16)
    assert decoder(tokens).shape == (2, 6, 11)
    assert causality(decoder, tokens)
    assert not causality(encoder, tokens)
    assert bool(permutation_equivariance(encoder, tokens)) == (
        positions is None and "window" not in options
    )


def test_a_window_widens_with_each_block():
    tokens = torch.arange(8)[None]
    for layers in (1, 2, 3):
        seen = dependence(Decoder(16, 4, layers, vocab_size=8, window=2), tokens)
        distance = torch.arange(8)[:, None] - torch.arange(8)
        assert torch.equal(seen, (distance >= 0) & (distance <= 2 * layers))


@settings(deadline=None, max_examples=25)
@given(
    positions=st.sampled_from(POSITIONS),
    kv_heads=st.sampled_from([1, 2, 4]),
    window=st.sampled_from([None, 1, (3, 0)]),
    tied=st.booleans(),
    cross=st.booleans(),
    N=st.integers(1, 5),
    steps=st.integers(1, 6),
    temperature=st.sampled_from([0.0, 1.0]),
)
def test_generation_is_the_same_with_caches_and_without(
    positions, kv_heads, window, tied, cross, N, steps, temperature
):
    options = {"positions": positions, "num_kv_heads": kv_heads, "window": window, "tied": tied}
    decoder = Decoder(16, 4, 2, vocab_size=11, max_length=11, cross=cross, **options).double()
    tokens, memory = numbers(3, N), torch.randn(3, 4, 16).double() if cross else None
    masks = {"memory_mask": key_mask_from_lengths([4, 2, 3])} if cross else {}

    # The numbers, fed token by token,
    whole = decoder.generate(tokens, steps, memory, temperature=1.0)
    caches = [KVCache() for _ in decoder.blocks]
    with torch.no_grad():
        steps_of_one = [decoder(t, memory, caches=caches, **masks) for t in whole.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(steps_of_one, 1), decoder(whole, memory, **masks))
    # and the tokens.
    first, second = (
        decoder.generate(
            tokens,
            steps,
            memory,
            temperature=temperature,
            generator=torch.Generator().manual_seed(5),
            cached=cached,
            **masks,
        )
        for cached in (True, False)
    )
    assert torch.equal(first, second)
    assert first.shape == (3, N + steps)
    assert torch.equal(first[:, :N], tokens)


def test_generation_greedy_and_drawn():
    decoder = Decoder(16, 4, 1, vocab_size=11)
    tokens = numbers(2, 3)
    greedy = decoder.generate(tokens, 5)
    for end in range(3, 8):
        assert torch.equal(greedy[:, end], decoder(greedy[:, :end])[:, -1].argmax(-1))
    for least in (1e-30, 1e-320):
        assert torch.equal(decoder.generate(tokens, 5, temperature=least), greedy)
    # Drawn as often as softmax says.
    chances = decoder(tokens[:1])[0, -1].div(0.5).softmax(-1)
    drawn = decoder.generate(tokens[:1].expand(20000, -1), 1, temperature=0.5)[:, -1]
    frequencies = drawn.bincount(minlength=11) / 20000
    assert (frequencies - chances).abs().max() < 0.015
    # It asks for no gradients, and leaves the mode alone.
    assert decoder.training
    assert torch.is_grad_enabled()


def test_padding_changes_no_real_token():
    encoder = Encoder(16, 4, 2, vocab_size=11)
    tokens, keep = numbers(2, 6), key_mask_from_lengths([6, 4])
    padded = encoder(tokens, key_mask=keep)
    torch.testing.assert_close(padded[1:, :4], encoder(tokens[1:, :4]))
    assert not torch.allclose(encoder(tokens)[1:, :4], padded[1:, :4])

    model = EncoderDecoder(16, 4, 2, source_vocab=11, target_vocab=11)
    target, target_keep = numbers(2, 5), key_mask_from_lengths([5, 3])
    padded = model(tokens, target, source_mask=keep, target_mask=target_keep)
    torch.testing.assert_close(padded[1:, :3], model(tokens[1:, :4], target[1:, :3]))
    start = target[:, :1]
    written = model.generate(tokens, start, 4, source_mask=keep)
    assert torch.equal(written[1:], model.generate(tokens[1:, :4], start[1:], 4))


def test_an_encoder_decoder_reads_all_of_the_source_and_the_past_of_the_target():
    model = EncoderDecoder(16, 4, 2, source_vocab=11, target_vocab=13)
    source, target = torch.arange(5)[None], torch.arange(4)[None]
    assert model(source, target).shape == (1, 4, 13)
    assert causality(lambda target: model(source, target), target)
    assert dependence(lambda source: model(source, target), source).all()


def test_the_traces_are_those_of_each_attention():
    model = EncoderDecoder(16, 4, 2, source_vocab=11, target_vocab=13)
    source, target = numbers(2, 5), numbers(2, 4)
    with traced(model) as traces:
        output = model(source, target)
    torch.testing.assert_close(output, model(source, target))
    assert {name: tuple(trace.weights.shape) for name, trace in traces.items()} == {
        "encoder.blocks.0.attention": (2, 4, 5, 5),
        "encoder.blocks.1.attention": (2, 4, 5, 5),
        "decoder.blocks.0.attention": (2, 4, 4, 4),
        "decoder.blocks.0.cross_attention": (2, 4, 4, 5),
        "decoder.blocks.1.attention": (2, 4, 4, 4),
        "decoder.blocks.1.cross_attention": (2, 4, 4, 5),
    }

    block, x, memory = model.decoder.blocks[0], torch.randn(2, 4, 16), torch.randn(2, 5, 16)
    with traced(block) as traces:
        output = block(x, memory)
    expected = x + traces["attention"].output + traces["cross_attention"].output
    expected = expected + block.mlp(block.mlp_norm(expected))
    torch.testing.assert_close(output, expected)


def test_tracing_leaves_no_trace():
    layer = MultiHeadAttention(16, 4)
    seen = []
    layer.register_forward_hook(lambda _, args, output: seen.append(output))
    with traced(layer) as traces:
        layer(torch.randn(1, 3, 16))
        with pytest.raises(ValueError, match="query has width 8"):
            layer(torch.randn(1, 3, 8))
    assert list(traces) == [""]
    assert torch.is_tensor(layer(torch.randn(1, 3, 16)))
    assert all(map(torch.is_tensor, seen))  # a hook of the reader's sees what it always does
    assert len(layer._forward_hooks) + len(layer._forward_pre_hooks) == 1


def test_a_model_reads_an_image_and_writes_about_it():
    patches = PatchEmbedding(16, 4)
    model = EncoderDecoder(16, 4, 1, source_vocab=None, target_vocab=11)
    image = patches(torch.randn(2, 3, 8, 8))
    assert model(image, numbers(2, 3)).shape == (2, 3, 11)
    assert model.generate(image, numbers(2, 1), 3).shape == (2, 4)


def test_only_a_look_at_the_tokens_themselves_has_an_order():
    block = Block(16, 4, cross=True, causal=True, window=2, positions="rotary", num_kv_heads=2)
    cross = block.cross_attention
    assert (cross.causal, cross.window, cross.positions) == (False, None, None)
    assert cross.num_kv_heads == 2
    x, memory = torch.randn(1, 4, 16), torch.randn(1, 6, 16)
    assert dependence(lambda memory: block(x, memory), memory).all()


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_padding_that_comes_first_needs_only_a_key_mask_that_grows_with_the_caches(positions):
    decoder = Decoder(16, 4, 2, vocab_size=11, positions=positions).double()
    tokens = numbers(2, 5)
    keep = key_mask_from_lengths([5, 3], 5).flip(1)
    caches = [KVCache() for _ in decoder.blocks]
    with torch.no_grad():
        parts = [
            decoder(tokens[:, i : i + 1], caches=caches, key_mask=keep[:, : i + 1])
            for i in range(5)
        ]
    written = torch.cat(parts, dim=1)
    torch.testing.assert_close(written, decoder(tokens, key_mask=keep))
    torch.testing.assert_close(written[1:, 2:], decoder(tokens[1:, 2:]))


def learn(optimizer, logits, targets) -> None:
    optimizer.zero_grad()
    F.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    optimizer.step()


def copies(batch: int) -> torch.Tensor:
    """Sequences 0 a b c d e f 0 a b c d e f: what follows the second 0 is known."""
    words, zero = torch.randint(1, 8, (batch, 6)), torch.zeros(batch, 1, dtype=torch.long)
    return torch.cat([zero, words, zero, words], dim=1)  # (batch, 14)


def test_a_small_decoder_learns_to_copy():
    decoder = Decoder(32, 4, 2, vocab_size=8, positions="rotary")
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=5e-3)
    for _ in range(60):
        tokens = copies(64)
        learn(optimizer, decoder(tokens[:, :-1])[:, 7:], tokens[:, 8:])
    tokens = copies(256)
    written = decoder.generate(tokens[:, :8], 6)
    assert (written == tokens).float().mean() > 0.98


@pytest.mark.slow
def test_a_small_encoder_decoder_learns_to_reverse():
    model = EncoderDecoder(32, 4, 1, source_vocab=8, target_vocab=8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(300):
        source, zero = torch.randint(1, 8, (64, 6)), torch.zeros(64, 1, dtype=torch.long)
        target = torch.cat([zero, source.flip(1)], dim=1)
        learn(optimizer, model(source, target[:, :-1]), target[:, 1:])
    written = model.generate(source, zero, 6)
    assert (written == target).float().mean() > 0.98


# --- state ---


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("positions", ["learned", "alibi"])
def test_state_and_copies(tied, positions):
    options = {"vocab_size": 11, "tied": tied, "positions": positions, "max_length": 8}
    decoder, other = (Decoder(16, 4, 2, **options) for _ in range(2))
    tokens = numbers(2, 5)
    expected = decoder(tokens)
    assert not torch.allclose(other(tokens), expected)
    other.load_state_dict(decoder.state_dict())
    assert torch.equal(other(tokens), expected)
    twin = copy.deepcopy(decoder)
    assert (twin.head.weight is twin.embedding.weight) == tied
    with torch.no_grad():
        twin.embedding.weight.zero_()
    assert torch.equal(decoder(tokens), expected)


def test_models_of_published_sizes_have_the_published_parameters():
    with torch.device("meta"):
        gpt2 = Decoder(
            768, 12, 12, vocab_size=50257, max_length=1024, positions="learned", tied=True
        )
        vit = Encoder(768, 12, 12, positions="learned", max_length=197)
        patches = PatchEmbedding(768, 16, class_token=True)
        tokens = torch.zeros(1, 4, dtype=torch.long)
        assert gpt2(tokens).shape == (1, 4, 50257)
        assert vit(patches(torch.zeros(1, 3, 224, 224))).shape == (1, 197, 768)
    assert count(gpt2) == 124_439_808  # Radford et al. 2019, as the released weights count
    assert count(patches) + count(vit) == 85_798_656  # ViT-B/16 without its last linear layer


@settings(deadline=None, max_examples=25)
@given(
    heads=st.sampled_from([1, 2, 4]),
    layers=st.integers(1, 3),
    mlp=st.integers(1, 9),
    vocab=st.integers(1, 9),
    cross=st.booleans(),
    tied=st.booleans(),
)
def test_parameters_are_those_of_the_parts(heads, layers, mlp, vocab, cross, tied):
    decoder = Decoder(8, heads, layers, vocab_size=vocab, mlp_dim=mlp, cross=cross, tied=tied)
    attention = (4 * 8 * 8 + 4 * 8) * (1 + cross)
    block = attention + 2 * 8 * (2 + cross) + 2 * 8 * mlp + mlp + 8
    assert count(decoder) == layers * block + 2 * 8 + vocab * 8 * (1 if tied else 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_models_in_other_dtypes(dtype, device):
    model = EncoderDecoder(16, 4, 1, source_vocab=11, target_vocab=11).to(device, dtype)
    source, target = numbers(2, 5).to(device), numbers(2, 4).to(device)
    output = model(source, target)
    assert output.dtype == dtype
    assert output.isfinite().all()
    assert model.generate(source, target, 3).shape == (2, 7)
    patches = PatchEmbedding(16, 4, class_token=True).to(device, dtype)
    assert patches(torch.randn(2, 3, 8, 8, device=device, dtype=dtype)).dtype == dtype


def test_a_model_under_autocast():
    model = Decoder(16, 4, 1, vocab_size=11)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(numbers(2, 5)).isfinite().all(), torch.tensor(True))


# --- patches ---


@settings(deadline=None, max_examples=25)
@given(
    p=st.integers(1, 4),
    rows=st.integers(1, 3),
    columns=st.integers(1, 3),
    channels=st.integers(1, 3),
    class_token=st.booleans(),
)
def test_patches_are_an_unfold_and_a_linear_layer_and_a_convolution(
    p, rows, columns, channels, class_token
):
    layer = PatchEmbedding(5, p, channels=channels, class_token=class_token).double()
    images = torch.randn(2, channels, rows * p, columns * p).double()
    tokens = layer(images)
    assert tokens.shape == (2, rows * columns + class_token, 5)
    if class_token:
        assert torch.equal(tokens[:, 0], layer.class_token[0].expand(2, -1))
        tokens = tokens[:, 1:]
    weight, bias = layer.projection.weight, layer.projection.bias
    torch.testing.assert_close(tokens, layer.projection(F.unfold(images, p, stride=p).mT))
    convolved = F.conv2d(images, weight.view(5, channels, p, p), bias, stride=p)
    torch.testing.assert_close(tokens, convolved.flatten(2).mT)


# --- bad input ---


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (
            torch.tensor([[3, 11]]),
            ValueError,
            "tokens go from 3 to 11, but with vocab_size=11 from 0 to 10",
        ),
        (
            torch.tensor([[3, -1]]),
            ValueError,
            "tokens go from -1 to 3, but with vocab_size=11 from 0 to 10",
        ),
        (
            torch.tensor([[3.0]]),
            TypeError,
            "tokens has dtype torch.float32; pass token numbers, such as tokens.long(), or for "
            "vectors make the model without vocab_size",
        ),
        (
            torch.tensor([3, 4]),
            ValueError,
            "tokens has shape (2,), but the model takes (B, N), each 1 or more; for a single "
            "sequence pass tokens.unsqueeze(0)",
        ),
        (
            torch.zeros(2, 0, dtype=torch.long),
            ValueError,
            "tokens has shape (2, 0), but the model takes (B, N), each 1 or more; for a single "
            "sequence pass tokens.unsqueeze(0)",
        ),
        (
            [[3]],
            TypeError,
            "tokens is of type list; pass a torch.Tensor, for example torch.as_tensor(tokens)",
        ),
    ],
)
def test_token_numbers(tokens, error, message):
    decoder = Decoder(16, 4, 1, vocab_size=11)
    with pytest.raises(error, match=says(message)):
        decoder(tokens)
    with pytest.raises(error, match=says(message)):
        decoder.generate(tokens, 2)


def test_sequences_that_are_too_long():
    decoder = Decoder(16, 4, 1, vocab_size=11, max_length=5)
    assert decoder(numbers(1, 5)).shape == (1, 5, 11)
    message = "6 tokens are above max_length=5; take fewer, or make the model with max_length=6"
    with pytest.raises(ValueError, match=says(message)):
        decoder(numbers(1, 6))
    with pytest.raises(ValueError, match=says(message)):
        decoder.generate(numbers(1, 4), 2)
    caches = [KVCache()]
    decoder(numbers(1, 4), caches=caches)
    with pytest.raises(ValueError, match=says(message)):
        decoder(numbers(1, 2), caches=caches)


def test_caches_and_memories():
    decoder = Decoder(16, 4, 2, vocab_size=11)
    with pytest.raises(ValueError, match=r"^got 1 caches; pass \[KVCache"):
        decoder(numbers(1, 3), caches=[KVCache()])
    with pytest.raises(ValueError, match="cache"):  # one for both
        decoder(numbers(1, 3), caches=[KVCache()] * 2)
    for none in (KVCache(), [None, None]):
        with pytest.raises(TypeError, match=r"^caches is not a list of KVCache; pass \[KVCache"):
            decoder(numbers(1, 3), caches=none)
    caches = [KVCache(), KVCache()]
    decoder(numbers(1, 3), caches=caches)
    with pytest.raises(
        ValueError, match=r"^caches hold \[3, 0\] tokens, which should be the same; pass"
    ):
        decoder(numbers(1, 3), caches=[caches[0], KVCache()])
    no_memory = (
        "a block with cross=False takes no memory or mask: pass none, or make it with cross=True"
    )
    with pytest.raises(ValueError, match=says(no_memory)):
        decoder(numbers(1, 3), torch.randn(1, 4, 16))
    with pytest.raises(ValueError, match=says(no_memory)):
        decoder(numbers(1, 3), memory_mask=torch.ones(1, 4, dtype=torch.bool))
    needs_one = says("a block with cross=True needs a memory: pass it, or make it with cross=False")
    for mask in (None, torch.ones(1, 3, dtype=torch.bool)):
        with pytest.raises(ValueError, match=needs_one):
            Block(16, 4, cross=True)(torch.randn(1, 3, 16), memory_mask=mask)
    with pytest.raises(ValueError, match="causal=False"):
        Encoder(16, 4, 1, vocab_size=11)(numbers(1, 3), caches=[KVCache()])


def test_vectors_for_a_model_without_a_vocabulary():
    message = (
        "x has shape (2, 5), but the model takes (B, N, 16); for token numbers make it with "
        "vocab_size"
    )
    with pytest.raises(ValueError, match=says(message)):
        Encoder(16, 4, 1)(numbers(2, 5))
    with pytest.raises(ValueError, match=r"^x has shape \(2, 5, 8\), but the model takes"):
        Encoder(16, 4, 1)(torch.randn(2, 5, 8))
    with pytest.raises(TypeError, match=r"x has dtype torch\.int64"):
        Encoder(16, 4, 1)(numbers(2, 5, 16))
    with pytest.raises(ValueError, match="query has width 8, but the layer has embed_dim=16"):
        Block(16, 4)(torch.randn(2, 5, 8))
    for model in (Block(16, 4), Encoder(16, 4, 1)):
        with pytest.raises(TypeError, match=r"query has dtype torch\.float64, but the layer has"):
            model(torch.randn(2, 5, 16).double())
    with pytest.raises(ValueError, match=r"key_mask has shape \(2, 4\)"):
        Encoder(16, 4, 1)(torch.randn(2, 5, 16), key_mask=torch.ones(2, 4, dtype=torch.bool))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"vocab_size": 0}, ValueError, "vocab_size=0 is not a positive whole number"),
        ({"vocab_size": 2.5}, TypeError, "vocab_size=2.5 is not a positive whole number"),
        ({"max_length": 0}, ValueError, "max_length=0 is not a positive whole number"),
        ({"mlp_dim": 0}, ValueError, "mlp_dim=0 is not a positive whole number"),
        ({"positions": "learned"}, ValueError, "has a vector for each place; pass max_length"),
        ({"positions": "absolute"}, ValueError, "positions='absolute' is not known"),
        ({"dropout": 1.0}, ValueError, r"dropout=1.0 is not a probability"),
        ({"tied": 1}, TypeError, "tied=1 is not a bool"),
        ({"cross": 1}, TypeError, "cross=1 is not a bool"),
        ({"heads": 4}, TypeError, "unexpected keyword argument 'heads'"),
        ({"causal": False}, TypeError, "multiple values for keyword argument 'causal'"),
    ],
)
def test_options(options, error, message):
    with pytest.raises(error, match=message):
        Decoder(16, 4, 1, **{"vocab_size": 11, **options})


def test_sizes():
    with pytest.raises(ValueError, match="embed_dim=10 is not divisible by num_heads=4"):
        Stack(10, 4, 1)
    with pytest.raises(ValueError, match="num_layers=0 is not a positive whole number"):
        Stack(16, 4, 0)
    for source, target in ((0, 11), (11, 0)):
        with pytest.raises(ValueError, match="vocab_size=0 is not a positive whole number"):
            EncoderDecoder(16, 4, 1, source_vocab=source, target_vocab=target)


def test_an_error_in_a_block_leaves_all_caches_as_they_were():
    decoder, tokens = Decoder(16, 4, 2, vocab_size=11), numbers(1, 5)
    caches = [KVCache(), KVCache()]
    decoder(tokens[:, :3], caches=caches)
    hook = decoder.blocks[1].mlp.register_forward_hook(lambda *_: 1 / 0)
    with hook, pytest.raises(ZeroDivisionError):
        decoder(tokens[:, 3:], caches=caches)
    output = decoder(tokens[:, 3:], caches=caches)
    torch.testing.assert_close(output, decoder(tokens)[:, 3:])


@pytest.mark.parametrize(
    ("temperature", "error"),
    [
        (-1.0, ValueError),
        (float("nan"), ValueError),
        (float("inf"), ValueError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_temperatures(temperature, error):
    with pytest.raises(error, match=f"^temperature={temperature!r} is not 0 or more"):
        Decoder(16, 4, 1, vocab_size=11).generate(numbers(1, 3), 2, temperature=temperature)


def test_cached_is_a_switch():
    with pytest.raises(TypeError, match=r"^cached='no' is not a bool"):
        Decoder(16, 4, 1, vocab_size=11).generate(numbers(1, 3), 2, cached="no")


def test_positions_that_a_stack_does_not_know():
    message = "positions='where' is not known; use 'learned', 'rotary', 'alibi' or 'sinusoidal'"
    with pytest.raises(ValueError, match=says(message)):
        Stack(16, 4, 1, positions="where")


@pytest.mark.parametrize(("steps", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError)])
def test_steps(steps, error):
    with pytest.raises(error, match=f"^steps={steps!r} is not a positive whole number"):
        Decoder(16, 4, 1, vocab_size=11).generate(numbers(1, 3), steps)


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        *(
            (
                torch.zeros(shape),
                ValueError,
                f"images has shape {shape}, but it takes (B, 3, H, W), H and W multiples of "
                "16; for one image pass images[None], for channels last images.movedim(-1, 1), "
                "and crop what does not divide",
            )
            for shape in ((1, 3, 30, 32), (1, 3, 16, 8), (1, 16, 16, 3), (3, 16, 16), (1, 3, 0, 16))
        ),
        (
            torch.zeros(1, 3, 16, 16, dtype=torch.uint8),
            TypeError,
            "images has dtype torch.uint8; pass images.float() / 255",
        ),
        (
            torch.zeros(1, 3, 16, 16, dtype=torch.float64),
            TypeError,
            "images has dtype torch.float64, but the layer has torch.float32; pass "
            "images.to(torch.float32), or turn the layer with layer.to(torch.float64)",
        ),
    ],
)
def test_images(images, error, message):
    with pytest.raises(error, match=says(message)):
        PatchEmbedding(8, 16)(images)
