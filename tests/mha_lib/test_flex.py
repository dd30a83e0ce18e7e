"""The flex backend. What compiles a kernel is slow: ten seconds or more for each kind of call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mha_lib import attention
from mha_lib.backends.call import Call
from mha_lib.backends.explicit import explicit
from mha_lib.backends.flex import flex, flex_refuses

ROOT = Path(__file__).parents[2]
TOLERANCE = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def normal(*shape: int, device: str = "cpu", dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype)


def keep_some(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.rand(*shape, device=device) < 0.5


# (B, h, h_kv, L, S), dtype, options: together they meet every branch. Each is compiled anew.
KINDS = {
    "nothing but scores": ((2, 4, 4, 40, 50), torch.float32, {}),
    "causal, with blind queries": ((2, 4, 4, 300, 40), torch.float32, {"causal": True}),
    "window": ((2, 4, 4, 150, 180), torch.bfloat16, {"window": (20, None)}),
    "window, mask for padding, shared keys": (
        (2, 4, 2, 150, 180),
        torch.float16,
        {"window": (20, 3), "mask": keep_some(2, 1, 1, 180)},
    ),
    "bias, softcap, mask, negative scale": (
        (1, 2, 2, 33, 33),
        torch.float32,
        {
            "bias": normal(2, 33, 33).masked_fill(keep_some(33, 33), -torch.inf),
            "mask": keep_some(33, 33),
            "softcap": 2.0,
            "scale": -0.5,
            "causal": True,
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_what_the_explicit_backend_gives(kind, device):
    torch._dynamo.reset()  # or torch stops compiling after a number of kinds
    (B, h, h_kv, L, S), dtype, options = KINDS[kind]
    options = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in options.items()}
    for more in (0, 1) if "mask" not in options else (0,):  # a longer query, another kernel
        query = normal(B, h, L + more, 16, device=device, dtype=dtype)
        key, value = (normal(B, h_kv, S, 16, device=device, dtype=dtype) for _ in range(2))
        call = Call(query, key, value, **{"scale": 0.3, **options})
        output, expected = flex(call), explicit(call).head_out
        torch.testing.assert_close(output, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
        _, blind = call.visible_keys()
        if blind is not None:
            assert (output.masked_select(blind) == 0).all()


@pytest.mark.slow
def test_weights_that_could_be_trained_are_welcome_where_no_gradient_is_asked_for():
    query, key, value = (normal(1, 2, 20, 16).requires_grad_() for _ in range(3))
    with torch.no_grad():
        output = attention(query, key, value, backend="flex")
    expected = attention(query, key, value, backend="explicit")
    torch.testing.assert_close(output, expected.detach(), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_compiled_caller_gets_the_same():
    torch._dynamo.reset()
    query, key, value = normal(3, 1, 2, 20, 16).unbind()
    compiled = torch.compile(attention, backend="aot_eager")
    output = compiled(query, key, value, causal=True, backend="flex")
    expected = attention(query, key, value, causal=True, backend="explicit")
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="on a CPU it has no backward")
def test_its_gradients_are_those_of_the_explicit_backend():
    query, key, value = (normal(1, 2, 70, 16, device="cuda").requires_grad_() for _ in range(3))
    call = Call(query, key, value, causal=True, window=(9, None), scale=0.3)
    upstream = torch.randn_like(query)
    for ours, expected in zip(
        torch.autograd.grad(flex(call), call[:3], upstream),
        torch.autograd.grad(explicit(call).head_out, call[:3], upstream),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected, atol=1e-2, rtol=1e-2)


@pytest.mark.slow
def test_without_a_compiler_it_says_what_is_missing(tmp_path):
    program = (
        "import torch; from mha_lib import attention\n"
        "attention(*torch.randn(3, 1, 1, 16, 16), backend='flex')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={
            **os.environ,
            "CXX": "/nowhere/g++",
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    last = done.stderr.strip()
    assert done.returncode == 1
    assert "RuntimeError: backend='flex' could not compile its kernel." in last
    assert "install g++, or name yours in the environment variable CXX" in last


def test_the_library_does_not_import_the_compiler():
    program = (
        "import sys; from mha_lib import MultiHeadAttention; import mha_lib.models\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_an_empty_batch_stays_empty():
    query, key = torch.empty(0, 4, 5, 16), torch.empty(0, 2, 7, 16)
    assert flex(Call(query, key, key, causal=True, softcap=2.0)).shape == (0, 4, 5, 16)


@pytest.mark.parametrize(
    ("dtype", "options", "reason"),
    [
        (torch.float64, {}, "flex_attention does not take torch.float64; pass float32 or narrower"),
        (torch.float32, {"dropout": 0.1}, "flex_attention has no dropout=0.1; leave it out"),
    ],
)
def test_it_says_why_it_refuses(dtype, options, reason):
    x = normal(1, 2, 5, 16, dtype=dtype)
    assert reason in flex_refuses(Call(x, x, x, **options))
    with pytest.raises(ValueError, match=reason):
        attention(x, x, x, backend="flex", **options)


def test_it_refuses_a_device_that_has_no_kernel():
    x = torch.empty(1, 2, 5, 16, device="meta")
    assert "does not run on 'meta'" in flex_refuses(Call(x, x, x))


@pytest.mark.parametrize("trained", ["query", "key", "value", "bias"])
def test_it_refuses_to_train_on_a_cpu(trained):
    tensors = {name: normal(1, 2, 5, 16) for name in ("query", "key", "value")}
    tensors["bias"] = normal(5, 5)
    tensors[trained].requires_grad_()
    with pytest.raises(ValueError, match="no backward on a CPU"):
        attention(**tensors, backend="flex")
    with torch.no_grad():
        assert flex_refuses(Call(**tensors)) == ""
    # What it is sent to must be able to take it.
    assert "'explicit'" in flex_refuses(Call(**tensors, softcap=2.0))
