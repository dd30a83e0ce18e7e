"""The mistakes that students make in the multi-head exercise, and honest answers of other kinds.

A mistake names the hidden checks that it must fail: the points rest on these. `seen` says that
its visible checks fail too, compared as the grader does. Submissions take their answers from here.
"""

from collections.abc import Iterable
from typing import NamedTuple

from benchmarks.students import WRONG

ALL = "all hidden checks of the cell"


class Answer(NamedTuple):
    """A student's text of one answer, and what it must come to."""

    name: str
    cell: str
    source: str
    fails: tuple[str, ...] | str = ()
    seen: bool = True


def named(bank: Iterable[Answer], name: str) -> list[Answer]:
    """Return the answers of a bank that bear this name, at least one."""
    answers = [answer for answer in bank if answer.name == name]
    assert answers, f"there is no answer {name!r}"
    return answers


def attention(body: str) -> str:
    """Return a `multi_head_attention` whose last lines are `body`, in place of merge and W_O."""
    return f"""\
def multi_head_attention(x, w_q, w_k, w_v, w_o, h):
    q, k, v = (split_heads(x @ w, h) for w in (w_q, w_k, w_v))
    head_out = attention_weights(q, k) @ v
{body}"""


def layer(forward: str, init: str = "") -> str:
    """Return a `MultiHeadAttention` with these lines at the ends of `forward` and `__init__`."""
    return f"""\
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
{init}
    def forward(self, x):
        q = split_heads(self.q_proj(x), self.h)
        k = split_heads(self.k_proj(x), self.h)
        v = split_heads(self.v_proj(x), self.h)
{forward}"""


RIGHT_ATTENTION = """\
def multi_head_attention(x, w_q, w_k, w_v, w_o, h):
    heads = []
    width = x.shape[-1] // h
    for i in range(h):
        mine = slice(i * width, (i + 1) * width)
        q, k, v = x @ w_q[:, mine], x @ w_k[:, mine], x @ w_v[:, mine]
        scores = torch.einsum("bqd,bkd->bqk", q, k) / width**0.5
        heads.append(torch.softmax(scores, -1) @ v)
    return torch.cat(heads, -1) @ w_o"""

HONEST = [
    Answer(
        "numbers of other types",
        "head-widths",
        "import numpy as np\nd_k_bert = 768 / 12\nd_k_wide = np.int32(80)",
    ),
    Answer(
        "tensors of other kinds",
        "head-widths",
        "d_k_bert = torch.tensor(64, dtype=torch.bfloat16)\n"
        "d_k_wide = torch.tensor([16.0, 80.0], dtype=torch.bfloat16)[1]",
    ),
    Answer(
        "numbers of other types",
        "bert-counts",
        """\
import numpy as np

bert_qkv_weights = np.int64(3) * 768**2
bert_qkv_parameters = torch.tensor(3 * (768**2 + 768))
bert_layer_weights = float(4 * 768**2)
bert_layer_parameters = np.float64(4 * (768**2 + 768))""",
    ),
    Answer(
        "numbers of other types",
        "head-dim",
        "import numpy as np\n\n\ndef head_dim(d_model, h):\n    return np.int64(d_model // h)",
    ),
    Answer("lambdas and classes", "head-dim", "head_dim = lambda d_model, h: int(d_model / h)"),
    Answer(
        "layers counted by PyTorch",
        "count-functions",
        """\
def count_qkv(d_model, h, bias):
    one = nn.Linear(d_model, d_model // h, bias=bias)
    return 3 * h * sum(part.numel() for part in one.parameters())


def count_layer(d_model, h, bias):
    return count_qkv(d_model, h, bias) // 3 * 4""",
    ),
    Answer(
        "columns first",
        "split-heads",
        """\
def split_heads(x, h):
    B, N, d_model = x.shape
    return x.transpose(1, 2).reshape(B, h, d_model // h, N).transpose(2, 3)""",
    ),
    Answer(
        "chunks",
        "split-heads",
        "def split_heads(x, h):\n    return torch.stack(x.chunk(h, dim=-1), dim=1)",
    ),
    Answer(
        "numbers of other types",
        "merge-by-hand",
        "*_, last = torch.arange(24).view(3, 2, 4).unbind(1)\n"
        "merged_token = tuple(last.flatten().tolist())\nmixed_token = list(range(12, 24))",
    ),
    Answer(
        "tensors of other kinds",
        "split-heads",
        """\
def split_heads(x, h):
    pieces = x.unflatten(-1, (h, -1)).permute(0, 2, 1, 3)
    return pieces.transpose(-1, -2).contiguous().transpose(-1, -2)  # strides in disorder""",
    ),
    Answer(
        "tensors of other kinds",
        "merge-heads",
        """\
def merge_heads(heads):
    joined = heads.permute(0, 2, 1, 3).flatten(2)
    return joined.detach().requires_grad_() if not heads.requires_grad else joined""",
    ),
    Answer(
        "lambdas and classes",
        "merge-heads",
        """\
from dataclasses import dataclass


@dataclass
class Merger:
    first: int = 1

    def __call__(self, heads: "torch.Tensor") -> "torch.Tensor":
        return heads.transpose(self.first, 2).flatten(2)


merge_heads: Merger = Merger()""",
    ),
    Answer(
        "contiguous and view",
        "merge-heads",
        """\
def merge_heads(heads):
    B, h, N, d_k = heads.shape
    return heads.permute(0, 2, 1, 3).contiguous().view(B, N, -1)""",
    ),
    Answer(
        "concatenation",
        "merge-heads",
        "def merge_heads(heads):\n    return torch.cat(heads.unbind(1), dim=-1)",
    ),
    Answer(
        "queries scaled first",
        "attention-weights",
        """\
def attention_weights(q, k):
    scores = (q / q.size(-1) ** 0.5) @ k.mT
    raised = (scores - scores.amax(-1, keepdim=True)).exp()
    return raised / raised.sum(-1, keepdim=True)""",
    ),
    Answer("a loop over heads", "multi-head-attention", RIGHT_ATTENTION),
    Answer(
        "the function of task 4",
        "layer",
        layer(
            "        weights = attention_weights(q, k)\n"
            "        return nn.functional.linear(\n"
            "            merge_heads(weights @ v), self.out_proj.weight, self.out_proj.bias\n"
            "        )"
        ),
    ),
    Answer(
        "without split_heads and merge_heads",
        "multi-head-attention",
        """\
def multi_head_attention(x, w_q, w_k, w_v, w_o, h):
    def cut(t):
        return t.unflatten(-1, (h, -1)).transpose(1, 2)

    q, k, v = cut(x @ w_q), cut(x @ w_k), cut(x @ w_v)
    return (attention_weights(q, k) @ v).transpose(1, 2).flatten(2) @ w_o""",
    ),
    Answer(
        "without split_heads and merge_heads",
        "layer",
        """\
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        # The other way round, with a helper that holds nothing of its own.
        self.out_proj = nn.Linear(d_model, d_model)
        self.v_proj, self.k_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.drop = nn.Dropout(0.0)
        self.q_proj = nn.Linear(d_model, d_model)
        self.h = h

    def cut(self, t):
        return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        mixed = self.drop(attention_weights(q, k)) @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(2))""",
    ),
]

MISTAKES = [
    *(Answer("plausible and wrong", cell, source, ALL) for cell, source in WRONG.items()),
    Answer("multiplied", "head-widths", "d_k_bert = 768 * 12\nd_k_wide = 1280 * 16", ALL),
    Answer("numbers as text", "head-widths", "d_k_bert = '64'\nd_k_wide = True", ALL),
    Answer(
        "one of two",
        "head-widths",
        "d_k_bert = 64\nd_k_wide = 64",
        ("d_k of the wider layer, graded",),
    ),
    Answer("changed about", "head-widths", "d_k_bert = 80\nd_k_wide = 64", ALL),
    Answer(
        "a width with a fraction",
        "head-dim",
        "def head_dim(d_model, h):\n    return d_model / h",
        ALL,
    ),
    Answer("always 64", "head-dim", "def head_dim(d_model, h):\n    return 64", ALL),
    Answer(
        "the visible sizes by heart",
        "head-dim",
        "def head_dim(d_model, h):\n    return {12: 4, 1600: 64, 35: 7}[d_model]",
        ALL,
        seen=False,
    ),
    Answer("the remainder", "head-dim", "def head_dim(d_model, h):\n    return d_model % h", ALL),
    Answer(
        "each head has the whole width",
        "bert-counts",
        """\
bert_qkv_weights = 12 * 3 * 768 * 768
bert_qkv_parameters = 12 * 3 * (768 * 768 + 768)
bert_layer_weights = 12 * 4 * 768 * 768
bert_layer_parameters = 12 * 4 * (768 * 768 + 768)""",
        ALL,
    ),
    Answer(
        "W_O forgotten",
        "bert-counts",
        """\
bert_layer_weights = bert_qkv_weights = 3 * 768 * 768
bert_layer_parameters = bert_qkv_parameters = 3 * (768 * 768 + 768)""",
        ("weights of the layer, graded", "parameters of the layer, graded"),
    ),
    Answer(
        "each head has the whole width",
        "count-functions",
        """\
def count_qkv(d_model, h, bias):
    return h * 3 * (d_model * d_model + bias * d_model)


def count_layer(d_model, h, bias):
    return count_qkv(d_model, h, bias) + d_model * (d_model + bias)""",
        ALL,
    ),
    Answer(
        "biases always counted",
        "count-functions",
        """\
def count_qkv(d_model, h, bias):
    return 3 * (d_model * d_model + d_model)


def count_layer(d_model, h, bias):
    return 4 * (d_model * d_model + d_model)""",
        ALL,
    ),
    Answer(
        "W_O forgotten",
        "count-functions",
        """\
def count_qkv(d_model, h, bias):
    return 3 * d_model * (d_model + bias)


count_layer = count_qkv""",
        ("count_layer, other sizes",),
    ),
    Answer(
        "view in the wrong order",
        "split-heads",
        """\
def split_heads(x, h):
    B, N, d_model = x.shape
    return x.view(B, N, d_model // h, h).permute(0, 3, 1, 2)""",
        ALL,
    ),
    Answer(
        "transpose forgotten",
        "split-heads",
        """\
def split_heads(x, h):
    B, N, d_model = x.shape
    return x.view(B, N, h, d_model // h)""",
        ALL,
    ),
    Answer(
        "a width with a fraction",
        "split-heads",
        """\
def split_heads(x, h):
    B, N, d_model = x.shape
    return x.view(B, N, h, d_model / h).transpose(1, 2)""",
        ALL,
    ),
    Answer(
        "sizes of the visible example",
        "split-heads",
        "def split_heads(x, h):\n    return x.reshape(2, 5, 3, 4).transpose(1, 2)",
        ALL,
        seen=False,
    ),
    Answer(
        "the first token",
        "merge-by-hand",
        """\
merged_token = [0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19]
mixed_token = list(range(12))""",
        ALL,
    ),
    Answer(
        "view after transpose",
        "merge-heads",
        """\
def merge_heads(heads):
    B, h, N, d_k = heads.shape
    return heads.transpose(1, 2).view(B, N, h * d_k)""",
        ("merge_heads, other sizes",),
    ),
    Answer(
        "heads interleaved",
        "merge-heads",
        """\
def merge_heads(heads):
    B, h, N, d_k = heads.shape
    return heads.permute(0, 2, 3, 1).reshape(B, N, h * d_k)""",
        ("merge_heads, other sizes", "merge after split, other sizes"),
    ),
    Answer(
        "heads averaged",
        "merge-heads",
        "def merge_heads(heads):\n    return heads.mean(dim=1)",
        ALL,
    ),
    Answer(
        "no scale",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT).softmax(-1)",
        ALL,
    ),
    Answer(
        "divided by d_k, not by its root",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT / q.shape[-1]).softmax(-1)",
        ALL,
    ),
    Answer(
        "scaled after the softmax",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT).softmax(-1) / q.shape[-1] ** 0.5",
        ALL,
    ),
    Answer(
        "softmax along the queries",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-2)",
        ALL,
    ),
    Answer(
        "softmax along the heads",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(1)",
        ALL,
    ),
    Answer(
        "queries and keys changed about",
        "attention-weights",
        "def attention_weights(q, k):\n    return (k @ q.mT / q.shape[-1] ** 0.5).softmax(-1)",
        ALL,
    ),
    Answer(
        "the width of the visible example",
        "attention-weights",
        "def attention_weights(q, k):\n    return (q @ k.mT / 2).softmax(-1)",
        ALL,
        seen=False,
    ),
    Answer(
        "a softmax that overflows",
        "attention-weights",
        """\
def attention_weights(q, k):
    raised = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return raised / raised.sum(-1, keepdim=True)""",
        ("attention_weights, large scores",),
        seen=False,
    ),
    Answer(
        "W_O forgotten",
        "multi-head-attention",
        attention("    return merge_heads(head_out)"),
        ALL,
    ),
    Answer(
        "heads averaged",
        "multi-head-attention",
        attention(
            "    return head_out.mean(1).repeat(1, 1, h) @ w_o",
        ),
        (
            "multi_head_attention, other sizes",
            "multi_head_attention, edges",
            "multi_head_attention, one token",
        ),
    ),
    Answer(
        "merged without transpose",
        "multi-head-attention",
        attention("    return head_out.reshape(x.shape) @ w_o"),
        ("multi_head_attention, other sizes", "multi_head_attention, edges"),
    ),
    Answer(
        "matrices transposed",
        "multi-head-attention",
        RIGHT_ATTENTION.replace("@ w_o", "@ w_o.T"),
        ALL,
    ),
    Answer(
        "queries and keys changed about",
        "multi-head-attention",
        "right = multi_head_attention\n\n\n"
        "def multi_head_attention(x, w_q, w_k, w_v, w_o, h):\n"
        "    return right(x, w_k, w_q, w_v, w_o, h)",
        ("multi_head_attention, other sizes", "multi_head_attention, edges"),
    ),
    Answer(
        "one head always",
        "multi-head-attention",
        RIGHT_ATTENTION.replace("    heads = []", "    h, heads = 1, []"),
        ("multi_head_attention, other sizes", "multi_head_attention, edges"),
    ),
    Answer(
        "the visible number of heads",
        "multi-head-attention",
        RIGHT_ATTENTION.replace("    heads = []", "    h, heads = 3, []"),
        ("multi_head_attention, other sizes", "multi_head_attention, edges"),
        seen=False,
    ),
    Answer(
        "sizes of 1 squeezed away",
        "multi-head-attention",
        RIGHT_ATTENTION.replace("torch.cat(heads, -1)", "torch.cat(heads, -1).squeeze(0)"),
        ("multi_head_attention, one token",),
        seen=False,
    ),
    Answer(
        "W_O forgotten",
        "layer",
        layer("        return merge_heads(attention_weights(q, k) @ v)"),
        ALL,
    ),
    Answer(
        "the gradient cut off",
        "layer",
        layer(
            "        weights = attention_weights(q, k).detach()\n"
            "        return self.out_proj(merge_heads(weights @ v))"
        ),
        ("gradients, other sizes",),
    ),
    Answer(
        "no scale",
        "layer",
        layer(
            "        weights = (q @ k.mT).softmax(-1)\n"
            "        return self.out_proj(merge_heads(weights @ v))"
        ),
        ("layer, other sizes", "gradients, other sizes"),
    ),
    Answer(
        "the visible number of heads",
        "layer",
        layer(
            "        return self.out_proj(merge_heads(attention_weights(q, k) @ v))",
            init="        self.h = 3",
        ),
        ALL,
        seen=False,
    ),
    Answer(
        "other names",
        "layer",
        layer("        return self.out_proj(merge_heads(attention_weights(q, k) @ v))").replace(
            "q_proj", "query"
        ),
        ALL,
    ),
    Answer(
        "no biases",
        "layer",
        layer("        return self.out_proj(merge_heads(attention_weights(q, k) @ v))").replace(
            "nn.Linear(d_model, d_model)", "nn.Linear(d_model, d_model, bias=False)"
        ),
        ALL,
    ),
]
