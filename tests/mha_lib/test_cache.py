"""The cache: what it returns is all that was appended, however it keeps it."""

import copy
import pickle
import re

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_lib import attention
from mha_lib.cache import KVCache

PROPERTY = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "grad": torch.enable_grad,
}


def tokens(N: int, *, B: int = 2, h_kv: int = 3, d: int = 4, **options: object) -> Tensor:
    return torch.randn(B, h_kv, N, d, **options)


@PROPERTY
@given(
    steps=st.lists(st.tuples(st.integers(1, 4), st.sampled_from(list(MODES))), max_size=6),
    bounded=st.booleans(),
)
def test_append_returns_all_so_far_whatever_the_modes(steps, bounded, device):
    total = sum(N for N, _ in steps)
    cache = KVCache(max_length=total if bounded and total else None)
    keys, values, returned = [], [], []
    for N, mode in steps:
        with MODES[mode]():
            keys.append(tokens(N, device=device))
            values.append(tokens(N, d=5, device=device))
            both = cache.append(keys[-1], values[-1])
            expected = torch.cat(keys, dim=2), torch.cat(values, dim=2)
            returned.append((both, expected))
        assert cache.length == expected[0].shape[2]
        assert cache.nbytes == sum(x.numel() * x.element_size() for x in expected)
    # Nothing that was returned has changed since.
    for (all_keys, all_values), expected in returned:
        assert all_keys.equal(expected[0])
        assert all_values.equal(expected[1])
    assert cache.length == total


@torch.no_grad()
def test_the_buffer_doubles_so_that_most_appends_copy_only_what_is_new():
    cache, places = KVCache(), set()
    for _ in range(200):
        keys, _ = cache.append(tokens(1), tokens(1))
        places.add(keys.data_ptr())
    assert len(places) <= 9  # rooms of 1, 2, 4, ... 256


@torch.no_grad()
def test_with_max_length_nothing_is_ever_moved():
    cache, places = KVCache(max_length=50), set()
    for _ in range(50):
        keys, values = cache.append(tokens(1), tokens(1))
        places |= {keys.data_ptr(), values.data_ptr()}
    assert len(places) == 2


def test_gradients_reach_every_token_ever_appended():
    cache = KVCache()
    steps = [tokens(N).requires_grad_() for N in (3, 1, 2)]
    query = tokens(1).requires_grad_()
    outputs = [attention(query, *cache.append(step, step)) for step in steps]
    torch.stack(outputs).sum().backward()

    full = [step.detach().clone().requires_grad_() for step in steps]
    expected = [attention(query, *2 * (torch.cat(full[: n + 1], dim=2),)) for n in range(3)]
    torch.stack(expected).sum().backward()
    for step, alone in zip(steps, full, strict=True):
        torch.testing.assert_close(step.grad, alone.grad)


def test_frozen_keys_may_be_kept_for_the_gradient_of_the_query():
    """Autograd keeps the keys for it, so the next append must not write over them."""
    cache = KVCache()
    query = tokens(1).requires_grad_()
    outputs = [attention(query, *cache.append(tokens(1), tokens(1))) for _ in range(3)]
    torch.stack(outputs).sum().backward()
    assert query.grad.isfinite().all()


@torch.no_grad()
def test_reset_forgets_but_leaves_what_was_returned():
    cache = KVCache(max_length=4)
    keys, _ = cache.append(tokens(3), tokens(3))
    kept = keys.clone()
    cache.reset()
    assert (cache.length, cache.nbytes) == (0, 0)
    cache.append(tokens(4, B=5), tokens(4, B=5))  # another batch is welcome now
    assert keys.equal(kept)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))]
)
def test_a_copy_goes_its_own_way(copied, gradients, bounded):
    with torch.set_grad_enabled(gradients):
        cache = KVCache(max_length=5 if bounded else None)
        first = tokens(2).requires_grad_(gradients)
        cache.append(first, first)
        twin = copied(cache)
        one, other = tokens(2), tokens(2)
        keys, _ = cache.append(one, one)
        twin_keys, _ = twin.append(other, other)
    assert keys.equal(torch.cat((first, one), dim=2))
    assert twin_keys.equal(torch.cat((first, other), dim=2))
    assert (twin.length, twin.max_length) == (4, cache.max_length)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_an_empty_cache_can_be_copied(copied):
    twin = copied(KVCache(max_length=3))
    assert (twin.length, twin.nbytes, twin.max_length) == (0, 0, 3)


def test_a_deep_copy_keeps_the_way_back_for_gradients():
    cache, token = KVCache(), tokens(1).requires_grad_()
    cache.append(token, token)
    keys, _ = copy.deepcopy(cache).append(tokens(1), tokens(1))
    keys.sum().backward()
    assert token.grad.equal(torch.ones_like(token))


def test_print_says_how_full_it_is():
    assert repr(KVCache(max_length=7)) == "KVCache(max_length=7, length=0)"


# --- bad input ---


@pytest.mark.parametrize(
    ("key", "value", "error", "message"),
    [
        (tokens(1, B=3), tokens(1, B=3), ValueError, "key has batch 3, but the cache has 2"),
        (tokens(1, h_kv=1), tokens(1, h_kv=1), ValueError, "key has key heads 1, but the cache"),
        (tokens(1, d=6), tokens(1), ValueError, "key has width 6, but the cache has 4"),
        (tokens(1), tokens(1, d=6), ValueError, "value has width 6, but the cache has 4"),
        (tokens(1).double(), tokens(1).double(), TypeError, "key has dtype torch.float64"),
        (tokens(1).to("meta"), tokens(1).to("meta"), ValueError, "key has device meta"),
        (tokens(1), tokens(2), ValueError, "value has length 2, but key has 1; each key needs"),
        (tokens(1), tokens(1).double(), TypeError, "but key has torch.float32; each key needs"),
        (tokens(1)[0], tokens(1)[0], ValueError, "key has shape (3, 1, 4), but a cache takes"),
        (tokens(0), tokens(0), ValueError, "N at least 1"),
        (tokens(1).long(), tokens(1).long(), TypeError, "key has dtype torch.int64"),
        ([1.0], tokens(1), TypeError, "torch.as_tensor(key)"),
        (tokens(3), tokens(3), ValueError, "3 more tokens make 5, above max_length=4"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(key, value, error, message):
    cache = KVCache(max_length=4)
    first = tokens(2)
    cache.append(first, first)
    with pytest.raises(error, match=re.escape(message)):
        cache.append(key, value)
    assert cache.length == 2
    keys, _ = cache.append(first, first)
    assert keys.equal(torch.cat((first, first), dim=2))


def test_a_cache_of_which_all_was_forgotten_takes_another_batch():
    cache = KVCache()
    cache.append(tokens(2), tokens(2))
    cache.crop(0)
    cache.append(tokens(1, B=5), tokens(1, B=5))
    assert cache.length == 1


@pytest.mark.parametrize(
    ("length", "error"), [(3, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError)]
)
def test_crop_takes_a_length_that_there_is(length, error):
    cache = KVCache()
    cache.append(tokens(2), tokens(2))
    with pytest.raises(error, match=f"^length={length!r} is "):
        cache.crop(length)
    assert cache.length == 2


@pytest.mark.parametrize(("size", "error"), [(0, ValueError), (2.5, TypeError)])
def test_max_length_is_a_positive_whole_number(size, error):
    with pytest.raises(error, match=f"max_length={size}"):
        KVCache(max_length=size)
