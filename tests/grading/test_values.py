import json
import math
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grading import values
from grading.values import (
    ITEM_BYTES,
    Array,
    Malformed,
    Raised,
    Unsupported,
    Value,
    decode,
    encode,
)


def sent(obj: object) -> Value:
    """What arrives outside."""
    return decode(json.loads(json.dumps(encode(obj))))


def same(a: Value, b: Value) -> bool:
    """Equal in type and bit pattern; NaN is NaN, -0.0 is not 0.0."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    return type(a) is type(b) and a == b


# ---------------------------------------------------------------- plain values


@pytest.mark.parametrize(
    ("obj", "arrives"),
    [
        (768 / 12, 64.0),
        (768 // 12, 64),
        (np.int64(64), 64),
        (np.uint8(200), 200),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.str_("hai"), "hai"),
        (True, True),
        (None, None),
        (-0.0, -0.0),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        (5e-324, 5e-324),
        (-(10**150), -(10**150)),
        ("a\0b\ud800 Nguyễn 😀", "a\0b\ud800 Nguyễn 😀"),
        ((1, [2.0, "x"]), [1, [2.0, "x"]]),
        (range(3), [0, 1, 2]),
        ([], []),
        (torch.Size([2, 3]), [2, 3]),
        (torch.zeros(2, 3).shape, [2, 3]),
        (Raised("ValueError", "no"), Raised("ValueError", "no")),
    ],
)
def test_plain_values_arrive_as_they_are(obj: object, arrives: Value) -> None:
    assert same(sent(obj), arrives)


def test_float16_and_float32_scalars_keep_their_dtype() -> None:
    for scalar in (np.float32(0.1), np.float16(0.1)):
        value = sent(scalar)
        assert isinstance(value, Array)
        assert (value.dtype, value.shape) == (scalar.dtype.name, ())
        assert value.numpy() == scalar


honest_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**511), 2**511)
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.builds(Raised, st.text(max_size=20), st.text(max_size=20))
    | st.builds(Unsupported, st.text(max_size=20))
    | st.tuples(
        st.sampled_from(sorted(set(ITEM_BYTES) - {"bool"})), st.lists(st.integers(0, 3), max_size=4)
    ).flatmap(
        lambda kind: st.binary(
            min_size=ITEM_BYTES[kind[0]] * math.prod(kind[1]),
            max_size=ITEM_BYTES[kind[0]] * math.prod(kind[1]),
        ).map(lambda data: Array(kind[0], tuple(kind[1]), data))
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(honest_values)
def test_what_is_encoded_is_decoded(value: Value) -> None:
    def depth(item: Value) -> int:
        return 1 + max(map(depth, item), default=0) if isinstance(item, list) else 0

    if depth(value) <= values.MAX_DEPTH:
        assert same(sent(value), value)
    else:
        assert isinstance(sent(value), Unsupported)


# ---------------------------------------------------------------- arrays and tensors

BASE = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))

HONEST_TENSORS = {
    "requires grad": BASE.clone().requires_grad_(),
    "result of a computation": (BASE.clone().requires_grad_() * 2),
    "parameter": torch.nn.Parameter(BASE.clone()),
    "buffer": torch.nn.Buffer(BASE.clone()),
    "transposed": BASE.t(),
    "strided": BASE[:, ::2],
    "expanded": BASE[:1].expand(3, 6),
    "permuted": BASE.view(2, 2, 6).permute(2, 0, 1),
    "channels last": BASE.view(1, 2, 2, 6).to(memory_format=torch.channels_last),
    "conjugate view": torch.complex(BASE, BASE).conj(),
    "negative view": torch.complex(BASE, BASE).conj().imag,
    "contiguous negative view": torch._neg_view(BASE),
    "inference": torch.inference_mode()(lambda: BASE * 1)(),
    "sparse": BASE.to_sparse(),
    "empty": BASE[:0],
    "no dimensions": BASE[0, 0],
    "double": BASE.double(),
    "half": BASE.half(),
    "complex128": BASE.to(torch.complex128),
    "bool": BASE > 0,
    **{
        f"{dtype}": (BASE * 10).to(dtype)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64)
    },
    "uint8": (BASE.abs() * 10).to(torch.uint8),
}


@pytest.mark.parametrize("name", HONEST_TENSORS)
def test_tensors_arrive(name: str) -> None:
    tensor = HONEST_TENSORS[name]
    value = sent(tensor)
    assert isinstance(value, Array)
    assert value.dtype == str(tensor.dtype).removeprefix("torch.")
    expected = tensor.detach().to_dense().resolve_conj().resolve_neg().contiguous().numpy()
    assert value.numpy().dtype == expected.dtype
    np.testing.assert_array_equal(value.numpy(), expected)


def test_bfloat16_arrives_bit_for_bit() -> None:
    for tensor in (
        BASE.bfloat16(),
        BASE.bfloat16().t(),
        BASE.bfloat16()[0, 0],
        BASE.bfloat16()[:0],
    ):
        value = sent(tensor)
        assert isinstance(value, Array)
        assert value.dtype == "bfloat16"
        np.testing.assert_array_equal(value.numpy(), tensor.float().numpy())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_cuda_tensors_arrive() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        value = sent(BASE.to("cuda", dtype).t())
        assert isinstance(value, Array)
        np.testing.assert_array_equal(value.numpy(), BASE.to(dtype).float().t().numpy())


def test_wide_unsigned_integers_arrive_as_int64() -> None:
    for obj in (np.array([1, 2**32 - 1], dtype=np.uint32), torch.tensor([7], dtype=torch.uint16)):
        value = sent(obj)
        assert isinstance(value, Array)
        assert value.dtype == "int64"
        assert value.numpy().tolist() == obj.tolist()
    assert isinstance(sent(np.array([2**63], dtype=np.uint64)), Unsupported)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(4, 6)[::-1, ::2],
        np.arange(6, dtype=">i4").reshape(2, 3).T,
        np.arange(3, dtype=">f8"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(5),
        np.zeros((0, 3), dtype=np.float32),
        np.array([1j, 2]),
        np.array([True, False]),
    ],
)
def test_numpy_arrays_arrive_in_native_order(array: np.ndarray[Any, Any]) -> None:
    value = sent(array)
    assert isinstance(value, Array)
    assert value.numpy().dtype.isnative
    assert value.shape == array.shape
    np.testing.assert_array_equal(value.numpy(), array)


def test_a_decoded_array_cannot_be_written_to() -> None:
    value = sent(np.arange(3))
    assert isinstance(value, Array)
    with pytest.raises(ValueError, match="read-only"):
        value.numpy()[0] = 5


# ---------------------------------------------------------------- odd and too big


class EqualToEverything:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class LiesAboutItsClass:
    __class__ = int  # type: ignore[assignment]


class Raises:
    def boom(self, *_: object) -> Any:
        raise SystemExit("boom")

    __len__ = __iter__ = __array__ = __float__ = __index__ = __str__ = __repr__ = boom
    __bool__ = __eq__ = __hash__ = __getitem__ = boom  # type: ignore[assignment]
    __class__ = property(boom)  # type: ignore[assignment]


class LyingMeta(type):
    __name__ = property(lambda cls: 1 / 0)  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        return True

    def __hash__(cls) -> int:
        return hash(int)

    def __subclasscheck__(cls, other: object) -> bool:
        return True


class Lies(metaclass=LyingMeta):
    pass


class MyInt(int):
    pass


class MyList(list[int]):
    def __len__(self) -> int:
        return -5


# By name: pytest itself would stumble over some of them as parameters.
ODD: dict[str, object] = {
    "equal to everything": EqualToEverything(),
    "a false class": LiesAboutItsClass(),
    "raises at every touch": Raises(),
    "a false metaclass": Lies(),
    "int subclass": MyInt(64),
    "list subclass": MyList([64]),
    "float subclass": type("F", (float,), {})(1.0),
    "str subclass": type("S", (str,), {})("x"),
    "array subclass": type("A", (np.ndarray,), {})(2),
    "NumPy scalar subclass": type("N", (np.float64,), {})(2),
    "dict": {"a": 1},
    "set": {1},
    "bytes": b"64",
    "iterator": iter([1]),
    "function": len,
    "class": int,
    "object": object(),
    "module": torch.nn.Linear(2, 2),
    "meta tensor": torch.empty(3, device="meta"),
    "float8": torch.zeros(2, dtype=torch.float8_e5m2),
    "object array": np.array([object()]),
    "array of texts": np.array(["64"]),
    "structured array": np.array([(1, 2.0)], dtype="i4,f4"),
    "timedelta": np.timedelta64(3, "s"),
    "date": np.datetime64("2024-01-01"),
    "long double": np.longdouble(1),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_objects_are_unsupported_and_raise_nothing(name: str) -> None:
    assert isinstance(sent(ODD[name]), Unsupported)
    assert isinstance(sent([1, ODD[name]]), list | Unsupported)


def test_a_long_name_is_cut_also_where_it_pretends_to_be_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind = type("long" * 100, (), {})
    assert isinstance(sent(kind()), Unsupported)
    monkeypatch.setattr(torch.return_types, "mine", kind, raising=False)
    assert isinstance(sent(kind()), Unsupported)


def test_unsupported_names_the_type() -> None:
    assert sent({}) == Unsupported("a value of type dict")
    assert sent(np.array([object()])) == Unsupported("a NumPy array of dtype object")


def test_a_tensor_subclass_sends_plain_data_and_none_of_its_hooks_run() -> None:
    class Liar(torch.Tensor):
        shape = (1, 1)

        @classmethod
        def __torch_function__(cls, *_: object, **__: object) -> Any:
            raise SystemExit("a hook ran")

        def detach(self) -> Any:
            return 64

        def numpy(self, *, force: bool = False) -> Any:
            return np.zeros(3)

    value = sent(BASE.as_subclass(Liar))
    assert isinstance(value, Array)
    np.testing.assert_array_equal(value.numpy(), BASE.numpy())


def test_a_fake_torch_module_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", Raises())
    assert sent([64, "x"]) in ([64, "x"], Unsupported("a value of type list"))


def cyclic(width: int) -> list[Any]:
    items: list[Any] = []
    items.extend([items] * width)
    return items


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


TOO_MUCH = {
    "a list in itself": cyclic(1),
    "a list often in itself": cyclic(50),
    "too deep": nested(values.MAX_DEPTH + 1),
    "too many items": [0] * values.MAX_ITEMS,
    "too many items in all": [[0] * 100] * 101,
    "an endless range": range(10**30),
    "a huge number": 1 << 512,
    "a huge negative number": -(1 << 512),
    "a number that Python does not print": 10**100_000,
    "a long text": "x" * (values.MAX_CHARACTERS + 1),
    "a large array": np.zeros(values.MAX_ARRAY_BYTES + 1, dtype=np.uint8),
    "large arrays": [np.zeros(values.MAX_ARRAY_BYTES // 2 + 1, dtype=np.uint8)] * 2,
    "many dimensions": np.zeros((1,) * 9),
    "an empty array with a huge side": np.zeros((0, 2**40)),
    "a huge view": np.broadcast_to(np.float64(1), (10**6, 10**6)),
    "a huge unsigned view": np.broadcast_to(np.uint32(1), (10**6, 10**6)),
    "a huge expanded tensor": torch.zeros(1).expand(10**12),
    "a huge sparse tensor": torch.sparse_coo_tensor(
        torch.zeros(1, 0).long(), torch.zeros(0), (10**12,), check_invariants=True
    ),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_too_much_is_unsupported(name: str) -> None:
    assert isinstance(sent(TOO_MUCH[name]), Unsupported)


def test_what_just_fits_arrives() -> None:
    assert same(sent(nested(values.MAX_DEPTH)), nested(values.MAX_DEPTH))
    assert sent([0] * (values.MAX_ITEMS - 1)) == [0] * (values.MAX_ITEMS - 1)
    assert sent((1 << 512) - 1) == (1 << 512) - 1
    value = sent(np.ones(values.MAX_ARRAY_BYTES, dtype=np.uint8))
    assert isinstance(value, Array)
    assert len(value.data) == values.MAX_ARRAY_BYTES


def test_exceptions_are_described_whatever_they_say() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert Raised.from_exception(ValueError("a\0")) == Raised("ValueError", "a\0")
    assert Raised.from_exception(Rude()).kind == "Rude"
    long = Raised.from_exception(ValueError("x" * 10**6))
    assert same(sent(long), long)
    assert len(long.message) == values.MAX_MESSAGE


# ---------------------------------------------------------------- what an attacker writes


def array_wire(**changes: object) -> Any:
    wire: dict[str, Any] = {"dtype": "float32", "shape": [2], "data": "AAAAAAAAAAA="}
    wire.update(changes)
    return {"array": {key: value for key, value in wire.items() if value != "left out"}}


def nested_wire(depth: int) -> Any:
    return {"list": [nested_wire(depth - 1)] if depth > 1 else []}


MALFORMED: dict[str, Any] = {
    "no object": [],
    "null": None,
    "a bare number": 64,
    "no key": {},
    "two keys": {"int": "1", "bool": True},
    "unknown key": {"object": "x"},
    "none with content": {"none": 0},
    "a number for a boolean": {"bool": 1},
    "a text for a boolean": {"bool": "true"},
    "a bare int": {"int": 1},
    "a boolean for an int": {"int": True},
    "int with a plus": {"int": "+1"},
    "int with a zero": {"int": "01"},
    "minus zero": {"int": "-0"},
    "int with spaces": {"int": " 1"},
    "int with a line end": {"int": "1\n"},
    "int with an underscore": {"int": "1_0"},
    "other digits": {"int": "٣"},
    "empty int": {"int": ""},
    "too many bits": {"int": str(1 << 512)},
    "too many digits": {"int": "9" * 100_000},
    "a bare float": {"float": 0.5},
    "NaN": {"float": math.nan},
    "a decimal float": {"float": "0.5"},
    "NaN in capitals": {"float": "NaN"},
    "overflow": {"float": "0x1p+99999"},
    "another spelling": {"float": "0x1p+0"},
    "a long float": {"float": "0x" + "1" * 10**5},
    "a long text": {"str": "x" * (values.MAX_CHARACTERS + 1)},
    "no text": {"str": 3},
    "no list": {"list": "ab"},
    "a bare item": {"list": [1]},
    "too deep": nested_wire(values.MAX_DEPTH + 1),
    "much too deep": nested_wire(400),
    "too many items": {"list": [{"bool": True}] * values.MAX_ITEMS},
    "raised without message": {"raised": {"kind": "x"}},
    "raised with more": {"raised": {"kind": "x", "message": "y", "points": 5}},
    "raised with a long message": {"raised": {"kind": "x", "message": "y" * 2001}},
    "raised with a list": {"raised": ["kind", "message"]},
    "unsupported without kind": {"unsupported": None},
    "array: a field more": array_wire(tolerance=1e9),
    "array: a field less": array_wire(data="left out"),
    "array: object dtype": array_wire(dtype="object"),
    "array: dtype in pieces": array_wire(dtype=["float32"]),
    "array: dtype code": array_wire(dtype="<f4"),
    "array: negative size": array_wire(shape=[-2]),
    "array: two negative sizes": array_wire(shape=[-1, -2]),
    "array: boolean size": array_wire(shape=[2, True]),
    "array: float size": array_wire(shape=[2.0]),
    "array: text as shape": array_wire(shape="2"),
    "array: nine dimensions": array_wire(shape=[2] + [1] * 8),
    "array: huge size": array_wire(shape=[10**12]),
    "array: overflowing product": array_wire(shape=[2**32, 2**32, 2]),
    "array: huge empty": array_wire(shape=[0, 2**40], data=""),
    "array: huge empty product": array_wire(shape=[0] + [2**20] * 7, data=""),
    "array: too short": array_wire(shape=[3]),
    "array: too long": array_wire(shape=[1]),
    "array: no padding": array_wire(data="AAAAAAAAAAA"),
    "array: other bits in the padding": array_wire(data="AAAAAAAAAAB="),
    "array: line end in base64": array_wire(data="AAAAAAAAAA\n="),
    "array: url alphabet": array_wire(data="AAAAAAAA__8="),
    "array: not ASCII": array_wire(data="AAAAAAAAAAé="),
    "array: bytes as numbers": array_wire(data=[0] * 8),
    "array: boolean 2": array_wire(dtype="bool", shape=[1], data="Ag=="),
    "array: too many bytes in all": {
        "list": [
            array_wire(dtype="uint8", shape=[3 << 20], data="AAAA" * (1 << 20)) for _ in range(3)
        ]
    },
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_wires_are_refused(name: str) -> None:
    with pytest.raises(Malformed):
        decode(MALFORMED[name])


WORDS = [
    *("none", "bool", "int", "float", "str", "list", "array", "raised", "unsupported"),
    *("dtype", "shape", "data", "kind", "message"),
]
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(WORDS),
            inner | st.sampled_from(sorted(ITEM_BYTES)),
            max_size=3,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=300)
@given(any_json)
def test_decode_raises_nothing_but_malformed(wire: Any) -> None:
    try:
        value = decode(wire)
    except Malformed:
        return
    assert same(decode(encode(value)), value)


@settings(deadline=None, max_examples=200)
@given(honest_values, st.data())
def test_a_changed_wire_is_malformed_or_reads_as_it_is_written(value: Value, data: Any) -> None:
    text = json.dumps(encode(value))
    position = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from('0123456789"[]{},:ABef-+. truenl'))
    try:
        wire = json.loads(text[:position] + letter + text[position + 1 :])
        arrived = decode(wire)
    except ValueError:  # JSON's or ours; both are one
        return
    assert encode(arrived) == wire
