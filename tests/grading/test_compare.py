import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from grading.compare import TOLERANCES, compare, simplify
from grading.describe import describe, readable, whole_number
from grading.values import Array, Raised, Unsupported, Value, decode, encode


def says(got: object, expected: object, tolerance: float | None = None) -> str | None:
    """Both come as they would from a sandbox."""
    return compare(decode(encode(got)), decode(encode(expected)), tolerance)


def tensor(*items: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(items, dtype=dtype)


X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))


# ---------------------------------------------------------------- what is right


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (64, 64),
        (768 / 12, 64),
        (np.int64(64), 64),
        (np.float32(64), 64),
        (np.array(64), 64),
        (torch.tensor(64), 64),
        (torch.tensor(64.0), 64),
        (torch.tensor(64.0).bfloat16(), 64),
        (64, 64.0),
        (64, torch.tensor(64.0)),
        (2**400, 2**400),
        (float(2**400), 2**400),
        (0.1 + 0.2, 0.3),
        (1e-17, 0.0),
        (torch.tensor(0.3).item(), 0.3),
        (math.nan, math.nan),
        (-math.inf, -math.inf),
        (1.7e308, 1.7e308),
        ("Q", "Q"),
        (np.str_("Q"), "Q"),
        ((1, 2.0), [1, 2]),
        (X.shape, [2, 5, 12]),
        ([], []),
        (True, True),
        (np.bool_(False), False),
        (torch.tensor(True), True),
        (None, None),
        (X, X),
        (X.numpy(), X),
        (X.double(), X),
        (X, X.double()),
        (X.half(), X),
        (X.bfloat16(), X),
        (X.bfloat16(), X.double()),
        (X + 1e-6, X),
        (X[:0], X[:0]),
        (torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([1, 2])),
        (tensor(math.nan, math.inf, -math.inf, 1), tensor(math.nan, math.inf, -math.inf, 1)),
        (tensor(math.nan), tensor(math.nan)),
        (tensor(0, 0), tensor(0, 0)),
        (X > 0, X > 0),
        (torch.complex(X, X), torch.complex(X, X)),
        (np.complex64(1 + 2j), 1 + 2j),
        (np.array([1.7e308, -1.7e308]), np.array([1.7e308, -1.7e308])),
        ([X, 3, "a"], [X, 3, "a"]),
    ],
)
def test_right(got: object, expected: object) -> None:
    assert says(got, expected) is None


@settings(deadline=None)
@given(
    st_numpy.arrays(
        st_numpy.floating_dtypes(sizes=(16, 32, 64), endianness="=")
        | st_numpy.integer_dtypes(endianness="=", sizes=(8, 16, 32, 64))
        | st_numpy.complex_number_dtypes(sizes=(64, 128), endianness="="),
        st_numpy.array_shapes(min_dims=0, max_dims=3, max_side=3),
    )
)
def test_every_array_is_right_for_itself(array: np.ndarray[Any, Any]) -> None:
    assert says(array, array) is None
    assert says(array, array, 0.0) is None


@settings(deadline=None)
@given(st.floats(), st.floats(allow_nan=False), st.floats(0, 1))
def test_numbers_and_arrays_of_one_number_agree(got: float, expected: float, tol: float) -> None:
    alone = says(got, expected, tol) is None
    in_array = says(np.array([got]), np.array([expected]), tol) is None
    assert alone == in_array


# ---------------------------------------------------------------- what is wrong


@pytest.mark.parametrize(
    ("got", "expected", "said"),
    [
        # a plain number: no value, no distance, no direction
        (65, 64, "This is not the right number."),
        (640_000, 64, "This is not the right number."),
        (0.31, 0.3, "This is not the right number."),
        (2**60 + 1, 2**60, "This is not the right number."),
        (float(2**60), 2**60 + 1, "This is not the right number."),
        (63.5, 64, "Expected a whole number; yours has a fraction."),
        (math.inf, 64, "Expected a number; yours is infinite."),
        (math.nan, 0.5, "Expected a number; yours is nan, 'not a number', as in 0 / 0."),
        (math.inf, -math.inf, "This is not the right number."),
        (1.0, math.nan, "This is not the right number."),
        (torch.tensor(0.31), 0.3, "This is not the right number."),
        (1j, 2j, "This is not the right number."),
        # another kind
        (True, 1, "Expected a whole number; yours is the truth value True."),
        (torch.tensor(True), 1, "Expected a whole number; yours is the truth value True."),
        (1, True, "Expected True or False; yours is a whole number."),
        (1.0, True, "Expected True or False; yours is a whole number."),
        (False, True, "This is the wrong one of True and False."),
        ("64", 64, "Expected a whole number; yours is a text: '64'."),
        (64, "64", "Expected a text; yours is a whole number."),
        (
            None,
            64,
            "Expected a whole number; yours is None (does the function end with `return`?).",
        ),
        (0, None, "Expected None; yours is a whole number."),
        ([64], 64, "Expected a whole number; yours is a list of 1 item."),
        (
            tensor(64),
            64,
            "Expected a whole number; yours is an array or tensor of shape (1,) and dtype float32. "
            "`.item()` takes the number out.",
        ),
        (
            3 + 0j,
            3.0,
            "Expected a number; yours is an array or tensor of shape () and dtype complex128.",
        ),
        ("q", "Q", "This is not the right text."),
        ({}, 64, "Expected a whole number; yours is a value of type dict."),
        ({}, [1, 2], "Expected a list of 2 items; yours is a value of type dict."),
        # lists
        ([1, 2], [1, 2, 3], "Expected a list of 3 items; yours is a list of 2 items."),
        ([1, 3], [1, 2], "Item [1]: This is not the right number."),
        ([1, True], [1, 1], "Item [1]: Expected a whole number; yours is the truth value True."),
        ([[1], [2, 3]], [[1], [2, 4]], "Item [1]: Item [1]: This is not the right number."),
        ([1, {}], [1, 2], "Item [1]: Expected a whole number; yours is a value of type dict."),
        ("ab", ["a", "b"], "Expected a list of 2 items; yours is a text: 'ab'."),
        (
            [1.0, 2.0],
            tensor(1, 2),
            "Expected an array or tensor of shape (2,) and dtype float32; "
            "yours is a list of 2 items.",
        ),
        (
            torch.tensor([1, 2]),
            [1, 2],
            "Expected a list of 2 items; "
            "yours is an array or tensor of shape (2,) and dtype int64. "
            "`.tolist()` makes a list of it.",
        ),
        (
            X,
            [X, X],
            "Expected a list of 2 tensors; "
            "yours is an array or tensor of shape (2, 5, 12) and dtype float32.",
        ),
        (
            X.max(dim=-1),
            [1, 2],
            "Expected a list of 2 items; yours is a value of type torch.return_types.max. "
            "It holds several results: take out `.values` or `.indices`.",
        ),
        # shape before everything
        (X[:0], X, "Expected shape (2, 5, 12); yours has shape (0, 5, 12)."),
        (X[:1], X, "Expected shape (2, 5, 12); yours has shape (1, 5, 12)."),
        (
            X.transpose(1, 2),
            X,
            "Expected shape (2, 5, 12); yours has shape (2, 12, 5): "
            "the same sizes in another order.",
        ),
        (X[0], X, "Expected shape (2, 5, 12); yours has shape (5, 12), 1 dimension too few."),
        (
            tensor([[1]]),
            tensor(1),
            "Expected shape (1,); yours has shape (1, 1, 1), 2 dimensions too many.",
        ),
        (tensor(1), tensor(1, 1), "Expected shape (2,); yours has shape (1,)."),
        # kinds of numbers
        (
            torch.tensor([1, 2]),
            tensor(1, 2),
            "Expected numbers with a decimal point (dtype float32); "
            "yours holds whole numbers (dtype int64). "
            "Whole numbers stay whole until one has a decimal point, such as `1.0`.",
        ),
        (
            tensor(1, 2),
            torch.tensor([1, 2]),
            "Expected whole numbers (dtype int64); "
            "yours holds numbers with a decimal point (dtype float32). "
            "A division or a decimal point makes numbers with a decimal point.",
        ),
        (
            torch.tensor([1, 2], dtype=torch.complex64),
            tensor(1, 2),
            "Expected numbers with a decimal point (dtype float32); "
            "yours holds complex numbers (dtype complex64).",
        ),
        (
            torch.tensor([True]),
            torch.tensor([1]),
            "Expected whole numbers (dtype int64); yours holds True/False values (dtype bool).",
        ),
        (
            tensor(1, 2, dtype=torch.bfloat16),
            torch.tensor([True, True]),
            "Expected True/False values (dtype bool); "
            "yours holds numbers with a decimal point (dtype bfloat16). "
            "A comparison, such as `t > 0`, makes True and False.",
        ),
        # numbers in arrays
        (
            torch.tensor([[1.0, 2.0], [3.0, 5.0]]),
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
            "At [1, 1], counted from 0, yours is 5, expected 4. 1 of 4 is wrong.",
        ),
        (
            tensor(1, 2.0009),
            tensor(1, 2),
            "At [1], counted from 0, yours is 2.0009, expected 2. 1 of 2 is wrong.",
        ),
        (
            np.array([1.0000021]),
            np.array([1.0]),
            "At [0], counted from 0, yours is 1.0000021, expected 1.",
        ),
        (
            np.array([2**62 + 1]),
            np.array([2**62]),
            "At [0], counted from 0, yours is 4611686018427387905, expected 4611686018427387904.",
        ),
        (
            np.array([-(2**63)]),
            np.array([2**63 - 1]),
            "At [0], counted from 0, yours is -9223372036854775808, expected 9223372036854775807.",
        ),
        (
            np.array([255], dtype=np.uint8),
            np.array([-1], dtype=np.int8),
            "At [0], counted from 0, yours is 255, expected -1.",
        ),
        (
            torch.tensor([True, False]),
            torch.tensor([True, True]),
            "At [1], counted from 0, yours is False, expected True. 1 of 2 is wrong.",
        ),
        (
            tensor(math.nan, 1),
            tensor(0, 1),
            "At [0], counted from 0, yours is nan, expected 0. "
            "nan is 'not a number', as in 0 / 0. 1 of 2 is wrong.",
        ),
        (
            tensor(0, 1),
            tensor(math.nan, 1),
            "At [0], counted from 0, yours is 0, expected nan. 1 of 2 is wrong.",
        ),
        (
            tensor(math.inf, 1),
            tensor(-math.inf, 1),
            "At [0], counted from 0, yours is inf, expected -inf. 1 of 2 is wrong.",
        ),
        (
            tensor(math.inf, 1),
            tensor(1e38, 1),
            "At [0], counted from 0, yours is inf, expected 1e+38. 1 of 2 is wrong.",
        ),
        (
            np.array([1.7e308]),
            np.array([-1.7e308]),
            "At [0], counted from 0, yours is 1.7e+308, expected -1.7e+308.",
        ),
        (
            torch.tensor([70000.0]).half(),
            torch.tensor([70000.0]),
            "At [0], counted from 0, yours is inf, expected 70000.",
        ),
        (
            np.array([1 + 1j]),
            np.array([1 - 1j]),
            "At [0], counted from 0, yours is 1+1j, expected 1-1j.",
        ),
        (
            tensor(1e-3, 0),
            tensor(0, 0),
            "At [0], counted from 0, yours is 0.001, expected 0. 1 of 2 is wrong.",
        ),
    ],
)
def test_wrong(got: object, expected: object, said: str) -> None:
    assert says(got, expected) == said


def test_a_wrong_plain_number_is_never_told_how_wrong() -> None:
    said = {says(got, 2_359_296) for got in (0, 1, -5, 2_359_295, 2_359_297, 10**100)}
    assert said == {"This is not the right number."}


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ValueError("bad\nshape \x1b[31m\u202e"), "It raised ValueError: bad shape �[31m�"),
        (RuntimeError(), "It raised RuntimeError."),
        (
            TypeError("unsupported operand: 'Tensor' and 'torch.return_types.max'"),
            "It raised TypeError: unsupported operand: 'Tensor' and 'torch.return_types.max'. "
            "It holds several results: take out `.values` or `.indices`.",
        ),
        (NotImplementedError(), "This is not written yet: it raises NotImplementedError."),
    ],
)
def test_an_exception_is_told(raised: Exception, said: str) -> None:
    assert compare(Raised.from_exception(raised), 64) == said


def test_messages_stay_readable_whatever_a_student_sends() -> None:
    for text in ("x" * 20_000, "\ud800" * 500, "\0" * 500, "\n" * 20_000):
        for got in (text, Raised(text[:200], text[:2000]), Unsupported(text[:200]), [text]):
            said = compare(got, 64)
            assert said is not None
            assert len(said) < 1000
            said.encode("utf-8")
            assert "\n" not in said
            assert "\0" not in said


# ---------------------------------------------------------------- tolerance


def far_by(distance: float, dtype: torch.dtype, reference: torch.dtype) -> str | None:
    """One number of an array whose scale is 8 is off by `distance` scales."""
    base = torch.tensor([8.0, 1.0], dtype=torch.float64)
    moved = base + torch.tensor([0.0, 8.0 * distance], dtype=torch.float64)
    return says(moved.to(dtype), base.to(reference))


@pytest.mark.parametrize(
    ("dtype", "reference", "allowed"),
    [
        (torch.float64, torch.float64, 1e-6),
        (torch.float32, torch.float32, 1e-4),
        (torch.float64, torch.float32, 1e-4),
        (torch.float32, torch.float64, 1e-4),
        (torch.float16, torch.float32, 4 * torch.finfo(torch.float16).eps),
        (torch.bfloat16, torch.float32, 4 * torch.finfo(torch.bfloat16).eps),
        (torch.bfloat16, torch.float64, 4 * torch.finfo(torch.bfloat16).eps),
    ],
)
def test_the_coarser_dtype_sets_the_tolerance(
    dtype: torch.dtype, reference: torch.dtype, allowed: float
) -> None:
    assert far_by(0.8 * allowed, dtype, reference) is None
    assert far_by(1.3 * allowed, dtype, reference) is not None


def test_a_given_tolerance_stands_except_for_half_precision() -> None:
    got, reference = tensor(8.08, 8), tensor(8, 8)
    assert says(got, reference) is not None
    assert says(got, reference, 0.02) is None
    assert says(tensor(8.0004), tensor(8.0)) is None
    assert says(tensor(8.0004), tensor(8.0), 1e-6) is not None
    assert says(X.bfloat16(), X, 1e-6) is None
    assert says(torch.tensor(0.3).half(), 0.3, 1e-6) is None


def test_plain_numbers_may_have_been_float32() -> None:
    assert says(0.3 * (1 + 5e-6), 0.3) is None
    assert says(0.3 * (1 + 5e-5), 0.3) is not None


@pytest.mark.parametrize("tolerance", [-1.0, math.nan, math.inf])
def test_a_tolerance_that_is_none_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="finite number from 0 up"):
        compare(1.0, 1.0, tolerance)


def attention(x: torch.Tensor, weights: list[torch.Tensor], *, scaled: bool) -> torch.Tensor:
    """Three heads by hand, all in the dtype of x."""
    q, k, v = (x @ weight for weight in weights[:3])
    heads = []
    for q_i, k_i, v_i in zip(q.chunk(3, -1), k.chunk(3, -1), v.chunk(3, -1), strict=True):
        scores = q_i @ k_i.transpose(1, 2)
        heads.append(torch.softmax(scores / 2 if scaled else scores, -1) @ v_i)
    return torch.cat(heads, -1) @ weights[3]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_honest_work_in_any_dtype_is_right_and_a_mistake_is_not(dtype: torch.dtype) -> None:
    for number in range(50):
        random = torch.Generator().manual_seed(number)
        weights = [torch.randn(12, 12, generator=random) / 12**0.5 for _ in range(4)]
        x = torch.randn(2, 5, 12, generator=random)
        reference = attention(x, weights, scaled=True)
        cast = [weight.to(dtype) for weight in weights]
        assert says(attention(x.to(dtype), cast, scaled=True), reference) is None
        assert says(attention(x.to(dtype), cast, scaled=False), reference) is not None


def test_tolerances_know_every_dtype_of_numbers_with_a_fraction() -> None:
    assert {"float16", "bfloat16", "float32", "float64", "complex64", "complex128"} < set(
        TOLERANCES
    )


# ---------------------------------------------------------------- an odd reference, small parts


@pytest.mark.parametrize("reference", [Raised("E", "m"), Unsupported("k"), [1, Raised("E", "m")]])
def test_a_reference_without_a_value_is_the_instructors_fault(reference: Value) -> None:
    with pytest.raises(ValueError, match="reference gives no value"):
        compare([1, 2] if isinstance(reference, list) else 1, reference)


def test_simplify() -> None:
    assert simplify(decode(encode([np.array(3), np.array(2.5), np.array(True)]))) == [3, 2.5, True]
    assert isinstance(simplify(decode(encode(np.float32(3)))), Array)


def test_whole_number() -> None:
    values: list[Value] = [64, 64.0, -0.0, 0.5, math.nan, math.inf, True, "64", None, [64]]
    assert [whole_number(value) for value in values] == [64, 64, 0, *[None] * 7]
    assert whole_number(decode(encode(torch.tensor(3.0)))) == 3


def test_describe_names_every_kind() -> None:
    for value in (None, True, 3, 0.5, math.nan, "x", [1], decode(encode(X)), Unsupported("k")):
        assert describe(value)


def test_readable_keeps_other_scripts() -> None:
    assert readable("Nguyễn Văn  Ánh\t注意") == "Nguyễn Văn Ánh 注意"
