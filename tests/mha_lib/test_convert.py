"""from_torch and to_torch; that they compute the same is in test_multihead.py and here."""

import pytest
import torch
from torch import nn

from mha_lib import MultiHeadAttention, causal_mask, from_torch, to_torch
from tests.mha_lib.strategies import says

OPTIONS = [
    {},
    {"bias": False},
    {"kdim": 6, "vdim": 10},
    {"kdim": 6},
    {"kdim": 6, "vdim": 10, "bias": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_there_and_back_gives_the_same_parameters(options, device):
    theirs = nn.MultiheadAttention(12, 4, **options, device=device)
    again = to_torch(from_torch(theirs))
    assert again.batch_first
    expected = theirs.state_dict()
    assert list(again.state_dict()) == list(expected)
    for name, parameter in again.state_dict().items():
        assert torch.equal(parameter, expected[name])
        assert parameter.device == expected[name].device


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_to_torch_computes_the_same(options, device):
    ours = MultiHeadAttention(12, 4, **options, device=device)
    query = torch.randn(3, 5, 12, device=device)
    key = torch.randn(3, 7, ours.kdim, device=device)
    value = torch.randn(3, 7, ours.vdim, device=device)
    keep = torch.rand(5, 7, device=device) < 0.7
    keep[:, 0] = True
    output, weights = to_torch(ours)(query, key, value, attn_mask=~keep, average_attn_weights=False)
    trace = ours(query, key, value, mask=keep, trace=True)
    torch.testing.assert_close(output, trace.output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights, trace.weights, atol=1e-5, rtol=1e-5)


def test_a_sequence_first_module_becomes_batch_first():
    theirs = nn.MultiheadAttention(12, 4)  # torch's default: (N, B, embed_dim)
    x = torch.randn(3, 5, 12)
    expected, _ = theirs(*[x.transpose(0, 1)] * 3)
    torch.testing.assert_close(from_torch(theirs)(x), expected.transpose(0, 1))


@pytest.mark.parametrize("convert", [from_torch, to_torch])
def test_dropout_mode_and_dtype_come_along(convert):
    make = nn.MultiheadAttention if convert is from_torch else MultiHeadAttention
    module = make(12, 4, dropout=0.3, dtype=torch.float64).eval()
    converted = convert(module)
    assert converted.dropout == 0.3
    assert not converted.training
    assert converted.out_proj.weight.dtype == torch.float64
    assert convert(module.train()).training


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("convert", [from_torch, to_torch])
def test_every_parameter_is_made_where_the_others_are(convert, options):
    make = nn.MultiheadAttention if convert is from_torch else MultiHeadAttention
    converted = convert(make(12, 4, device="meta", dtype=torch.float16, **options))
    assert {(p.device.type, p.dtype) for p in converted.parameters()} == {("meta", torch.float16)}


def test_a_mask_of_each_sequence_and_head_is_given_to_torch_with_both_in_one_axis():
    ours = MultiHeadAttention(12, 4)
    x = torch.randn(2, 5, 12)
    for shape in [(2, 4, 5, 5), (4, 5, 5), (2, 1, 5, 5)]:
        mask = torch.rand(shape) < 0.6
        mask[..., 0] = True
        ignore = ~mask.expand(2, 4, 5, 5).flatten(0, 1)
        output, _ = to_torch(ours)(x, x, x, attn_mask=ignore)
        torch.testing.assert_close(output, ours(x, mask=mask), atol=1e-5, rtol=1e-5)
    key_mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    output, _ = to_torch(ours)(x, x, x, key_padding_mask=~key_mask)
    torch.testing.assert_close(output, ours(x, key_mask=key_mask), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["q_proj", "k_proj", "v_proj", "out_proj"])
def test_to_torch_refuses_a_projection_that_was_replaced(name):
    layer = MultiHeadAttention(12, 4)
    setattr(layer, name, nn.Identity())
    message = (
        rf"^layer\.{name} is not an nn\.Linear with floating-point weights of its own, but "
        r"Identity\(\); convert the layer as it was before that was quantised, split, "
        "parametrized or replaced$"
    )
    with pytest.raises(TypeError, match=message):
        to_torch(layer)


def test_the_copies_share_no_memory():
    theirs = nn.MultiheadAttention(12, 4)
    ours = from_torch(theirs)
    before = ours.q_proj.weight.clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_()
    assert torch.equal(ours.q_proj.weight, before)


def test_the_copies_are_trainable_leaves():
    for converted in (
        from_torch(nn.MultiheadAttention(12, 4)),
        to_torch(MultiHeadAttention(12, 4)),
    ):
        assert all(p.requires_grad and p.is_leaf for p in converted.parameters())


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_from_torch_refuses_an_added_key(option):
    with pytest.raises(ValueError, match=rf"module was made with {option}=True.*{option}=False"):
        from_torch(nn.MultiheadAttention(12, 4, **{option: True}))


def test_to_torch_refuses_what_torch_has_not():
    with pytest.raises(ValueError, match="num_heads=4 times head_dim=5 is not embed_dim=12"):
        to_torch(MultiHeadAttention(12, 4, head_dim=5))
    with pytest.raises(ValueError, match=r"causal=True.*attn_mask=~causal_mask\(L, S\)"):
        to_torch(MultiHeadAttention(12, 4, causal=True))


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("num_kv_heads", 2, "2"),
        ("window", 3, "(3, 3)"),
        ("window", (None, 0), "(None, 0)"),
        ("positions", "rotary", "'rotary'"),
        ("positions", "alibi", "'alibi'"),
        ("positions", "sinusoidal", "'sinusoidal'"),
    ],
)
def test_to_torch_refuses_an_option_that_torch_has_not(option, value, shown):
    layer = MultiHeadAttention(16, 4, **{option: value})
    message = (
        f"layer has {option}={shown}, which torch.nn.MultiheadAttention has not; "
        f"make layer without {option}"
    )
    with pytest.raises(ValueError, match=says(message)):
        to_torch(layer)


def test_as_many_key_heads_as_heads_are_what_torch_has():
    to_torch(MultiHeadAttention(12, 4, num_kv_heads=4))


def test_a_plain_layer_is_what_comes_from_torch():
    layer = from_torch(nn.MultiheadAttention(12, 4))
    assert (layer.num_kv_heads, layer.window, layer.positions, layer.causal) == (
        layer.num_heads,
        None,
        None,
        False,
    )


def test_the_way_out_of_a_causal_layer_works():
    ours = MultiHeadAttention(12, 4, causal=True)
    x = torch.randn(2, 5, 12)
    expected = ours(x)
    ours.causal = False
    output, _ = to_torch(ours)(x, x, x, attn_mask=~causal_mask(5, 5))
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


def test_other_modules_are_refused():
    with pytest.raises(
        TypeError, match=r"module is of type Linear; from_torch takes a torch\.nn\.M"
    ):
        from_torch(nn.Linear(2, 2))
    with pytest.raises(
        TypeError, match=r"layer is of type MultiheadAttention; to_torch takes a mha_lib\.Mul"
    ):
        to_torch(nn.MultiheadAttention(12, 4))


def test_to_torch_where_only_some_projections_have_a_bias():
    ours, x = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)
    ours.out_proj.bias = ours.k_proj.bias = None
    torch.testing.assert_close(to_torch(ours)(x, x, x)[0], ours(x))


def test_to_torch_of_a_matrix_that_is_computed_from_others():
    ours, x = MultiHeadAttention(8, 2), torch.randn(3, 5, 8)
    nn.utils.parametrizations.weight_norm(ours.q_proj)
    torch.testing.assert_close(to_torch(ours)(x, x, x)[0], ours(x))
