"""The shape stepper's Python side: what it answers is what mha_lib does."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import MultiHeadAttention
from mha_lib.widgets import ShapeStepper

small = st.integers(1, 6)


@settings(max_examples=40, deadline=None)
@given(B=small, N=small, h=small, d_k=small)
def test_shapes_are_those_of_a_real_run(B: int, N: int, h: int, d_k: int) -> None:
    result = ShapeStepper(B=B, N=N, d_model=h * d_k, h=h).result
    layer = MultiHeadAttention(h * d_k, h)
    x = torch.randn(B, N, h * d_k)
    trace = layer(x, trace=True)
    for name, shape in result["shapes"].items():
        tensor = {"x": x, "projected": layer.q_proj(x)}.get(name)
        real = getattr(trace, name) if tensor is None else tensor
        assert shape == list(real.shape), name
    assert result["sizes"] == {"B": B, "N": N, "d_model": h * d_k, "h": h, "d_k": d_k}


@pytest.mark.parametrize(
    ("d_model", "h", "together", "all_four"),
    [
        (768, 12, (1_769_472, 2_304), (2_359_296, 3_072)),
        (512, 8, (786_432, 1_536), (1_048_576, 2_048)),
    ],
)
def test_parameters_of_the_check_questions(
    d_model: int, h: int, together: tuple[int, int], all_four: tuple[int, int]
) -> None:
    parameters = ShapeStepper(d_model=d_model, h=h).result["parameters"]

    def count(*names: str) -> tuple[int, int]:
        return (
            sum(parameters[name]["weights"] for name in names),
            sum(parameters[name]["biases"] for name in names),
        )

    assert count("W_Q", "W_K", "W_V") == together
    assert count("W_Q", "W_K", "W_V", "W_O") == all_four


def test_changing_h_changes_no_count() -> None:
    stepper = ShapeStepper(d_model=48, h=1)
    counts = stepper.result["parameters"]
    for h in (2, 3, 4, 6, 8, 12, 16, 24, 48):
        stepper.h = h
        assert stepper.result["sizes"]["d_k"] == 48 // h
        assert stepper.result["parameters"] == counts


@pytest.mark.parametrize(("d_model", "h"), [(10, 3), (768, 13), (7, 2), (1, 2), (8, 9)])
def test_a_d_model_that_h_does_not_divide_shows_what_mha_lib_raises(d_model: int, h: int) -> None:
    with pytest.raises(ValueError, match="is not divisible by") as raised:
        MultiHeadAttention(d_model, h)
    assert ShapeStepper(d_model=d_model, h=h).result == {"error": str(raised.value)}


NAN, INFINITY = float("nan"), float("inf")
NOT_SIZES = [0, -1, 2.5, None, "4", True, 1_000_001, NAN, INFINITY, -INFINITY, [NAN], 10**400]


@pytest.mark.parametrize("size", NOT_SIZES)
@pytest.mark.parametrize("name", ["B", "N", "d_model", "h"])
def test_what_is_no_size_is_named(name: str, size: object) -> None:
    stepper = ShapeStepper(**{name: size})
    assert stepper.result == {"invalid": [name]}
    # A page reads the state as JSON, which has no word for NaN.
    json.dumps(stepper.get_state([name, "result"]), allow_nan=False)
    assert f'"{name}": ' in stepper.static_html()
    setattr(stepper, name, 4)
    assert stepper.result == ShapeStepper(**{name: 4}).result


def test_what_is_no_number_is_kept_as_none() -> None:
    stepper = ShapeStepper(B=NAN, N=INFINITY, d_model="8", h=2.5)
    assert (stepper.B, stepper.N, stepper.d_model, stepper.h) == (None, None, None, 2.5)


def test_numpys_whole_numbers_are_sizes() -> None:
    stepper = ShapeStepper(h=np.int64(4), d_model=np.float32(8))
    assert stepper.result == ShapeStepper(h=4, d_model=8).result
    assert '"h": 4' in stepper.static_html()


def test_a_whole_float_is_a_size_since_javascript_has_one_kind_of_number() -> None:
    assert ShapeStepper(h=4.0).result == ShapeStepper(h=4).result


def test_more_numbers_than_can_be_counted_exactly_are_refused() -> None:
    million = 1_000_000
    assert ShapeStepper(B=million, N=million, d_model=8, h=2).result == {"too_many": True}
    assert "shapes" in ShapeStepper(B=1, N=million, d_model=4096, h=4096).result


def test_the_site_carries_inputs_result_and_a_fallback_without_words() -> None:
    html = ShapeStepper(B=3, N=5).static_html()
    assert 'shape_stepper.js" data-texts' in html
    assert '"step": "split"' in html
    assert "scores: (3, 2, 5, 5)" in html
