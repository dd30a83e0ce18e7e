"""Submissions of people who mean well: right, half right, unusual, or broken on the way.

Right work gets every point a machine gives, however odd it looks. Broken files never stop a
batch: each ends in a status with a reason, and what stands in it counts.
"""

from __future__ import annotations

import unicodedata

from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from benchmarks.students import (
    NAME,
    ROOT,
    answer,
    answer_ids,
    answer_wrongly,
    find,
    grading_facts,
    save,
    solve,
)
from grading.answers import read_answers
from grading.assignment import load
from grading.course import Course
from grading.grade import Status
from tests.grading.handing_in import ALL, Work, check_cells, index_of, submission

HALF = tuple(answer_ids()[:6])
BANK = read_answers(Course(ROOT), load(Course(ROOT), NAME))
NGUYEN = "nguyễn-thị-hương"


def replace(work: Work, grade_id: str, old: str, new: str) -> None:
    """Change a right answer in one place."""
    cell = find(work.notebook, grade_id)
    assert old in cell.source, f"{old!r} is not in the answer {grade_id}:\n{cell.source}"
    cell.source = cell.source.replace(old, new)


def write(work: Work, name: str) -> None:
    """Write all answers of this name, from the bank of the exercise."""
    found = [one for one in BANK if one.name == name]
    assert found, f"there is no answer {name!r}"
    for one in found:
        answer(work.notebook, one.cell, one.source)


def before_all(work: Work, source: str) -> None:
    """Add a cell of one's own before the first task."""
    work.notebook.cells.insert(index_of(work.notebook, answer_ids()[0]), new_code_cell(source))


# The usual.


@submission(quick=True, honest=True, right=ALL)
def right(work: Work) -> None:
    """Every answer right: every point that a machine gives."""
    solve(work.notebook)
    answer(work.notebook, "one-head", "Một đầu chỉ có *một* hàng: $\\sum_j a_{ij} = 1$.")


@submission(quick=True, honest=True, right=HALF)
def half_right(work: Work) -> None:
    """The first six answers right and the others wrong: the points of six."""
    answer_wrongly(work.notebook)
    solve(work.notebook, *HALF)


@submission(honest=True)
def wrong(work: Work) -> None:
    """Every answer plausible and wrong: nothing."""
    answer_wrongly(work.notebook)


@submission(honest=True, right=ALL)
def outputs_of_an_older_run(work: Work) -> None:
    """Right answers saved with the errors of an older run: outputs do not matter."""
    solve(work.notebook)
    for test in check_cells():
        find(work.notebook, test).outputs = [
            new_output("error", ename="CheckFailed", evalue="not right", traceback=["not right"])
        ]


@submission(honest=True)
def right_for_the_visible_sizes_only(work: Work) -> None:
    """An answer that knows the visible sizes by heart: nothing for it."""
    answer_wrongly(work.notebook)
    write(work, "the visible sizes by heart")


@submission(honest=True)
def untouched(work: Work) -> None:
    """Handed in as it was released: nothing, and no person has to look."""


@submission(honest=True)
def empty(work: Work) -> None:
    """Every answer deleted down to nothing: nothing."""
    for cell in work.notebook.cells:
        if grading_facts(cell).get("solution"):
            cell.source = ""


@submission(honest=True, right=HALF)
def crash(work: Work) -> None:
    """A cell of their own raises at the top, half the answers are right: these count."""
    half_right(work)
    before_all(work, "raise RuntimeError('I meant to delete this')")


@submission(honest=True, right=tuple(answer_ids()[1:2]))
def syntax_error(work: Work) -> None:
    """One right answer among cells that are not Python: it counts."""
    for grade_id in answer_ids():
        answer(work.notebook, grade_id, "def (:\n    'unfinished")
    solve(work.notebook, answer_ids()[1])


@submission(honest=True, right=(*HALF[:2], *answer_ids()[3:]), status=Status.WARNINGS)
def endless_loop(work: Work) -> None:
    """`while True` in the third answer: it is stopped, and all the others count."""
    solve(work.notebook)
    answer(work.notebook, HALF[2], "while True:\n    pass")


# Cells in disorder.


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def test_cells_deleted(work: Work) -> None:
    """Every test cell deleted: put back, and graded as if they were there."""
    half_right(work)
    for test in check_cells():
        work.notebook.cells.remove(find(work.notebook, test))


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def test_cells_duplicated(work: Work) -> None:
    """Every cell of the notebook is there twice: marks as for one, and nobody else suffers."""
    half_right(work)
    for cell in list(work.notebook.cells):
        again = cell.copy()
        again["id"] = f"{cell['id']}x"
        work.notebook.cells.insert(work.notebook.cells.index(cell), again)


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def answer_split(work: Work) -> None:
    """JupyterLab's split copies the grade_id: the two halves are joined in order."""
    half_right(work)
    cell = find(work.notebook, "count-functions")
    head, tail = cell.source.split("def count_layer", 1)
    rest = cell.copy()
    rest["id"], rest["source"] = "second-half", "def count_layer" + tail
    cell.source = head
    work.notebook.cells.insert(work.notebook.cells.index(cell) + 1, rest)


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def test_cells_split(work: Work) -> None:
    """Test cells split in two: the instructor's run, whole."""
    half_right(work)
    for test in check_cells():
        cell = find(work.notebook, test)
        rest = cell.copy()
        lines = cell.source.splitlines()
        cell["source"], rest["source"] = "\n".join(lines[:2]), "\n".join(lines[2:])
        rest["id"] = f"{cell['id']}y"
        work.notebook.cells.insert(work.notebook.cells.index(cell) + 1, rest)


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def test_cells_edited(work: Work) -> None:
    """Test cells that pass everything, or print debugging lines: the instructor's run instead."""
    half_right(work)
    for test in check_cells():
        answer(work.notebook, test, "check = print\ncheck('all right')")


@submission(honest=True, right=HALF, status=Status.WARNINGS)
def cells_moved_and_retyped(work: Work) -> None:
    """Cells in reverse order, one answer turned into text: order and types are put back."""
    half_right(work)
    find(work.notebook, HALF[0]).cell_type = "markdown"
    work.notebook.cells.reverse()


@submission(honest=True, right=HALF)
def nbgrader_metadata_lost(work: Work) -> None:
    """Metadata that another tool added or stripped from test cells: the marks stand."""
    half_right(work)
    for cell in work.notebook.cells:
        cell.metadata["colab"] = {"base_uri": "https://localhost:8080/"}
        if grading_facts(cell).get("grade") and not grading_facts(cell).get("solution"):
            del cell.metadata["nbgrader"]


# Files in disorder.


@submission(quick=True, saved=False, status=Status.ATTENTION)
def not_json(work: Work) -> None:
    """A notebook cut off in the middle: nothing, and a person is asked to look."""
    work.path.write_text('{"cells": [{"cell_type": "code", "source": ["d_k_bert = 64')


@submission(saved=False, status=Status.ATTENTION)
def empty_file(work: Work) -> None:
    """A file of no bytes: nothing, and a person is asked to look."""
    work.path.write_bytes(b"")


@submission(saved=False, status=Status.ATTENTION)
def wrong_encoding(work: Work) -> None:
    """Bytes that are no UTF-8: nothing, and a person is asked to look."""
    work.path.write_bytes(b"\xff\xfe{\x00}\x00")


@submission(saved=False, status=Status.ATTENTION)
def nothing_in_the_folder(work: Work) -> None:
    """An empty folder: nothing, and a person is asked to look."""


@submission(saved=False, status=Status.ATTENTION)
def json_but_no_notebook(work: Work) -> None:
    """JSON of another kind: nothing, and a person is asked to look."""
    work.path.write_text('["not", {"a": "notebook"}]')


@submission(honest=True, saved=False, right=ALL, status=Status.WARNINGS)
def renamed(work: Work) -> None:
    """Saved under a name of one's own, in Vietnamese: taken, with a warning."""
    solve(work.notebook)
    save(work.notebook, work.path.with_name("Bài tập của tôi (1).ipynb"))


@submission(honest=True, right=ALL, student_id=unicodedata.normalize("NFC", NGUYEN))
def vietnamese_id(work: Work) -> None:
    """A student id with Vietnamese letters, composed: full marks."""
    right(work)


@submission(honest=True, right=ALL, student_id=unicodedata.normalize("NFD", "trần-văn-đức"))
def vietnamese_id_decomposed(work: Work) -> None:
    """A student id with decomposed letters, as macOS writes them: full marks, under NFC."""
    right(work)


# Right, and unusual.


@submission(honest=True, right=ALL)
def numbers_of_other_types(work: Work) -> None:
    """768/12, NumPy and torch integers, tuples: as right as plain integers."""
    solve(work.notebook)
    write(work, "numbers of other types")


@submission(honest=True, right=ALL)
def tensors_of_other_kinds(work: Work) -> None:
    """bfloat16, non-contiguous and requires-grad tensors: right is right."""
    solve(work.notebook)
    write(work, "tensors of other kinds")


@submission(honest=True, right=ALL)
def work_in_bfloat16(work: Work) -> None:
    """Splits and merges in bfloat16: as exact as bfloat16 can be, so right."""
    solve(work.notebook)
    replace(work, "split-heads", "x.reshape(", "x.bfloat16().reshape(")
    replace(work, "merge-heads", "heads.transpose(", "heads.bfloat16().transpose(")
    write(work, "without split_heads and merge_heads")


@submission(honest=True, right=ALL)
def another_order_of_parameters(work: Work) -> None:
    """The layer's parts made in another order, with a dropout of 0 among them: full marks."""
    solve(work.notebook)
    write(work, "without split_heads and merge_heads")


@submission(honest=True, right=ALL)
def global_state_used_up(work: Work) -> None:
    """Global generators advanced and seeded, threads and printing set: full marks."""
    solve(work.notebook)
    before_all(
        work,
        "import random, numpy as np\n"
        "torch.manual_seed(0); torch.randn(1000); random.seed(1); np.random.seed(2)\n"
        "torch.set_printoptions(precision=2); torch.set_num_threads(1)\n"
        "np.set_printoptions(precision=1)",
    )
    replace(work, "layer", "super().__init__()", "super().__init__()\n        torch.rand(7)")


@submission(honest=True, right=ALL)
def default_dtype_changed(work: Work) -> None:
    """torch.set_default_dtype(torch.float64): full marks."""
    solve(work.notebook)
    before_all(work, "torch.set_default_dtype(torch.float64)")


@submission(honest=True, right=ALL)
def gradients_switched_off(work: Work) -> None:
    """An own experiment under no_grad and inference mode: full marks."""
    solve(work.notebook)
    before_all(work, "with torch.no_grad():\n    print(nn.Linear(2, 2)(torch.ones(1, 2)))")


@submission(honest=True, right=ALL)
def own_cells_and_reused_names(work: Work) -> None:
    """Helpers and imports in own cells, check() called there, every common name reused: full."""
    solve(work.notebook)
    before_all(
        work, "import itertools\nfrom math import sqrt as root\ndef helper(t):\n    return t"
    )
    replace(work, "split-heads", "x.shape", "helper(x).shape")
    own = "from grading import check\ncheck('split_heads', 5)"
    cells = work.notebook.cells
    cells.insert(index_of(work.notebook, "check-split-heads"), new_code_cell(own))
    cells.insert(index_of(work.notebook, "check-split-heads"), new_markdown_cell("*My notes*"))
    names = "x h heads source sizes q k y z one some other draw random example tokens seed check"
    overwritten = "\n".join(f"{name} = 'mine'" for name in [*names.split(), "grading", "PARTS"])
    for grade_id in answer_ids()[1:]:
        find(work.notebook, grade_id).source += "\n" + overwritten
    find(work.notebook, answer_ids()[-1]).source += "\ntorch = 'fire'"


@submission(honest=True, right=ALL)
def prints_plots_and_magics(work: Work) -> None:
    """Prints, a plot, %%time, !ls, ?help, display, a progress bar: full marks."""
    solve(work.notebook)
    before_all(work, "import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nplt.gcf()")
    before_all(work, "%matplotlib inline\n!ls\n%time 1 + 1\nlen?\nhelp(len)")
    for grade_id in answer_ids()[1:3]:
        cell = find(work.notebook, grade_id)
        cell.source = "%%time\n" + cell.source
    replace(work, "split-heads", "B, N, d_model = x.shape", "print(x)\n    B, N, d_model = x.shape")
    replace(work, "merge-heads", "B, h, N, d_k", "display(heads)\n    B, h, N, d_k")


@submission(honest=True, right=ALL)
def warns_on_standard_error(work: Work) -> None:
    """A warning and a line on stderr beside each right answer: full marks."""
    solve(work.notebook)
    for grade_id in answer_ids():
        find(work.notebook, grade_id).source += (
            "\nimport sys, warnings\nprint('careful', file=sys.stderr)\n"
            "warnings.warn('this is deprecated', DeprecationWarning, stacklevel=1)"
        )
    replace(work, "attention-weights", "d_k = q", "warnings.warn('slow')\n    d_k = q")


@submission(honest=True, right=ALL)
def type_hints_and_classes(work: Work) -> None:
    """Type hints, lambdas, a helper class, functions rebound: full marks."""
    solve(work.notebook)
    write(work, "lambdas and classes")


@submission(honest=True, right=ALL)
def reads_its_input(work: Work) -> None:
    """input() in a cell of their own, async code, a file written and read: full marks."""
    solve(work.notebook)
    before_all(work, "name = input('your name? ')")
    before_all(work, "import asyncio\nawait asyncio.sleep(0)")
    before_all(work, "open('notes.txt', 'w').write('é'); print(open('notes.txt').read())")
