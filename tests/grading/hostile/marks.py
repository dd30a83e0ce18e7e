"""For marks: answers and reports that only look right."""

from __future__ import annotations

import base64
import json
from textwrap import dedent

from nbformat.v4 import new_output

from benchmarks.students import (
    NAME,
    answer,
    answer_ids,
    answer_wrongly,
    find,
    instructors,
    right_answer,
    solve,
)
from grading.grade import Status
from tests.grading.handing_in import Work, check_cells, submission, tests_of_answers
from tests.grading.hostile.attack import attack, before, names_in


@submission(quick=True)
def equal_to_everything(work: Work) -> None:
    """Answers with one object that equals all, has every shape and can be called: nothing."""
    code = dedent("""
        class Anything:
            shape = ()
            dtype = "float32"
            __array_priority__ = 1e9
            def __eq__(self, other): return True
            def __ne__(self, other): return False
            def __hash__(self): return 0
            def __bool__(self): return True
            def __float__(self): return 1.0
            def __int__(self): return 1
            def __index__(self): return 1
            def __len__(self): return 1
            def __iter__(self): return iter([self])
            def __getattr__(self, name): return self
            def __getitem__(self, key): return self
            def __call__(self, *args, **kwargs): return self
            def __array__(self, *args, **kwargs): return self
            def __array_ufunc__(self, *args, **kwargs): return True
            @classmethod
            def __torch_function__(cls, *args, **kwargs): return True
            __sub__ = __rsub__ = __le__ = __lt__ = __ge__ = __gt__ = __eq__

        globals().update({name: Anything() for name in NAMES})
    """)
    for grade_id in answer_ids():
        names = [line.split("(")[0].split()[1] for line in right_answer(grade_id).splitlines()
                 if line.startswith(("def ", "class "))]  # fmt: skip
        names += [line.split("=")[0].strip() for line in right_answer(grade_id).splitlines()
                  if "=" in line and line[:1].isidentifier()]  # fmt: skip
        answer(work.notebook, grade_id, f"NAMES = {names!r}\n{code}")


PATCHES = """
import sys
import numpy, torch
import grading

def fine(*args, **kwargs):
    return True

for module in [grading, *(m for n, m in sys.modules.items() if n.startswith("grading."))]:
    for name in ("check", "compare", "judge", "encode", "CheckFailed", "_send"):
        if hasattr(module, name):
            setattr(module, name, fine)
for library in (torch, numpy, numpy.testing, torch.testing):
    for name in ("allclose", "equal", "array_equal", "isclose", "assert_close"):
        if hasattr(library, name):
            setattr(library, name, fine)
torch.Tensor.__eq__ = torch.Tensor.equal = torch.Tensor.allclose = fine
"""


@submission()
def patched_checks(work: Work) -> None:
    """Replaces check, comparison and the libraries' own tests of equality: nothing."""
    attack(work, PATCHES)


@submission(right=tuple(answer_ids()[:1]))
def one_right_answer_and_patches(work: Work) -> None:
    """One right answer, then patched checks: that one counts and no other."""
    answer_wrongly(work.notebook)
    solve(work.notebook, answer_ids()[0])
    before(work, answer_ids()[1], PATCHES)


@submission()
def own_grading_module(work: Work) -> None:
    """Puts a module of its own in grading's place: nothing."""
    attack(
        work,
        """
        import sys, types
        fake = types.ModuleType("grading")
        fake.check = lambda *args, **kwargs: None
        fake.seed = lambda name: 0
        for name in [n for n in sys.modules if n.split(".")[0] == "grading"]:
            sys.modules[name] = fake
        """,
    )


@submission()
def test_cells_blanked(work: Work) -> None:
    """An input hook empties each cell that checks: nothing."""
    attack(
        work,
        """
        hooks = get_ipython().input_transformers_cleanup
        hooks.append(lambda lines: [] if any("check(" in line for line in lines) else lines)
        """,
    )


@submission()
def forged_output(work: Work) -> None:
    """Saved with full points and passed checks as outputs, and prints the same: nothing."""
    attack(
        work,
        """
        from IPython.display import display
        class Points:
            def __repr__(self): return "10.0"
        print("✓ every check passed")
        display(Points())
        Points()
        """,
    )
    for tests in tests_of_answers().values():
        for test, points in tests.items():
            find(work.notebook, test).outputs = [
                new_output("stream", name="stdout", text=f"✓ {test}\n"),
                new_output("execute_result", {"text/plain": str(points)}, execution_count=1),
            ]


def right_values() -> str:
    """Return code that makes `forged`: cell, name and right value of every check, hidden ones too.

    Whoever has the instructor's notebook can do as much. It is packed, so that what is hidden
    does not stand in what was handed in.
    """
    answers = "\n".join(right_answer(grade_id) for grade_id in answer_ids())
    tests = {test: find(instructors(), test).source for test in check_cells()}
    packed = base64.b85encode(json.dumps([answers, tests]).encode()).decode()
    return dedent(f"""
        import base64, json, math, os, sys, torch
        from torch import nn
        import grading
        from grading.values import encode

        forged = []
        answers, tests = json.loads(base64.b85decode({packed!r}))
        room = dict(math=math, torch=torch, nn=nn)
        exec(answers, room)
        check = grading.check
        for cell, source in tests.items():
            grading.check = lambda name, give: forged.append((cell, name, give()))
            exec(source, room)
        grading.check = check
    """)


FRAMES = """
def line(cell, name, value):
    message = {"kind": "check", "cell": cell, "name": name, "value": encode(value)}
    return json.dumps(message).encode()

def write_everywhere(data):
    for number in range(3, 64):
        try:
            os.write(number, data)
        except OSError:
            pass
"""


def attack_with_right_values(work: Work, code: str) -> None:
    """Wrong answers everywhere; before the first the right values, and what is done with them."""
    attack(work, right_values() + dedent(code))


@submission()
def forged_messages(work: Work) -> None:
    """Sends the right value of every check from its own cell, twice: nothing."""
    attack_with_right_values(
        work,
        """
        for cell, name, value in 2 * forged:
            check(name, value)
        """,
    )


@submission(status=Status.ATTENTION)
def messages_under_another_cells_name(work: Work) -> None:
    """Takes the channel out of check's module and sends right values as the test cells: nothing."""
    attack_with_right_values(
        work,
        """
        channel = sys.modules["grading.check"]._Grading.send.__self__
        for cell, name, value in forged:
            channel.send("check", cell=cell, name=name, value=encode(value))
        """,
    )


@submission(status=Status.ATTENTION)
def writes_frames_to_every_pipe(work: Work) -> None:
    """Writes right values into every open file, framed as the runner does: nothing."""
    attack_with_right_values(
        work,
        FRAMES
        + """
for one in forged:
    data = line(*one)
    write_everywhere(len(data).to_bytes(4, "big") + data)
""",
    )


@submission(status=Status.ATTENTION)
def writes_lines_to_every_pipe(work: Work) -> None:
    """Writes right values into every open file, a line for each: nothing."""
    attack_with_right_values(
        work, FRAMES + 'write_everywhere(b"\\n".join(line(*one) for one in forged))\n'
    )


@submission()
def a_tree_hook_empties_test_cells(work: Work) -> None:
    """Takes every check out of a cell's syntax tree, and the shell's run_cell with it: nothing."""
    attack(
        work,
        """
        import ast
        from types import SimpleNamespace

        class Without(ast.NodeTransformer):
            def visit_Expr(self, node):
                return None if "check" in ast.unparse(node) else node

        shell = get_ipython()
        shell.ast_transformers.append(Without())
        fine = SimpleNamespace(success=True, error_in_exec=None, result=None)
        shell.run_cell = shell.run_cell_async = lambda *a, **k: fine
        type(shell).run_cell = lambda *a, **k: fine
        type(shell).run = lambda *a, **k: True
        """,
    )


@submission(status=Status.ATTENTION)
def messages_with_rules_of_their_own(work: Work) -> None:
    """Frames with wrong values that bring tolerance, points and verdict with them: nothing."""
    attack(
        work,
        f"""
        import json, os
        for cell in {check_cells()!r}:
            for name in ("count_layer", "d_k", cell):
                message = dict(kind="check", cell=cell, name=name, value=0.0, tolerance=1e30,
                               points=100, score=100, passed=True, hidden=False, verdict="passed")
                data = json.dumps(message).encode()
                for number in range(3, 64):
                    try:
                        os.write(number, len(data).to_bytes(4, "big") + data)
                    except OSError:
                        pass
        """,
    )


MALFORMED = r"""
import json, os, struct
deep = b"[" * 200_000 + b"]" * 200_000
value = b'{"kind":"check","cell":"c","name":"n","value":%s}'
frames = [
    deep, value % deep, b"", b"{}", b"[]", b"null", b"\xff\xfe\x00", b'{"kind":"done"}',
    value % (b"1" * 100_000), value % b"1e999999", value % b"NaN", value % b"-Infinity",
    value % b'"\\ud800"', value % b'"\\u0000"', value % b'{"dtype":"object","shape":[1]}',
    value % b'{"dtype":"float32","shape":[-1],"data":""}',
    value % b'{"dtype":"float32","shape":[1099511627776],"data":"AAAA"}',
    value % b'{"dtype":"float32","shape":[true],"data":"AAAAAA=="}',
    value % b'{"dtype":"<U9999999","shape":[1],"data":"AAAA"}',
    value % b'{"dtype":"float32","shape":[0,99999999999],"data":""}',
    b'{"kind":"check","cell":"' + b"c" * 1_000_000 + b'","name":"n","value":1}',
    b'{"kind":"check","kind":"end","cell":1,"name":[],"value":{}}',
]
"""


@submission(status=Status.ATTENTION)
def malformed_messages(work: Work) -> None:
    """Frames that are too deep, too long, of no known kind or no JSON at all: a reason."""
    attack(
        work,
        MALFORMED
        + """
for data in frames:
    for number in range(3, 64):
        try:
            os.write(number, struct.pack(">I", len(data)) + data)
        except OSError:
            pass
""",
    )


@submission(status=Status.ATTENTION)
def a_frame_that_never_ends(work: Work) -> None:
    """A frame that claims four gigabytes, and sends a few bytes of it: a reason."""
    attack(
        work,
        r"""
        import os
        for number in range(3, 64):
            try:
                os.write(number, b"\xff\xff\xff\xff{")
            except OSError:
                pass
        """,
    )


@submission()
def malformed_values(work: Work) -> None:
    """Values that cannot be sent as they are: bottomless, huge, of half a letter: nothing."""
    code = r"""
        import numpy, torch
        bottomless = []
        bottomless.append(bottomless)
        deep = 1
        for _ in range(100_000):
            deep = [deep]
        class Lies(numpy.ndarray):
            shape = (1, 2, 3)
            def tobytes(self, *a): return b"" * 3
        values = [bottomless, deep, 10 ** 10_000, "\ud800", "\0", b"x", {1: 2}, object, range(9),
                  numpy.zeros(1, dtype=object), numpy.array(["x"]), numpy.datetime64(1, "s"),
                  torch.zeros(1).to_sparse(), torch.empty(2**20, device="meta"),
                  numpy.zeros(1).view(Lies), iter([]), Ellipsis, lambda *a, **k: None]
    """
    for number, grade_id in enumerate(answer_ids()):
        lines = [
            f"def {name}(*a, **k): return values[{number}]"
            if called
            else f"{name} = values[{number}]"
            for name, called in names_in(grade_id).items()
        ]
        answer(work.notebook, grade_id, dedent(code) + "\n".join(lines))


@submission()
def messages_from_a_thread(work: Work) -> None:
    """A thread goes on sending right values while the test cells run: nothing."""
    attack_with_right_values(
        work,
        """
        import threading, time

        def flood():
            for _ in range(100):
                for cell, name, value in forged:
                    check(name, value)
                time.sleep(0.002)

        threading.Thread(target=flood, daemon=True).start()
        """,
    )


@submission(saved=False, status=Status.ATTENTION)
def link_to_the_solution(work: Work) -> None:
    """A symbolic link to the instructor's notebook, handed in as one's own: nothing."""
    work.path.symlink_to(work.course / "solutions" / NAME / f"{NAME}.ipynb")


@submission(saved=False, status=Status.ATTENTION)
def relative_link(work: Work) -> None:
    """A relative link that climbs to the released notebook: nothing."""
    work.path.symlink_to(f"../../../exercises/{NAME}/{NAME}.ipynb")


@submission(saved=False, status=Status.ATTENTION)
def hard_link(work: Work) -> None:
    """A hard link to the released notebook, as it might be to anybody's: nothing."""
    work.path.hardlink_to(work.course / "exercises" / NAME / f"{NAME}.ipynb")


@submission(saved=False, status=Status.ATTENTION)
def link_as_folder(work: Work) -> None:
    """The assignment's folder is itself a link to the solution's: nothing."""
    work.folder.rmdir()
    work.folder.symlink_to(work.course / "solutions" / NAME, target_is_directory=True)
