"""Masks: one convention, True = keep."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib.explain import explain_mask
from mha_lib.masks import (
    causal_mask,
    from_ignore_mask,
    key_mask_from_lengths,
    visible_keys,
    window_mask,
)

PROPERTY = settings(deadline=None, max_examples=40)
REACHES = st.one_of(st.none(), st.integers(0, 9))
CPU = torch.device("cpu")


@PROPERTY
@given(L=st.integers(1, 8), S=st.integers(1, 8))
def test_causal_mask_puts_the_last_query_beside_the_last_key(L, S):
    mask = causal_mask(L, S)
    assert mask.shape == (L, S)
    assert mask.dtype == torch.bool
    for query in range(L):
        for key in range(S):
            keys_after = S - 1 - key
            queries_after = L - 1 - query
            assert mask[query, key].item() == (keys_after >= queries_after)


def test_causal_mask_is_made_where_it_is_wanted(device):
    assert causal_mask(3, device=device).device.type == device


@PROPERTY
@given(lengths=st.lists(st.integers(0, 8), min_size=1), extra=st.integers(0, 3))
def test_key_mask_keeps_the_first_tokens_of_each_sequence(lengths, extra):
    S = max(1, *lengths, 0) + extra
    mask = key_mask_from_lengths(lengths, S)
    assert mask.shape == (len(lengths), S)
    assert mask.dtype == torch.bool
    for row, length in zip(mask.tolist(), lengths, strict=True):
        assert row == [True] * length + [False] * (S - length)


def test_key_mask_is_made_where_the_lengths_are(device):
    lengths = torch.tensor([2, 3], device=device)
    mask = key_mask_from_lengths(lengths)
    assert mask.device == lengths.device
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_from_ignore_mask_turns_each_entry_round(device):
    ignore = torch.tensor([[True, False], [False, False]], device=device)
    assert from_ignore_mask(ignore).tolist() == [[False, True], [True, True]]
    assert ignore.tolist() == [[True, False], [False, False]]  # the given mask is not changed


# --- windows ---


@PROPERTY
@given(L=st.integers(1, 8), S=st.integers(1, 8), left=REACHES, right=REACHES)
def test_window_mask_keeps_the_keys_in_reach_of_the_key_beside(L, S, left, right):
    mask = window_mask(L, S, window=(left, right))
    assert mask.shape == (L, S)
    for query in range(L):
        for key in range(S):
            steps = key - (query + S - L)
            in_reach = (left is None or -steps <= left) and (right is None or steps <= right)
            assert mask[query, key].item() == in_reach


@PROPERTY
@given(L=st.integers(1, 8), S=st.integers(1, 8), reach=st.integers(0, 9))
def test_one_number_is_the_reach_on_both_sides_and_causal_is_a_window(L, S, reach):
    assert window_mask(L, S, window=reach).equal(window_mask(L, S, window=(reach, reach)))
    assert causal_mask(L, S).equal(window_mask(L, S, window=(None, 0)))
    both = causal_mask(L, S) & window_mask(L, S, window=reach)
    assert both.equal(window_mask(L, S, window=(reach, 0)))
    assert both.sum(dim=1).max() <= reach + 1


def test_window_mask_is_made_where_it_is_wanted_and_square_unless_told(device):
    mask = window_mask(3, window=1, device=device)
    assert mask.device.type == device
    assert mask.shape == (3, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"window": -1}, ValueError, "window=-1 reaches to -1"),
        ({"window": (1, 2, 3)}, ValueError, "pass one, or two as (left, right)"),
        ({"window": 1.5}, TypeError, "such as 256 or (256, 0)"),
        ({"window": 1, "S": 0}, ValueError, "S=0 is not a positive whole number"),
    ],
)
def test_a_bad_window_is_told_what_is_one(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        window_mask(4, **arguments)


# --- all that hides ---


@PROPERTY
@given(
    L=st.integers(1, 6),
    S=st.integers(1, 6),
    causal=st.booleans(),
    window=st.one_of(st.none(), st.tuples(REACHES, REACHES)),
    mask_axes=st.sampled_from([None, 1, 2, 3, 4]),
    seed=st.integers(0, 100),
)
def test_visible_keys_combines_all_and_finds_the_blind(L, S, causal, window, mask_axes, seed):
    expected = torch.ones(2, 3, L, S, dtype=torch.bool)
    mask = None
    if mask_axes is not None:
        generator = torch.Generator().manual_seed(seed)
        mask = torch.rand((2, 3, L, S)[4 - mask_axes :], generator=generator) < 0.6
        expected &= mask
    if causal:
        expected &= causal_mask(L, S)
    if window is not None:
        expected &= window_mask(L, S, window=window)

    keep, blind = visible_keys(mask, causal, L, S, CPU, window)
    for combined in (keep, blind):
        assert combined is None or combined.dim() == 4
    assert (torch.tensor(True) if keep is None else keep).expand_as(expected).equal(expected)
    is_blind = ~expected.any(dim=-1, keepdim=True)
    assert (torch.tensor(False) if blind is None else blind).expand_as(is_blind).equal(is_blind)
    if mask is None:  # what hides nothing, or blinds no one, costs nothing
        assert (keep is None) == bool(expected.all())
        assert (blind is None) == (not is_blind.any())


# --- a mask in words ---


@PROPERTY
@given(L=st.integers(1, 8), S=st.integers(1, 8), data=st.data(), told=st.booleans())
def test_the_table_shows_the_mask(L, S, data, told):
    mask = torch.tensor(
        [[data.draw(st.booleans()) for _ in range(S)] for _ in range(L)], dtype=torch.bool
    )
    queries, keys = [f"q{i}" for i in range(L)], [f"k{j}" for j in range(S)]
    text = explain_mask(mask, queries, keys) if told else explain_mask(mask)
    sentences, table, _ = text.split("\n\n")
    header, *rows = [line.split() for line in table.split("\n")]
    assert header == (keys if told else [str(j) for j in range(S)])
    assert [row[0] for row in rows] == (queries if told else [str(i) for i in range(L)])
    assert [[sign == "x" for sign in row[1:]] for row in rows] == mask.tolist()
    some_are_blind = not mask.any(dim=1).all()
    assert ("zeros" in sentences) == some_are_blind


def sentences(*arguments: object) -> str:
    return explain_mask(*arguments).split("\n\n")[0]


def words(number: int) -> list[str]:
    return ["the", "cat", "sat", "<pad>", "<pad>"][:number]


PADDED = key_mask_from_lengths([3], 5)[0]


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (
            causal_mask(3),
            "Causal: each query may look at itself and all before it.",
        ),
        (
            causal_mask(2, 3),
            "Causal: each query may look at the key beside it and all before it. The last "
            "query stands beside the last key.",
        ),
        (
            causal_mask(3, 2),
            "Causal: each query may look at the key beside it and all before it. The last "
            "query stands beside the last key.\nQueries that see no key, and so get zeros: 0.",
        ),
        (
            window_mask(4, window=1),
            "Window: each query may look at itself and 1 before it and 1 after it.",
        ),
        (
            window_mask(5, window=(2, 0)),
            "Window: each query may look at itself and 2 before it.",
        ),
        (
            window_mask(5, window=(None, 2)),
            "Window: each query may look at itself and all before it and 2 after it.",
        ),
        (window_mask(3, window=0), "Window: each query may look at itself."),
        (
            PADDED,
            "Padding, perhaps: every query may look at the same keys.\n"
            "Keys that no query may look at: 3, 4.",
        ),
        (
            PADDED & causal_mask(5),
            "Causal with padding: each query may look at itself and all before it.\n"
            "Keys that no query may look at: 3, 4.",
        ),
        (
            PADDED & PADDED[:, None] & causal_mask(5),
            "Causal with padding: each query may look at itself and all before it.\n"
            "Keys that no query may look at: 3, 4.\n"
            "Queries that see no key, and so get zeros: 3, 4.",
        ),
        (
            torch.tensor([True, False, True]),
            "Padding, perhaps: every query may look at the same keys.\n"
            "Keys that no query may look at: 1.",
        ),
        (torch.ones(2, 3).bool(), "Every query may look at every key."),
        (torch.zeros(2, 3).bool(), "No query may look at any key, so all get zeros."),
        (
            torch.tensor([[0, 1, 1], [1, 1, 0], [1, 0, 0]]).bool(),
            "No simple pattern: a query may look at 1 to 2 of 3 keys.",
        ),
    ],
)
def test_a_pattern_that_has_a_name_is_named(mask, said):
    assert sentences(mask) == said


def test_a_causal_mask_turned_round_is_known_and_told_the_way_out():
    said = sentences(~causal_mask(4))
    assert said.startswith("A causal mask turned round")
    assert "from_ignore_mask" in said


def test_tokens_are_named_by_number_and_text():
    said = sentences(PADDED & PADDED[:, None] & causal_mask(5), words(5))
    assert "Keys that no query may look at: 3 (<pad>), 4 (<pad>)." in said
    assert "Queries that see no key, and so get zeros: 3 (<pad>), 4 (<pad>)." in said
    # Where queries and keys are different tokens, no query stands beside itself.
    assert "look at the key beside it and" in sentences(causal_mask(2), ["le", "chat"], words(2))


def test_one_row_for_all_queries_has_their_texts_if_given():
    assert "\nall  x   x   x    .     .\n" in explain_mask(PADDED, None, words(5))
    table = explain_mask(PADDED, ["le", "chat"], words(5)).split("\n\n")[1]
    assert [line[:4] for line in table.split("\n")] == ["    ", "le  ", "chat"]


def test_a_mark_stands_under_the_middle_of_its_token_however_accents_are_written():
    written_apart = "Vie\u0323\u0302t"  # ệ as e and two accents
    table = explain_mask(torch.tensor([[True]]), ["Nam"], [written_apart]).split("\n\n")[1]
    assert table == "    Việt\nNam  x"


def test_a_blind_query_is_named_though_every_key_is_seen():
    mask = torch.tensor([[True, True], [False, False]])
    assert sentences(mask).endswith("Queries that see no key, and so get zeros: 1.")


@pytest.mark.parametrize("shape", [(), (2, 3, 4), (33, 4), (4, 33), (33,), (0, 3)])
def test_a_mask_that_is_no_table_is_told_how_to_become_one(shape):
    with pytest.raises(ValueError, match=re.escape(f"mask has shape {shape}")) as caught:
        explain_mask(torch.ones(shape, dtype=torch.bool))
    assert "mask[0, 0] of (B, h, L, S)" in str(caught.value)


def test_texts_are_one_for_each_token():
    message = "queries has 2 texts, but the mask has 3 queries; pass one for each"
    with pytest.raises(ValueError, match=re.escape(message)):
        explain_mask(causal_mask(3), words(2), words(3))
    with pytest.raises(ValueError, match="keys has 3 texts, but the mask has 4 keys"):
        explain_mask(causal_mask(3, 4), words(3), words(3))


def test_only_a_boolean_mask_is_explained():
    with pytest.raises(TypeError, match="must be boolean, True = keep"):
        explain_mask(causal_mask(3).int())
    with pytest.raises(TypeError, match=r"pass a torch\.Tensor"):
        explain_mask([[True]])


def test_a_mask_is_explained_wherever_it_lies(device):
    assert explain_mask(causal_mask(3, device=device)) == explain_mask(causal_mask(3))
