"""`edit` overwrites a step, `check_finite` refuses the first that is not finite."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import AttentionTrace, MultiHeadAttention, MultiHeadTrace, attention
from tests.mha_lib.strategies import PROPERTY, check_finite_says, heads, inputs, says

HEAD_STEPS = AttentionTrace.STEP_NAMES
LAYER_STEPS = MultiHeadTrace.STEP_NAMES
B, N, EMBED, HEADS = 2, 5, 12, 4


def same(step: torch.Tensor) -> torch.Tensor:
    return step


def layer_and_tokens(**options: object) -> tuple[MultiHeadAttention, torch.Tensor]:
    return MultiHeadAttention(EMBED, HEADS, **options), torch.randn(B, N, EMBED)


# --- edit ---


@settings(PROPERTY, max_examples=30)
@given(arguments=inputs(), name=st.sampled_from(HEAD_STEPS))
def test_what_returns_the_step_as_it_was_changes_nothing(arguments, name):
    expected = attention(**arguments, backend="explicit")
    seen = []

    def look(step: torch.Tensor) -> torch.Tensor:
        seen.append(step)
        return step.clone()

    trace = attention(**arguments, edit={name: look}, trace=True)
    assert torch.equal(trace.output, expected)
    assert torch.equal(attention(**arguments, edit=dict.fromkeys(HEAD_STEPS, same)), expected)
    assert len(seen) == 1
    assert torch.equal(seen[0], getattr(trace, name))


@pytest.mark.parametrize("name", LAYER_STEPS)
def test_a_step_stands_in_the_trace_as_it_was_edited(name):
    layer, x = layer_and_tokens(causal=True)
    before = layer(x, trace=True)
    after = layer(x, edit={name: lambda step: step * 0.5}, trace=True)
    changed = LAYER_STEPS.index(name)
    for step in LAYER_STEPS[:changed]:
        earlier_input = step in ("q", "k", "v")
        assert torch.equal(getattr(before, step), getattr(after, step)) or earlier_input
    torch.testing.assert_close(getattr(after, name), getattr(before, name) * 0.5)
    assert not torch.allclose(after.output, before.output)
    torch.testing.assert_close(layer(x, edit={name: lambda step: step * 0.5}), after.output)


def test_edits_are_made_in_the_order_of_the_steps():
    layer, x = layer_and_tokens()
    order = []
    edit = {name: lambda step, name=name: (order.append(name), step)[1] for name in LAYER_STEPS}
    layer(x, edit=dict(reversed(edit.items())))
    assert order == list(LAYER_STEPS)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"num_kv_heads": 2}], ids=str)
@pytest.mark.parametrize("head", range(HEADS))
def test_a_head_without_weights_is_a_masked_head(head, options):
    layer, x = layer_and_tokens(**options)

    def silence(weights: torch.Tensor) -> torch.Tensor:
        keep = torch.arange(HEADS) != head
        return weights * keep[:, None, None]

    head_mask = torch.arange(HEADS) != head
    ablated = layer(x, edit={"weights": silence})
    torch.testing.assert_close(ablated, layer(x, head_mask=head_mask))
    trace = layer(x, trace=True)
    torch.testing.assert_close(ablated, trace.output - trace.contributions[:, head])


def test_weights_of_another_sentence_can_be_put_in_their_place():
    layer, x = layer_and_tokens()
    other = layer(torch.randn(B, N, EMBED), trace=True)
    patched = layer(x, edit={"weights": lambda weights: other.weights}, trace=True)
    torch.testing.assert_close(patched.head_out, other.weights @ patched.v)


def test_hidden_keys_stay_hidden_when_the_scores_are_edited():
    layer, x = layer_and_tokens(causal=True)
    trace = layer(x, edit={"scores": lambda scores: scores + 100}, trace=True)
    assert trace.weights.triu(1).eq(0).all()
    torch.testing.assert_close(trace.weights, layer(x, trace=True).weights, atol=1e-4, rtol=1e-4)


def test_gradients_flow_through_an_edit():
    layer, x = layer_and_tokens()
    factor = torch.ones(HEADS, 1, 1, requires_grad=True)
    layer(x, edit={"head_out": lambda head_out: head_out * factor}).sum().backward()
    head_mask = torch.ones(HEADS, requires_grad=True)
    layer(x, head_mask=head_mask).sum().backward()
    torch.testing.assert_close(factor.grad.flatten(), head_mask.grad)


def test_in_half_precision_an_edit_is_given_what_the_trace_shows():
    q, k, v = heads(1, 2, 4, 4, dtype=torch.bfloat16)
    seen = {}
    edit = {name: lambda step, name=name: seen.setdefault(name, step) for name in HEAD_STEPS}
    trace = attention(q, k, v, edit=edit, trace=True)
    for name in HEAD_STEPS:
        assert seen[name].dtype == getattr(trace, name).dtype, name


def test_the_inputs_are_not_changed_by_edits():
    q, k, v = heads(1, 2, 4, 4)
    copies = [x.clone() for x in (q, k, v)]
    attention(q, k, v, edit={name: lambda step: step * 2 + 1 for name in HEAD_STEPS})
    for x, copy in zip((q, k, v), copies, strict=True):
        assert torch.equal(x, copy)


SCORES = "(2, 4, 5, 5)"
BAD_EDITS = {
    "another shape": (
        {"weights": lambda weights: weights[:, :1]},
        ValueError,
        "edit['weights'] returned shape (2, 1, 5, 5), but weights has shape (2, 4, 5, 5); "
        "return a tensor of the same shape",
    ),
    "nothing returned": (
        {"scores": lambda scores: None},
        TypeError,
        "edit['scores'] returned a NoneType; return a tensor, "
        "and change a copy rather than the one it is given",
    ),
    "an array returned": (
        {"q": lambda q: q.detach().numpy()},
        TypeError,
        "edit['q'] returned a ndarray; return a tensor, "
        "and change a copy rather than the one it is given",
    ),
    "no such step": (
        {"weight": same},
        ValueError,
        "edit has 'weight', which is no step; use 'q', 'k', 'v', 'scores', 'masked_scores', "
        "'weights' or 'head_out'",
    ),
    "not callable": (
        {"weights": 0.5},
        TypeError,
        "edit['weights'] is of type float; pass a function",
    ),
    "a tensor": (
        {"weights": torch.ones(2)},
        TypeError,
        "edit['weights'] is of type Tensor; pass a function",
    ),
    "a function alone": (
        same,
        TypeError,
        'edit is of type function; pass {"weights": function}',
    ),
}


@pytest.mark.parametrize("case", BAD_EDITS)
def test_a_bad_edit_is_refused(case):
    edit, error, message = BAD_EDITS[case]
    layer, x = layer_and_tokens()
    q, k, v = heads(2, 4, 5, 3)
    with pytest.raises(error, match=says(message)):
        attention(q, k, v, edit=edit)
    message = message.replace(" or 'head_out'", ", 'head_out', 'concat' or 'output'")
    with pytest.raises(error, match=says(message)):
        layer(x, edit=edit)


@pytest.mark.parametrize("name", LAYER_STEPS)
def test_every_step_must_keep_its_shape(name):
    layer, x = layer_and_tokens()
    message = rf"^edit\['{name}'\] returned shape \(1, .*, but {name} has shape \(2, "
    with pytest.raises(ValueError, match=message):
        layer(x, edit={name: lambda step: step[:1]})


# --- check_finite ---


@settings(PROPERTY, max_examples=30)
@given(arguments=inputs())
def test_finite_steps_pass_and_change_nothing(arguments):
    expected = attention(**arguments, backend="explicit")
    assert torch.equal(attention(**arguments, check_finite=True), expected)
    trace = attention(**arguments, trace=True)
    trace.check_finite()


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", HEAD_STEPS)
def test_the_first_bad_step_is_named_with_the_place(name, bad):
    layer, x = layer_and_tokens()

    def plant(step: torch.Tensor) -> torch.Tensor:
        step = step.clone()
        step[1, 2, 1, 0] = float(bad)
        return step

    edit = {name: plant}
    if name == "masked_scores" and bad == "-inf":
        layer(x, edit=edit, check_finite=True)  # -inf stands for a hidden key there
        return
    total = getattr(layer(x, trace=True), name).numel()
    message = check_finite_says(name, bad, 1, total, [1, 2, 1, 0])
    with pytest.raises(ValueError, match=says(message)):
        layer(x, edit=edit, check_finite=True)
    trace = layer(x, edit=edit, trace=True)
    with pytest.raises(ValueError, match=says(message)):
        trace.check_finite()


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_bad_tokens_are_named(name, bad):
    layer = MultiHeadAttention(EMBED, HEADS)
    tokens = {name: torch.randn(B, N, EMBED) for name in ("query", "key", "value")}
    tokens[name][0, 3, 7] = float(bad)
    message = check_finite_says(name, bad, 1, B * N * EMBED, [0, 3, 7])
    with pytest.raises(ValueError, match=says(message)):
        layer(**tokens, check_finite=True)
    layer(**tokens)  # who does not ask is not told


@pytest.mark.parametrize("bad", ["nan", "inf"])
@pytest.mark.parametrize(
    ("parameter", "step"),
    [
        (f"{projection}_proj.{kind}", projection.replace("out", "output"))
        for projection in ("q", "k", "v", "out")
        for kind in ("weight", "bias")
    ],
)
def test_a_bad_parameter_is_found_where_it_first_shows(parameter, step, bad):
    layer, x = layer_and_tokens()
    with torch.no_grad():
        layer.get_parameter(parameter)[3] = float(bad)  # of all weights of one feature, or its bias
    with pytest.raises(ValueError, match=f"^{step} is the first step that is not finite: "):
        layer(x.abs(), check_finite=True)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"bias": torch.tensor([0.0, math.nan, 0.0, 0.0, 0.0])}, "masked_scores"),
        ({"bias": torch.tensor([0.0, math.inf, 0.0, 0.0, 0.0])}, "masked_scores"),
        ({"head_mask": torch.tensor([1.0, math.nan, 1.0, 1.0])}, "concat"),
    ],
)
def test_what_is_given_beside_the_tokens_is_found_too(options, step):
    layer, x = layer_and_tokens()
    with pytest.raises(ValueError, match=f"^{step} is the first step that is not finite: "):
        layer(x, **options, check_finite=True)


def test_a_bias_of_minus_infinity_hides_and_is_welcome():
    layer, x = layer_and_tokens(positions="alibi", causal=True)
    bias = torch.zeros(N, N).masked_fill(torch.rand(N, N) < 0.5, -math.inf)
    bias[2] = -math.inf
    assert layer(x, bias=bias, check_finite=True).isfinite().all()


def test_scores_that_overflow_are_named():
    q, k, v = heads(1, 2, 3, 4)
    with pytest.raises(ValueError, match=r"^scores is the first step .* which is (nan|-?inf); "):
        attention(q * 1e30, k * 1e30, v, check_finite=True)


def test_an_output_too_great_for_float16_is_named():
    layer = MultiHeadAttention(EMBED, HEADS, dtype=torch.float16)
    with torch.no_grad():
        layer.out_proj.weight.fill_(60000.0)
    x = torch.full((1, 2, EMBED), 50.0).half()
    with torch.no_grad():
        layer.v_proj.weight.fill_(1.0)
    message = check_finite_says("output", "inf", 24, 24, [0, 0, 0])
    with pytest.raises(ValueError, match=says(message)):
        layer(x, check_finite=True)


def test_a_projection_too_great_for_float16_is_named():
    layer = MultiHeadAttention(EMBED, HEADS, dtype=torch.float16)
    with torch.no_grad():
        layer.k_proj.weight.fill_(60000.0)
    with pytest.raises(ValueError, match=r"^k is the first step that is not finite: 24 of 24 "):
        layer(torch.ones(1, 2, EMBED).half(), check_finite=True)


@pytest.mark.parametrize(
    ("other", "error", "found"),
    [
        (lambda step: step.double(), TypeError, "torch.float64 on cpu"),
        (lambda step: step > 0, TypeError, "torch.bool on cpu"),
        (lambda step: step.to("meta"), ValueError, "torch.float32 on meta"),
    ],
)
def test_what_stands_in_for_a_step_is_of_its_kind(other, error, found):
    message = (
        f"edit['weights'] returned {found}, but weights has torch.float32 on cpu; return "
        "x.to(like) of what it was given as like"
    )
    with pytest.raises(error, match=says(message)):
        attention(*heads(1, 2, 4, 8), edit={"weights": other})
