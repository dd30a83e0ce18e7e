"""The page's own attention.js computes what mha_lib computes, for any input."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from benchmarks.chromium import shared_browser
from mha_lib import MultiHeadAttention, attention
from mha_lib.widgets.assets import inlined_module

Run = Callable[[str, Any], Any]

# One page serves all examples: it holds no state between them.
many = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Call one of attention.js's functions: run("softmax", [scores])."""
    page = shared_browser().new_page()
    page.evaluate(
        """async source => {
          const blob = new Blob([source], { type: "text/javascript" });
          globalThis.attentionModule = await import(URL.createObjectURL(blob));
          globalThis.readable = value => {
            // JSON knows no -Infinity.
            if (value === -Infinity) return "-inf";
            if (Array.isArray(value)) return value.map(readable);
            if (value && typeof value === "object")
              return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, readable(v)]));
            return value;
          };
        }""",
        inlined_module("attention.js"),
    )

    def call(function: str, arguments: list[Any]) -> Any:
        return page.evaluate(
            """([name, given]) => {
              try { return { value: readable(attentionModule[name](...given)) }; }
              catch (error) { return { error: error.message }; }
            }""",
            [function, arguments],
        )

    yield call
    page.close()


def tensor(value: Any) -> Tensor:
    def plain(each: Any) -> Any:
        return [plain(one) for one in each] if isinstance(each, list) else float(each)

    return torch.tensor(plain(value), dtype=torch.float64)


def assert_close(one: Any, other: Tensor) -> None:
    torch.testing.assert_close(tensor(one), other, atol=1e-9, rtol=1e-9)


@dataclass
class Call:
    """Random numbers for one call, and the options it is made with."""

    generator: torch.Generator
    spread: float
    queries: int
    keys: int
    mask: Tensor | None
    causal: bool
    scale: float | None

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64) * self.spread

    def options(self) -> dict[str, Any]:
        """The options as attention.js takes them: what is not given is left out."""
        mask = None if self.mask is None else self.mask.tolist()
        everything = {"mask": mask, "causal": self.causal, "scale": self.scale}
        return {name: value for name, value in everything.items() if value is not None}


@st.composite
def calls(draw: st.DrawFn, *, own_scale: bool = True, square: bool = False) -> Call:
    queries = draw(st.integers(1, 6))
    keys = queries if square else draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    kept = draw(st.sampled_from([None, 0.2, 0.7]))
    return Call(
        generator=generator,
        spread=draw(st.sampled_from([0.1, 1.0, 10.0])),
        queries=queries,
        keys=keys,
        mask=None if kept is None else torch.rand(queries, keys, generator=generator) < kept,
        causal=draw(st.booleans()),
        scale=draw(st.sampled_from([None, 0.25, 1.0])) if own_scale else None,
    )


@many
@given(call=calls(), width=st.integers(1, 5), value_width=st.integers(1, 5))
def test_attention_equals_mha_libs(run: Run, call: Call, width: int, value_width: int) -> None:
    query = call.numbers(1, 1, call.queries, width)
    key = call.numbers(1, 1, call.keys, width)
    value = call.numbers(1, 1, call.keys, value_width)
    trace = attention(
        query, key, value, mask=call.mask, causal=call.causal, scale=call.scale, trace=True
    )
    arguments = [*(each[0, 0].tolist() for each in (query, key, value)), call.options()]
    page = run("attention", arguments)["value"]
    for stage in ("scores", "masked_scores", "weights", "head_out"):
        assert_close(page[stage], getattr(trace, stage)[0, 0])


@many
@given(
    call=calls(own_scale=False, square=True), heads=st.integers(1, 4), head_dim=st.integers(1, 4)
)
def test_every_stage_of_multi_head_attention_equals_mha_libs(
    run: Run, call: Call, heads: int, head_dim: int
) -> None:
    width = heads * head_dim  # d_model
    x = call.numbers(1, call.queries, width)
    layer = MultiHeadAttention(width, heads, bias=False, causal=call.causal, dtype=torch.float64)
    matrices = {name: call.numbers(width, width) for name in ("W_Q", "W_K", "W_V", "W_O")}
    linears = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    with torch.no_grad():
        for linear, matrix in zip(linears, matrices.values(), strict=True):
            linear.weight.copy_(matrix.T)
        trace = layer(x, mask=call.mask, trace=True)
    as_lists = {name: matrix.tolist() for name, matrix in matrices.items()}
    arguments = [x[0].tolist(), as_lists, heads, call.options()]
    page = run("multiHeadAttention", arguments)["value"]
    assert len(page) == 10
    for stage, steps in page.items():
        assert_close(steps, getattr(trace, stage)[0])


def test_a_fully_masked_row_is_zeros(run: Run) -> None:
    mask = [[False, False], [True, False]]
    page = run("attention", [[[1, 2], [3, 4]], [[1, 0], [0, 1]], [[5], [6]], {"mask": mask}])
    assert page["value"]["weights"] == [[0, 0], [1, 0]]
    assert page["value"]["head_out"] == [[0], [5]]


def test_softmax_stands_huge_scores(run: Run) -> None:
    assert run("softmax", [[1e308, 1e308]])["value"] == [0.5, 0.5]
    assert run("softmax", [[-1e308, 0]])["value"] == [0, 1]


def test_shapes_that_do_not_fit_are_named(run: Run) -> None:
    assert run("matmul", [[[1, 2, 3]], [[1], [2]]])["error"] == (
        "cannot multiply (1, 3) by (2, 1): 3 columns meet 2 rows"
    )
    square = [[1] * 3 for _ in range(3)]
    projections = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), square)
    said = run("multiHeadAttention", [square, projections, 2])["error"]
    assert said == "d_model=3 is not divisible by h=2"
