"""The NumPy reference, which the rest is held against: plainer formulas, and laws."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib import reference

PROPERTY = settings(deadline=None, max_examples=25)
SEEDS = st.integers(0, 2**16)
SIZES = st.integers(1, 4)


def normal(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=shape) for shape in shapes]


def parameters(seed: int, d_model: int, kv_width: int | None = None) -> dict[str, np.ndarray]:
    """A layer's, whose keys and values are kv_width wide in all heads together."""
    kv_width = d_model if kv_width is None else kv_width
    widths = {"q_proj": d_model, "k_proj": kv_width, "v_proj": kv_width, "out_proj": d_model}
    weights = normal(seed, *[(width, d_model) for width in widths.values()])
    biases = normal(seed + 1, *[(width,) for width in widths.values()])
    named = {f"{name}.weight": w for name, w in zip(widths, weights, strict=True)}
    return named | {f"{name}.bias": b for name, b in zip(widths, biases, strict=True)}


def assert_same(results, expected):
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, other, atol=1e-10)


# --- attention ---


@PROPERTY
@given(seed=SEEDS, L=SIZES, S=SIZES, d_k=SIZES, d_v=SIZES, softcap=st.sampled_from([None, 0.5]))
def test_one_head_is_the_formula_in_one_line(seed, L, S, d_k, d_v, softcap):
    q, k, v, bias = normal(seed, (L, d_k), (S, d_k), (S, d_v), (L, S))
    scores = q @ k.T / math.sqrt(d_k)
    scores = (scores if softcap is None else softcap * np.tanh(scores / softcap)) + bias
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    output, weights = reference.attention(
        q[None, None], k[None, None], v[None, None], bias=bias, softcap=softcap
    )
    assert_same((output[0, 0], weights[0, 0]), (expected @ v, expected))


@PROPERTY
@given(
    seed=SEEDS,
    L=SIZES,
    S=SIZES,
    causal=st.booleans(),
    left=st.sampled_from([None, 0, 1, 2]),
    right=st.sampled_from([None, 0, 1, 2]),
)
def test_all_that_hides_is_one_mask_and_one_bias(seed, L, S, causal, left, right):
    q, k, v = normal(seed, (2, 1, L, 3), (2, 1, S, 3), (2, 1, S, 2))
    hidden = reference.attention(q, k, v, causal=causal, window=(left, right))
    steps = np.arange(S) - np.arange(S - L, S)[:, None]  # (L, S), from the key beside
    mask = np.ones((L, S), dtype=bool)
    if causal:
        mask &= steps <= 0
    if left is not None:
        mask &= steps >= -left
    if right is not None:
        mask &= steps <= right
    assert_same(hidden, reference.attention(q, k, v, mask=mask))
    assert_same(hidden, reference.attention(q, k, v, bias=np.where(mask, 0.0, -math.inf)))
    sums = hidden[1].sum(axis=-1)
    np.testing.assert_allclose(sums, np.broadcast_to(mask.any(axis=-1), sums.shape))


@PROPERTY
@given(seed=SEEDS, h_kv=SIZES, groups=SIZES)
def test_neighbouring_heads_share_a_key_head(seed, h_kv, groups):
    q, k, v = normal(seed, (2, h_kv * groups, 3, 2), (2, h_kv, 4, 2), (2, h_kv, 4, 2))
    repeated = [np.repeat(x, groups, axis=1) for x in (k, v)]
    assert_same(reference.attention(q, k, v), reference.attention(q, *repeated))


@PROPERTY
@given(seed=SEEDS, window=st.integers(0, 3))
def test_one_number_is_a_window_on_both_sides(seed, window):
    q, k, v = normal(seed, *[(1, 2, 4, 3)] * 3)
    both_sides = reference.attention(q, k, v, window=(window, window))
    assert_same(reference.attention(q, k, v, window=window), both_sides)


@PROPERTY
@given(seed=SEEDS, softcap=st.floats(0.01, 0.5))
def test_capped_scores_weigh_keys_less_unequally(seed, softcap):
    q, k, v = normal(seed, *[(1, 2, 4, 3)] * 3)
    _, weights = reference.attention(10 * q, k, v, softcap=softcap)
    # No two scores of a query are further apart than 2 * softcap.
    ratios = weights.max(axis=-1) / weights.min(axis=-1)
    assert (ratios <= math.exp(2 * softcap) + 1e-9).all()
    assert_same(
        reference.attention(q, k, v, softcap=1e6), reference.attention(q, k, v)
    )  # a cap that nothing reaches


# --- the layer ---


@PROPERTY
@given(seed=SEEDS)
def test_one_head_of_the_layer_is_its_projections_and_attention(seed):
    x, named = normal(seed, (2, 3, 4))[0], parameters(seed, 4)
    q, k, v = (
        (x @ named[f"{name}.weight"].T + named[f"{name}.bias"])[:, None]
        for name in ("q_proj", "k_proj", "v_proj")
    )
    output, weights = reference.attention(q, k, v)
    expected = output[:, 0] @ named["out_proj.weight"].T + named["out_proj.bias"]
    assert_same(reference.multi_head_attention(x, x, x, named, 1), (expected, weights))


@PROPERTY
@given(seed=SEEDS, keep=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=2))
def test_head_mask_scales_what_out_proj_takes_from_a_head(seed, keep):
    x, named = normal(seed, (2, 3, 4))[0], parameters(seed, 4)
    scaled = named | {"out_proj.weight": named["out_proj.weight"] * np.repeat(keep, 2)}
    expected = reference.multi_head_attention(x, x, x, scaled, 2)
    for head_mask in (np.array(keep), np.array([keep, keep])):  # (h,) and (B, h)
        masked = reference.multi_head_attention(x, x, x, named, 2, head_mask=head_mask)
        assert_same(masked, expected)


@PROPERTY
@given(seed=SEEDS)
def test_fewer_key_heads_are_equal_key_heads(seed):
    x, named = normal(seed, (2, 3, 8))[0], parameters(seed, 8, kv_width=4)  # h=4, h_kv=2, d_k=2
    repeated = dict(named)
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        heads = named[name].reshape(2, 2, -1)  # (h_kv, d_k, ...)
        repeated[name] = np.repeat(heads, 2, axis=0).reshape(8, *named[name].shape[1:])
    few = reference.multi_head_attention(x, x, x, named, 4, num_kv_heads=2, causal=True)
    assert_same(few, reference.multi_head_attention(x, x, x, repeated, 4, causal=True))


@PROPERTY
@given(seed=SEEDS, L=SIZES, S=SIZES)
def test_alibi_is_a_bias_and_sinusoidal_is_added_to_the_tokens(seed, L, S):
    query, key, value, bias = normal(seed, (2, L, 4), (2, S, 4), (2, S, 4), (2, L, S))
    named = parameters(seed, 4)
    distance = np.abs(np.arange(S - L, S)[:, None] - np.arange(S))
    slopes = np.array([1 / 16, 1 / 256])[:, None, None]  # 2^(-8/h) and its square
    assert_same(
        reference.multi_head_attention(
            query, key, value, named, 2, bias=bias, positions="alibi", causal=True
        ),
        reference.multi_head_attention(
            query, key, value, named, 2, bias=bias - slopes * distance, causal=True
        ),
    )
    at_query, at_key = (reference.sinusoidal(r, 4) for r in (range(S - L, S), range(S)))
    assert_same(
        reference.multi_head_attention(query, key, value, named, 2, positions="sinusoidal"),
        reference.multi_head_attention(query + at_query, key + at_key, value + at_key, named, 2),
    )


@pytest.mark.parametrize("positions", ["rotary", "alibi", "sinusoidal"])
def test_with_positions_order_matters_and_without_it_does_not(positions):
    x, named = normal(0, (1, 4, 4))[0], parameters(0, 4)
    order = [2, 0, 3, 1]
    for kind, follows in ((None, True), (positions, False)):
        output, _ = reference.multi_head_attention(x, x, x, named, 2, positions=kind)
        x_moved = x[:, order]
        moved, _ = reference.multi_head_attention(
            x_moved, x_moved, x_moved, named, 2, positions=kind
        )
        assert np.allclose(moved, output[:, order]) == follows


@PROPERTY
@given(seed=SEEDS, L=SIZES)
def test_rotary_tells_distances_and_not_places(seed, L):
    """The newest L tokens see the same whether they are asked alone or among all."""
    x, named = normal(seed, (1, 4, 4))[0], parameters(seed, 4)
    options = {"positions": "rotary", "causal": True}
    full, weights = reference.multi_head_attention(x, x, x, named, 2, **options)
    newest = reference.multi_head_attention(x[:, -L:], x, x, named, 2, **options)
    assert_same(newest, (full[:, -L:], weights[:, :, -L:]))


# --- positions ---


@PROPERTY
@given(seed=SEEDS, step=st.integers(-100, 100))
def test_rotary_scores_depend_on_the_distance_alone(seed, step):
    q, k = normal(seed, *[(1, 2, 3, 6)] * 2)
    here, there = range(3), range(step, step + 3)
    scores = [
        reference.rotary(q, places) @ reference.rotary(k, places).transpose(0, 1, 3, 2)
        for places in (here, there)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)


def test_rotary_multiplies_complex_numbers_by_a_turn():
    x = normal(0, (2, 3, 4, 6))[0]
    places = [-2, 0, 1, 30]
    turns = np.exp(1j * np.outer(places, 10000.0 ** (-np.arange(0, 6, 2) / 6)))  # (N, d_k / 2)
    expected = (x[..., 0::2] + 1j * x[..., 1::2]) * turns
    turned = reference.rotary(x, places)
    np.testing.assert_allclose(turned[..., 0::2] + 1j * turned[..., 1::2], expected)


def test_sinusoidal_is_the_formula_of_the_paper():
    pattern = reference.sinusoidal(range(20), 6)
    for position in range(20):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert pattern[position, 2 * i] == pytest.approx(math.sin(angle))
            assert pattern[position, 2 * i + 1] == pytest.approx(math.cos(angle))


def test_alibi_slopes_are_those_of_the_paper():
    assert [reference.alibi_slope(head, 8) for head in range(8)] == [2**-i for i in range(1, 9)]
    sixteen = [reference.alibi_slope(head, 16) for head in range(16)]
    assert sixteen == pytest.approx([2 ** (-i / 2) for i in range(1, 17)])
    twelve = [reference.alibi_slope(head, 12) for head in range(12)]
    assert twelve == pytest.approx([2**-i for i in range(1, 9)] + sixteen[0:8:2])
