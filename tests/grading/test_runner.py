"""What an honest notebook meets inside: the same as in Jupyter, but for a person who answers."""

import base64
import contextlib
import os
import random
import signal
import threading
import time

import pytest

from grading.check import CellTimeout
from grading.job import Job, JobCell, Limits
from grading.runner import Channel, Clock, write_frame
from grading.sandbox import Sandbox
from grading.shell import MAX_OUTPUTS, Outputs, describe
from grading.values import Array, Raised

QUICK = Limits(cell_seconds=20)


def run(*sources, limits=QUICK, **job):
    """Run cells named c0, c1, ... in one sandbox."""
    cells = tuple(JobCell(f"c{number}", source) for number, source in enumerate(sources))
    result = Sandbox(limits=limits).run(Job(cells, **job))
    assert result.ended == "finished", result.reason
    return list(result.cells.values()), result.messages


@pytest.fixture
def clean_up():
    with contextlib.ExitStack() as stack:
        yield stack


def text(cell, name="stdout"):
    return "".join(output["text"] for output in cell.outputs if output.get("name") == name)


def error(cell):
    """The one error of a cell, as a student would read it."""
    assert cell.state == "error"
    (found,) = [output for output in cell.outputs if output["output_type"] == "error"]
    return "\n".join(found["traceback"])


def test_outputs_come_as_jupyter_would_save_them():
    (cell, silent, awaited, command), _ = run(
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')\n"
        "display('four')\n6",
        "x = 1",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 'awaited'\n"
        "await f()",
        "!echo a; echo b",
    )
    kinds = [(o["output_type"], o.get("name"), o.get("text") or o["data"]) for o in cell.outputs]
    assert kinds == [
        ("stream", "stdout", "one\n"),
        ("stream", "stderr", "two\n"),
        ("stream", "stdout", "three\n"),
        ("display_data", None, {"text/plain": "'four'"}),
        ("execute_result", None, {"text/plain": "6"}),
    ]
    assert cell.outputs[-1]["execution_count"] == 1
    assert (silent.state, silent.outputs) == ("ok", ())
    assert awaited.outputs[0]["data"]["text/plain"] == "'awaited'"
    assert text(command) == "a\nb\n"


def test_after_an_error_the_notebook_goes_on():
    (syntax, name, exited, left, asked, last), _ = run(
        "def f(:\n    pass",
        "def f(n):\n    return missing + n\nf(1)",
        "import sys\nsys.exit(0)",
        "exit()",
        "input('your name: ')",
        "'still here'",
    )
    assert "cell 'c0', line 1" in error(syntax).replace('"', "")
    assert error(name) == (
        "Traceback (most recent call last):\n"
        "  cell 'c1', line 3, in <module>\n    f(1)\n"
        "  cell 'c1', line 2, in f\n    return missing + n\n"
        "NameError: name 'missing' is not defined"
    )
    assert "SystemExit" in error(exited)
    assert text(exited, "stderr") == ""
    assert "do not end a graded notebook" in error(left)
    assert "Write the value into the cell" in error(asked)
    assert last.outputs[0]["data"]["text/plain"] == "'still here'"


def test_a_cells_text_is_changed_as_jupyter_would_change_it():
    cells, _ = run(
        "\n\n1 / 0",
        "  x = 3\n  print(x)",
        ">>> print('a prompt')\n... \n",
        "print('''\n%pwd\n!ls''')\n%time print('timed')",
        "found = !echo shell\nfound",
        "text = '\\d'",
        "...\nprint('dots')",
        "def louder(lines):\n    return [line.replace('low', 'LOUD') for line in lines]\n"
        "get_ipython().input_transformers_post.append(louder)",
        "print('low')",
    )
    assert "line 1" in error(cells[0])
    assert [text(cell).splitlines()[:1] for cell in cells[1:3]] == [["3"], ["a prompt"]]
    assert text(cells[3]).startswith("\n%pwd\n!ls\ntimed\n")
    assert cells[4].outputs[0]["data"]["text/plain"] == "['shell']"
    assert text(cells[5], "stderr").count("invalid escape sequence") <= 1
    assert text(cells[6]) == "dots\n"
    assert text(cells[8]) == "LOUD\n"


def test_tracebacks_are_short_plain_and_show_no_path_of_the_sandbox():
    (chained, deep, library, odd), _ = run(
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('worse') from e",
        "def f(n):\n    return f(n + 1)\nf(0)",
        "import json\njson.loads('{')",
        "class E(Exception):\n    def __str__(self):\n        raise RuntimeError\nraise E",
    )
    assert "direct cause" in error(chained)
    assert odd.outputs[0]["evalue"] == "(its message cannot be read)"
    for cell in (chained, deep, library):
        said = error(cell)
        assert len(said.splitlines()) < 40
        assert not any(word in said for word in ("\x1b", "/inside", "/packages", "run_code"))


def test_a_magic_without_its_sign_and_the_last_error_are_as_in_jupyter():
    cells, _ = run(
        "pwd",
        "text = '''\n>>> x\n'''\ntext",
        "1 / 0",
        "import sys\nprint(type(sys.last_value).__name__)",
    )
    assert cells[0].outputs[0]["data"]["text/plain"] == "'/home/student'"
    assert cells[1].outputs[0]["data"]["text/plain"] == r"'\nx\n'"
    assert text(cells[3]) == "ZeroDivisionError\n"


def test_an_exception_is_described_once():
    *_, last = run("1 / 0", "1 +", "import sys\nprint('stack_data' in sys.modules)")[0]
    assert text(last) == "False\n"  # with which IPython makes its own account


def test_plain_python_is_parsed_once_and_means_what_it_would_in_jupyter():
    watch = """
import sys
parsed = []
def hook(event, arguments):
    if event == "compile" and isinstance(arguments[0], bytes):
        parsed.append(arguments[1])
sys.addaudithook(hook)
"""
    cells, _ = run(
        watch,
        "from __future__ import annotations\nx = 1",
        "def f(a: Nowhere) -> None: ...\nprint(len(parsed), x)",
        "get_ipython().run_cell('x = 2')",
        "print(x)\n# the same text\nx",
        "import ast\nclass Twice(ast.NodeTransformer):\n"
        "    def visit_Constant(self, node):\n"
        "        return ast.Constant(2 * node.value)\n"
        "get_ipython().ast_transformers.append(Twice())",
        "print(21)",
    )
    assert [text(cells[number]) for number in (2, 4, 6)] == ["2 1\n", "2\n", "42\n"]


def test_figures_become_pictures_with_and_without_the_magic():
    (plain, magic), _ = run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')",
        "%matplotlib inline\nplt.plot([3, 4])\nplt.title('Đầu chú ý');",
    )
    assert [output["output_type"] for output in plain.outputs] == ["display_data", "stream"]
    for cell in (plain, magic):
        picture = base64.b64decode(cell.outputs[0]["data"]["image/png"])
        assert picture.startswith(b"\x89PNG")
        assert cell.outputs[0]["data"].keys() == {"text/plain", "image/png"}


def test_a_slow_cell_is_lost_and_the_next_one_runs():
    (loop, check, catcher, last), messages = run(
        "from grading import check\ncheck('before', 1)\nwhile True:\n    pass",
        "check('slow', lambda: [0 for _ in iter(int, 1)])",
        "while True:\n    try:\n        sum(range(1000))\n    except Exception:\n        pass",
        "check('after', 2)",
        limits=Limits(cell_seconds=1, seconds=60),
    )
    assert [cell.state for cell in (loop, check, catcher)] == ["timed out"] * 3
    assert "ran longer than 1 seconds" in loop.outputs[-1]["evalue"]
    assert last.state == "ok"
    assert [(message.name, message.value) for message in messages] == [("before", 1), ("after", 2)]


@pytest.mark.slow
def test_a_cell_that_hardly_gets_to_compute_has_three_times_as_long():
    # Where a machine is busy a cell waits for the processor; here it waits for the clock.
    (waits, hangs, last), _ = run(
        "import time\ntime.sleep(1.5)\nprint('done')",
        "time.sleep(60)",
        "'next'",
        limits=Limits(cell_seconds=1, seconds=60),
    )
    assert (waits.state, text(waits)) == ("ok", "done\n")
    assert hangs.state == "timed out"
    assert hangs.outputs[-1]["evalue"] == "this cell ran longer than 3 seconds"
    assert last.state == "ok"


def test_a_cells_time_does_not_end_in_the_middle_of_a_frame(clean_up):
    reading, writing = os.pipe()
    clean_up.callback(os.close, reading)
    clean_up.callback(os.close, writing)
    clean_up.callback(signal.signal, signal.SIGALRM, signal.getsignal(signal.SIGALRM))
    channel = Channel(writing)
    clock = Clock(0.2, 0.2, lambda: not channel.writing, CellTimeout)
    clean_up.callback(clock.stop)
    frame = write_frame({"kind": "output", "output": "x" * (1 << 20)})
    received = bytearray()

    def read_late():
        time.sleep(0.6)  # the pipe is full, and the cell's time is over meanwhile
        while len(received) < len(frame):
            received.extend(os.read(reading, 1 << 16))

    reader = threading.Thread(target=read_late)
    reader.start()
    clock.start()
    channel.send("output", output="x" * (1 << 20))
    reader.join()
    assert received == frame
    assert not clock.rang
    with pytest.raises(CellTimeout, match=r"longer than 0\.2 seconds"):
        time.sleep(5)


def test_checks_carry_the_cell_that_runs_and_never_raise():
    (first, *_), messages = run(
        "from grading import check, seed",
        "import numpy as np\ncheck('array', np.arange(3, dtype='int64'))\n"
        "check('lost', lambda: 1 / 0)",
        "check('again', lambda x: x + 1, 41); print(seed('a'))",
    )
    assert first.state == "ok"
    assert [(message.cell, message.name) for message in messages] == [
        ("c1", "array"),
        ("c1", "lost"),
        ("c2", "again"),
    ]
    assert messages[0].value == Array("int64", (3,), bytes([0] * 8 + [1] + [0] * 7 + [2] + [0] * 7))
    assert messages[1].value == Raised("ZeroDivisionError", "division by zero")
    assert messages[2].value == 42


def test_a_check_in_a_loop_does_not_drown_the_others():
    _, messages = run(
        "from grading import check\nfor step in range(100_000):\n    check('mine', step)",
        "check('theirs', 1)",
    )
    assert messages[-1].name == "theirs"
    assert len(messages) < 1000


def test_the_key_changes_the_seeds():
    source = "from grading import check, seed\ncheck('seed', seed('x'))"
    values = {run(source, key=key)[1][0].value for key in ("", "a", "b")}
    assert len(values) == 3


def test_without_outputs_nothing_is_shown_and_values_still_come():
    (cell,), messages = run(
        "from grading import check\nprint('x')\ncheck('n', 1)\n2", outputs=False
    )
    assert (cell.state, cell.outputs, messages[0].value) == ("ok", (), 1)


def test_big_output_is_cut_with_a_note():
    limits = Limits(output_bytes=10_000)
    (printed, flood, last), _ = run(
        "for _ in range(10_000):\n    print('é' * 50)",
        f"for _ in range({2 * MAX_OUTPUTS}):\n    display(1)",
        "'next'",
        limits=limits,
    )
    assert 9_000 < len(text(printed).encode()) <= 10_000
    assert "10,000 bytes" in text(printed, "stderr")
    assert len(flood.outputs) <= MAX_OUTPUTS + 1
    assert last.outputs[0]["data"]["text/plain"] == "'next'"


@pytest.mark.slow
def test_disturbing_moves_the_global_generators_and_the_default_dtype():
    sources = (
        "import random, numpy, torch\nfrom grading import check",
        "check('random', random.random())\ncheck('numpy', numpy.random.rand())\n"
        "check('torch', float(torch.rand(1)))\ncheck('dtype', str(torch.ones(1).dtype))",
    )
    calm = [message.value for message in run(*sources)[1]]
    disturbed = [message.value for message in run(*sources, disturb=7)[1]]
    assert calm[-1] == "torch.float32"
    assert disturbed[-1] == "torch.float64"
    assert disturbed[0] == random.Random(7 + 1).random()  # the second cell's
    assert all(a != b for a, b in zip(calm, disturbed, strict=True))


def test_disturbing_computes_with_two_threads_and_measures_each_cell():
    sources = (
        "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end:\n    pass",
        "time.sleep(0.5)",
        "import torch\nfrom grading import check\ncheck('threads', torch.get_num_threads())\n"
        "check('info', torch.__config__.parallel_info())",
    )
    calm, (one, info) = run(*sources)
    disturbed, (two, both) = run(*sources, disturb=7)
    assert (one.value, two.value) == (1, 2)
    assert "mkl_get_max_threads() : 1" in info.value
    assert "mkl_get_max_threads() : 2" in both.value
    assert [cell.seconds for cell in calm] == [0.0] * 3
    busy, asleep, _ = (cell.seconds for cell in disturbed)
    assert asleep < 0.5 <= busy


def test_files_lie_beside_the_notebook_and_the_shell_is_at_home():
    (read, home, shell, warned), _ = run(
        "print(open('data/Dữ liệu.txt').read())\nimport helper\nprint(helper.x)",
        "import os\nprint(os.getcwd(), __name__, help is not None)",
        "get_ipython().user_ns['x'] = 3\nprint(x, _ is not None)",
        "import warnings\nwarnings.warn('look')",
        files={"data/Dữ liệu.txt": "xin chào".encode(), "helper.py": b"x = 2"},
    )
    assert text(read) == "xin chào\n2\n"
    assert text(home) == "/home/student __main__ True\n"
    assert text(shell) == "3 True\n"
    assert "cell 'c3':2: UserWarning: look" in text(warned, "stderr")


def test_threads_and_forks_left_behind_do_not_disturb():
    (_, forked, last), messages = run(
        "import threading, time\nfrom grading import check\n"
        "threading.Thread(target=lambda: time.sleep(60)).start()",
        "import os\nchild = os.fork()\ncheck('who', 1)",
        "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(abs, [-1, -2]))",
    )
    assert forked.state == "ok"
    assert text(last) == "[1, 2]\n"
    assert [message.value for message in messages] == [1]


def test_a_frame_replaces_what_is_no_text():
    assert write_frame({"a": "\ud800"}).endswith(b'{"a":"?"}')


def test_describe_names_an_exception_of_any_kind():
    name, message, lines = describe(ValueError("why"))
    assert (name, message, lines[-1]) == ("ValueError", "why", "ValueError: why")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_text_keeps_its_order_between_other_outputs(size):
    sent = []
    outputs = Outputs()
    outputs.connect(sent.append, 1 << 20)
    for number in range(3):
        outputs.write("stdout", f"{number}" * size)
        outputs.show({"text/plain": "shown", "text/html": "<b>"})
    outputs.error("E", "v", ["t"])
    kinds = [output["output_type"] for output in sent]
    assert kinds == ["stream", "display_data"] * 3 + ["error"]
    assert sent[1]["data"] == {"text/plain": "shown"}
