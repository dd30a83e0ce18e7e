"""What the tests of attention share: random arguments, the reference's answer to them, limits."""

import re

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_lib import attention, reference

# The `device` fixture gives the same string to every example.
PROPERTY = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
BACKENDS = ("explicit", "sdpa", "window", "auto")
# How far a result may be from the float64 reference, for numbers of size about 1.
TOLERANCE = {
    torch.float64: 1e-10,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}
DTYPES = tuple(TOLERANCE)
Sizes = tuple[int, int, int, int]  # B, h, L, S
SEEDS = st.integers(0, 2**16)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@st.composite
def shapes(draw: st.DrawFn, sizes: Sizes, one_row: bool = False) -> list[int]:
    """Shapes that broadcast to `sizes`; with one_row, the same for every query."""
    axes = draw(st.integers(0, 4))
    shape = [draw(st.sampled_from([1, size])) for size in sizes[4 - axes :]]
    if one_row and axes > 1:
        shape[-2] = 1
    return shape


@st.composite
def masks(draw: st.DrawFn, sizes: Sizes, one_row: bool = False) -> Tensor | None:
    """No mask, or one that broadcasts; blind queries are welcome."""
    if draw(st.booleans()):
        return None
    chance = draw(st.sampled_from([0.2, 0.5, 0.9]))
    return torch.rand(draw(shapes(sizes, one_row)), generator=seeded(draw(SEEDS))) < chance


@st.composite
def biases(draw: st.DrawFn, sizes: Sizes) -> Tensor | None:
    """No bias, or one that broadcasts; -inf hides some, or whole rows."""
    if draw(st.booleans()):
        return None
    generator = seeded(draw(SEEDS))
    bias = torch.randn(draw(shapes(sizes)), generator=generator)
    chance = draw(st.sampled_from([0.0, 0.3, 1.0]))
    bias = bias.masked_fill(torch.rand(bias.shape, generator=generator) < chance, -torch.inf)
    # Kernels choose another way where the bias is to get a gradient.
    return bias.to(draw(st.sampled_from(DTYPES))).requires_grad_(draw(st.booleans()))


@st.composite
def windows(draw: st.DrawFn, bounded: bool, causal: bool) -> int | tuple[int | None, int | None]:
    """One number or two; with bounded, such as the backend "window" takes."""
    reach = st.integers(0, 4)
    left = reach if bounded else st.none() | reach
    right = reach if bounded and not causal else st.none() | reach
    return draw(reach | st.tuples(left, right))


@st.composite
def inputs(
    draw: st.DrawFn,
    backend: str = "explicit",
    dtypes: tuple[torch.dtype, ...] = (torch.float64,),
    square: bool = False,
) -> dict[str, object]:
    """Arguments of `attention` that this backend can compute."""
    size = st.integers(1, 4)
    B, h_kv, groups, L, S, d_k, d_v = (draw(size) for _ in range(7))
    h, S = h_kv * min(groups, 2), L if square else S
    dtype = draw(st.sampled_from(dtypes))
    chunked = backend == "window"
    causal = draw(st.booleans())
    generator = seeded(draw(SEEDS))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return {
        "query": normal(B, h, L, d_k),
        "key": normal(B, h_kv, S, d_k),
        "value": normal(B, h_kv, S, d_v),
        "mask": draw(masks((B, h, L, S), one_row=chunked)),
        "bias": None if chunked else draw(biases((B, h, L, S))),
        "causal": causal,
        "window": draw(windows(chunked, causal) if chunked else st.none() | windows(False, causal)),
        "scale": draw(st.sampled_from([None, 0.3, 0.0, -0.7])),
        "softcap": draw(st.sampled_from([None, 0.5, 3.0])) if backend in TAKE_SOFTCAP else None,
    }


TAKE_SOFTCAP = ("explicit", "auto")


def on(device: str, arguments: dict[str, object]) -> dict[str, object]:
    return {k: x.to(device) if isinstance(x, Tensor) else x for k, x in arguments.items()}


def oracle(arguments: dict[str, object]) -> tuple[Tensor, Tensor]:
    """Output and weights of the NumPy reference."""
    numpy = {
        name: (x if x.dtype == torch.bool else x.detach().double()).numpy()
        if isinstance(x, Tensor)
        else x
        for name, x in arguments.items()
    }
    output, weights = reference.attention(**numpy)
    return torch.from_numpy(output), torch.from_numpy(weights)


def with_gradients(arguments: dict[str, object]) -> list[Tensor]:
    """Ask for the gradients of all that can have one, and return these."""
    tensors = [arguments[name] for name in ("query", "key", "value", "bias")]
    return [x.requires_grad_() for x in tensors if x is not None]


def heads(*shape: int, **options: object) -> list[Tensor]:
    """Query, key and value of one shape."""
    return [torch.randn(shape, **options) for _ in range(3)]


def says(text: str) -> str:
    """Match the whole message."""
    return f"^{re.escape(text)}$"


def zeros(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


def check_finite_says(name: str, bad: str, count: int, total: int, at: list[int]) -> str:
    """The message of `check_finite`."""
    return (
        f"{name} is the first step that is not finite: {count} of {total} numbers, the first at "
        f"{at}, which is {bad}; the steps before it are finite, so look at what it is made from"
    )


def same_on_all(arguments: dict[str, object], backends: tuple[str, ...] = BACKENDS) -> Tensor:
    """The output, after a look whether these backends agree on it."""
    first, *others = [attention(**arguments, backend=backend) for backend in backends]
    for other in others:
        torch.testing.assert_close(other, first)
    return first
