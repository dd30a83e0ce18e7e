"""The page's own attention.js computes what mha_lib computes, for every option and any input.

All cases of a test go to the page in one call, which costs more than what it computes.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from book.chromium import shared_browser
from mha_lib import MultiHeadAttention, attention
from mha_lib.widgets.assets import inlined_module

Run = Callable[[str, Sequence[Sequence[Any]]], list[Any]]

# Every value of every option, each with each of the others. None leaves the option out.
MASKS = (None, 0.2, 0.7)  # how many entries are kept
BIASES = (None, "finite", "hides")
CAUSAL = (False, True)
WINDOWS = (None, 0, 2, (1, 0), (0, 2), (None, 1), (3, None))
SCALES = (None, 0.3)
SOFTCAPS = (None, 1.5)
SIZES = (1, 2, 3, 5, 6)
SPREADS = (0.1, 1.0, 10.0)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Call one of attention.js's functions, once for each list of arguments."""
    page = shared_browser().new_page()
    page.evaluate(
        """async source => {
          const blob = new Blob([source], { type: "text/javascript" });
          globalThis.attentionModule = await import(URL.createObjectURL(blob));
        }""",
        inlined_module("attention.js"),
    )

    def call(function: str, cases: Sequence[Sequence[Any]]) -> list[Any]:
        # As one text, which is quick, and because JSON knows no -Infinity.
        done: str = page.evaluate(
            """([name, text]) => {
              const cases = JSON.parse(text, (_, each) => each === "-inf" ? -Infinity : each);
              const done = cases.map(given => {
                try { return attentionModule[name](...given); }
                catch (error) { return { error: error.message }; }
              });
              return JSON.stringify(done, (_, each) => each === -Infinity ? "-inf" : each);
            }""",
            [function, json.dumps(cases)],
        )
        results: list[Any] = json.loads(done)
        return results

    yield call
    page.close()


def as_lists(numbers: Tensor) -> Any:
    """The numbers as a page can be given them."""
    if numbers.dtype == torch.bool or numbers.isfinite().all():
        return numbers.tolist()
    if numbers.dim() == 0:
        return "-inf"
    return [as_lists(row) for row in numbers]


def flat(value: Any) -> Iterator[float]:
    if isinstance(value, list):
        for each in value:
            yield from flat(each)
    else:
        yield float(value)


def assert_close(page: Any, python: Tensor, case: object) -> None:
    numbers, shape = list(flat(page)), []
    while isinstance(page, list):
        shape.append(len(page))
        page = page[0]
    assert shape == list(python.shape), case
    expected = python.flatten()
    assert torch.allclose(expected.new_tensor(numbers), expected, rtol=1e-9, atol=1e-9), case


class Chance:
    """Random numbers and options for one case, which its number decides."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.spread = self.one_of(SPREADS)

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[int(torch.randint(len(choices), (), generator=self.generator))]

    def numbers(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64) * self.spread

    def kept(self, share: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=self.generator) < share

    def mask(self, share: float | None, L: int, S: int) -> Tensor | None:
        return None if share is None else self.kept(share, L, S)

    def bias(self, kind: str | None, L: int, S: int) -> Tensor | None:
        if kind is None:
            return None
        bias = self.numbers(L, S)
        return bias.where(self.kept(0.5, L, S), -torch.inf) if kind == "hides" else bias


def for_the_page(options: dict[str, Any]) -> dict[str, Any]:
    """The options as attention.js takes them: what is not given is left out."""
    return {
        name: as_lists(value) if isinstance(value, Tensor) else value
        for name, value in options.items()
        if value is not None
    }


def test_attention_equals_mha_libs_under_all_options_together(run: Run) -> None:
    cases, traces, arguments = [], [], []
    every = itertools.product(MASKS, BIASES, CAUSAL, WINDOWS, SCALES, SOFTCAPS)
    for seed, (mask, bias, causal, window, scale, softcap) in enumerate(every):
        chance = Chance(seed)
        L, S, d_k, d_v = (chance.one_of(SIZES) for _ in range(4))
        query, key, value = chance.numbers(L, d_k), chance.numbers(S, d_k), chance.numbers(S, d_v)
        options = {
            "mask": chance.mask(mask, L, S),
            "bias": chance.bias(bias, L, S),
            "causal": causal,
            "window": window,
            "scale": scale,
            "softcap": softcap,
        }
        cases.append(f"seed {seed}, L={L}, S={S}, {options}")
        heads = (each[None, None] for each in (query, key, value))  # (1, 1, L or S, d) each
        traces.append(attention(*heads, **options, trace=True))
        arguments.append([*map(as_lists, (query, key, value)), for_the_page(options)])
    pages = run("attention", arguments)
    for case, page, trace in zip(cases, pages, traces, strict=True):
        for stage in ("scores", "masked_scores", "weights", "head_out"):
            assert_close(page[stage], getattr(trace, stage)[0, 0], case)
    # The cases are of every kind: some queries are blind, among them some that stand before
    # the first key, and most see something.
    blind = [(trace.masked_scores == -torch.inf).all(dim=-1) for trace in traces]
    assert sum(bool(rows.any()) for rows in blind) > 100
    assert sum(bool((~rows).any()) for rows in blind) > 300
    sizes = [trace.scores.shape[-2:] for trace in traces]
    for kind in (lambda L, S: L < S, lambda L, S: L > S, lambda L, S: L == S):
        assert sum(kind(*size) for size in sizes) > 50


def test_every_stage_of_multi_head_attention_equals_mha_libs(run: Run) -> None:
    cases, traces, arguments = [], [], []
    every = itertools.product((1, 2, 3), (1, 2), (1, 2, 3), (None, 0.6), CAUSAL, (None, (1, 1)))
    for seed, (kv_heads, shared, head_dim, kept, causal, window) in enumerate(every):
        chance = Chance(seed)
        N, heads = chance.one_of(SIZES), kv_heads * shared
        d_model, kv_width = heads * head_dim, kv_heads * head_dim
        x, mask = chance.numbers(1, N, d_model), chance.mask(kept, N, N)
        matrices = {
            "W_Q": chance.numbers(d_model, d_model),
            "W_K": chance.numbers(d_model, kv_width),
            "W_V": chance.numbers(d_model, kv_width),
            "W_O": chance.numbers(d_model, d_model),
        }
        layer = MultiHeadAttention(
            d_model,
            heads,
            num_kv_heads=kv_heads,
            bias=False,
            causal=causal,
            window=window,
            dtype=torch.float64,
        )
        linears = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
        with torch.no_grad():
            for linear, matrix in zip(linears, matrices.values(), strict=True):
                linear.weight.copy_(matrix.T)
            traces.append(layer(x, mask=mask, trace=True))
        cases.append(f"seed {seed}, N={N}, h={heads}, h_kv={kv_heads}, d_k={head_dim}, {window}")
        options = for_the_page({"mask": mask, "causal": causal, "window": window})
        given = {name: as_lists(matrix) for name, matrix in matrices.items()}
        arguments.append([as_lists(x[0]), given, heads, options])
    for case, page, trace in zip(cases, run("multiHeadAttention", arguments), traces, strict=True):
        assert len(page) == 10, page
        for stage, steps in page.items():
            assert_close(steps, getattr(trace, stage)[0], f"{case}, {stage}")


def test_a_fully_masked_row_is_zeros(run: Run) -> None:
    inputs = [[[1, 2], [3, 4]], [[1, 0], [0, 1]], [[5], [6]]]
    mask = {"mask": [[False, False], [True, False]]}
    bias = {"bias": [["-inf", "-inf"], [0, "-inf"]]}
    for page in run("attention", [[*inputs, mask], [*inputs, bias]]):
        assert page["weights"] == [[0, 0], [1, 0]]
        assert page["head_out"] == [[0], [5]]


def test_softmax_stands_huge_scores(run: Run) -> None:
    assert run("softmax", [[[1e308, 1e308]], [[-1e308, 0]]]) == [[0.5, 0.5], [0, 1]]


def test_shapes_that_do_not_fit_are_named(run: Run) -> None:
    assert run("matmul", [[[[1, 2, 3]], [[1], [2]]]]) == [
        {"error": "cannot multiply (1, 3) by (2, 1): 3 columns meet 2 rows"}
    ]
    square = [[1] * 4 for _ in range(4)]
    narrow = [[1] * 3 for _ in range(4)]
    projections = dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), square)
    shared = {**projections, "W_K": narrow, "W_V": narrow}
    assert run("multiHeadAttention", [[square, projections, 3], [square, shared, 4]]) == [
        {"error": "d_model=4 is not divisible by h=3"},
        {"error": "W_K is 3 wide: h=4 heads cannot share it equally"},
    ]
