"""Probes: what a module does, found out from outside by changing what goes in.

A probe takes any module or function that turns tokens (B, N, d_model), or token numbers (B, N),
into one tensor (B, N, ...). What needs more goes into a lambda:

    causality(lambda x: torch_layer(x, x, x)[0], x)

A probe tries one input: what it sees move does move, and what it sees at rest is very likely at
rest for others too. It tries a copy of the module, in eval mode, so that yours stays as it is. A
module inside a lambda is not copied: call its `eval()` yourself.

Every probe raises TypeError where the module returns no tensor, and ValueError where x or the
output has other axes, where no two tokens differ, or where the output is NaN, infinite or not
the same when asked for twice.

Letters in shapes: B batch, h heads, N tokens, M tokens of the output.
"""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mha_lib.masks import causal_mask
from mha_lib.tensor_checks import check_tensor

Module = Callable[[Tensor], object]


class Finding(NamedTuple):
    """What a probe found. It prints as a sentence, and is True where the property holds.

    Attributes:
        difference: How far an output moved that should have stayed, at most, in parts of the
            greatest number in the output.
        where: Where that was greatest, two indices; None where the property holds.
        text: The sentence. It says too up to where a difference counts as rounding.

    >>> finding = Finding(0.25, (0, 1), "Not causal: output 0 moved ...")
    >>> print(finding, bool(finding))
    Not causal: output 0 moved ... False
    """

    difference: float
    where: tuple[int, int] | None
    text: str

    def __bool__(self) -> bool:
        return self.where is None

    def __str__(self) -> str:
        return self.text


def permutation_equivariance(module: Module, x: Tensor) -> Finding:
    """Ask whether tokens that change places take their outputs along, unchanged.

    Attention alone is so: it sees a set of tokens, not an order. Positions and causality end
    that. Two changes of place are tried, the first two tokens swapped and all moved on by one,
    for every order can be made of these two.

    Returns:
        A `Finding`; `where` is (which change, 0 or 1, and the place that came out most wrong).
        Sums in another order round differently, so the tolerance is 6e-6 in float32 and 0.03 in
        bfloat16.

    >>> from mha_lib import MultiHeadAttention
    >>> x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    >>> bool(permutation_equivariance(MultiHeadAttention(8, 2), x))
    True
    >>> bool(permutation_equivariance(MultiHeadAttention(8, 2, causal=True), x))
    False
    """
    module, before = _prepare(module, x)
    M, N = before.shape[1], x.shape[1]
    if M != N:
        raise ValueError(f"the module turned {N} tokens into {M}; a place needs one for each")
    places = torch.arange(N, device=x.device)
    orders = torch.cat([places[:2].flip(0), places[2:]]), places.roll(1)  # each (N,)
    moved = [_moves(before[:, order], _ask(module, x[:, order])) for order in orders]
    return _finding(
        torch.stack(moved),  # (2, N): change, place
        torch.finfo(before.dtype).eps ** 0.75,
        "Permutation equivariant: tokens that changed places took their outputs along",
        "Not permutation equivariant: after change {} the output at place {} was not its token's",
    )


def causality(module: Module, x: Tensor) -> Finding:
    """Ask whether the past stays as it is when the future changes.

    Tokens are replaced as in `dependence`. The last output stands beside the last token.

    Returns:
        A `Finding`; `where` is (output, the later token that moved it most).

    >>> from mha_lib import MultiHeadAttention
    >>> x = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(0))
    >>> bool(causality(MultiHeadAttention(8, 2, causal=True), x))
    True
    >>> bool(causality(MultiHeadAttention(8, 2), x))
    False
    """
    moves, rounding = _moves_by_token(module, x)
    return _finding(
        moves.masked_fill(causal_mask(*moves.shape, device=x.device), 0.0),  # (M, N)
        rounding,
        "Causal: no output moved when a later token changed",
        "Not causal: output {} moved when token {}, which comes later, changed",
    )


def dependence(module: Module, x: Tensor) -> Tensor:
    """Find which outputs depend on which tokens, by replacing one token after another.

    Vectors are replaced by noise of the same size, token numbers by the next number.

    Returns:
        (M, N), boolean: whether output i moved when token j was replaced, by more than
        rounding: 5e-7 of the greatest number in the output, 9e-16 in float64. Half precision
        needs no more, for what a token cannot reach is then rounded to the same bits.

    >>> from mha_lib import MultiHeadAttention
    >>> x = torch.randn(1, 3, 8, generator=torch.Generator().manual_seed(0))
    >>> dependence(MultiHeadAttention(8, 2, causal=True), x).int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [1, 1, 1]], dtype=torch.int32)
    """
    moves, rounding = _moves_by_token(module, x)
    return moves > rounding


def head_independence(layer: Any, x: Tensor, *others: Tensor) -> Finding:
    """Ask whether a head stays as it is when another head gets other queries, keys and values.

    Heads meet in W_O and not before. If they do, they were split wrongly, or they share their
    keys and values, as in grouped-query attention.

    Args:
        layer: A module with num_heads that calls each of its q_proj, k_proj, v_proj and out_proj
            once; in these head i owns features i * d to (i + 1) * d - 1. If it has num_kv_heads,
            then k_proj and v_proj have that many heads.
        x: Tokens (B, N, d_model).
        others: What else the layer is called with, key and value perhaps.

    Returns:
        A `Finding`; `where` is (head, the other head that moved it most).

    >>> from mha_lib import MultiHeadAttention
    >>> bool(head_independence(MultiHeadAttention(8, 2), torch.randn(1, 4, 8)))
    True
    >>> bool(head_independence(MultiHeadAttention(8, 2, num_kv_heads=1), torch.randn(1, 4, 8)))
    False
    """
    needed = ("q_proj", "k_proj", "v_proj", "out_proj", "num_heads")
    if missing := [name for name in needed if not hasattr(layer, name)]:
        way_out = f"pass a layer with {', '.join(needed)}, from_torch(layer) for torch's"
        raise TypeError(f"{type(layer).__name__} has no {missing[0]}; {way_out}")
    h, h_kv = layer.num_heads, getattr(layer, "num_kv_heads", layer.num_heads)

    def heads(x: Tensor, changed: int | None = None) -> Tensor:
        """Return what each head found, (B, h, N, d_v), as it goes into W_O."""
        probed = copy.deepcopy(layer).eval()
        seen: list[Tensor] = []
        probed.out_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        if changed is not None:
            for name, count in (("q_proj", h), ("k_proj", h_kv), ("v_proj", h_kv)):
                replace = partial(_replace_head, changed * count // h, count)
                getattr(probed, name).register_forward_hook(replace)
        probed(x, *others)
        if len(seen) != 1:
            raise TypeError(f"the layer called out_proj {len(seen)} times, where once is expected")
        return torch.stack(seen[0].chunk(h, dim=-1), dim=1)  # (B, N, h*d_v) -> (B, h, N, d_v)

    _, before = _prepare(heads, x)
    moved = [_moves(before, _ask(partial(heads, changed=i), x)) for i in range(h)]
    return _finding(
        torch.stack(moved, dim=1).fill_diagonal_(0.0),  # (h, h): head, the changed other head
        _rounding(before),
        "Independent heads: none moved when another got other queries, keys and values",
        "Dependent heads: head {} moved when head {} got other queries, keys and values",
    )


def _replace_head(head: int, count: int, _: nn.Module, args: object, projected: Tensor) -> Tensor:
    """Put noise in the place of one head of a projection, (B, N, count * d)."""
    heads = list(projected.chunk(count, dim=-1))  # each (B, N, d)
    heads[head] = _noise(heads[head])
    return torch.cat(heads, dim=-1)


def _noise(x: Tensor) -> Tensor:
    """Random numbers of the shape and size of x, the same ones in every call."""
    size = x.float().square().mean().sqrt()
    # A seed that no reader takes: with theirs, the noise might be x itself over again.
    generator = torch.Generator().manual_seed(7_046_029_254_386_353)
    noise = torch.randn(x.shape, generator=generator).to(x.device)
    return (noise * torch.where(size > 0, size, 1.0)).to(x.dtype)


def _moves_by_token(module: Module, x: Tensor) -> tuple[Tensor, float]:
    """Measure how far each output moves when each token is replaced, (M, N), and the rounding."""
    module, before = _prepare(module, x)
    other = _noise(x) if x.is_floating_point() else (x + 1) % (x.max() + 1)
    columns = []
    for j in range(x.shape[1]):
        changed = torch.cat([x[:, :j], other[:, j : j + 1], x[:, j + 1 :]], dim=1)
        columns.append(_moves(before, _ask(module, changed)))  # (M,)
    return torch.stack(columns, dim=1), _rounding(before)


def _moves(before: Tensor, after: Tensor) -> Tensor:
    """How far each entry of axis 1 moved at most, in parts of the greatest number in before."""
    before, after = before.double(), after.double()
    moved = (after - before).abs().transpose(0, 1).flatten(1).amax(dim=1)
    size = before.abs().max()
    return moved / torch.where(size > 0, size, 1.0)


def _rounding(output: Tensor) -> float:
    return 4 * torch.finfo(torch.promote_types(output.dtype, torch.float32)).eps


def _finding(moves: Tensor, tolerance: float, holds: str, fails: str) -> Finding:
    """Judge a table of moves, none of which should be above the tolerance."""
    difference = float(moves.max())
    where = divmod(int(moves.argmax()), moves.shape[1]) if difference > tolerance else None
    text = fails.format(*where) if where else holds
    text += f" (at most by {difference:.2g} of the greatest output; {tolerance:.2g} is rounding)"
    return Finding(difference, where, text)


def _prepare(module: Module, x: Tensor) -> tuple[Module, Tensor]:
    """Return a copy of the module in eval mode, and its output, if asking again brings the same."""
    check_tensor("x", x)
    if x.dim() < 2 + x.is_floating_point() or x.shape[1] < 2 or bool((x == x[:, :1]).all()):
        raise ValueError(
            f"x has shape {tuple(x.shape)}; a probe takes tokens (B, N, d_model) or token numbers "
            "(B, N), and two must differ, as in torch.randn(1, 5, d_model)"
        )
    module = copy.deepcopy(module).eval() if isinstance(module, nn.Module) else module
    before, again = _ask(module, x), _ask(module, x)
    if before.shape != again.shape or _moves(before, again).max() > _rounding(before):
        raise ValueError(
            "the module gave two outputs for one input; with dropout in a lambda call eval() first"
        )
    return module, before


def _ask(module: Module, x: Tensor) -> Tensor:
    """Run the module and return its output, if it can be compared."""
    with torch.no_grad():
        output = module(x.clone())  # a module may write over its input,
    if not isinstance(output, Tensor):
        found = type(output).__name__
        raise TypeError(f"the module returned a {found}, no tensor; pass lambda x: module(x)[0]")
    if output.dim() < 2 or len(output) != len(x) or output.numel() == 0:
        shapes = f"{tuple(x.shape)} into {tuple(output.shape)}"
        raise ValueError(f"the module turned {shapes}; it should return (B, N, ...)")
    if output.is_complex():
        output = torch.view_as_real(output)  # (B, N, ...) -> (B, N, ..., 2)
    if not output.isfinite().all():
        raise ValueError("the output has NaN or infinity, which nothing compares with")
    # and may use the memory of its output again.
    return output.clone() if output.is_floating_point() else output.float()
