"""What attention did, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """One step: its field in the trace, how it is computed, and the names of its axes.

    >>> Step("weights", "softmax(masked_scores)", ("B", "h", "L", "S")).axes
    ('B', 'h', 'L', 'S')
    """

    name: str
    formula: str
    axes: tuple[str, ...]


_HEAD_STEPS = (
    Step("scores", "q @ k.mT * scale", ("B", "h", "L", "S")),
    Step("masked_scores", "scores + bias, or -inf", ("B", "h", "L", "S")),
    Step("weights", "softmax(masked_scores)", ("B", "h", "L", "S")),
    Step("head_out", "weights @ v", ("B", "h", "L", "d_v")),
)


@dataclass(frozen=True, eq=False, init=False)
class AttentionTrace:
    """Every step of one call of `attention()`.

    Attributes:
        q: (B, h, L, d_k), the queries.
        k: (B, h_kv, S, d_k), the keys; h_kv = h unless query heads share them.
        v: (B, h_kv, S, d_v), the values.
        scores: (B, h, L, S), scaled and capped, before any bias or mask; float32 or wider.
        masked_scores: (B, h, L, S), the bias added, and -inf where a query may not look.
        weights: (B, h, L, S), as they were used: each row sums to 1, to 0 where a query may
            look at no key, and to something else where dropout was on.
        head_out: (B, h, L, d_v), what each head found.
        output: What the call without a trace returns; here head_out.

    >>> import torch
    >>> from mha_lib import attention
    >>> q, k, v = torch.ones(3, 1, 2, 4, 8)
    >>> trace = attention(q, k, v, trace=True)
    >>> trace.axes["weights"]
    ('B', 'h', 'L', 'S')
    >>> tuple(trace.weights.shape)
    (1, 2, 4, 4)
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scores: Tensor
    masked_scores: Tensor
    weights: Tensor
    head_out: Tensor
    output: Tensor

    STEPS: ClassVar[tuple[Step, ...]] = (
        Step("q", "query", ("B", "h", "L", "d_k")),
        Step("k", "key", ("B", "h_kv", "S", "d_k")),
        Step("v", "value", ("B", "h_kv", "S", "d_v")),
        *_HEAD_STEPS,
        Step("output", "head_out", ("B", "h", "L", "d_v")),
    )

    STEP_NAMES: ClassVar[tuple[str, ...]] = tuple(step.name for step in STEPS[:-1])

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scores: Tensor,
        masked_scores: Tensor,
        weights: Tensor,
        head_out: Tensor,
        output: Tensor,
    ) -> None:
        """Keep the steps."""
        # All at once: the __init__ of a frozen dataclass sets them one by one, and a small layer
        # would wait for that as long as for a product.
        vars(self).update(
            q=q,
            k=k,
            v=v,
            scores=scores,
            masked_scores=masked_scores,
            weights=weights,
            head_out=head_out,
            output=output,
        )

    def check_finite(self) -> None:
        """Refuse the first step that holds NaN or infinity; -inf may stand for a hidden key.

        Raises:
            ValueError: There is one. The message names it and the first such place.

        >>> import torch
        >>> from mha_lib import attention
        >>> q = torch.tensor([[[[3e38, 1.0]]]])  # (1, 1, 1, 2), near float32's greatest number
        >>> attention(q, q, q, trace=True).check_finite()
        Traceback (most recent call last):
        ValueError: scores is the first step that is not finite: 1 of 1 numbers, the first at \
[0, 0, 0, 0], which is inf; the steps before it are finite, so look at what it is made from
        """
        check_finite_steps({name: getattr(self, name) for name in self.STEP_NAMES})

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """The names of each step's axes, in the letters that the whole course uses.

        Key heads are h_kv where query heads share them, and h where each has its own.
        """
        own = {"h_kv": "h"} if self.k.shape[1] == self.q.shape[1] else {}
        return {step.name: tuple(own.get(axis, axis) for axis in step.axes) for step in self.STEPS}

    def table(self) -> str:
        """Write the steps as a table of text: step, formula, axes, shape, bytes.

        Bytes are the numbers of that step alone: its elements times the size of one.

        >>> import torch
        >>> from mha_lib import MultiHeadAttention
        >>> layer = MultiHeadAttention(12288, 96, device="meta")  # GPT-3's, with no numbers in it
        >>> print(layer(torch.empty(1, 2048, 12288, device="meta"), trace=True).table())
        step           formula                 axes             shape                        bytes
        q              split(q_proj(query))    (B, h, L, d_k)   (1, 96, 2048, 128)     100,663,296
        k              split(k_proj(key))      (B, h, S, d_k)   (1, 96, 2048, 128)     100,663,296
        v              split(v_proj(value))    (B, h, S, d_v)   (1, 96, 2048, 128)     100,663,296
        scores         q @ k.mT * scale        (B, h, L, S)     (1, 96, 2048, 2048)  1,610,612,736
        masked_scores  scores + bias, or -inf  (B, h, L, S)     (1, 96, 2048, 2048)  1,610,612,736
        weights        softmax(masked_scores)  (B, h, L, S)     (1, 96, 2048, 2048)  1,610,612,736
        head_out       weights @ v             (B, h, L, d_v)   (1, 96, 2048, 128)     100,663,296
        concat         merge(head_out)         (B, L, h*d_v)    (1, 2048, 12288)       100,663,296
        output         out_proj(concat)        (B, L, d_model)  (1, 2048, 12288)       100,663,296
        """
        names = self.axes
        rows = [("step", "formula", "axes", "shape", "bytes")]
        for step in self.STEPS:
            tensor: Tensor = getattr(self, step.name)
            axes = f"({', '.join(names[step.name])})"
            size = f"{tensor.numel() * tensor.element_size():,}"
            rows.append((step.name, step.formula, axes, str(tuple(tensor.shape)), size))
        widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
        lines = []
        for *texts, number in rows:
            cells = [text.ljust(width) for text, width in zip(texts, widths, strict=False)]
            lines.append("  ".join([*cells, number.rjust(widths[-1])]))
        return "\n".join(lines)


def check_finite_steps(steps: Mapping[str, Tensor]) -> None:
    """Refuse the first of these steps that holds NaN or infinity, as `check_finite` says.

    >>> import torch
    >>> check_finite_steps({"query": torch.tensor([0.0, 1.0])})
    """
    for name, step in steps.items():
        bad = ~step.isfinite()
        if name == "masked_scores":
            bad &= ~step.isneginf()
        if bad.any():
            first = tuple(bad.nonzero()[0].tolist())
            raise ValueError(
                f"{name} is the first step that is not finite: {int(bad.sum())} of {step.numel()} "
                f"numbers, the first at {list(first)}, which is {step[first].item()}; "
                "the steps before it are finite, so look at what it is made from"
            )


@dataclass(frozen=True, eq=False, init=False)
class MultiHeadTrace(AttentionTrace):
    """Every step of one call of `MultiHeadAttention`.

    Attributes:
        concat: (B, L, h * d_v), the heads side by side.
        output: (B, L, d_model), what the layer returns without a trace.
        out_weight: (d_model, h * d_v), W_O as `out_proj` holds it; `contributions` needs it.
            None where `out_proj` holds no such matrix, being quantised or replaced.

    The others are those of `AttentionTrace`.

    >>> import torch
    >>> from mha_lib import MultiHeadAttention
    >>> layer = MultiHeadAttention(8, 2)
    >>> trace = layer(torch.randn(3, 5, 8), trace=True)
    >>> tuple(trace.concat.shape), tuple(trace.output.shape)
    ((3, 5, 8), (3, 5, 8))
    """

    concat: Tensor
    out_weight: Tensor | None = field(repr=False)

    STEPS: ClassVar[tuple[Step, ...]] = (
        Step("q", "split(q_proj(query))", ("B", "h", "L", "d_k")),
        Step("k", "split(k_proj(key))", ("B", "h_kv", "S", "d_k")),
        Step("v", "split(v_proj(value))", ("B", "h_kv", "S", "d_v")),
        *_HEAD_STEPS,
        Step("concat", "merge(head_out)", ("B", "L", "h*d_v")),
        Step("output", "out_proj(concat)", ("B", "L", "d_model")),
    )

    STEP_NAMES: ClassVar[tuple[str, ...]] = tuple(step.name for step in STEPS)

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scores: Tensor,
        masked_scores: Tensor,
        weights: Tensor,
        head_out: Tensor,
        output: Tensor,
        concat: Tensor,
        out_weight: Tensor | None,
    ) -> None:
        """Keep the steps, all at once as `AttentionTrace` does."""
        vars(self).update(
            q=q,
            k=k,
            v=v,
            scores=scores,
            masked_scores=masked_scores,
            weights=weights,
            head_out=head_out,
            output=output,
            concat=concat,
            out_weight=out_weight,
        )

    @cached_property
    def contributions(self) -> Tensor:
        """Each head's own share of the output, (B, h, L, d_model).

        W_O meets the concatenated heads in one product, but each head only ever meets its own
        d_v columns of it. So the output is a sum over heads, plus the bias (Elhage et al.
        2021, "A Mathematical Framework for Transformer Circuits"). Computed when first asked
        for, with `out_proj`'s weight as it is then.

        Raises:
            TypeError: `out_weight` is None.

        >>> import torch
        >>> from mha_lib import MultiHeadAttention
        >>> layer = MultiHeadAttention(8, 2)
        >>> trace = layer(torch.randn(3, 5, 8), trace=True)
        >>> total = trace.contributions.sum(dim=1) + layer.out_proj.bias
        >>> torch.allclose(total, trace.output, atol=1e-6)
        True
        """
        if self.out_weight is None:
            raise TypeError(
                "out_proj is not an nn.Linear with floating-point weights, so W_O cannot be cut "
                "into heads; trace the layer as it was before out_proj was quantised, split or "
                "replaced"
            )
        h, d_v = self.head_out.shape[1], self.head_out.shape[3]
        per_head = self.out_weight.reshape(-1, h, d_v)  # (d_model, h*d_v) -> (d_model, h, d_v)
        per_head = per_head.permute(1, 2, 0)  # (d_model, h, d_v) -> (h, d_v, d_model)
        per_head = per_head.to(self.head_out.dtype)  # under autocast the weights are wider
        return self.head_out @ per_head  # (B, h, L, d_v) @ (h, d_v, d_model) -> (B, h, L, d_model)
