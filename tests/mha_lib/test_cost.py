"""`cost.py` against real modules and torch's FlopCounterMode."""

import dataclasses
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mha_lib import MultiHeadAttention
from mha_lib.cache import KVCache
from mha_lib.cost import MODELS, Cost, ModelSizes, layer_cost, model_cost

PROPERTY = settings(deadline=None, max_examples=20)

PARAMETERS = {
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2-small": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "vit-b-16": 86_567_656,
}


def parameters_of(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def flops(module: nn.Module, x: Tensor, *, training: bool) -> int:
    """What torch counts; x needs a gradient if it has `requires_grad`."""
    with FlopCounterMode(display=False) as counter:
        output = module(x)
        if training:
            output.sum().backward()
    total: int = counter.get_total_flops()
    return total


# --- one layer ---


@st.composite
def layers(draw: st.DrawFn) -> dict[str, int]:
    h_kv, group = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    return {
        "embed_dim": draw(st.integers(1, 12)),
        "num_heads": h_kv * group,
        "num_kv_heads": h_kv,
        "head_dim": draw(st.integers(1, 5)),
        "bias": draw(st.booleans()),
    }


@PROPERTY
@given(sizes=layers(), seq=st.integers(1, 9), batch=st.integers(1, 3), causal=st.booleans())
def test_a_layer_costs_what_torch_counts(sizes, seq, batch, causal):
    layer = MultiHeadAttention(**sizes, causal=causal, backend="explicit")
    cost = layer_cost(**sizes, seq=seq, batch=batch)
    assert cost.parameters == parameters_of(layer)
    x = torch.randn(batch, seq, sizes["embed_dim"], requires_grad=True)
    # The full square, causal or not.
    assert flops(layer, x, training=False) == cost.forward_flops
    assert flops(layer, x, training=True) == cost.training_flops
    # The input of a first layer needs no gradient: W_Q, W_K and W_V have one product less.
    inputs = (
        2
        * batch
        * seq
        * sum(
            projection.weight.numel() for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
        )
    )
    assert flops(layer, x.detach(), training=True) == cost.training_flops - inputs


def test_the_explicit_layer_costs_the_same_on_every_device(device):
    layer = MultiHeadAttention(32, 4, backend="explicit", device=device)
    x = torch.randn(2, 16, 32, device=device, requires_grad=True)
    cost = layer_cost(32, 4, seq=16, batch=2)
    assert flops(layer, x, training=False) == cost.forward_flops
    assert flops(layer, x, training=True) == cost.training_flops


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_a_fused_kernel_is_counted_as_the_same_products(device, dtype):
    if device == "cpu":
        device = "meta"  # torch counts nothing for the fused kernel of a CPU
    layer = MultiHeadAttention(64, 4, backend="sdpa", device=device, dtype=dtype)
    x = torch.empty(2, 16, 64, device=device, dtype=dtype)
    assert flops(layer, x, training=False) == layer_cost(64, 4, seq=16, batch=2).forward_flops


@PROPERTY
@given(sizes=layers(), seq=st.integers(1, 9), batch=st.integers(1, 3))
def test_bytes_are_those_of_real_tensors(sizes, seq, batch):
    layer = MultiHeadAttention(**sizes)
    trace = layer(torch.randn(batch, seq, sizes["embed_dim"]), trace=True)
    cost = layer_cost(**sizes, seq=seq, batch=batch)
    assert cost.score_bytes == trace.scores.nbytes
    assert cost.kv_cache_bytes == trace.k.nbytes + trace.v.nbytes
    cache = KVCache()
    cache.append(trace.k.detach(), trace.v.detach())
    assert cost.kv_cache_bytes == cache.nbytes
    half = layer_cost(**sizes, seq=seq, batch=batch, bytes_per_number=2)
    assert 2 * half.score_bytes == cost.score_bytes
    assert 2 * half.kv_cache_bytes == cost.kv_cache_bytes


def test_the_square_grows_by_four_where_the_rest_doubles():
    one, two = layer_cost(768, 12, seq=512), layer_cost(768, 12, seq=1024)
    assert two.projection_flops == 2 * one.projection_flops
    assert two.kv_cache_bytes == 2 * one.kv_cache_bytes
    assert two.product_flops == 4 * one.product_flops
    assert two.score_bytes == 4 * one.score_bytes


def test_parameters_do_not_depend_on_the_number_of_heads():
    assert len({layer_cost(768, heads, seq=1).parameters for heads in (1, 2, 12, 768)}) == 1
    # The multi-head chapter's number: 4 * 768 * 768 weights and 4 * 768 biases.
    assert layer_cost(768, 12, seq=1).parameters == 2_359_296 + 3_072


# --- models ---


class RealModel(nn.Module):
    """The model that sizes describe, made from torch's own layers and our attention."""

    def __init__(self, sizes: ModelSizes) -> None:
        super().__init__()
        d_model = sizes.embed_dim
        rows = {"tokens": sizes.vocabulary, "places": sizes.positions, "others": sizes.other_rows}
        self.sizes = sizes
        self.tables = nn.ModuleDict(
            {name: nn.Embedding(number, d_model) for name, number in rows.items() if number}
        )
        if sizes.patch_dim:
            self.patches = nn.Conv2d(3, d_model, kernel_size=16, stride=16)
        self.blocks = nn.ModuleList(self.block() for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(d_model)
        if sizes.head_out:
            self.head = nn.Linear(d_model, sizes.head_out)

    def block(self) -> nn.ModuleDict:
        d_model, heads = self.sizes.embed_dim, self.sizes.num_heads
        return nn.ModuleDict(
            {
                "norm1": nn.LayerNorm(d_model),
                "attention": MultiHeadAttention(
                    d_model,
                    heads,
                    num_kv_heads=self.sizes.num_kv_heads,
                    causal=self.sizes.generates,
                    backend="explicit",
                ),
                "norm2": nn.LayerNorm(d_model),
                "mlp": nn.Sequential(
                    nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
                ),
            }
        )

    def forward(self, given: Tensor) -> Tensor:
        if self.sizes.patch_dim:
            x = self.patches(given).flatten(2).mT  # (B, 3, 224, 224) -> (B, 196, d_model)
            classes = self.tables["others"].weight.expand(len(x), 1, -1)
            x = torch.cat([classes, x], dim=1)  # (B, 197, d_model)
        else:
            x = self.tables["tokens"](given)  # (B, N) -> (B, N, d_model)
        x = x + self.tables["places"].weight[: x.shape[1]]
        for block in self.blocks:
            x = x + block["attention"](block["norm1"](x))
            x = x + block["mlp"](block["norm2"](x))
        x = self.norm(x)
        if self.sizes.generates:
            return x @ self.tables["tokens"].weight.mT  # (B, N, vocabulary)
        return self.head(x[:, 0])


def real(sizes: ModelSizes, *, batch: int = 1, seq: int = 1) -> tuple[RealModel, Tensor]:
    """The model and something to read, with shapes and no numbers."""
    with torch.device("meta"):
        shape = (batch, 3, 224, 224) if sizes.patch_dim else (batch, seq)
        given = torch.zeros(shape, dtype=torch.float32 if sizes.patch_dim else torch.long)
        return RealModel(sizes), given


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_as_many_parameters_as_its_real_module(name):
    module, _ = real(MODELS[name])
    assert model_cost(name).parameters == parameters_of(module) == PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layers", [2, pytest.param(None, marks=pytest.mark.slow, id="all")])
def test_a_model_multiplies_what_torch_counts(name, layers, monkeypatch):
    sizes = dataclasses.replace(MODELS[name], layers=layers or MODELS[name].layers)
    monkeypatch.setitem(MODELS, name, sizes)
    seq = sizes.positions if sizes.patch_dim else 33
    module, given = real(sizes, batch=2, seq=seq)
    cost = model_cost(name, seq=seq, batch=2)
    assert flops(module, given, training=False) == cost.forward_flops
    # An image needs no gradient; a table of tokens does.
    patches = 2 * 2 * 196 * 768 * 768 if sizes.patch_dim else 0
    assert flops(module, given, training=True) == cost.training_flops - patches


def test_sizes_of_your_own_cost_what_their_module_does():
    sizes = dataclasses.replace(
        MODELS["gpt2-small"], layers=2, num_kv_heads=3, positions=40, generates=True
    )
    module, given = real(sizes, batch=2, seq=33)
    cost = model_cost(sizes, seq=33, batch=2)
    assert cost.parameters == parameters_of(module)
    assert cost.forward_flops == flops(module, given, training=False)
    full = model_cost(dataclasses.replace(sizes, num_kv_heads=None), seq=33, batch=2)
    assert full.kv_cache_bytes == 4 * cost.kv_cache_bytes
    assert full.product_flops == cost.product_flops
    message = "seq=41 is more than the 40 positions of these sizes; use 40 or fewer"
    with pytest.raises(ValueError, match=message):
        model_cost(sizes, seq=41)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_the_models_that_people_use_have_as_many_parameters(name):
    transformers = pytest.importorskip("transformers")
    sizes = MODELS[name]
    with torch.device("meta"):
        if sizes.generates:
            config = transformers.GPT2Config(
                n_layer=sizes.layers,
                n_embd=sizes.embed_dim,
                n_head=sizes.num_heads,
                n_positions=sizes.positions,
            )
            module = transformers.GPT2LMHeadModel(config)
        elif sizes.patch_dim:
            module = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))
        else:
            config = transformers.BertConfig(
                hidden_size=sizes.embed_dim,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.num_heads,
                intermediate_size=4 * sizes.embed_dim,
            )
            module = transformers.BertModel(config)
    assert parameters_of(module) == model_cost(name).parameters


def test_training_gpt3_takes_about_six_flops_for_each_parameter_and_token():
    # Two going forward and four going back; the products with N * N add a little.
    cost = model_cost("gpt3")
    tokens = MODELS["gpt3"].positions
    assert 1.0 < cost.training_flops / (6 * cost.parameters * tokens) < 1.03


def test_a_model_is_its_layers_and_more():
    sizes = MODELS["gpt3"]
    layer = layer_cost(sizes.embed_dim, sizes.num_heads, seq=2048, bytes_per_number=2)
    cost = model_cost("gpt3", seq=2048, bytes_per_number=2)
    assert cost.score_bytes == layer.score_bytes
    assert cost.kv_cache_bytes == 96 * layer.kv_cache_bytes
    assert cost.projection_flops == 96 * layer.projection_flops
    assert cost.product_flops == 96 * layer.product_flops
    assert cost == model_cost("gpt3", bytes_per_number=2)


def test_only_a_model_that_generates_keeps_keys_and_values():
    keeps = {name for name in MODELS if model_cost(name).kv_cache_bytes}
    assert keeps == {name for name in MODELS if name.startswith("gpt")}


# --- what is refused ---


@pytest.mark.parametrize("name", ["embed_dim", "num_heads", "seq", "batch", "bytes_per_number"])
@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_sizes_are_positive_whole_numbers(name, size, error):
    sizes = {"embed_dim": 8, "num_heads": 2, "seq": 4, name: size}
    message = re.escape(f"{name}={size} is not a positive whole number; use 1 or more")
    with pytest.raises(error, match=f"^{message}$"):
        layer_cost(**sizes)
    if name not in MODELS["gpt3"].__dict__:
        del sizes["embed_dim"], sizes["num_heads"]
        with pytest.raises(error, match=f"^{message}$"):
            model_cost("gpt3", **sizes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model": "gpt4"},
            "model='gpt4' is not known; use 'bert-base', 'bert-large', 'gpt2-small', "
            "'gpt2-medium', 'gpt2-large', 'gpt2-xl', 'gpt3' or 'vit-b-16'",
        ),
        (
            {"model": "gpt3", "seq": 4096},
            "seq=4096 is more than the 2048 positions of gpt3; use 2048 or fewer, or count a "
            "layer, which has no such limit: layer_cost",
        ),
    ],
)
def test_what_a_model_refuses(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model_cost(**options)


def test_heads_that_do_not_fit():
    with pytest.raises(ValueError, match="embed_dim=10 is not divisible by num_heads=3"):
        layer_cost(10, 3, seq=4)
    with pytest.raises(ValueError, match="num_heads=12 is not divisible by num_kv_heads=5"):
        layer_cost(12, 12, num_kv_heads=5, seq=4)


def test_bias_is_true_or_false():
    with pytest.raises(TypeError, match="bias=1 is not a bool; pass True or False"):
        layer_cost(8, 2, seq=4, bias=1)


# --- the table ---

UNITS = {"": 1, "FLOP": 1, "B": 1}
UNITS |= {name: 1000**i for i, name in enumerate(["thousand", "million", "billion", "trillion"], 1)}
UNITS |= {f"{letter}FLOP": 1000**i for i, letter in enumerate("kMGTPE", 1)}
UNITS |= {f"{letter}iB": 1024**i for i, letter in enumerate("KMGTPE", 1)}


@PROPERTY
@given(numbers=st.lists(st.integers(1, 60).map(lambda n: 2**n - 1), min_size=6, max_size=6))
def test_the_table_says_each_number_exactly_and_rounded(numbers):
    cost = Cost(*numbers)
    rows = re.findall(r"^([\w ,-]+?)  +([\d,]+)  +([\d,.]+) *(\w*)$", cost.table(), flags=re.M)
    exact = [int(row[1].replace(",", "")) for row in rows]
    flops = [cost.projection_flops, cost.product_flops, cost.other_flops]
    totals = [sum(flops), *flops, 3 * sum(flops)]
    assert exact == [cost.parameters, *totals, cost.score_bytes, cost.kv_cache_bytes]
    for number, (_, _, rounded, unit) in zip(exact, rows, strict=True):
        error = abs(float(rounded.replace(",", "")) * UNITS[unit] - number)
        assert error <= (0.0501 * UNITS[unit] if "." in rounded else 0)
        step = 1024 if unit.endswith("B") else 1000
        assert float(rounded.replace(",", "")) < step or unit in ("trillion", "EFLOP", "EiB")


def test_numbers_in_the_table_end_in_one_column():
    lines = model_cost("gpt3").table().splitlines()
    assert len({re.match(r".{22}  +[\d,]+", line).end() for line in lines}) == 1
    assert len({line.index(".") for line in lines}) == 1


def test_what_costs_nothing_is_left_out_of_the_table():
    assert "KV-cache" not in model_cost("bert-base").table()
    assert "all else" not in layer_cost(8, 2, seq=4).table()
    assert "all else" in model_cost("bert-base").table()
