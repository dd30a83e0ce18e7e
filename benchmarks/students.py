"""What a student does with an exercise: answers written into the released notebook.

No measurement itself: measurements and tests must grade the same work. It stands here because
tests may import benchmarks, and benchmarks may not import tests.
"""

from __future__ import annotations

import copy
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[1]
NAME = "multi-head"
MARKER = re.compile(r"^\s*### (BEGIN|END) SOLUTION\s*$\n?", re.MULTILINE)


def copy_course(root: Path) -> Path:
    """Lay a course into the empty folder ``root``: what an instructor's clone has for it."""
    leave_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for folder in ("solutions", "exercises", "grading"):
        shutil.copytree(ROOT / folder, root / folder, ignore=leave_out)
    for settings in ROOT.glob("nbgrader_config.*"):
        shutil.copy(settings, root)
    return root


@cache
def _read(folder: str) -> NotebookNode:
    return nbformat.read(ROOT / folder / NAME / f"{NAME}.ipynb", as_version=4)


def released() -> NotebookNode:
    """Return the notebook as a student gets it."""
    return copy.deepcopy(_read("exercises"))


def instructors() -> NotebookNode:
    """Return the notebook as the instructor wrote it, hidden tests and all."""
    return copy.deepcopy(_read("solutions"))


def grading_facts(cell: NotebookNode) -> Mapping[str, Any]:
    """Return nbgrader's metadata of a cell: grade_id, points and so on; or nothing."""
    facts: Mapping[str, Any] = cell.metadata.get("nbgrader", {})
    return facts


def find(notebook: NotebookNode, grade_id: str) -> NotebookNode:
    """Return the cell with this grade_id."""
    return next(cell for cell in notebook.cells if grading_facts(cell).get("grade_id") == grade_id)


def answer_ids() -> list[str]:
    """Return the grade_ids of the code cells that students fill in, in order."""
    return [
        facts["grade_id"]
        for cell in _read("exercises").cells
        if (facts := grading_facts(cell)) and facts["solution"] and not facts["grade"]
    ]


def right_answer(grade_id: str) -> str:
    """Return the instructor's text of one answer."""
    return MARKER.sub("", find(_read("solutions"), grade_id).source)


def answer(notebook: NotebookNode, grade_id: str, source: str) -> None:
    """Write ``source`` into the cell for this answer."""
    find(notebook, grade_id).source = source


def solve(notebook: NotebookNode, *grade_ids: str) -> None:
    """Write the right answers into these cells, or into all that a machine grades."""
    for grade_id in grade_ids or answer_ids():
        answer(notebook, grade_id, right_answer(grade_id))


def save(notebook: NotebookNode, path: Path) -> None:
    """Write the notebook as Jupyter saves one that was run from top to bottom."""
    notebook = copy.deepcopy(notebook)
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.2"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for count, cell in enumerate(code, 1):
        cell.execution_count = count
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)


def hand_in(notebook: NotebookNode, root: Path, student_id: str) -> Path:
    """Save the notebook as this student's submission; return its folder."""
    folder = root / "submitted" / student_id / NAME
    save(notebook, folder / f"{NAME}.ipynb")
    return folder


def answer_wrongly(notebook: NotebookNode, *grade_ids: str) -> None:
    """Write wrong answers into these cells, or into all that a machine grades."""
    for grade_id in grade_ids or WRONG:
        answer(notebook, grade_id, WRONG[grade_id])


# One plausible wrong answer for each task; none earns a point, in whole or in part.
WRONG = {
    "head-widths": "d_k_bert = 12\nd_k_paper = 8\nd_k_wide = 1280",
    "head-dim": """\
def head_dim(d_model, h):
    return d_model - h""",
    "shapes-by-hand": """\
shapes_by_hand = [[2, 4, 4], [2, 4, 2, 4], [2, 4, 4, 2], [2, 4, 2, 2], [2, 4, 2, 4], [2, 4, 4]]""",
    "step-shapes": """\
def step_shapes(B, N, d_model, h):
    return [[B, N, d_model // h], [B, N, h], [B, h, N], [N, N], [B, N, h], [B, N, d_model]]""",
    "bert-counts": """\
bert_qkv_weights = 3 * 768 * 64
bert_qkv_parameters = 3 * 768 * 64 + 768
bert_layer_weights = 4 * 768
bert_layer_parameters = 12 * 4 * 768 * 768""",
    "count-functions": """\
def count_qkv(d_model, h, bias):
    return h * 3 * d_model * d_model


def count_layer(d_model, h, bias):
    return h * 4 * d_model * d_model""",
    "split-heads": """\
def split_heads(x, h):
    B, N, d_model = x.shape
    return x.reshape(B, h, N, d_model // h)  # the right shape, and tokens mixed up""",
    "merge-by-hand": """\
merged_token = [12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23]
mixed_token = [4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23]""",
    "merge-heads": """\
def merge_heads(heads):
    B, h, N, d_k = heads.shape
    return heads.reshape(B, N, h * d_k)""",
    "attention-weights": """\
def attention_weights(q, k):
    return (q @ k.transpose(-2, -1)).softmax(dim=-2)""",
    "head-outputs": """\
def head_outputs(q, k, v):
    return v""",
    "multi-head-attention": """\
def multi_head_attention(x, w_q, w_k, w_v, w_o, h):
    return x @ w_q @ w_k""",
    "layer": """\
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.out_proj(self.v_proj(x)) + 0 * self.q_proj(self.k_proj(x))""",
    "shares-by-hand": """\
share_0 = [1, 2, 0, 0]
share_1 = [0, 0, 3, 0]
after_swap = [4, 2, 3, 2]""",
    "head-shares": """\
def head_shares(found, w_o):
    return found.repeat(1, 1, 1, found.shape[1])""",
    "reordered": """\
def reordered(w_q, w_k, w_v, w_o, order):
    return w_q[order], w_k[order], w_v[order], w_o[order]""",
    "dog-bites-man": """\
one_head_dog, one_head_man = [4, 0], [0, 2]
two_heads_dog = two_heads_man = [2, 1, 2, 1]""",
    "same-blend": """\
def same_blend(v, w, i, j, change):
    other = v.clone()
    other[i], other[j] = v[j], v[i]
    return other""",
    "name-the-bugs": """\
bugs = ["turned", "tokens mixed", "heads mixed", "wrong axis", "wrong size"]""",
    "converted": """\
def converted(w_q, w_k, w_v, w_o, h):
    root = math.sqrt(len(w_q) // h)
    return w_q / root, w_k / root, w_v, w_o""",
}
