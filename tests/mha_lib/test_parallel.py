"""`parallel.py` and `ring.py`: several processes compute what one does.

Starting processes takes seconds. So three are started once; they run every function in
`CHECKS`, and each then is a test of its own. Three, because with two the next rank is also the
one before, and a ring that turned the wrong way would still be right.
"""

import functools
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from mha_lib import MultiHeadAttention, attention, parallel
from mha_lib.cache import KVCache
from mha_lib.parallel import context_parallel, tensor_parallel
from mha_lib.ring import merge, ring_attention

RANKS = 3
ROOT = Path(__file__).parents[2]
CHECKS: dict[str, Callable[[], None]] = {}
PROPERTY = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def on_every_rank(check: Callable[[], None]) -> Callable[[], None]:
    CHECKS[check.__name__] = check
    return check


def close(computed: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    if isinstance(computed, DTensor):
        computed = computed.full_tensor()
    torch.testing.assert_close(computed, expected, atol=tolerance, rtol=tolerance)


def block(x: Tensor, dim: int = 2) -> Tensor:
    return x.detach().chunk(RANKS, dim)[dist.get_rank()]


def normal(*shape: int) -> Tensor:
    """Draw the same numbers on every rank."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def ring_equals_attention(
    h: int = 4, h_kv: int = 4, L: int = 12, S: int = 12, lengths: list[int] | None = None, **options
) -> None:
    """Compare a ring of all ranks, forward and backward, with one call of `attention`."""
    whole = [normal(2, h, L, 5), normal(2, h_kv, S, 5), normal(2, h_kv, S, 7)]
    own = [block(x).requires_grad_() for x in whole]
    whole = [x.requires_grad_() for x in whole]
    mask = own_mask = None
    if lengths is not None:
        key_mask = torch.arange(S) < torch.tensor(lengths)[:, None]
        mask, own_mask = key_mask[:, None, None], block(key_mask, 1)
    expected = attention(*whole, mask=mask, backend="explicit", **options)
    output = ring_attention(*own, key_mask=own_mask, **options)
    close(output, block(expected))
    d_output = normal(*expected.shape)
    expected.backward(d_output)
    output.backward(block(d_output))
    for mine, its in zip(own, whole, strict=True):
        close(mine.grad, block(its.grad))


@on_every_rank
def ring() -> None:
    for causal in (False, True):
        ring_equals_attention(causal=causal)
        ring_equals_attention(causal=causal, scale=-0.7)


@on_every_rank
def ring_with_shared_key_heads() -> None:
    for h_kv in (1, 2):
        ring_equals_attention(h_kv=h_kv, causal=True)


@on_every_rank
def ring_with_padding_and_blind_queries() -> None:
    for causal in (False, True):
        ring_equals_attention(lengths=[12, 6], causal=causal)
        ring_equals_attention(lengths=[1, 0], causal=causal)  # a sequence of padding alone
        ring_equals_attention(h_kv=2, lengths=[9, 3], causal=causal)


@on_every_rank
def ring_with_other_numbers_of_queries_and_keys() -> None:
    for L, S in ((3, 12), (12, 3), (6, 9), (3, 3)):
        for causal in (False, True):  # with more queries than keys, the first see none
            ring_equals_attention(L=L, S=S, causal=causal)


@on_every_rank
def ring_of_some_ranks() -> None:
    group = dist.new_group([1, 2])
    x = normal(1, 2, 8, 4)
    if dist.get_rank() == 0:
        with pytest.raises(ValueError, match="rank 0 is not in group"):
            ring_attention(x, x, x, group=group)
        return
    own = x.chunk(2, 2)[dist.get_rank(group)].clone().requires_grad_()
    output = ring_attention(own, own, own, causal=True, group=group)
    output.sum().backward()
    x.requires_grad_()
    expected = attention(x, x, x, causal=True)
    expected.sum().backward()
    close(output, expected.chunk(2, 2)[dist.get_rank(group)])
    close(own.grad, x.grad.chunk(2, 2)[dist.get_rank(group)])


@on_every_rank
def ring_of_narrow_numbers_computes_in_float32() -> None:
    x = normal(1, 2, 12, 4).bfloat16()
    own = block(x).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        in_float32 = ring_attention(*[block(x).float()] * 3)
        output = ring_attention(own, own, own)
    close(in_float32, block(attention(*[x.float()] * 3)), 1e-6)
    assert output.dtype == torch.bfloat16
    close(output, in_float32.bfloat16(), 1e-2)
    output.sum().backward()
    assert own.grad.dtype == torch.bfloat16


@on_every_rank
def ring_of_no_sequence() -> None:
    query, none = torch.ones(0, 4, 2, 8), torch.ones(0, 2, 3, 8)
    assert ring_attention(query, none, none[..., :5], causal=True).shape == (0, 4, 2, 5)


@on_every_rank
def ring_of_strided_blocks() -> None:
    x = normal(1, 12, 2, 4).transpose(1, 2)
    close(ring_attention(*[block(x)] * 3), block(attention(x, x, x)))


@on_every_rank
def ring_refuses_what_differs_on_every_rank() -> None:
    is_last = dist.get_rank() == RANKS - 1
    even = normal(1, 2, 4, 8)
    uneven = even[:, :, :3] if is_last else even
    differs = "rank 2 of the ring differs from rank 0: .*pad the sequence to a multiple of 3 tokens"
    for key, options in (
        (uneven, {}),
        (even.float() if is_last else even, {}),
        (even.to("meta") if is_last else even, {}),
        (even, {"causal": is_last}),
        (even, {"scale": 1.0 if is_last else None}),
        (even, {"key_mask": torch.ones(1, 4, dtype=torch.bool) if is_last else None}),
        (even.clone().requires_grad_(is_last), {}),
    ):
        with pytest.raises(ValueError, match=differs):
            ring_attention(even, key, key, **options)
    ring_equals_attention()  # and nothing is left on the way


def heads_equal_one_process(kdim: int = 12, vdim: int = 12, **options) -> None:
    """Compare a layer whose heads are dealt out, forward and backward, with the whole layer."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 6, kdim=kdim, vdim=vdim, dtype=torch.float64, **options)
    # What the other ranks begin with does not count.
    split = deepcopy(layer)
    if dist.get_rank() > 0:
        nn.init.zeros_(split.q_proj.weight)
    assert tensor_parallel(split, init_device_mesh("cpu", (RANKS,))) is split
    whole = [normal(2, 5, 12).requires_grad_()]
    if kdim != 12:
        whole += [normal(2, 7, kdim).requires_grad_(), normal(2, 7, vdim).requires_grad_()]
    own = [x.detach().clone().requires_grad_() for x in whole]
    expected, output = layer(*whole), split(*own)
    close(output, expected)
    d_output = normal(*expected.shape)
    expected.backward(d_output)
    output.backward(d_output)
    for mine, its in zip(own, whole, strict=True):
        close(mine.grad, its.grad)
    for mine, its in zip(split.parameters(), layer.parameters(), strict=True):
        close(mine.grad, its.grad)


@on_every_rank
def heads() -> None:
    heads_equal_one_process()
    heads_equal_one_process(num_kv_heads=3, causal=True)
    heads_equal_one_process(bias=False, head_dim=3)
    heads_equal_one_process(kdim=5, vdim=9)
    heads_equal_one_process(window=1, backend="explicit")


@on_every_rank
def heads_with_positions() -> None:
    for positions in ("rotary", "alibi", "sinusoidal"):
        heads_equal_one_process(positions=positions, causal=True)


@on_every_rank
def each_rank_has_a_layer_of_its_own_heads() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 6, num_kv_heads=3, causal=True, dtype=torch.float64)
    split = tensor_parallel(deepcopy(layer), init_device_mesh("cpu", (RANKS,)))
    assert (split.num_heads, split.num_kv_heads) == (2, 1)
    x, mask, factors = normal(2, 5, 12), normal(2, 6, 5, 5) > -1, normal(6)
    expected = layer(x, mask=mask, head_mask=factors, trace=True)
    trace = split(x, mask=block(mask, 1), head_mask=block(factors, 0), trace=True)
    close(trace.weights, block(expected.weights, 1))
    close(trace.output, expected.output)
    cache = KVCache()
    steps = [split(x[:, [i]], cache=cache) for i in range(5)]
    close(torch.cat(steps, dim=1), layer(x))
    with pytest.raises(ValueError, match="6"):
        split(x, mask=mask)
    with pytest.raises((TypeError, RuntimeError)):
        _ = trace.contributions
    with pytest.raises((TypeError, RuntimeError)):
        tensor_parallel(MultiHeadAttention(12, 6), split.q_proj.weight.device_mesh).prune_heads([0])


@on_every_rank
def heads_that_cannot_be_dealt_out() -> None:
    mesh = init_device_mesh("cpu", (RANKS,))
    with pytest.raises(ValueError, match=r"num_heads=4 .* the 3 ranks .*; use 1, 2 or 4 ranks"):
        tensor_parallel(MultiHeadAttention(8, 4), mesh)
    with pytest.raises(ValueError, match="num_kv_heads=2 is not divisible by the 3 ranks"):
        tensor_parallel(MultiHeadAttention(12, 6, num_kv_heads=2), mesh)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Run `CHECKS` on `RANKS` processes; return for each rank what went wrong in each, or ""."""
    folder = tmp_path_factory.mktemp("ranks")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*torchrun, f"--nproc-per-node={RANKS}", __file__, str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        timeout=240,
        check=False,
    )
    died = json.dumps(dict.fromkeys(CHECKS, "the process did not start, or died"))
    files = [folder / f"{rank}.json" for rank in range(RANKS)]
    return [json.loads(file.read_text() if file.exists() else died) for file in files]


def run_checks(folder: Path) -> None:
    """Be one of the processes that torchrun starts."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    failures = dict.fromkeys(CHECKS, "not reached: one before it failed")
    for name, check in CHECKS.items():
        try:
            check()
            dist.barrier()
            failures[name] = ""
        except Exception:
            # Where one rank fails, the others wait in vain; when it leaves, they notice.
            failures[name] = traceback.format_exc()
            break
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(failures))
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_three_processes(name, outcomes):
    for rank, failures in enumerate(outcomes):
        assert not failures[name], f"rank {rank}: {failures[name]}"


@pytest.fixture
def alone() -> Iterator[None]:
    """Be the only rank: enough for what does not travel."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@PROPERTY
@given(
    seed=st.integers(0, 2**16),
    cuts=st.lists(st.integers(0, 8), min_size=1, max_size=3).map(sorted),
    chance=st.sampled_from([0.1, 0.5, 1.0]),
)
def test_merged_parts_are_attention_over_all_keys(seed, cuts, chance, device):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, 3, N, 4, generator=generator).double() for N in (5, 8, 8))
    mask = torch.rand(2, 1, 5, 8, generator=generator) < chance
    q, k, v, mask = (x.to(device) for x in (q * 5, k, v, mask))
    parts = []
    for first, last in zip([0, *cuts], [*cuts, 8], strict=True):
        if first < last:
            keys = slice(first, last)
            trace = attention(q, k[:, :, keys], v[:, :, keys], mask=mask[..., keys], trace=True)
            parts.append((trace.output, trace.masked_scores.logsumexp(dim=-1)))
    expected = attention(q, k, v, mask=mask, trace=True)
    for some in (parts, parts[::-1]):  # the order does not matter
        out, lse = functools.reduce(lambda a, b: merge(*a, *b), some)
        close(out, expected.output)
        close(lse, expected.masked_scores.logsumexp(dim=-1))


def test_merge_survives_weights_that_are_too_large_for_a_number(device):
    out, lse = torch.ones(1, 2, device=device), torch.tensor([1e4], device=device)
    merged, total = merge(out, lse, 3 * out, lse)
    close(merged, 2 * out)
    close(total, lse, 1e-3)


def test_merge_refuses_shapes_that_would_broadcast():
    out, lse = torch.ones(2, 5, 4), torch.zeros(2, 5)
    with pytest.raises(ValueError, match=r"\(2, 5, 1\).*they should be \(\.\.\., L, d_v\)"):
        merge(out, lse[..., None], out, lse[..., None])
    with pytest.raises(ValueError, match=r"\(2, 1, 4\)"):
        merge(out, lse, out[:, :1], lse)


@pytest.mark.parametrize("causal", [False, True])
def test_the_gradients_of_a_ring_are_those_of_finite_differences(alone, causal):
    inputs = [normal(1, h, 3, 2).requires_grad_() for h in (4, 2, 2)]
    key_mask = torch.tensor([[False, True, True]])  # with causal, the first query is blind
    assert torch.autograd.gradcheck(
        lambda *x: ring_attention(*x, key_mask=key_mask, causal=causal), inputs
    )


def test_a_ring_refuses_a_second_derivative(alone):
    x = normal(1, 1, 3, 2).requires_grad_()
    (d_x,) = torch.autograd.grad(ring_attention(x, x, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        d_x.sum().backward()


@pytest.mark.parametrize(
    ("key_mask", "error", "message"),
    [
        (torch.ones(3, dtype=torch.bool), ValueError, r"shape \(3,\).*\(B, S\) = \(1, 3\)"),
        (torch.ones(1, 3), TypeError, "must be boolean"),
        ([[True] * 3], TypeError, "key_mask is of type list"),
    ],
)
def test_a_ring_refuses_a_wrong_key_mask(alone, key_mask, error, message):
    x = normal(1, 1, 3, 2)
    with pytest.raises(error, match=message):
        ring_attention(x, x, x, key_mask=key_mask)


def test_a_ring_refuses_other_wrong_input(alone):
    x = normal(1, 2, 3, 2)
    with pytest.raises(TypeError, match="query is of type list"):
        ring_attention([x], x, x)
    with pytest.raises(ValueError, match="d_k"):
        ring_attention(x, x[..., :1], x)
    with pytest.raises(TypeError, match="causal=1"):
        ring_attention(x, x, x, causal=1)
    with pytest.raises(ValueError, match="scale=inf"):
        ring_attention(x, x, x, scale=float("inf"))


def test_a_ring_needs_torch_distributed():
    x = normal(1, 1, 3, 2)
    with pytest.raises(RuntimeError, match="not initialised; start the program with torchrun"):
        ring_attention(x, x, x)


def test_tensor_parallel_refuses_what_it_cannot_split(alone):
    mesh = init_device_mesh("cpu", (1,))
    with pytest.raises(TypeError, match="takes a MultiHeadAttention"):
        tensor_parallel(nn.Linear(8, 8), mesh)
    layer = tensor_parallel(MultiHeadAttention(8, 2), mesh)
    with pytest.raises(TypeError, match="split over ranks already"):
        tensor_parallel(layer, mesh)
    quantised = MultiHeadAttention(8, 2)
    quantised.v_proj = nn.Identity()
    with pytest.raises(TypeError, match="split it as it was before"):
        tensor_parallel(quantised, mesh)


def test_context_parallel_needs_cuda(alone):
    with pytest.raises(ValueError, match=r"CUDA devices, but .* of 'cpu'; use ring_attention"):
        context_parallel(init_device_mesh("cpu", (1,)), buffers=[], seq_dims=[])


def test_context_parallel_hands_its_arguments_on(monkeypatch):
    """All that can be said without a CUDA device; torch's ring itself is not run here."""
    monkeypatch.setattr(parallel.experimental, "context_parallel", lambda *a, **b: (a, b))
    mesh, x = SimpleNamespace(device_type="cuda", size=lambda: 2), torch.ones(2, 8, 8)
    handed = context_parallel(mesh, buffers=(x,), seq_dims=(1,))
    assert handed == ((mesh,), {"buffers": [x], "buffer_seq_dims": [1]})
    with pytest.raises(ValueError, match=r"axis 1 .*\(2, 6, 8\).*a multiple of 4"):
        context_parallel(mesh, buffers=[x[:, :6]], seq_dims=[1])


if __name__ == "__main__":
    run_checks(Path(sys.argv[1]))
