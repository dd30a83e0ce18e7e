"""What a value looks like on its way out of the sandbox.

`encode` runs inside, next to the student's code: any object becomes something that JSON can
carry. `decode` runs outside and reads what the student may have written: it takes exactly what
`encode` makes and refuses the rest. Between the two a value is data, never an object with
methods of its own, so nothing a student defines can speak for it.
"""

import base64
import binascii
import math
import re
import sys
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

MAX_DEPTH = 8  # lists inside lists
MAX_ITEMS = 10_000  # values in all, lists counted as well
MAX_ARRAY_BYTES = 8 << 20  # in all
MAX_DIMENSIONS = 8
MAX_CHARACTERS = 20_000  # in one text
MAX_INT_BITS = 512
MAX_KIND = 200  # characters that name a type
MAX_MESSAGE = 2_000  # characters of an exception's message

# The wire is little-endian. NumPy has no bfloat16: its raw bytes are read as integers.
_NUMPY_DTYPES = {
    "bool": "|b1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "float16": "<f2",
    "bfloat16": "<u2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
}
ITEM_BYTES = {name: np.dtype(code).itemsize for name, code in _NUMPY_DTYPES.items()}

_NUMPY_SCALARS = frozenset(np.sctypeDict.values())


class Malformed(ValueError):
    """The wire holds something that `encode` does not make."""


@dataclass(frozen=True)
class Array:
    """An array or tensor as data: the dtype's name, the shape, the bytes in C order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def numpy(self) -> np.ndarray[Any, Any]:
        """Give a read-only NumPy array; bfloat16 becomes float32, which holds it exactly.

        >>> Array("int64", (2,), bytes([1] + 7 * [0] + [2] + 7 * [0])).numpy()
        array([1, 2])
        """
        raw = np.frombuffer(self.data, dtype=_NUMPY_DTYPES[self.dtype])
        if self.dtype == "bfloat16":
            raw = (raw.astype("<u4") << 16).view("<f4")
        native = raw.astype(raw.dtype.newbyteorder("="), copy=False).reshape(self.shape)
        native.flags.writeable = False
        return native


@dataclass(frozen=True)
class Raised:
    """The student's callable raised an exception instead of giving a value."""

    kind: str
    message: str

    @classmethod
    def from_exception(cls, error: BaseException) -> "Raised":
        """Describe an exception, also one whose message cannot be read."""
        try:
            message = str(error)
        except Exception:
            message = "(its message cannot be read)"
        return cls(_type_name(error)[:MAX_KIND], _plain(message)[:MAX_MESSAGE])


@dataclass(frozen=True)
class Unsupported:
    """A value that cannot be sent; `kind` is a phrase like "a value of type dict"."""

    kind: str


Value: TypeAlias = "bool | int | float | str | list[Value] | Array | Raised | Unsupported | None"


class _CannotSend(Exception):
    """Why a value cannot be sent, as a phrase."""


class _Budget:
    """Counts what one message holds, on both sides, so that they agree on what is too much."""

    def __init__(self) -> None:
        self.items = 0
        self.array_bytes = 0

    def take_item(self) -> None:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise _CannotSend(f"more than {MAX_ITEMS} items")

    def take_array(self, shape: tuple[int, ...], item_bytes: int) -> int:
        """Give the array's size in bytes, or refuse it."""
        size_in_bytes = _array_bytes(shape, item_bytes)
        self.array_bytes += size_in_bytes
        if self.array_bytes > MAX_ARRAY_BYTES:
            raise _CannotSend(f"arrays of more than {MAX_ARRAY_BYTES >> 20} MiB in all")
        return size_in_bytes


def _array_bytes(shape: tuple[int, ...], item_bytes: int) -> int:
    if len(shape) > MAX_DIMENSIONS:
        raise _CannotSend(f"an array of more than {MAX_DIMENSIONS} dimensions")
    # An empty array may not have huge dimensions either: NumPy refuses to reshape to them.
    if math.prod(max(size, 1) for size in shape) * item_bytes > MAX_ARRAY_BYTES:
        raise _CannotSend(f"an array of more than {MAX_ARRAY_BYTES >> 20} MiB")
    return math.prod(shape) * item_bytes


def encode(obj: object) -> Any:
    """Turn any object into what JSON can carry; never raises an `Exception`.

    Numbers, strings, lists, tuples, ranges, NumPy arrays and torch tensors arrive as they are.
    Everything else, or too much of it, becomes {"unsupported": a phrase that says what it is}.

    >>> encode([64, 0.5, "d_k"])
    {'list': [{'int': '64'}, {'float': '0x1.0000000000000p-1'}, {'str': 'd_k'}]}
    >>> encode({"a": 1})
    {'unsupported': 'a value of type dict'}
    """
    try:
        return _encode(obj, 0, _Budget())
    except _CannotSend as reason:
        return {"unsupported": str(reason)}
    except Exception:
        return {"unsupported": _of_type(obj)}


# Types are asked exactly, through `type` and `is`: an object may lie about its `__class__`, its
# type about `==`, and a subclass of `int` may say what it likes.
def _encode(obj: Any, depth: int, budget: _Budget) -> Any:
    budget.take_item()
    cls = type(obj)
    torch: Any = sys.modules.get("torch")
    if obj is None:
        return {"none": None}
    if cls is bool:
        return {"bool": obj}
    if cls is int:
        return _encode_int(obj)
    if cls is float:
        return {"float": _float_text(obj)}
    if cls is str:
        return _encode_str(obj)
    if cls is complex:
        return _encode_numpy(np.asarray(obj), budget)
    if cls is list or cls is tuple or cls is range or (torch and cls is torch.Size):
        return _encode_list(obj, depth, budget)
    if cls is np.ndarray:
        return _encode_numpy(obj, budget)
    if any(cls is scalar for scalar in _NUMPY_SCALARS):
        return _encode_numpy_scalar(obj, budget)
    if torch and issubclass(cls, torch.Tensor):
        return _encode_tensor(torch, obj, budget)
    if cls is Array:
        return _array_wire(obj, budget)
    if cls is Raised:
        return {"raised": {"kind": obj.kind[:MAX_KIND], "message": obj.message[:MAX_MESSAGE]}}
    if cls is Unsupported:
        return {"unsupported": obj.kind[:MAX_KIND]}
    if torch and any(cls is several for several in vars(torch.return_types).values()):
        return {"unsupported": f"a value of type torch.return_types.{_type_name(obj)}"[:MAX_KIND]}
    return {"unsupported": _of_type(obj)}


def _encode_int(number: int) -> Any:
    if number.bit_length() > MAX_INT_BITS:
        raise _CannotSend(f"a whole number of more than {MAX_INT_BITS} bits")
    return {"int": str(number)}


def _encode_str(text: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise _CannotSend(f"a text of more than {MAX_CHARACTERS} characters")
    return {"str": text}


def _encode_list(items: Any, depth: int, budget: _Budget) -> Any:
    if depth == MAX_DEPTH:
        raise _CannotSend(f"lists nested more than {MAX_DEPTH} deep")
    # A range may be longer than any memory: it is read one by one, until the budget ends.
    return {"list": [_encode(item, depth + 1, budget) for item in items]}


def _encode_numpy_scalar(scalar: Any, budget: _Budget) -> Any:
    if isinstance(scalar, np.bool_):
        return {"bool": bool(scalar)}
    if isinstance(scalar, np.integer) and scalar.dtype.kind in "iu":  # a timedelta is one, too
        return _encode_int(int(scalar))
    if isinstance(scalar, np.float64):
        return {"float": _float_text(float(scalar))}
    if isinstance(scalar, np.str_):
        return _encode_str(_plain(scalar))
    # float16 and float32 keep their dtype: the comparison must know how exact they can be.
    return _encode_numpy(np.asarray(scalar), budget)


def _encode_numpy(array: np.ndarray[Any, Any], budget: _Budget) -> Any:
    if array.dtype in (np.uint16, np.uint32, np.uint64):
        _array_bytes(array.shape, 8)  # refuses what is too big before it is copied
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise _CannotSend("an array of unsigned integers above 2**63 - 1")
        array = array.astype(np.int64)
    name = array.dtype.name
    if name not in ITEM_BYTES or name == "bfloat16":  # NumPy's own has none; others differ
        raise _CannotSend(f"a NumPy array of dtype {name}")
    budget.take_array(array.shape, array.itemsize)
    data = array.astype(_NUMPY_DTYPES[name], copy=False).tobytes()
    return _wire_of_array(name, array.shape, data)


def _encode_tensor(torch: Any, tensor: Any, budget: _Budget) -> Any:
    # A subclass's own methods are left out: `torch.Tensor`'s are asked, without its hooks.
    with torch._C.DisableTorchFunctionSubclass():
        plain = torch.Tensor.detach(tensor)  # a plain tensor, also for a subclass
        _array_bytes(tuple(plain.shape), plain.element_size())  # before anything is copied
        name = str(plain.dtype).removeprefix("torch.")
        if plain.layout is not torch.strided:
            plain = plain.to_dense()
        plain = plain.cpu().resolve_conj().resolve_neg().contiguous()
        if plain.dtype is torch.bfloat16:
            raw = plain.view(torch.int16).numpy()
            budget.take_array(raw.shape, raw.itemsize)
            return _wire_of_array("bfloat16", raw.shape, raw.astype("<i2", copy=False).tobytes())
        if name not in ITEM_BYTES and name not in ("uint16", "uint32", "uint64"):
            raise _CannotSend(f"a tensor of dtype {name}")
        return _encode_numpy(plain.numpy(), budget)


def _array_wire(array: Array, budget: _Budget) -> Any:
    budget.take_array(array.shape, ITEM_BYTES[array.dtype])
    return _wire_of_array(array.dtype, array.shape, array.data)


def _wire_of_array(dtype: str, shape: tuple[int, ...], data: bytes) -> Any:
    text = base64.b64encode(data).decode("ascii")
    return {"array": {"dtype": dtype, "shape": [int(size) for size in shape], "data": text}}


def _float_text(number: float) -> str:
    return number.hex()  # gives "nan", "inf" and "-inf" as well


def _plain(text: str) -> str:
    """Give an exact `str`, also for a subclass with methods of its own."""
    return str.__add__(text, "")


_name_of_type = type.__dict__["__name__"].__get__  # a metaclass may lie about its `__name__`


def _type_name(obj: object) -> str:
    return str(_name_of_type(type(obj)))


def _of_type(obj: object) -> str:
    return f"a value of type {_type_name(obj)}"[:MAX_KIND]


def decode(wire: object) -> Value:
    """Read one value, trusting nothing; raises `Malformed` for all that `encode` does not make.

    >>> decode({"list": [{"int": "64"}, {"bool": True}]})
    [64, True]
    >>> decode({"int": "064"})
    Traceback (most recent call last):
    grading.values.Malformed: not a whole number as it is written on the wire
    """
    try:
        return _decode(wire, 0, _Budget())
    except _CannotSend as reason:
        raise Malformed(str(reason)) from None


def _decode(wire: object, depth: int, budget: _Budget) -> Value:
    budget.take_item()
    if type(wire) is not dict or len(wire) != 1:
        raise Malformed("a value is an object with one key that says its kind")
    ((tag, content),) = wire.items()
    if tag == "none" and content is None:
        return None
    if tag == "bool" and type(content) is bool:
        return content
    if tag == "int":
        return _decode_int(content)
    if tag == "float":
        return _decode_float(content)
    if tag == "str":
        return _text(content, MAX_CHARACTERS)
    if tag == "list":
        return _decode_list(content, depth, budget)
    if tag == "array":
        return _decode_array(content, budget)
    if tag == "raised":
        kind, message = _fields(content, "kind", "message")
        return Raised(_text(kind, MAX_KIND), _text(message, MAX_MESSAGE))
    if tag == "unsupported":
        return Unsupported(_text(content, MAX_KIND))
    raise Malformed("a kind of value that does not exist, or one with the wrong content")


def _fields(content: object, *names: str) -> tuple[Any, ...]:
    if type(content) is not dict or content.keys() != set(names):
        raise Malformed(f"the fields must be exactly {', '.join(names)}")
    return tuple(content[name] for name in names)


def _text(content: object, longest: int) -> str:
    if type(content) is not str or len(content) > longest:
        raise Malformed(f"not a text of at most {longest} characters")
    return content


def _decode_int(content: object) -> int:
    digits = _text(content, 160)  # 512 bits are 155 digits
    if re.fullmatch(r"0|-?[1-9][0-9]*", digits, re.ASCII) is None:
        raise Malformed("not a whole number as it is written on the wire")
    number = int(digits)
    if number.bit_length() > MAX_INT_BITS:
        raise Malformed(f"a whole number of more than {MAX_INT_BITS} bits")
    return number


def _decode_float(content: object) -> float:
    text = _text(content, 40)
    try:
        number = float.fromhex(text)
    except (ValueError, OverflowError):
        raise Malformed("not a number as it is written on the wire") from None
    if _float_text(number) != text:
        raise Malformed("not a number as it is written on the wire")
    return number


def _decode_list(content: object, depth: int, budget: _Budget) -> list[Value]:
    if type(content) is not list:
        raise Malformed("a list's content must be a list")
    if depth == MAX_DEPTH:
        raise Malformed(f"lists nested more than {MAX_DEPTH} deep")
    return [_decode(item, depth + 1, budget) for item in content]


def _decode_array(content: object, budget: _Budget) -> Array:
    dtype, sizes, text = _fields(content, "dtype", "shape", "data")
    if type(dtype) is not str or dtype not in ITEM_BYTES:
        raise Malformed("a dtype that is not on the list")
    if type(sizes) is not list or len(sizes) > MAX_DIMENSIONS:
        raise Malformed(f"a shape must be a list of at most {MAX_DIMENSIONS} whole numbers")
    if not all(type(size) is int and 0 <= size <= MAX_ARRAY_BYTES for size in sizes):
        raise Malformed("a shape's sizes must be whole numbers from 0 up")
    shape = tuple(sizes)
    size_in_bytes = budget.take_array(shape, ITEM_BYTES[dtype])
    if type(text) is not str or len(text) != 4 * math.ceil(size_in_bytes / 3):
        raise Malformed("an array's data must be as long as dtype and shape say")
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise Malformed("an array's data must be base64") from None
    # base64 has several spellings of the same bytes; only the one that `encode` writes is read.
    if len(data) != size_in_bytes or base64.b64encode(data).decode("ascii") != text:
        raise Malformed("an array's data must be as long as dtype and shape say")
    if dtype == "bool" and data.translate(None, b"\x00\x01"):
        raise Malformed("a boolean must be 0 or 1")
    return Array(dtype, shape, data)
