"""The probes: they see what is there, leave everything as it was, and say what they cannot use."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mha_lib import MultiHeadAttention, causal_mask, from_torch, window_mask
from mha_lib.blocks import Block
from mha_lib.probes import (
    Finding,
    causality,
    dependence,
    head_independence,
    permutation_equivariance,
)


def tokens(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class Split(nn.Module):
    """A reader's own layer, which cuts the features into heads rightly or wrongly."""

    def __init__(self, wrongly: bool) -> None:
        super().__init__()
        self.num_heads, self.wrongly = 2, wrongly
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        found = (q @ k.mT).softmax(-1) @ v
        if self.wrongly:
            return self.out_proj(found.reshape(x.shape))
        return self.out_proj(found.transpose(1, 2).reshape(x.shape))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        B, N, _ = x.shape
        return x.view(B, 2, N, 4) if self.wrongly else x.view(B, N, 2, 4).transpose(1, 2)


# --- verdicts ---


@settings(deadline=None, max_examples=25)
@given(
    N=st.integers(2, 7),
    heads=st.sampled_from([1, 2, 4]),
    causal=st.booleans(),
    positions=st.sampled_from([None, "rotary", "alibi", "sinusoidal"]),
    window=st.sampled_from([None, 0, 1, (2, 0)]),
    backend=st.sampled_from(["explicit", "sdpa"]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
)
def test_a_layer_is_what_its_options_say(N, heads, causal, positions, window, backend, dtype):
    options = {"causal": causal, "positions": positions, "window": window, "backend": backend}
    layer = MultiHeadAttention(8, heads, **options, dtype=dtype)
    x = tokens(2, N, 8).to(dtype)
    expected = torch.ones(N, N, dtype=torch.bool)
    if causal:
        expected &= causal_mask(N)
    if window is not None:
        expected &= window_mask(N, window=window)
    assert torch.equal(dependence(layer, x), expected)
    assert bool(causality(layer, x)) == (not (expected & ~causal_mask(N)).any())
    assert head_independence(layer, x)


@pytest.mark.parametrize(
    ("options", "equivariant"),
    [
        ({}, True),
        ({"causal": True}, False),
        ({"positions": "rotary"}, False),
        ({"positions": "alibi"}, False),
        ({"positions": "sinusoidal"}, False),
        ({"window": 1}, False),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_only_attention_without_an_order_is_permutation_equivariant(
    options, equivariant, dtype, device
):
    layer = MultiHeadAttention(16, 4, **options, device=device, dtype=dtype)
    finding = permutation_equivariance(layer, tokens(2, 6, 16).to(device, dtype))
    assert bool(finding) == equivariant, finding
    assert (finding.where is None) == equivariant


def test_a_circular_convolution_is_caught_by_the_swap_alone():
    x = tokens(1, 5, 3)
    assert permutation_equivariance(nn.Linear(3, 3), x)
    finding = permutation_equivariance(lambda x: x + x.roll(1, dims=1), x)
    assert finding.where[0] == 0


def test_a_place_that_is_treated_otherwise_is_named():
    x = tokens(1, 4, 3)
    mark = torch.eye(4)[:, 3:]  # (4, 1): the last place gets something, which no swap shows
    finding = permutation_equivariance(lambda x: x + mark, x)
    assert finding.where[0] == 1
    assert finding.text.startswith("Not permutation equivariant: after change 1 the output at ")


@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_layer_in_a_lambda(batch_first):
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first).eval()

    def attend(x, mask=None):
        x = x if batch_first else x.transpose(0, 1)
        found = layer(x, x, x, attn_mask=mask, need_weights=False)[0]
        return found if batch_first else found.transpose(0, 1)

    x = tokens(2, 5, 8)
    assert permutation_equivariance(attend, x)
    assert not causality(attend, x)
    # Its mask says what to ignore. One that says what to keep hides the past instead.
    assert causality(lambda x: attend(x, ~causal_mask(5)), x)
    keep_past = causal_mask(5) & ~torch.eye(5, dtype=torch.bool)
    assert not causality(lambda x: attend(x, keep_past), x)
    assert head_independence(from_torch(layer), x)


def test_the_first_leak_is_named():
    def peek(x):  # the output beside token 1 sees token 3
        output = x.clone()
        output[:, 1] += x[:, 3]
        return output

    finding = causality(peek, tokens(2, 5, 4))
    assert finding.where == (1, 3)
    assert "output 1 moved when token 3" in str(finding)
    assert str(finding) == finding.text
    assert torch.equal(dependence(peek, tokens(2, 5, 4)).nonzero()[2], torch.tensor([1, 3]))


def test_token_numbers_are_replaced_by_other_token_numbers():
    embedding = nn.Embedding(3, 4)
    x = torch.tensor([[0, 2, 1, 2], [1, 0, 2, 0]])
    assert torch.equal(dependence(embedding, x), torch.eye(4, dtype=torch.bool))
    assert causality(lambda x: embedding(x).cumsum(1), x)
    assert not causality(lambda x: embedding(x).flip(1), x)
    assert permutation_equivariance(embedding, x)


def test_other_outputs_than_tokens_and_whole_outputs():
    memory = tokens(2, 7, 8)
    layer = MultiHeadAttention(8, 2)
    query = tokens(2, 3, 8)
    assert dependence(lambda memory: layer(query, memory), memory).shape == (3, 7)
    assert causality(lambda x: x.argmax(-1), query)
    with pytest.raises(ValueError, match=r"^the module turned 7 tokens into 3; a place needs one"):
        permutation_equivariance(lambda memory: layer(query, memory), memory)


def test_heads_that_are_split_wrongly_or_share_keys_are_not_independent():
    x = tokens(2, 6, 8)
    assert head_independence(Split(wrongly=False), x)
    finding = head_independence(Split(wrongly=True), x)
    assert not finding
    assert finding.text.startswith("Dependent heads: head ")
    # Query heads 0 and 1 share key head 0; 2 and 3 share key head 1.
    finding = head_independence(MultiHeadAttention(8, 4, num_kv_heads=2), x)
    assert finding.where in {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert head_independence(
        MultiHeadAttention(8, 2, kdim=5, vdim=6), x, tokens(2, 3, 5), tokens(2, 3, 6)
    )


@pytest.mark.parametrize("seed", [0, 1, 42])
def test_the_seed_of_x_does_not_matter(seed):
    # Noise drawn from the reader's seed would be x itself over again, which a LayerNorm hides.
    torch.manual_seed(seed)
    x = torch.randn(1, 5, 16)
    block = Block(16, 4)
    assert dependence(block, x).all()
    assert not causality(block, x)


def test_a_faint_leak_is_seen_in_half_precision_too():
    def leaky(x):
        return x + 0.02 * x.flip(1)

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        assert not causality(leaky, tokens(1, 6, 32).to(dtype))


def test_a_finding_is_as_true_as_it_holds():
    assert Finding(0.0, None, "")
    assert not Finding(1.0, (0, 1), "")


# --- everything is as it was ---


@pytest.mark.parametrize(
    "probe", [permutation_equivariance, causality, dependence, head_independence]
)
def test_a_probe_leaves_no_trace(probe, device):
    layer = MultiHeadAttention(8, 2, dropout=0.5, device=device)
    layer.v_proj.eval()  # one part in another mode than the others
    modes = [part.training for part in layer.modules()]
    before = copy.deepcopy(layer.state_dict())
    x = tokens(2, 5, 8).to(device)
    kept = x.clone()
    random = torch.get_rng_state()
    probe(layer, x)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(x, kept)
    assert [part.training for part in layer.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert all(parameter.grad is None for parameter in layer.parameters())
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in layer.modules())
    assert torch.is_grad_enabled()


def test_mode_and_hooks_are_put_back_after_an_error():
    layer = MultiHeadAttention(8, 2, dropout=0.5)
    with pytest.raises(ValueError, match="query has width 7"):
        head_independence(layer, tokens(1, 4, 7))
    assert layer.training
    assert layer.out_proj.training
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in layer.modules())


def test_a_module_may_write_over_its_input():
    x = tokens(1, 4, 3)
    kept = x.clone()
    assert causality(lambda x: x.mul_(2), x)
    assert torch.equal(x, kept)


def test_a_module_may_use_its_memory_again():
    memory = torch.empty(1, 4, 3)
    finding = causality(lambda x: memory.copy_(x.flip(1)), tokens(1, 4, 3))
    assert not finding


# --- what cannot be probed ---


@pytest.mark.parametrize("probe", [permutation_equivariance, causality, dependence])
def test_what_a_module_returns_can_be_compared(probe):
    x = tokens(2, 4, 8)
    with pytest.raises(TypeError, match=r"returned a tuple, .*pass lambda x: module\(x\)\[0\]"):
        probe(lambda x: (x, x), x)
    with pytest.raises(TypeError, match="returned a MultiHeadTrace"):
        probe(lambda x: MultiHeadAttention(8, 2)(x, trace=True), x)
    with pytest.raises(ValueError, match=r"turned \(2, 4, 8\) into \(4, 2, 8\); it should return"):
        probe(lambda x: x.transpose(0, 1), x)
    with pytest.raises(ValueError, match=r"the output has NaN or infinity"):
        probe(lambda x: torch.where(torch.arange(64).view(2, 4, 8) < 48, x, torch.nan), x)
    with pytest.raises(ValueError, match=r"two outputs for one input.*eval\(\)"):
        probe(nn.Dropout().forward, x)


@pytest.mark.parametrize(
    "probe", [permutation_equivariance, causality, dependence, head_independence]
)
@pytest.mark.parametrize("shape", [(5, 8), (8,), (2, 1, 8), (0, 5, 8)])
def test_what_a_probe_takes(probe, shape):
    with pytest.raises(ValueError, match="a probe takes tokens"):
        probe(MultiHeadAttention(8, 2), torch.randn(shape))


def test_tokens_must_differ_and_be_a_tensor():
    with pytest.raises(ValueError, match="and two must differ"):
        causality(nn.Embedding(5, 2), torch.tensor([[3, 3, 3]]))
    with pytest.raises(TypeError, match="x is of type list"):
        causality(nn.Identity(), [[1.0]])


def test_a_layer_without_projections():
    with pytest.raises(
        TypeError,
        match=r"no q_proj; pass a layer with .*from_torch\(layer\)",
    ):
        head_independence(nn.MultiheadAttention(8, 2), tokens(1, 4, 8))
    layer = MultiHeadAttention(8, 2)
    layer.forward = lambda x: x
    with pytest.raises(TypeError, match="called out_proj 0 times"):
        head_independence(layer, tokens(1, 4, 8))


def test_what_hides_in_the_imaginary_part_is_seen():
    x = torch.randn(1, 4, 8)
    assert not causality(lambda x: torch.complex(x, x.flip(1)), x)
    assert causality(lambda x: torch.complex(x, x.cumsum(1)), x)


def test_an_empty_output_is_refused():
    with pytest.raises(ValueError, match="it should return"):
        causality(lambda x: x[:, :0], torch.randn(1, 4, 8))
