"""`prune_heads`: a smaller layer that computes what the layer did with those heads masked."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mha_lib import KVCache, MultiHeadAttention, from_torch, to_torch
from tests.mha_lib.strategies import says

EMBED = 12
# How a layer with 6 heads is made, and which heads go.
PRUNED = {
    "the first": ({}, [0]),
    "the last": ({}, [5]),
    "two": ({}, [1, 4]),
    "all but one": ({}, [0, 1, 2, 4, 5]),
    "none": ({}, []),
    "one named twice": ({}, [2, 2]),
    "without bias": ({"bias": False}, [0, 3]),
    "another width": ({"head_dim": 5}, [0, 3]),
    "other keys and values": ({"kdim": 7, "vdim": 5}, [0, 3]),
    "causal in a window": ({"causal": True, "window": 2}, [0, 3]),
    "rotary": ({"positions": "rotary"}, [0, 3]),
    "sinusoidal": ({"positions": "sinusoidal"}, [0, 3]),
    "alibi": ({"positions": "alibi", "causal": True}, [0, 3]),
    "two groups of three, the first": ({"num_kv_heads": 2}, [0, 1, 2]),
    "three groups of two, two of them": ({"num_kv_heads": 3, "positions": "alibi"}, [4, 5, 0, 1]),
    "double": ({"dtype": torch.float64}, [2]),
}


def make(device: str = "cpu", **options: object) -> MultiHeadAttention:
    return MultiHeadAttention(EMBED, 6, device=device, **options)


def tokens(layer: MultiHeadAttention) -> list[Tensor]:
    at = {"device": layer.out_proj.weight.device, "dtype": layer.out_proj.weight.dtype}
    widths = (layer.embed_dim, layer.kdim, layer.vdim)
    return [torch.randn(2, 5, width, **at) for width in widths]


@pytest.mark.parametrize("options_and_heads", PRUNED.values(), ids=PRUNED)
def test_pruned_heads_are_masked_heads(options_and_heads, device):
    options, heads = options_and_heads
    layer = make(device, **options)
    inputs = tokens(layer)
    stay = [head for head in range(6) if head not in heads]
    head_mask = torch.tensor([head in stay for head in range(6)], device=device)
    expected = layer(*inputs, head_mask=head_mask)
    before = layer(*inputs, trace=True)
    groups = 6 // layer.num_kv_heads

    layer.prune_heads(heads)
    torch.testing.assert_close(layer(*inputs), expected)
    assert (layer.num_heads, layer.num_kv_heads) == (len(stay), len(stay) // groups)
    trace = layer(*inputs, trace=True)
    torch.testing.assert_close(trace.weights, before.weights[:, stay])
    torch.testing.assert_close(trace.contributions, before.contributions[:, stay])

    d_k = layer.head_dim
    kdim, vdim, h_kv = layer.kdim, layer.vdim, layer.num_kv_heads
    for projection, shape in (
        (layer.q_proj, (len(stay) * d_k, EMBED)),
        (layer.k_proj, (h_kv * d_k, kdim)),
        (layer.v_proj, (h_kv * d_k, vdim)),
        (layer.out_proj, (EMBED, len(stay) * d_k)),
    ):
        assert tuple(projection.weight.shape) == shape
        assert (projection.out_features, projection.in_features) == shape


@pytest.mark.parametrize("options_and_heads", PRUNED.values(), ids=PRUNED)
def test_its_state_loads_into_a_layer_made_with_the_heads_that_are_left(options_and_heads):
    options, heads = options_and_heads
    layer = make(**options)
    inputs = tokens(layer)
    layer.prune_heads(heads)
    options = {"head_dim": layer.head_dim, **options, "num_kv_heads": layer.num_kv_heads}
    fresh = MultiHeadAttention(EMBED, layer.num_heads, **options)
    fresh.load_state_dict(layer.state_dict())
    assert torch.equal(fresh(*inputs), layer(*inputs))
    assert torch.equal(copy.deepcopy(layer)(*inputs), layer(*inputs))
    assert fresh.extra_repr() == layer.extra_repr()


def test_heads_are_numbered_anew_after_each_pruning():
    layer = make(positions="alibi", causal=True)
    (x, *_), slopes = tokens(layer), layer.slopes.tolist()
    expected = layer(x, head_mask=torch.tensor([False, True, False, True, True, False]))
    layer.prune_heads([0, 2])
    layer.prune_heads([3])  # the one that was 5 at first
    torch.testing.assert_close(layer(x), expected)
    assert layer.slopes.tolist() == [slopes[1], slopes[3], slopes[4]]


def test_a_pruned_layer_learns_and_keeps_what_is_frozen():
    layer = make()
    layer.k_proj.requires_grad_(False)
    layer.v_proj.bias.requires_grad_(False)
    trained = {name: p.requires_grad for name, p in layer.named_parameters()}
    layer.prune_heads([1])
    assert {name: p.requires_grad for name, p in layer.named_parameters()} == trained
    x = torch.randn(2, 5, EMBED)
    layer(x).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.is_leaf
        assert (parameter.grad is not None) == trained[name]
    before = layer(x)
    torch.optim.SGD([p for p in layer.parameters() if p.requires_grad], lr=0.1).step()
    assert not torch.allclose(layer(x), before)


def test_pruning_in_training_leaves_no_graph_and_no_old_memory():
    layer = make()
    x = torch.randn(2, 5, EMBED)
    layer(x).sum().backward()
    old = layer.q_proj.weight
    layer.prune_heads([0])
    assert layer.q_proj.weight.grad is None
    with torch.no_grad():
        old.zero_()
    assert layer.q_proj.weight.abs().sum() > 0


def test_hooks_stay_on_the_projections():
    layer, called = make(), []
    layer.q_proj.register_forward_hook(lambda *_: called.append("q_proj"))
    layer.prune_heads([0])
    layer(torch.randn(2, 5, EMBED))
    assert called == ["q_proj"]


def test_a_pruned_layer_generates():
    layer = make(causal=True, num_kv_heads=3, positions="rotary")
    layer.prune_heads([2, 3])
    x, cache = torch.randn(2, 5, EMBED), KVCache()
    output = torch.cat([layer(token, cache=cache) for token in x.split(1, dim=1)], dim=1)
    torch.testing.assert_close(output, layer(x))


def test_a_pruned_layer_is_no_layer_of_torch():
    layer = from_torch(nn.MultiheadAttention(EMBED, 6))
    layer.prune_heads([0])
    with pytest.raises(ValueError, match="num_heads=5 times head_dim=2 is not embed_dim=12"):
        to_torch(layer)


@pytest.mark.parametrize(
    "heads", [(1, 3), {3, 1}, np.array([1, 3]), torch.tensor([1, 3]), range(1, 4, 2), iter([1, 3])]
)
def test_heads_may_be_named_by_anything_that_gives_whole_numbers(heads):
    layer = make()
    expected = layer.q_proj.weight.unflatten(0, (6, 2))[[0, 2, 4, 5]].flatten(0, 1)
    layer.prune_heads(heads)
    assert torch.equal(layer.q_proj.weight, expected)


NOT_A_LIST = "is not a list of heads; pass [0, 2], for example"
NOT_WHOLE = "which is not a whole number; pass [0, 2]"
SPLIT = "which share a key head; take all of them or none"


@pytest.mark.parametrize(
    ("options", "heads", "error", "message"),
    [
        ({}, 2, TypeError, f"heads=2 {NOT_A_LIST}"),
        ({}, torch.tensor(2), TypeError, f"heads=2 {NOT_A_LIST}"),
        ({}, "2", TypeError, f"heads='2' {NOT_A_LIST}"),
        ({}, None, TypeError, f"heads=None {NOT_A_LIST}"),
        ({}, [1.0], TypeError, f"heads has 1.0, {NOT_WHOLE}"),
        ({}, ["1"], TypeError, f"heads has '1', {NOT_WHOLE}"),
        ({}, [True, False], TypeError, f"heads has True, {NOT_WHOLE}"),
        ({}, torch.tensor([True, False]), TypeError, f"heads has True, {NOT_WHOLE}"),
        ({}, np.array([False, True]), TypeError, f"heads has {np.False_!r}, {NOT_WHOLE}"),
        ({}, torch.tensor([1.0]), TypeError, f"heads has 1.0, {NOT_WHOLE}"),
        ({}, [0, 6], ValueError, "heads has 6, but the heads are 0 to 5"),
        ({}, [-1], ValueError, "heads has -1, but the heads are 0 to 5"),
        ({}, range(6), ValueError, "heads has all 6 heads; leave at least one"),
        ({"num_kv_heads": 3}, [0], ValueError, f"heads=[0] takes a part of heads 0 to 1, {SPLIT}"),
        (
            {"num_kv_heads": 2},
            [5, 1, 0, 2],
            ValueError,
            f"heads=[0, 1, 2, 5] takes a part of heads 3 to 5, {SPLIT}",
        ),
        (
            {"num_kv_heads": 1},
            [3],
            ValueError,
            f"heads=[3] takes a part of heads 0 to 5, {SPLIT}",
        ),
    ],
)
def test_heads_that_cannot_go_are_refused_and_nothing_is_cut(options, heads, error, message):
    layer = make(**options)
    before = copy.deepcopy(layer.state_dict())
    with pytest.raises(error, match=says(message)):
        layer.prune_heads(heads)
    assert layer.num_heads == 6
    for name, parameter in layer.state_dict().items():
        assert torch.equal(parameter, before[name])


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj", "out_proj"])
def test_a_projection_that_was_replaced_cannot_be_cut(name):
    layer = make()
    setattr(layer, name, nn.Identity())
    message = (
        f"layer.{name} is not an nn.Linear with floating-point weights of its own, but Identity(); "
        "prune its heads as it was before that was quantised, split, parametrized or replaced"
    )
    with pytest.raises(TypeError, match=says(message)):
        layer.prune_heads([0])
    assert layer.num_heads == 6
    assert all(p.weight.shape == (12, 12) for p in layer.children() if isinstance(p, nn.Linear))


@pytest.mark.parametrize("name", ["q_proj", "out_proj"])
def test_a_matrix_that_is_computed_from_others_cannot_be_cut(name):
    layer = make()
    nn.utils.parametrizations.weight_norm(layer.get_submodule(name))
    with pytest.raises(TypeError, match=f"^layer.{name} is not an nn.Linear .* of its own"):
        layer.prune_heads([0])
    assert layer.num_heads == 6
    assert layer.k_proj.weight.shape == (12, 12)
