"""Runs forked from a warm process: as isolated as cold ones, and alike in all that can be asked."""

import ast
import errno
import os
import resource
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from grading import guards, seccomp, walls
from grading import sandbox as sandbox_module
from grading.assignment import load
from grading.confined import Confined
from grading.imports import imports_of
from grading.job import Job, JobCell, Limits
from grading.sandbox import Sandbox
from grading.warm import SHARED, Warm, WarmError
from tests.grading.small_course import small_course

SMALL = Limits(cell_seconds=10, seconds=60)


def printed(sandbox, source):
    result = sandbox.run(Job((JobCell("c0", source),)))
    assert (result.ended, result.cells["c0"].state) == ("finished", "ok"), result
    assert sandbox.why_cold in ("", "it was asked for")
    return "".join(output["text"] for output in result.cells["c0"].outputs)


@pytest.fixture(scope="module")
def forking():
    """A sandbox whose runs are forked; whoever asks finds its process ready."""
    sandbox = Sandbox(limits=SMALL, warm=["decimal", "nothing.of.that.name"])
    assert sandbox.get_ready() == ""
    return sandbox


@pytest.fixture
def processes(forking):
    """The one warm process that the runs of a test are forked from."""
    return forking._kept


def test_a_run_starts_no_process_beside_itself_where_nobody_counts_it(forking):
    """CLONE_PARENT would make it a child of the warm process, which no guard looks at."""
    source = """
import ctypes, os, platform, signal
libc = ctypes.CDLL(None, use_errno=True)
clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
child = libc.syscall(clone, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
print(child, os.strerror(ctypes.get_errno()))
"""
    assert printed(forking, source) == f"-1 {os.strerror(errno.ENOSYS)}\n"


def test_whatever_stands_behind_the_walls_has_the_runs_one_core(forking):
    """A run may write into the memory of the program that stays there, and so compute as it."""
    source = """
import os
processes = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
print(len(processes), len(set().union(*map(os.sched_getaffinity, processes))))
"""
    assert printed(forking, source) == "3 1\n"


# What a process can be asked about itself. Names of namespaces differ between any two runs.
ABOUT = r"""
import os, re, resource, signal, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
for name in ("Umask", "TracerPid", "Groups", "Threads", "SigPnd", "SigBlk", "SigIgn",
             "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
             "Seccomp_filters"):
    print(name, status[name].strip())
print(sorted(os.environ.items()), os.getcwd(), os.readlink("/proc/self/root"))
print(os.getuid() == os.geteuid() == os.stat("/proc/self/environ").st_uid, os.getuid() > 0)
print(sorted(sorted(line.split()[3:5]) for line in open("/proc/self/mountinfo")))
print([resource.getrlimit(limit) for name, limit in sorted(vars(resource).items())
       if name.startswith("RLIMIT_") and name not in ("RLIMIT_NPROC", "RLIMIT_CPU")])
here = os.getpid()
print(os.getsid(0) == os.getpgrp() == here if STARTED else os.getpgrp() == os.getsid(0))
pipes = {name: os.readlink("/proc/self/fd/" + name).partition(":")[0]
         for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)}
print(sorted(pipes.values()))
rights = [line.split()[1] for line in open("/proc/self/maps")]
print([each for each in rights if "w" in each and "s" in each])
print(sys.argv, sys.path, sys.flags, sys.executable, os.path.exists(sys.executable))
print(sorted(os.listdir("/proc/self/task")) == [str(here)], open("/proc/self/oom_score_adj").read())
print(open("/proc/self/cgroup").read().count("grading"), os.nice(0), os.sched_getscheduler(0))
print(signal.getsignal(signal.SIGCHLD), signal.getitimer(signal.ITIMER_PROF), __name__)
print(sorted(os.path.join(top, name) for place in ("/tmp", "/home", "/dev/shm")
             for top, folders, files in os.walk(place) for name in folders + files))
"""


def test_a_forked_run_is_told_the_same_about_itself_as_a_cold_one(forking):
    cold = printed(Sandbox(limits=SMALL), ABOUT.replace("STARTED", "False")).splitlines()
    here = printed(forking, ABOUT.replace("STARTED", "True")).splitlines()
    for one, other in zip(cold, here, strict=True):
        assert other == one


@pytest.mark.slow
def test_every_namespace_is_the_runs_own(forking, processes):
    source = """
import os, time
print({name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")})
time.sleep(0.5)
"""
    with ThreadPoolExecutor(2) as pool:  # side by side: what ended may leave its number to others
        one, other = map(ast.literal_eval, pool.map(printed, [forking] * 2, [source] * 2))
    place = Path(f"/proc/{processes.process}/ns")
    ahead = {entry.name: str(entry.readlink()) for entry in place.iterdir()}
    own = {"mnt", "pid", "pid_for_children", "net", "ipc", "uts"}
    if os.geteuid() == 0:
        own |= {"cgroup"} if guards.cgroup_parent() else set()
    else:
        own |= {"user"}
    assert [name for name in own if len({one[name], other[name], ahead[name]}) < 3] == []


def test_two_runs_share_no_chance_and_no_change(forking):
    source = """
import decimal, os, random
import numpy as np
print(random.random(), np.random.rand(), os.urandom(4))
print(getattr(decimal, "left", "nothing"), os.listdir("."), os.environ.get("LEFT"))
decimal.left = os.environ["LEFT"] = "something"
open("left", "w").close()
"""
    one, other = (printed(forking, source).splitlines() for _ in range(2))
    assert one[0] != other[0]
    assert one[1] == other[1] == "nothing [] None"


def test_no_run_can_harm_the_process_it_is_forked_from(forking, processes):
    source = """
import os, signal
for process in (*range(2, 40), *range(PID - 3, PID + 4)):
    for number in (signal.SIGSTOP, signal.SIGKILL):
        if process not in (os.getpid(), 2):
            try:
                os.kill(process, number)
                print("reached", process)
            except OSError:
                pass
print([name for name in os.listdir("/proc") if name.isdecimal() and int(name) > 9])
for descriptor in range(64):
    try:
        if "socket" in os.readlink(f"/proc/self/fd/{descriptor}"):
            print("a socket", descriptor)
    except OSError:
        pass
"""
    source = source.replace("PID", str(processes.process))
    assert printed(forking, source) == "[]\n"
    assert forking._kept is processes
    assert processes._process.poll() is None


@pytest.mark.slow
def test_forks_that_flood_kill_or_hang_leave_it_and_others_alone(forking, processes):
    limits = Limits(cell_seconds=2, seconds=3)
    hostile = Sandbox(limits=limits, warm=["decimal", "nothing.of.that.name"])
    bad = (
        "import os\nwhile True:\n    os.fork()",
        "import os\nos.kill(-1, 9)",
        "import os\nwhile True: os.write(1, b'x' * 9999); print('y' * 9999)",
    )
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(hostile.run, Job((JobCell("c0", each),))) for each in bad]
        honest = [pool.submit(printed, forking, "print('here')") for _ in range(3)]
        assert {each.result() for each in honest} == {"here\n"}
        runs = [each.result() for each in waiting]
    # One that only prints may be stopped in its cell, before all of its run's time is over; one
    # that forks may find first that it can start no more.
    ends = [{run.ended, *(cell.state for cell in run.cells.values())} for run in runs]
    assert ends[0] & {"timed out", "error"}, ends
    assert "timed out" in ends[2], ends
    assert forking._kept is processes
    assert processes._process.poll() is None


@pytest.mark.slow
def test_a_process_that_ended_is_replaced_and_the_run_is_made_cold():
    sandbox = Sandbox(limits=SMALL, warm=["fractions"])
    assert sandbox.get_ready() == ""
    first = sandbox._kept
    first._process.kill()
    first._process.wait()
    assert printed(sandbox, "print(1)") == "1\n"
    assert printed(sandbox, "print(2)") == "2\n"
    assert sandbox._kept is not first
    SHARED.forget(sandbox._kept)


@pytest.fixture
def standing(monkeypatch):
    """The sandboxes that stand, in the order in which they were made."""
    made = []

    def make(self, *arguments):
        start(self, *arguments)
        made.append(self)

    start = Confined.__init__
    monkeypatch.setattr(Confined, "__init__", make)
    return made


def wait_until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_walls_stand_before_a_runs_turn_and_nothing_runs_behind_them(forking, standing):
    sandbox = Sandbox(limits=SMALL, warm=["decimal", "nothing.of.that.name"], at_once=2)
    begun = []
    job = Job((JobCell("c0", "print('here')"),))

    def run(number):
        return sandbox.run(job, begun=lambda: begun.append(number))

    with ThreadPoolExecutor(7) as pool:
        with sandbox_module._TURNS.turn("secret"):
            waiting = [pool.submit(run, number) for number in range(7)]
            wait_until(lambda: len(standing) == 4)
            time.sleep(0.3)
            assert (len(standing), begun) == (4, [])
            assert not any(guards.computed(each._fork.process) for each in standing)
        ended = [each.result() for each in waiting]
    assert {run.cells["c0"].outputs[0]["text"] for run in ended} == {"here\n"}
    assert (len(standing), sorted(begun)) == (7, list(range(7)))


def test_a_fork_that_ends_while_it_waits_for_its_turn_costs_another(standing):
    sandbox = Sandbox(limits=SMALL, warm=["fractions"])
    assert sandbox.get_ready() == ""
    standing.clear()  # one was tried
    with ThreadPoolExecutor(1) as pool:
        with sandbox_module._TURNS.turn("secret"):
            waiting = pool.submit(sandbox.run, Job((JobCell("c0", "1 / 0"),)))
            wait_until(lambda: standing)
            os.kill(standing[0]._fork.process, signal.SIGKILL)
            wait_until(lambda: not Path(f"/proc/{standing[0]._fork.process}").exists())
        run = waiting.result()
    assert (run.ended, run.cells["c0"].state) == ("finished", "error")
    assert sandbox.why_cold == ""
    assert standing[-1]._fork is not None
    SHARED.forget(sandbox._kept)


def test_where_python_is_started_the_turn_comes_first(standing):
    """Bubblewrap would start it even if the grader were killed."""
    sandbox = Sandbox(limits=SMALL, at_once=2)
    with ThreadPoolExecutor(3) as pool:
        with sandbox_module._TURNS.turn("secret"):
            waiting = [pool.submit(sandbox.run, Job((JobCell("c0", "1"),))) for _ in range(3)]
            time.sleep(0.5)
            assert standing == []
        assert {each.result().ended for each in waiting} == {"finished"}


def test_many_runs_that_miss_one_warm_process_count_it_once(standing):
    sandbox = Sandbox(limits=SMALL, warm=["fractions"], at_once=8)
    assert sandbox.get_ready() == ""
    standing.clear()
    with ThreadPoolExecutor(8) as pool:
        with sandbox_module._TURNS.turn("secret"):
            waiting = [pool.submit(sandbox.run, Job((JobCell("c0", str(n)),))) for n in range(8)]
            wait_until(lambda: len(standing) == 8)
            for each in standing[:5]:
                os.kill(each._fork.process, signal.SIGKILL)
        assert {each.result().ended for each in waiting} == {"finished"}
    assert sandbox.why_cold == ""
    SHARED.forget(sandbox._kept)


def test_where_few_files_may_be_open_fewer_sandboxes_stand(monkeypatch):
    changed = []
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: changed.append(arguments))
    for limits, places in (
        ((1024, 4096), 120),
        ((1024, resource.RLIM_INFINITY), 128),
        ((1 << 20, 1 << 20), 128),
        ((1024, 1024), 24),
        ((256, 256), 1),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, limits=limits: limits)
        assert sandbox_module._places(64) == places
    kind = resource.RLIMIT_NOFILE
    assert changed == [(kind, (4096, 4096)), (kind, (4352, resource.RLIM_INFINITY))]


@pytest.mark.slow
def test_what_cannot_be_forked_is_run_cold_and_says_why(tmp_path, monkeypatch):
    module = tmp_path / "threads"
    module.mkdir()
    text = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
    (module / "__init__.py").write_text(text)
    tmp_path.chmod(0o755)
    sandbox = Sandbox(limits=SMALL, modules=[module], warm=["threads"])
    assert sandbox.get_ready() == "an import started 1 threads"
    result = sandbox.run(Job((JobCell("c0", "print('here')"),)))
    assert result.ended == "finished"


@pytest.mark.slow
def test_a_fork_without_a_wall_runs_no_students_code(monkeypatch):
    missing = b"\x06\x00\x00\x00\x00\x00\xff\x7f"  # a filter that lets every call through
    sandbox = Sandbox(limits=SMALL, warm=["graphlib"])
    monkeypatch.setattr(seccomp, "call_filter", lambda: missing)
    assert "forbidden system calls work" in sandbox.get_ready()
    assert sandbox._warm() is None


@pytest.mark.slow
def test_what_every_submission_imports_is_imported_ahead(tmp_path):
    course = small_course(tmp_path)
    path = course.root / "solutions" / "tiny" / "tiny.ipynb"
    notebook = nbformat.read(path, as_version=4)
    given = nbformat.v4.new_code_cell("%matplotlib inline\nimport decimal as d, json.decoder\n!ls")
    notebook.cells.insert(1, given)
    answer = next(cell for cell in notebook.cells if "BEGIN SOLUTION" in cell.source)
    answer.source = "import fractions\n" + answer.source
    nbformat.write(notebook, path)
    names = imports_of(load(course, "tiny"))
    assert {"decimal", "json.decoder"} <= set(names)
    assert "fractions" not in names


@pytest.mark.slow
def test_a_warm_process_that_is_closed_says_so():
    process = Warm(walls.view((), SMALL), ())
    process.close()
    with pytest.raises(WarmError, match="has ended"):
        process.fork(0)
