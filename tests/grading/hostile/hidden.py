"""For what is hidden: the tests, their values, the grader's files."""

from __future__ import annotations

from benchmarks.students import ROOT, answer_ids, solve
from tests.grading.handing_in import ALL, Work, check_cells, submission
from tests.grading.hostile.attack import attack, before

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


@submission(right=ALL)
def draws_later_cells(work: Work) -> None:
    """Shows the text of every later cell as the points of a picture; right otherwise."""
    solve(work.notebook)
    before(
        work,
        answer_ids()[0],
        """
        import base64, io
        from IPython.display import display
        from PIL import Image

        window = display({"text/plain": "waiting"}, raw=True, display_id=True)
        seen = []

        def draw(info):
            seen.append(info.raw_cell)
            data = "".join(seen).encode()
            file = io.BytesIO()
            Image.frombytes("L", (len(data), 1), data).save(file, "PNG")
            shown = {"image/png": base64.b64encode(file.getvalue()).decode()}
            window.update(shown, raw=True)
            display(shown, raw=True)

        get_ipython().events.register("pre_run_cell", draw)
        """,
    )
