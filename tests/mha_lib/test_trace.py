"""The traces: shapes, names of axes, table, each head's contribution."""

import dataclasses
import pickle

import pytest
import torch

from mha_lib import AttentionTrace, MultiHeadAttention, MultiHeadTrace, attention

# All sizes different, so that no two axes can be mistaken for each other.
SIZES = {"B": 2, "h": 3, "L": 4, "S": 5, "d_k": 6, "d_v": 6, "h*d_v": 18, "d_model": 7, "h_kv": 1}


def trace_heads(device: str) -> AttentionTrace:
    q, k, v = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 6)
    return attention(q.to(device), k.to(device), v.to(device), causal=True, trace=True)


def trace_shared_heads(device: str) -> AttentionTrace:
    q, k, v = torch.randn(2, 3, 4, 6), torch.randn(2, 1, 5, 6), torch.randn(2, 1, 5, 6)
    return attention(q.to(device), k.to(device), v.to(device), causal=True, trace=True)


def trace_layer(device: str) -> MultiHeadTrace:
    torch.manual_seed(0)
    layer = MultiHeadAttention(7, 3, head_dim=6, kdim=8, vdim=9, device=device)
    query, key, value = torch.randn(2, 4, 7), torch.randn(2, 5, 8), torch.randn(2, 5, 9)
    mask = torch.rand(4, 5) < 0.6
    return layer(
        query.to(device), key.to(device), value.to(device), mask=mask.to(device), trace=True
    )


@pytest.fixture
def layer_trace(device) -> MultiHeadTrace:
    return trace_layer(device)


@pytest.fixture(params=[trace_heads, trace_shared_heads, trace_layer])
def trace(request, device) -> AttentionTrace:
    return request.param(device)


def test_axes_name_the_shape_of_every_tensor(trace):
    tensors = {field.name for field in dataclasses.fields(trace)} - {"out_weight"}
    assert set(trace.axes) == tensors
    for name, axes in trace.axes.items():
        assert tuple(getattr(trace, name).shape) == tuple(SIZES[axis] for axis in axes), name


def test_each_step_follows_from_the_one_before(layer_trace):
    t = layer_trace
    torch.testing.assert_close(t.q @ t.k.mT / 6**0.5, t.scores)
    hidden = t.masked_scores.isneginf()
    assert 0 < hidden.sum() < hidden.numel()
    assert torch.equal(t.masked_scores[~hidden], t.scores[~hidden])
    torch.testing.assert_close(t.weights @ t.v, t.head_out)
    torch.testing.assert_close(torch.cat(t.head_out.unbind(1), dim=-1), t.concat)
    sees_a_key = ~hidden.all(dim=-1, keepdim=True)
    softmax = torch.where(sees_a_key, t.masked_scores, 0).softmax(-1) * sees_a_key
    torch.testing.assert_close(t.weights, softmax)


def test_without_a_mask_masked_scores_are_the_scores():
    q = torch.randn(1, 1, 3, 4)
    trace = attention(q, q, q, trace=True)
    assert torch.equal(trace.masked_scores, trace.scores)


def test_each_step_follows_with_a_cap_a_bias_and_shared_heads():
    q, k, v = torch.randn(2, 4, 3, 6), torch.randn(2, 2, 5, 6), torch.randn(2, 2, 5, 6)
    bias = torch.randn(4, 3, 5).masked_fill(torch.rand(4, 3, 5) < 0.3, -torch.inf)
    t = attention(q, k, v, bias=bias, softcap=2.0, scale=0.7, trace=True)
    scores = q @ k.repeat_interleave(2, dim=1).mT * 0.7
    torch.testing.assert_close(t.scores, 2.0 * (scores / 2.0).tanh())
    torch.testing.assert_close(t.masked_scores, t.scores + bias)
    torch.testing.assert_close(t.weights @ v.repeat_interleave(2, dim=1), t.head_out)


@pytest.mark.parametrize("positions", [None, "rotary", "alibi", "sinusoidal"])
def test_the_steps_of_a_layer_are_those_that_are_used(positions):
    """Keys and queries as they meet, turned where positions turn them; a head mask is applied."""
    layer = MultiHeadAttention(8, 2, positions=positions)
    x = torch.randn(3, 5, 8)
    t = layer(x, head_mask=torch.tensor([0.5, 0.0]), trace=True)
    torch.testing.assert_close(t.q @ t.k.mT / 2, t.scores)
    torch.testing.assert_close(t.masked_scores.softmax(-1), t.weights)
    torch.testing.assert_close(t.weights[:, :1] @ t.v[:, :1] * 0.5, t.head_out[:, :1])
    assert (t.head_out[:, 1] == 0).all()
    torch.testing.assert_close(t.contributions.sum(dim=1) + layer.out_proj.bias, t.output)


def test_key_heads_have_a_letter_of_their_own_where_heads_share_them():
    x = torch.randn(3, 5, 8)
    shared = MultiHeadAttention(8, 4, num_kv_heads=2)(x, trace=True).axes
    own = MultiHeadAttention(8, 4)(x, trace=True).axes
    assert shared["k"] == ("B", "h_kv", "S", "d_k")
    assert shared["v"] == ("B", "h_kv", "S", "d_v")
    assert shared["q"] == own["q"] == ("B", "h", "L", "d_k")
    assert own["k"] == ("B", "h", "S", "d_k")


def test_contributions_are_what_is_left_when_all_other_heads_are_silent(layer_trace):
    weight = layer_trace.out_weight
    assert layer_trace.contributions.shape == (2, 3, 4, 7)
    for head in range(3):
        alone = torch.zeros_like(layer_trace.head_out)
        alone[:, head] = layer_trace.head_out[:, head]
        concat = alone.transpose(1, 2).flatten(2)
        torch.testing.assert_close(layer_trace.contributions[:, head], concat @ weight.T)


def test_contributions_are_computed_once_and_only_when_asked_for(layer_trace):
    assert "contributions" not in vars(layer_trace)
    assert layer_trace.contributions is layer_trace.contributions


def test_gradients_flow_through_a_trace():
    layer = MultiHeadAttention(8, 2)
    trace = layer(torch.randn(3, 5, 8), trace=True)
    (grad,) = torch.autograd.grad(trace.output.sum(), trace.weights)
    assert grad.shape == trace.weights.shape
    assert grad.abs().sum() > 0


def test_a_trace_is_frozen(trace):
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.weights = torch.zeros(1)


def test_a_detached_trace_pickles():
    with torch.no_grad():
        trace = MultiHeadAttention(8, 2)(torch.randn(3, 5, 8), trace=True)
    again = pickle.loads(pickle.dumps(trace))
    assert torch.equal(again.contributions, trace.contributions)


def test_table_says_step_formula_axes_shape_and_bytes(trace):
    header, *lines = trace.table().splitlines()
    assert header.split() == ["step", "formula", "axes", "shape", "bytes"]
    assert [line.split()[0] for line in lines] == list(trace.axes)
    for line in lines:
        name = line.split()[0]
        tensor = getattr(trace, name)
        assert f"({', '.join(trace.axes[name])})" in line
        assert str(tuple(tensor.shape)) in line
        assert line.endswith(f" {tensor.nbytes:,}")
    assert len({len(line) for line in [header, *lines]}) == 1


def test_table_counts_the_bytes_of_each_dtype():
    layer = MultiHeadAttention(8, 2, dtype=torch.bfloat16)
    table = layer(torch.randn(1, 4, 8, dtype=torch.bfloat16), trace=True).table()
    sizes = {line.split()[0]: line.split()[-1] for line in table.splitlines()}
    assert sizes["q"] == "64"  # 1 * 2 * 4 * 4 numbers of 2 bytes
    assert sizes["scores"] == "128"  # 1 * 2 * 4 * 4 numbers of 4 bytes


def test_gpt3_layer_can_be_traced_for_free():
    layer = MultiHeadAttention(12288, 96, causal=True, device="meta")
    trace = layer(torch.empty(1, 2048, 12288, device="meta"), trace=True)
    assert trace.weights.shape == (1, 96, 2048, 2048)
    assert trace.contributions.shape == (1, 96, 2048, 12288)
    assert "1,610,612,736" in trace.table()
