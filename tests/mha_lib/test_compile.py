"""torch.compile and torch.func take the layer as it is."""

import pytest
import torch

from mha_lib import KVCache, MultiHeadAttention, attention, last_dispatch
from tests.mha_lib.strategies import on

B, N, EMBED, HEADS = 2, 6, 16, 4
CASES = {
    "plain": ({}, {}),
    "causal": ({"causal": True}, {}),
    "a mask": ({}, {"mask": torch.rand(N, N) < 0.7}),
    "a mask that looks inverted": ({}, {"mask": torch.ones(N, N).triu(1).bool()}),
    "padding": ({}, {"key_mask": torch.arange(N)[None] < torch.tensor([[N], [N - 2]])}),
    "grouped-query": ({"num_kv_heads": 2}, {}),
    "rotary": ({"positions": "rotary", "causal": True}, {}),
    "alibi": ({"positions": "alibi", "causal": True}, {}),
    "sinusoidal": ({"positions": "sinusoidal"}, {}),
    "a window": ({"window": 2}, {}),
    "chunks": ({"window": 2, "backend": "window"}, {}),
    "explicit": ({"causal": True, "backend": "explicit"}, {}),
    "a bias": ({}, {"bias": torch.randn(HEADS, N, N)}),
    "a head mask": ({}, {"head_mask": torch.tensor([1.0, 0.0, 0.5, 1.0])}),
    "an edit": ({}, {"edit": {"weights": lambda weights: weights * 2}}),
}


@pytest.fixture(autouse=True)
def _no_compiled_code_from_before():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def layer_and_tokens(device: str, case: str, **more: object) -> tuple:
    options, arguments = CASES[case]
    layer = MultiHeadAttention(EMBED, HEADS, device=device, **(options | more))
    return layer, torch.randn(B, N, EMBED, device=device), on(device, arguments)


@pytest.mark.parametrize("case", CASES)
def test_the_layer_is_one_graph(case, device):
    """Nothing in it makes torch.compile stop and go back to Python: that is what fullgraph asks."""
    layer, x, arguments = layer_and_tokens(device, case)
    if case == "a mask that looks inverted":  # what only the numbers tell, compiled code cannot
        expected = layer.out_proj.bias.expand_as(x)[:, -1]
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x, **arguments)[:, -1], expected)
        return
    expected = layer(x, **arguments)
    dispatch = last_dispatch()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x, **arguments), expected, atol=1e-5, rtol=1e-5)
    assert last_dispatch() == dispatch  # what is compiled is not remembered


def test_the_formula_is_one_graph_under_autocast(device):
    """It turns autocast off for its own steps, by calling itself once more."""
    layer, x, arguments = layer_and_tokens(device, "explicit")
    with torch.autocast(device):
        expected = layer(x, **arguments)
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x, **arguments), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "dynamic"),
    [
        *((case, False) for case in CASES if "inverted" not in case),
        *((case, True) for case in ("plain", "rotary", "a window")),
    ],
)
def test_a_compiled_layer_computes_the_same_forward_and_back(case, dynamic, device):
    layer, x, arguments = layer_and_tokens(device, case)
    x.requires_grad_()
    expected = layer(x, **arguments)
    (grad,) = torch.autograd.grad(expected.square().sum(), x)
    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic)
    output = compiled(x, **arguments)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    (compiled_grad,) = torch.autograd.grad(output.square().sum(), x)
    torch.testing.assert_close(compiled_grad, grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "case", ["plain", "causal", "rotary", "alibi", "a window", "grouped-query"]
)
def test_one_compilation_serves_every_length(case, device):
    layer, _, _ = layer_and_tokens(device, case)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="eager")
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (5, 8, 13):
            x = torch.randn(B, length, EMBED, device=device)
            torch.testing.assert_close(compiled(x), layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_compiled_layer_generates(device):
    layer, x, _ = layer_and_tokens(device, "rotary")
    compiled = torch.compile(layer)
    cache, outputs = KVCache(max_length=N), []
    with torch.no_grad():
        for token in x.split(1, dim=1):
            outputs.append(compiled(token, cache=cache))
        torch.testing.assert_close(torch.cat(outputs, dim=1), layer(x), atol=1e-5, rtol=1e-5)


def test_a_compiled_layer_still_refuses_bad_input(device):
    layer, x, _ = layer_and_tokens(device, "plain")
    compiled = torch.compile(layer, backend="eager")
    compiled(x)
    with pytest.raises(ValueError, match="query has width 10, but the layer has embed_dim=16"):
        compiled(torch.randn(B, N, 10, device=device))


@pytest.mark.parametrize("positions", [None, "rotary", "sinusoidal"])
def test_an_exported_layer_takes_every_length(positions):
    layer = MultiHeadAttention(16, 4, num_kv_heads=2, causal=True, positions=positions).eval()
    N = torch.export.Dim("N", min=2, max=512)
    exported = torch.export.export(
        layer, (torch.randn(1, 9, 16),), dynamic_shapes={"query": {1: N}}
    ).module()
    x = torch.randn(1, 7, 16)
    torch.testing.assert_close(exported(x), layer(x))


def test_attention_compiles_without_a_layer(device):
    q, k, v = torch.randn(3, B, HEADS, N, 8, device=device)
    compiled = torch.compile(attention, fullgraph=True, backend="eager")
    for options in ({}, {"softcap": 5.0}, {"causal": True, "window": (2, None)}):
        expected = attention(q, k, v, **options)
        torch.testing.assert_close(compiled(q, k, v, **options), expected, atol=1e-5, rtol=1e-5)


# --- torch.func ---


@pytest.mark.parametrize("case", ["plain", "causal", "a mask", "padding", "rotary", "a bias"])
def test_functional_call_computes_with_other_parameters(case, device):
    layer, x, arguments = layer_and_tokens(device, case)
    other = MultiHeadAttention(EMBED, HEADS, device=device, **CASES[case][0])
    state = dict(other.named_parameters())
    output = torch.func.functional_call(layer, state, (x,), arguments)
    torch.testing.assert_close(output, other(x, **arguments))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("case", ["plain", "causal", "rotary", "alibi", "explicit", "chunks"])
def test_gradients_of_each_example_by_vmap(case, device):
    layer, x, _ = layer_and_tokens(device, case)
    parameters = dict(layer.named_parameters())

    def loss(parameters, example):
        return torch.func.functional_call(layer, parameters, (example[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for b in range(B):
        expected = torch.autograd.grad(layer(x[b : b + 1]).square().sum(), parameters.values())
        for (name, grads), grad in zip(each.items(), expected, strict=True):
            torch.testing.assert_close(grads[b], grad, atol=1e-4, rtol=1e-4, msg=name)
