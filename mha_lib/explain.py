"""A mask in words and as a picture, to see that it says what you mean.

Letters in shapes: L queries, S keys.
"""

import unicodedata
from collections.abc import Sequence

from torch import Tensor

from mha_lib.masks import causal_mask, window_mask
from mha_lib.tensor_checks import check_mask, check_tensor

MOST_TOKENS = 32  # more do not fit on a screen
LONGEST_LABEL = 10
LEGEND = "Rows are queries, columns are keys. x: the query may look at the key; . : it may not."


def explain_mask(
    mask: Tensor, queries: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> str:
    """Say who may look at whom: the pattern in a sentence, and a table with all of it.

    Args:
        mask: (L, S), boolean, True = keep; or (S,), the same keys for every query.
        queries: The texts of the query tokens; their numbers unless given.
        keys: The texts of the key tokens; if not given the queries' where there are as many,
            else their numbers.

    Returns:
        Text to print.

    Raises:
        ValueError: A mask with other axes, with no entry, or with more than 32 queries or keys;
            or texts that are not one for each token.
        TypeError: The mask is not boolean.

    >>> print(explain_mask(causal_mask(3), ["the", "cat", "sat"]))
    Causal: each query may look at itself and all before it.
    <BLANKLINE>
        the cat sat
    the  x   .   .
    cat  x   x   .
    sat  x   x   x
    <BLANKLINE>
    Rows are queries, columns are keys. x: the query may look at the key; . : it may not.
    """
    check_tensor("mask", mask)
    check_mask("mask", mask, mask.device)
    shape = tuple(mask.shape)
    if len(shape) not in (1, 2) or 0 in shape or max(shape) > MOST_TOKENS:
        raise ValueError(
            f"mask has shape {shape}; pass (L, S) or (S,), each 1 to {MOST_TOKENS}: a part of it, "
            "such as mask[0, 0] of (B, h, L, S), or key_mask[0] of (B, S)"
        )
    if mask.dim() == 1:
        queries = ["all"] if queries is None else queries
        mask = mask.expand(len(queries), -1)  # (S,) -> (L, S)
    L, S = mask.shape
    if L == S:
        keys = queries if keys is None else keys
        queries = keys if queries is None else queries
    rows, columns = _labels("queries", queries, L), _labels("keys", keys, S)

    sentences = [_pattern(mask.cpu(), "itself" if rows == columns[-L:] else "the key beside it")]
    hidden, blind = ~mask.any(dim=0), ~mask.any(dim=1)  # (S,), (L,)
    if mask.any() and hidden.any():
        sentences.append(f"Keys that no query may look at: {_names(hidden, columns)}.")
    if mask.any() and blind.any():
        sentences.append(f"Queries that see no key, and so get zeros: {_names(blind, rows)}.")

    margin = max(len(row) for row in rows)
    table = [" ".join([" " * margin, *columns])]
    for row, kept in zip(rows, mask.tolist(), strict=True):
        marks = ["x" if keep else "." for keep in kept]
        cells = [m.center(len(column)) for m, column in zip(marks, columns, strict=True)]
        table.append(" ".join([row.ljust(margin), *cells]).rstrip())
    return "\n".join([*sentences, "", *table, "", LEGEND])


def _labels(name: str, texts: Sequence[str] | None, number: int) -> list[str]:
    """One short text for each token."""
    if texts is None:
        return [str(i) for i in range(number)]
    if len(texts) != number:
        raise ValueError(
            f"{name} has {len(texts)} texts, but the mask has {number} {name}; pass one for each"
        )
    # One sign for one place: ệ may be written as e with two accents, which take no room.
    labels = [unicodedata.normalize("NFC", " ".join(str(text).split())) or "''" for text in texts]
    return [s if len(s) <= LONGEST_LABEL else s[: LONGEST_LABEL - 1] + "…" for s in labels]


def _pattern(keep: Tensor, itself: str) -> str:
    """Name the pattern of a mask (L, S), where it has a name."""
    L, S = keep.shape
    if not keep.any():
        return "No query may look at any key, so all get zeros."
    if keep.all():
        return "Every query may look at every key."
    if L == S and keep.equal(~causal_mask(L)):
        return (
            "A causal mask turned round: each query may look only at what comes after it. "
            "If True means ignore here, pass the mask through from_ignore_mask."
        )
    # What rows and columns of nothing but dots leave over.
    rest = keep.any(dim=0) & keep.any(dim=1, keepdim=True)  # (L, S)
    if keep.equal(rest):
        return "Padding, perhaps: every query may look at the same keys."

    # How far before and after the key beside it does a query see?
    i, j = keep.nonzero().unbind(dim=1)
    steps = j - i - (S - L)
    left, right = max(0, -int(steps.min())), max(0, int(steps.max()))
    for before, after in ((S, 0), (left, right)):
        band = window_mask(L, S, window=(before, after))
        if keep.equal(band & rest):
            name = "Causal" if after == 0 and before >= S - 1 else "Window"
            padded = "" if keep.equal(band) else " with padding"
            reach = f"{itself}{_reach(before, S, 'before')}{_reach(after, L, 'after')}"
            beside = "" if L == S else " The last query stands beside the last key."
            return f"{name}{padded}: each query may look at {reach}.{beside}"
    counts = keep.sum(dim=1)
    return f"No simple pattern: a query may look at {counts.min()} to {counts.max()} of {S} keys."


def _reach(reach: int, length: int, side: str) -> str:
    """Say how far each query sees on one side of a sequence."""
    return f" and {'all' if reach >= length - 1 else reach} {side} it" if reach else ""


def _names(chosen: Tensor, labels: list[str]) -> str:
    """Name tokens by number and text, as in "2 (the), 3 (cat)"."""
    numbers = chosen.nonzero().flatten().tolist()
    return ", ".join(str(i) if labels[i] == str(i) else f"{i} ({labels[i]})" for i in numbers)
