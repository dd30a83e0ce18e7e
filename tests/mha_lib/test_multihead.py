"""`MultiHeadAttention` against torch's module and the NumPy reference, and as an nn.Module."""

import copy
import io
import pickle

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mha_lib import (
    MultiHeadAttention,
    MultiHeadTrace,
    causal_mask,
    from_ignore_mask,
    from_torch,
    functional,
    key_mask_from_lengths,
    reference,
)

PROPERTY = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BACKENDS = ("explicit", "sdpa", "auto")
B, L, S, EMBED, HEADS = 3, 5, 7, 12, 4

# What torch's module is made with, and whether keys and values are other tokens than queries.
SETUPS = {
    "self": ({}, False),
    "self without bias": ({"bias": False}, False),
    "cross": ({}, True),
    "cross with kdim and vdim": ({"kdim": 6, "vdim": 10}, True),
    "cross with kdim and vdim, without bias": ({"kdim": 6, "vdim": 10, "bias": False}, True),
}
# Masks in torch's convention, True = ignore, by their names in torch's forward.
IGNORE = {
    "no mask": lambda S: {},
    "mask": lambda S: {"attn_mask": torch.rand(L, S, generator=seeded(1)) < 0.4},
    "mask per sequence and head": lambda S: {
        "attn_mask": torch.rand(B * HEADS, L, S, generator=seeded(2)) < 0.4
    },
    "padding": lambda S: {
        "key_padding_mask": torch.arange(S) >= torch.tensor([S, S - 2, 1])[:, None]
    },
    "mask and padding": lambda S: {
        "attn_mask": torch.rand(L, S, generator=seeded(3)) < 0.2,
        "key_padding_mask": torch.arange(S) >= torch.tensor([S, S - 1, S - 2])[:, None],
    },
    "causal": lambda S: {"attn_mask": ~causal_mask(L, S)},
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def our_masks(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same masks by our names, True = keep."""
    ours = {}
    if "attn_mask" in theirs:
        mask = from_ignore_mask(theirs["attn_mask"])
        # torch takes one mask per sequence and head as (B*h, L, S).
        ours["mask"] = mask.unflatten(0, (B, HEADS)) if mask.dim() == 3 else mask
    if "key_padding_mask" in theirs:
        ours["key_mask"] = from_ignore_mask(theirs["key_padding_mask"])
    return ours


def let_each_query_see_a_key(ignore: dict[str, Tensor]) -> dict[str, Tensor]:
    """torch gives NaN where all is ignored, so there is nothing to compare there."""
    if "attn_mask" in ignore:
        ignore["attn_mask"][..., 0] = False
    return ignore


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("masking", IGNORE)
@pytest.mark.parametrize("setup", SETUPS)
def test_equals_torch_in_outputs_weights_and_gradients(setup, masking, backend, device):
    options, cross = SETUPS[setup]
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(EMBED, HEADS, batch_first=True, **options)
    for name, parameter in theirs.named_parameters():  # torch's biases start at 0: move them
        if "bias" in name:
            nn.init.normal_(parameter)
    theirs = theirs.to(device, torch.float64)
    ours = from_torch(theirs)
    ours.backend = backend

    keys = S if cross else L
    ignore = let_each_query_see_a_key(IGNORE[masking](keys))
    ignore = {name: mask.to(device) for name, mask in ignore.items()}

    def tokens(length: int, width: int, seed: int) -> Tensor:
        x = torch.randn(B, length, width, generator=seeded(seed), dtype=torch.float64)
        return x.to(device)

    query = tokens(L, EMBED, 4)
    inputs = [query, query, query]
    if cross:
        inputs = [query, tokens(S, theirs.kdim, 5), tokens(S, theirs.vdim, 6)]
    their_inputs = [x.clone().requires_grad_() for x in inputs]
    our_inputs = [x.clone().requires_grad_() for x in inputs]

    expected, expected_weights = theirs(*their_inputs, **ignore, average_attn_weights=False)
    output = ours(*our_inputs, **our_masks(ignore))
    torch.testing.assert_close(output, expected)
    trace = ours(*our_inputs, **our_masks(ignore), trace=True)
    torch.testing.assert_close(trace.weights, expected_weights)
    torch.testing.assert_close(trace.output, expected)

    readout = torch.randn(B, L, EMBED, generator=seeded(7), dtype=torch.float64).to(device)
    (expected * readout).sum().backward()
    (output * readout).sum().backward()
    for our_input, their_input in zip(our_inputs, their_inputs, strict=True):
        torch.testing.assert_close(our_input.grad, their_input.grad)
    # A layer made from the gradients of theirs holds, by name, what ours should be.
    grads = copy.deepcopy(theirs)
    for parameter, source in zip(grads.parameters(), theirs.parameters(), strict=True):
        parameter.data.copy_(source.grad)
    for name, expected_grad in from_torch(grads).state_dict().items():
        torch.testing.assert_close(ours.get_parameter(name).grad, expected_grad, msg=name)


@PROPERTY
@given(data=st.data())
def test_equals_the_reference_and_its_heads_sum_to_the_output(data, device):
    size = st.integers(1, 4)
    B, L, S, h, d_k = (data.draw(size) for _ in range(5))
    embed_dim, kdim, vdim = (data.draw(st.integers(1, 6)) for _ in range(3))
    bias, causal = data.draw(st.booleans()), data.draw(st.booleans())
    backend = data.draw(st.sampled_from(BACKENDS))
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    layer = MultiHeadAttention(
        embed_dim,
        h,
        head_dim=d_k,
        kdim=kdim,
        vdim=vdim,
        bias=bias,
        causal=causal,
        backend=backend,
        device=device,
        dtype=torch.float64,
    )
    query, key, value = (
        torch.randn(B, N, width, device=device, dtype=torch.float64)
        for N, width in ((L, embed_dim), (S, kdim), (S, vdim))
    )
    mask = torch.rand(B, h, L, S, device=device) < 0.7
    key_mask = torch.rand(B, S, device=device) < 0.7
    trace = layer(query, key, value, mask=mask, key_mask=key_mask, trace=True)

    parameters = {name: p.cpu().numpy() for name, p in layer.state_dict().items()}
    output, weights = reference.multi_head_attention(
        *(x.cpu().numpy() for x in (query, key, value)),
        parameters,
        h,
        mask=(mask & key_mask[:, None, None]).cpu().numpy(),
        causal=causal,
    )
    torch.testing.assert_close(trace.output.detach().cpu(), torch.from_numpy(output))
    torch.testing.assert_close(trace.weights.detach().cpu(), torch.from_numpy(weights))
    fast = layer(query, key, value, mask=mask, key_mask=key_mask)
    torch.testing.assert_close(trace.output, fast)

    total = trace.contributions.sum(dim=1)
    torch.testing.assert_close(total, fast - layer.out_proj.bias if bias else fast)


@pytest.mark.parametrize("backend", BACKENDS)
def test_padding_is_as_if_it_were_not_there(backend, device):
    layer = MultiHeadAttention(EMBED, HEADS, backend=backend, device=device)
    x = torch.randn(2, 6, EMBED, device=device)
    key_mask = key_mask_from_lengths(torch.tensor([6, 4], device=device))
    padded = layer(x, key_mask=key_mask)
    torch.testing.assert_close(padded[1:, :4], layer(x[1:, :4]), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded[:1], layer(x[:1]), atol=1e-5, rtol=1e-5)


def test_a_sequence_of_padding_alone_gives_the_output_bias(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 4, EMBED, device=device)
    output = layer(x, key_mask=key_mask_from_lengths(torch.tensor([4, 0], device=device)))
    torch.testing.assert_close(output[1], layer.out_proj.bias.expand(4, -1))


def test_causal_layer_does_not_see_the_future(device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, device=device)
    x = torch.randn(1, 6, EMBED, device=device)
    changed = x.clone()
    changed[:, 4:] = 9.0
    torch.testing.assert_close(layer(x)[:, :4], layer(changed)[:, :4])
    assert not torch.allclose(layer(x)[:, 4:], layer(changed)[:, 4:])


def test_without_a_mask_the_order_of_tokens_only_orders_the_output(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(2, 6, EMBED, device=device)
    order = torch.randperm(6, device=device)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-5, rtol=1e-5)


def test_key_defaults_to_query_and_value_to_key(device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x, other = torch.randn(2, B, L, EMBED, device=device)
    torch.testing.assert_close(layer(x), layer(x, x, x))
    torch.testing.assert_close(layer(x, other), layer(x, other, other))


@pytest.mark.parametrize("backend", BACKENDS)
def test_eval_never_changes_the_algorithm(backend, device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, backend=backend, device=device)
    x = torch.randn(B, L, EMBED, device=device)
    trained = layer.train()(x)
    with torch.no_grad():
        assert torch.equal(layer(x), trained)
        assert torch.equal(layer.eval()(x), trained)


@pytest.mark.parametrize(
    ("backend", "kernels"),
    [("explicit", ["explicit"]), ("sdpa", ["fused"]), ("auto", ["fused"])],
)
def test_the_layer_computes_with_the_backend_it_was_given(backend, kernels, monkeypatch):
    called = []
    for kernel in ("explicit", "fused"):
        original = getattr(functional, f"{kernel}_attention")

        def noted(*args, kernel=kernel, original=original):
            called.append(kernel)
            return original(*args)

        monkeypatch.setattr(functional, f"{kernel}_attention", noted)
    layer = MultiHeadAttention(EMBED, HEADS, backend=backend)
    x = torch.randn(B, L, EMBED)
    layer(x)
    assert called == kernels
    layer(x, trace=True)
    assert called == [*kernels, "explicit"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_dropout_is_for_training_only(backend, device):
    torch.manual_seed(0)
    layer = MultiHeadAttention(EMBED, HEADS, dropout=0.5, backend=backend, device=device)
    x = torch.randn(B, L, EMBED, device=device)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer(x, trace=True).output, layer(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_empty_batch_stays_empty(backend, causal, device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=causal, backend=backend, device=device)
    x = torch.randn(0, L, EMBED, device=device)
    assert layer(x).shape == (0, L, EMBED)
    key_mask = torch.ones(0, L, dtype=torch.bool, device=device)
    trace = layer(x, key_mask=key_mask, trace=True)
    assert trace.output.shape == (0, L, EMBED)
    assert trace.weights.shape == (0, HEADS, L, L)
    assert trace.contributions.shape == (0, HEADS, L, EMBED)


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


def test_copies_pickles_and_saved_states_compute_the_same(device):
    layer = MultiHeadAttention(EMBED, HEADS, causal=True, device=device)
    x = torch.randn(B, L, EMBED, device=device)
    expected = layer(x)
    assert torch.equal(copy.deepcopy(layer)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(x), expected)

    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    fresh = MultiHeadAttention(EMBED, HEADS, causal=True, device=device)
    fresh.load_state_dict(torch.load(file, map_location=device))
    assert torch.equal(fresh(x), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_dtypes(dtype, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device, dtype=dtype)
    x = torch.randn(B, L, EMBED, device=device, dtype=dtype)
    wide = copy.deepcopy(layer).double()(x.double())
    assert layer(x).dtype == dtype
    torch.testing.assert_close(layer(x).double(), wide, atol=0.03, rtol=0.03)


@pytest.mark.parametrize("trace", [False, True])
def test_autocast_takes_float32_and_gives_half_precision(trace, device):
    layer = MultiHeadAttention(EMBED, HEADS, device=device)
    x = torch.randn(B, L, EMBED, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        result = layer(x, x.bfloat16(), trace=trace)
    output = result.output if trace else result
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), layer(x), atol=0.03, rtol=0.03)
    if trace:
        total = result.contributions.sum(dim=1) + layer.out_proj.bias
        torch.testing.assert_close(total, layer(x), atol=0.03, rtol=0.03)


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
