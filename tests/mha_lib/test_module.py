"""`MultiHeadAttention` as an nn.Module: its projections, its state, its copies, its dtypes."""

import copy
import io
import pickle

import pytest
import torch
from torch import Tensor, nn

from mha_lib import MultiHeadAttention, MultiHeadTrace
from tests.mha_lib.strategies import seeded

B, L, EMBED, HEADS = 3, 5, 12, 4
# The layer's options, for what must hold whichever are on.
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "grouped-query": {"num_kv_heads": 2},
    "rotary": {"positions": "rotary", "head_dim": 4},
    "alibi": {"positions": "alibi", "causal": True},
    "sinusoidal": {"positions": "sinusoidal"},
    "window": {"window": (2, 0)},
    "explicit": {"backend": "explicit", "causal": True},
    "chunks": {"backend": "window", "window": 2},
}
with_options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


class EightBitLinear(nn.Module):
    """A projection with whole numbers as its weight and a rule of its own for what it meets."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.step = linear.weight.detach().abs().max() / 127
        self.bias = linear.bias
        self.weight = (linear.weight.detach() / self.step).round().to(torch.int8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.to(x.dtype) * self.step, self.bias)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("how", ["torch's dynamic quantisation", "a module of one's own"])
def test_projections_may_be_quantised(how):
    layer = MultiHeadAttention(EMBED, HEADS).eval()
    x = torch.randn(B, L, EMBED)
    expected = layer(x)
    if how == "a module of one's own":
        quantised = copy.deepcopy(layer)
        for name, linear in list(quantised.named_children()):
            setattr(quantised, name, EightBitLinear(linear))
    else:
        quantised = torch.ao.quantization.quantize_dynamic(layer, {nn.Linear})
    assert not any(isinstance(each, nn.Linear) for each in quantised.children())
    torch.testing.assert_close(quantised(x), expected, atol=0.05, rtol=0.05)
    trace = quantised(x, trace=True)
    torch.testing.assert_close(trace.output, expected, atol=0.05, rtol=0.05)
    with pytest.raises(TypeError, match=r"out_proj is not an nn\.Linear with floating-point weig"):
        trace.contributions.sum()


def test_an_nn_linear_with_whole_numbers_as_its_weight_keeps_its_own_rule():
    """Such are the 8-bit layers of some libraries."""

    class WholeNumbers(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.linear(x, self.weight.to(x.dtype))

    layer = MultiHeadAttention(EMBED, HEADS)
    for name in ("q_proj", "out_proj"):
        linear = WholeNumbers(EMBED, EMBED)
        linear.weight = nn.Parameter(torch.eye(EMBED, dtype=torch.int8), requires_grad=False)
        setattr(layer, name, linear)
    trace = layer(torch.randn(B, L, EMBED), trace=True)
    torch.testing.assert_close(trace.output, trace.concat)
    with pytest.raises(TypeError, match="W_O cannot be cut into heads"):
        trace.contributions.sum()


def test_a_projection_may_be_replaced():
    layer = MultiHeadAttention(EMBED, HEADS)
    x = torch.randn(B, L, EMBED)
    layer.q_proj = nn.Identity()
    trace = layer(x, trace=True)
    torch.testing.assert_close(trace.q.transpose(1, 2).flatten(2), x)
    torch.testing.assert_close(layer(x), trace.output)
    layer.out_proj = nn.Identity()
    trace = layer(x, trace=True)
    torch.testing.assert_close(trace.output, trace.concat)
    torch.testing.assert_close(layer(x), trace.output)


@pytest.mark.parametrize("trace", [False, True])
def test_the_four_projections_are_modules_that_are_called(trace, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    called = []
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        projection = layer.get_submodule(name)
        assert isinstance(projection, nn.Linear)
        projection.register_forward_hook(lambda *_, name=name: called.append(name))
    layer(torch.randn(B, L, EMBED, device=device), trace=trace)
    assert called == ["q_proj", "k_proj", "v_proj", "out_proj"]


def test_a_hook_can_change_what_a_projection_gives():
    layer = MultiHeadAttention(EMBED, HEADS)
    x = torch.randn(B, L, EMBED)
    before = layer(x)
    handle = layer.v_proj.register_forward_hook(lambda module, args, output: output * 0)
    torch.testing.assert_close(layer(x), layer.out_proj.bias.expand(B, L, -1))
    handle.remove()
    assert torch.equal(layer(x), before)


def test_state_dict_names_and_shapes_are_stable():
    layer = MultiHeadAttention(8, 2, head_dim=3, kdim=5, vdim=7)
    assert {name: tuple(p.shape) for name, p in layer.state_dict().items()} == {
        "q_proj.weight": (6, 8),
        "q_proj.bias": (6,),
        "k_proj.weight": (6, 5),
        "k_proj.bias": (6,),
        "v_proj.weight": (6, 7),
        "v_proj.bias": (6,),
        "out_proj.weight": (8, 6),
        "out_proj.bias": (8,),
    }
    without = MultiHeadAttention(8, 2, bias=False).state_dict()
    assert list(without) == [f"{p}_proj.weight" for p in ("q", "k", "v", "out")]


def test_parameter_count_does_not_depend_on_the_number_of_heads():
    for heads in (1, 2, 12, 768):
        layer = MultiHeadAttention(768, heads, device="meta")
        assert sum(p.numel() for p in layer.parameters()) == 4 * 768**2 + 4 * 768 == 2_362_368


def test_starts_as_four_linear_layers_made_in_order():
    torch.manual_seed(0)
    layer = MultiHeadAttention(EMBED, HEADS)
    torch.manual_seed(0)
    for projection in (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj):
        assert torch.equal(projection.weight, nn.Linear(EMBED, EMBED).weight)


@with_options
def test_copies_pickles_and_saved_states_compute_the_same(options, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device, **options)
    x = torch.randn(B, L, EMBED, device=device)
    expected = layer(x)
    assert torch.equal(copy.deepcopy(layer)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), expected)

    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=False)(x), expected)

    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    fresh = MultiHeadAttention(EMBED, HEADS, device=device, **options)
    fresh.load_state_dict(torch.load(file, map_location=device))
    assert torch.equal(fresh(x), expected)


@with_options
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_dtypes(dtype, options, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device, dtype=dtype, **options)
    x = torch.randn(B, L, EMBED, device=device, dtype=dtype)
    wide = copy.deepcopy(layer).double()(x.double())
    assert layer(x).dtype == dtype
    torch.testing.assert_close(layer(x).double(), wide, atol=0.03, rtol=0.03)
    trace = layer(x, trace=True)
    torch.testing.assert_close(trace.output.double(), wide, atol=0.03, rtol=0.03)
    assert trace.q.dtype == trace.k.dtype == trace.output.dtype == dtype


@with_options
@pytest.mark.parametrize("trace", [False, True])
def test_autocast_takes_float32_and_gives_half_precision(trace, options, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device, **options)
    x = torch.randn(B, L, EMBED, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        result = layer(x, x.bfloat16(), trace=trace)
    output = result.output if trace else result
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x), atol=0.04, rtol=0.04)
    if trace:
        total = result.contributions.sum(dim=1) + layer.out_proj.bias
        torch.testing.assert_close(total, layer(x), atol=0.04, rtol=0.04)


@with_options
def test_gradients_reach_every_parameter_in_half_precision(options, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device, dtype=torch.bfloat16, **options)
    x = torch.randn(B, L, EMBED, device=device, dtype=torch.bfloat16, requires_grad=True)
    layer(x).float().square().sum().backward()
    wide = copy.deepcopy(layer).double()
    wide.zero_grad()
    wide(x.detach().double()).square().sum().backward()
    # The gradient of k_proj.bias is 0: compare with the greatest of all.
    limit = 0.03 * max(parameter.grad.abs().max().item() for parameter in wide.parameters())
    for name, parameter in layer.named_parameters():
        exact = wide.get_parameter(name).grad
        torch.testing.assert_close(parameter.grad.double(), exact, atol=limit, rtol=0, msg=name)


@with_options
def test_a_layer_moves_with_everything_it_has(options):
    layer = MultiHeadAttention(EMBED, HEADS, device="meta", **options)
    assert all(x.is_meta for x in layer.state_dict().values())
    x = torch.empty(B, L, EMBED, device="meta")
    assert layer(x).shape == (B, L, EMBED)
    assert layer(x, trace=True).output.is_meta
    there = layer.to_empty(device="cpu")
    assert not any(x.is_meta for x in there.state_dict().values())


def test_a_layer_trains():
    """A copy task: each token must say what the token before it is."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(16, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    words, places = torch.eye(16)[:8], torch.eye(16)[8:14]
    tokens = torch.randint(0, 8, (32, 6), generator=seeded(0))
    x = words[tokens] + 2 * places
    losses = []
    for _ in range(150):
        logits = layer(x)[:, 1:, :8]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_says_what_it_is():
    text = repr(MultiHeadAttention(8, 2, causal=True))
    assert "num_heads=2, head_dim=4, dropout=0.0, causal=True, backend='auto'" in text
    assert "(out_proj): Linear(in_features=8, out_features=8, bias=True)" in text


def test_trace_of_a_layer_is_a_multi_head_trace():
    layer = MultiHeadAttention(8, 2)
    assert isinstance(layer(torch.randn(3, 5, 8), trace=True), MultiHeadTrace)
