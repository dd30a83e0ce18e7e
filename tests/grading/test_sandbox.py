"""The walls, tried by code that wants through them, as root and as an ordinary user."""

import contextlib
import dataclasses
import errno
import fcntl
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from grading import confined, guards, seccomp, walls
from grading import cores as cores_module
from grading import missing as missing_module
from grading import sandbox as sandbox_module
from grading.cores import Cores, Turns
from grading.job import MAX_FILES, Job, JobCell, Limits, cell_name, files_flaw
from grading.sandbox import SandboxError, missing_walls

REPOSITORY = Path(__file__).parents[2]
WARM = {"cold": None, "warm": ()}
SMALL = Limits(cell_seconds=5, seconds=60, memory_bytes=400 << 20, disk_bytes=8 << 20)


@pytest.fixture(autouse=True, params=["cold", pytest.param("warm", marks=pytest.mark.slow)])
def mode(request, monkeypatch):
    """Whatever a sandbox holds against, it holds where it is forked from a warm process too."""
    monkeypatch.setitem(WARM, "now", WARM[request.param])
    return request.param


def Sandbox(**settings):  # each in the mode that is tested
    return sandbox_module.Sandbox(warm=WARM["now"], **settings)


def run(*sources, limits=SMALL, modules=(), **job):
    cells = tuple(JobCell(f"c{number}", source) for number, source in enumerate(sources))
    sandbox = Sandbox(limits=limits, modules=modules)
    result = sandbox.run(Job(cells, **job))
    assert WARM["now"] is None or sandbox.why_cold == ""
    return result


def printed(source, **settings):
    """Give what one cell prints, which must be all that happens."""
    result = run(source, **settings)
    assert (result.ended, result.cells["c0"].state) == ("finished", "ok"), result
    return "".join(output["text"] for output in result.cells["c0"].outputs)


TELL = "import os\nprint('in', os.readlink('/proc/self/ns/pid'), flush=True)\n"


def left_over(result):
    """Give the processes that still live in the process namespace that a run told of."""
    said = "".join(o.get("text", "") for cell in result.cells.values() for o in cell.outputs)
    namespace = re.search(r"in (pid:\[\d+\])", said)[1]
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                inside = str((entry / "ns/pid").readlink()) == namespace
                # A dead one stays listed until the machine's first process looks after it.
                if inside and ") Z " not in (entry / "stat").read_text():
                    found.append(entry.name)
    return found


# What is visible


def test_only_the_system_python_and_the_packages_are_there():
    source = """
import os, subprocess
places = ["/work", "/var", "/run", "/opt", "/mnt", "/srv", "/etc/passwd", "/etc/shadow", "/boot",
          REPOSITORY, PLACE, "/packages/0/mha_lib", "/packages/0/grading"]
print([place for place in places if os.path.exists(place)])
print(os.listdir("/home"), sorted(os.listdir("/inside/grading")))
print(len([name for name in os.listdir("/proc") if name.isdecimal()]) < 5)
"""
    source = source.replace("REPOSITORY", repr(str(REPOSITORY)))
    source = source.replace("PLACE", repr(str(Path(__file__))))
    assert printed(source) == f"[]\n['student'] {sorted(walls.INSIDE_FILES)}\nTrue\n"


def test_the_environment_is_empty_but_for_what_is_set(monkeypatch):
    monkeypatch.setenv("MHA_COURSE_SECRET", "hunter2")
    monkeypatch.setenv("PYTHONSTARTUP", "/etc/profile")
    said = printed("import os, sys\nprint(sorted(os.environ), sys.argv)")
    assert "SECRET" not in said
    assert "STARTUP" not in said
    assert "['notebook']" in said


def test_there_is_no_network():
    said = printed(
        "import socket\nprint([name for _, name in socket.if_nameindex()])\n"
        "try:\n    socket.create_connection(('1.1.1.1', 53), 1)\nexcept OSError as e:\n    print(e)"
    )
    assert said == "['lo']\n[Errno 101] Network is unreachable\n"


def test_only_sockets_that_a_network_namespace_holds_can_be_opened():
    source = """
import socket
opened = set()
for family in range(64):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        for make in (socket.socket, socket.socketpair):
            try:
                made = make(family, kind)
            except OSError as error:
                if family == socket.AF_VSOCK:
                    assert error.errno == 97, error
            else:
                opened.add(family)
print(*sorted(opened))
"""
    opened = set(map(int, printed(source).split()))
    assert {socket.AF_UNIX, socket.AF_INET, socket.AF_NETLINK} <= opened
    assert opened <= {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}


def test_every_forbidden_system_call_is_refused_by_the_filter():
    column = 0 if os.uname().machine == "x86_64" else 1
    numbers = {name: found[column] for name, found in seccomp._FORBIDDEN_CALLS.items()}
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
refused = []
for name, number in {numbers!r}.items():
    if libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 38:
        refused.append(name)
print(*refused)
"""
    assert printed(source).split() == list(numbers)
    known = {"io_uring_setup", "userfaultfd", "keyctl", "add_key", "request_key", "bpf"}
    assert known | {"perf_event_open", "ptrace", "process_vm_readv"} <= numbers.keys()


def test_files_and_counters_of_the_machine_carry_no_word_to_another_sandbox():
    import torch

    source = """
import fcntl, os, struct, torch
file = os.open(torch.__file__, os.O_RDONLY)
lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
possible = []
for command in (*range(64), *range(1000, 1064)):
    try:
        fcntl.fcntl(file, command, lock)
    except OSError as error:
        if error.errno == 38:
            continue
    possible.append(command)
print(*possible)
for take in (lambda: fcntl.flock(file, fcntl.LOCK_SH), lambda: fcntl.lockf(file, fcntl.LOCK_SH)):
    try:
        take()
    except OSError as error:
        print(error.strerror)
told = []
for entry in os.listdir("/proc"):
    try:
        if not entry.isdecimal() and (os.listdir if os.path.isdir("/proc/" + entry) else
                                      lambda path: open(path).read(1))("/proc/" + entry):
            told.append(entry)
    except PermissionError:
        pass
print(*sorted(told))
print(os.listdir("/proc/sys/fs"), os.listdir("/proc/sys/kernel/pty"))
"""
    # A lock of this process shows whether one of another sandbox would be seen.
    with Path(torch.__file__).open("rb") as file:
        fcntl.lockf(file, fcntl.LOCK_SH)
        said = printed(source, limits=Limits()).splitlines()
    assert said[0].split() == list(map(str, seccomp._FCNTL_COMMANDS))
    assert said[1:3] == ["Function not implemented"] * 2
    own = {"mounts", "net", "self", "thread-self"}
    assert set(said[3].split()) == own | set(walls._SHOWN_OF_PROC)
    assert said[4] == "[] []"


def test_what_uses_locks_at_home_falls_back_or_says_so():
    source = """
import multiprocessing, sqlite3, tempfile
def count(lock, value):
    for _ in range(200):
        with lock:
            value.value += 1

lock, value = multiprocessing.Lock(), multiprocessing.Value("i", 0, lock=False)
processes = [multiprocessing.Process(target=count, args=(lock, value)) for _ in range(3)]
for process in processes: process.start()
for process in processes: process.join()
print(value.value)
for place in (":memory:", "file:kept.db?nolock=1", "locked.db"):
    try:
        with sqlite3.connect(place, uri=True) as base:
            base.execute("create table t (n)")
            print(*base.execute("select count(*) from t"))
    except sqlite3.OperationalError as error:
        print(error)
with tempfile.NamedTemporaryFile() as file:
    print(file.write(b"abc"))
"""
    assert printed(source).splitlines() == ["600", "(0,)", "(0,)", "disk I/O error", "3"]


def test_the_runner_is_nobody_and_can_become_nobody_else():
    source = """
import ctypes, os
CLONE, KEYCTL = (56, 250) if os.uname().machine == "x86_64" else (220, 219)
libc = ctypes.CDLL(None, use_errno=True)
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}, status["NoNewPrivs"])
calls = {
    "root": lambda: libc.setuid(0),
    "namespace": lambda: libc.unshare(0x10000000),
    "mount": lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None),
    "trace": lambda: libc.ptrace(16, 1, 0, 0),
    "memory file": lambda: libc.memfd_create(b"x", 0),
    "shared memory": lambda: libc.shmget(0, 1000, 0o1600),
    "kernel's log": lambda: libc.klogctl(3, b"", 0),
    "key": lambda: libc.syscall(KEYCTL, 0, -3, 1),
    "clone": lambda: libc.syscall(CLONE, 0x10000011, 0, 0, 0, 0),
}
print([name for name, call in calls.items() if call() != -1])
print(os.getuid() not in (0, OUTER) or os.getuid() == 1000, os.getgroups() in ([], [65534]))
"""
    said = printed(source.replace("OUTER", str(os.getuid())))
    assert said.splitlines() == ["{'0000000000000000'} 1", "[]", "True True"]


def test_an_installed_copy_of_the_course_is_hidden_and_a_named_module_is_shown(
    tmp_path, monkeypatch
):
    installed = tmp_path / "site-packages"
    for name in ("mha_lib", "grading", "harmless"):
        (installed / name).mkdir(parents=True)
        (installed / name / "__init__.py").write_text("answer = 42\n")
    tmp_path.chmod(0o755)
    monkeypatch.syspath_prepend(installed)
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    source = """
import importlib, sys
for name in ("harmless", "mha_lib", "grading"):
    found = importlib.import_module(name)
    print(name, getattr(found, "answer", None), list(found.__path__))
"""
    # Where a copy is hidden an empty folder is left.
    assert printed(source).splitlines() == [
        "harmless 42 ['/packages/0/harmless']",
        "mha_lib None ['/packages/0/mha_lib']",
        "grading None ['/inside/grading']",
    ]
    shown = printed(source, modules=[REPOSITORY / "mha_lib"], limits=Limits())
    assert "mha_lib None ['/modules/mha_lib']" in shown


def test_a_repository_inside_a_folder_of_the_system_is_hidden(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as system:
        Path(system).chmod(0o755)
        here = Path(system, "course", "grading")
        shutil.copytree(REPOSITORY / "grading", here)
        (here.parent / "solution.txt").write_text("d_k is 64")
        monkeypatch.setattr(walls, "_SYSTEM", (*walls._SYSTEM, system))
        monkeypatch.setattr(walls, "_HERE", here)
        said = printed(
            f"import os\nprint(os.listdir({system!r}), os.listdir({system!r} + '/course'))"
        )
    assert said == "['course'] []\n"


# What can be changed


def test_all_that_is_writable_is_small():
    source = """
import os
def fill(folder):
    written = 0
    try:
        for number in range(1000):
            with open(f"{folder}/{number}", "wb", buffering=0) as file:
                for _ in range(16):
                    written += file.write(bytes(1 << 16))
    except OSError as error:
        return written >> 20, error.strerror

mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
for folder in (*mounts, "/etc", "/home", "/inside/grading", "/packages/0", "/modules"):
    if os.path.isdir(folder) and (full := fill(folder)) and full[0]:
        print(folder, *full)
"""
    said = printed(source).splitlines()
    assert sorted(line.split()[0] for line in said) == sorted(walls.WRITABLE)
    for line in said:
        assert re.search(r" [78] No space left on device$", line)


def test_too_big_a_file_is_an_error_and_too_many_files_are_the_end():
    limits = dataclasses.replace(SMALL, file_bytes=1 << 20)
    assert printed(
        "try:\n    open('x', 'wb').write(bytes(2 << 20))\n"
        "except OSError as e:\n    print(e.strerror)",
        limits=limits,
    ).startswith("File too large")
    result = run("for i in range(10**6):\n    open(f'/tmp/{i}', 'w').close()")
    assert (result.ended, result.cells["c0"].state) == ("died", "error")
    assert "20000 files" in result.reason


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "", ".", "a\0b", "a//b", "./a"])
def test_files_need_plain_names(name):
    with pytest.raises(ValueError, match="plain relative name"):
        run("1", files={name: b""})


@pytest.mark.parametrize(
    ("files", "flaw"),
    [
        ({"a": bytes(5 << 20)}, "are too big: 5242880 bytes in all"),
        ({"a": bytes((1 << 20) + 1)}, "'a' is too big: 1048577 bytes. It may have 1048576"),
        # A file of one byte takes a page: 1100 of them would not fit, though they are small.
        ({f"{n}": b"x" for n in range(600)}, "are too big: 2457600 bytes in all"),
        ({f"{n}": b"" for n in range(MAX_FILES + 1)}, "1001 files"),
        ({f"{n}/{n}": b"" for n in range(MAX_FILES)}, "in 1000 folders"),
        ({"a": b"", "a/b": b""}, "'a' is a file beside the notebook, and a folder"),
        ({"n" * 256: b""}, "plain relative name"),
        ({"\udc80": b""}, "plain relative name"),
    ],
    ids=["sum", "one", "pages", "many", "folders", "both", "long", "no text"],
)
def test_files_that_do_not_fit_are_refused_before_a_sandbox_starts(files, flaw):
    limits = dataclasses.replace(SMALL, disk_bytes=4 << 20, file_bytes=1 << 20)
    if "5242880" in flaw:
        limits = dataclasses.replace(limits, file_bytes=8 << 20)
    assert flaw in files_flaw(files, limits)
    with pytest.raises(ValueError, match=re.escape(flaw)):
        run("1", files=files, limits=limits)


def test_the_most_files_that_are_allowed_can_be_laid_into_a_sandbox():
    limits = dataclasses.replace(SMALL, disk_bytes=8 << 20, file_bytes=3 << 20)
    files = {f"{number}": b"x" for number in range(MAX_FILES - 1)}
    files = dict(list(files.items())[:200]) | {"big": bytes(3 << 20), "n" * 255: b""}
    assert files_flaw(files, limits) is None
    assert printed("import os\nprint(len(os.listdir()))", files=files, limits=limits) == "202\n"


def test_cells_need_ids_of_their_own():
    with pytest.raises(ValueError, match="id of its own"):
        Sandbox(limits=SMALL).run(Job((JobCell("a", ""), JobCell("a", ""))))


# What can be used up


def test_one_process_that_wants_too_much_gets_a_memory_error_and_the_notebook_goes_on():
    result = run("x = []\nwhile True:\n    x.append(bytearray(20 << 20))", "del x", "'on'")
    assert [cell.state for cell in result.cells.values()] == ["error", "ok", "ok"]
    assert result.cells["c0"].outputs[0]["ename"] == "MemoryError"


EAT_IN_CHILDREN = """
import os, time
for _ in range(12):
    if os.fork() == 0:
        eaten = bytearray(60 << 20)
        eaten[::4096] = b"x" * len(eaten[::4096])
        time.sleep(60)
time.sleep(60)
"""


def test_many_processes_that_want_too_much_together_are_the_end():
    result = run("1", EAT_IN_CHILDREN, "2", limits=dataclasses.replace(SMALL, cell_seconds=15))
    assert result.ended == "out of memory"
    assert result.reason == (
        "Your notebook used more than 0.391 GB of memory and was stopped in cell 'c1'."
    )
    assert [cell.state for cell in result.cells.values()] == ["ok", "error", "not run"]


def test_where_no_cgroup_may_be_made_a_guard_counts(monkeypatch):
    monkeypatch.setattr(guards, "cgroup_parent", lambda: None)
    result = run(EAT_IN_CHILDREN, limits=dataclasses.replace(SMALL, cell_seconds=15))
    assert result.ended == "out of memory"


def test_the_guard_counts_what_processes_share_once(monkeypatch):
    monkeypatch.setattr(guards, "cgroup_parent", lambda: None)
    source = """
import os, time
shared = bytearray(150 << 20)
shared[::4096] = b"x" * len(shared[::4096])
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        time.sleep(0.5)
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print("honest")
"""
    assert printed(source) == "honest\n"


def test_a_fork_bomb_reaches_its_limit():
    source = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError as error:
    print(made < 64, error.strerror)
"""
    result = run(TELL + source)
    assert "True Resource temporarily unavailable" in result.cells["c0"].outputs[0]["text"]
    assert left_over(result) == []


@pytest.mark.slow
def test_several_sandboxes_at_once_do_not_count_against_each_other():
    source = (
        "import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep(30)\n"
        "time.sleep(1)"
    )
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: run(source), range(4)))
    assert [result.cells["c0"].state for result in results] == ["ok"] * 4


def test_a_run_that_never_ends_is_ended_with_all_its_children():
    limits = dataclasses.replace(SMALL, cell_seconds=60, seconds=2)
    source = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: time.sleep(1)
while True:
    try:
        while True: pass
    except BaseException: pass
"""
    start = time.monotonic()
    result = run("1", TELL + source, "2", limits=limits)
    assert time.monotonic() - start < 15
    assert result.ended == "timed out"
    assert result.reason == "Your notebook ran longer than 2 seconds and was stopped in cell 'c1'."
    assert [cell.state for cell in result.cells.values()] == ["ok", "timed out", "not run"]
    assert left_over(result) == []


@pytest.mark.slow
def test_computing_time_is_limited_too():
    limits = dataclasses.replace(SMALL, cpu_seconds=3, cell_seconds=30)
    result = run("while True:\n    pass", limits=limits)
    assert result.ended == "timed out"
    assert "3 seconds of computing" in result.reason


def test_what_all_processes_compute_together_is_limited():
    limits = dataclasses.replace(SMALL, cpu_seconds=2, cell_seconds=30)
    hidden_away = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        while True: pass
time.sleep(25)
"""
    one_after_another = """
import os, time
for _ in range(20):
    if os.fork() == 0:
        start = time.process_time()
        while time.process_time() - start < 0.5: pass
        os._exit(0)
    os.wait()
"""
    for source in (hidden_away, one_after_another):
        result = run("1", TELL + source, limits=limits)
        assert (result.ended, result.cells["c1"].state) == ("timed out", "timed out")
        assert result.reason == (
            "Your notebook used more than 2 seconds of computing and was stopped in cell 'c1'."
        )
        assert left_over(result) == []


def test_each_sandbox_has_a_core_of_its_own_and_cannot_leave_it():
    source = """
import os, time
try:
    os.sched_setaffinity(0, range(os.cpu_count()))
except OSError:
    pass
if os.fork() == 0:
    os.setsid()
    print(*os.sched_getaffinity(0), file=open("core", "w"))
    os._exit(0)
os.wait()
time.sleep(2)
print(open("core").read(), *os.sched_getaffinity(0))
"""
    cores = os.sched_getaffinity(0)
    both = min(2, len(cores))
    with ThreadPoolExecutor(both) as pool:
        said = list(pool.map(lambda _: set(map(int, printed(source).split())), range(both)))
    assert all(len(one) == 1 and one <= cores for one in said), said
    assert len(set.union(*said)) == both


def test_cores_are_shared_evenly_where_there_are_too_few(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 5, 7})
    cores = Cores()
    with contextlib.ExitStack() as users:
        lent = [users.enter_context(cores.one()) for _ in range(6)]
        assert sorted(lent[:3]) == sorted(lent[3:]) == [2, 5, 7]
        with cores.one() as once:
            pass
        with cores.one(), cores.one(), cores.one() as third:
            assert third in (2, 5, 7)
    assert once in (2, 5, 7)
    assert not +cores._users


def test_two_graders_of_one_machine_take_different_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {902, 905})
    for _ in range(10):  # Chance alone would choose the same in one of these.
        with Cores().one() as mine, Cores().one() as theirs:
            assert {mine, theirs} == {902, 905}
            with Cores().one() as third:
                assert third in (902, 905)


def test_runs_with_secrets_and_shown_runs_never_meet_and_one_alone_meets_nobody():
    source = "import time\nprint(time.monotonic())\ntime.sleep(0.4)\nprint(time.monotonic())"
    sandbox = Sandbox(limits=SMALL)

    def times(kind):
        job = Job((JobCell("a", source),), key="ab" if kind == "secret" else "")
        result = sandbox.run(job, alone=kind == "alone")
        return kind, *map(float, result.cells["a"].outputs[0]["text"].split())

    kinds = ("shown", "secret", "shown", "alone", "secret", "alone")
    with ThreadPoolExecutor(len(kinds)) as pool:
        said = list(pool.map(times, kinds))
    for number, (kind, begin, end) in enumerate(said):
        for other, start, stop in said[number + 1 :]:
            may_meet = kind == other != "alone"
            assert may_meet or stop < begin or start > end, said


def test_turns_change_fairly_and_leave_no_trace():
    turns = Turns()
    seen, threads = [], []

    def go(kind, name):
        with turns.turn(kind):
            seen.append(name)

    def begin(kind, name):
        threads.append(threading.Thread(target=go, args=(kind, name)))
        threads[-1].start()

    with turns.turn("shown"):
        begin("shown", "beside the first")
        wait_until(lambda: seen == ["beside the first"])
        for number, kind in enumerate(("secret", "shown", "alone", "secret"), 1):
            begin(kind, f"{kind} {number}")
            wait_until(lambda number=number: len(turns._waiting) + len(seen) == number + 1)
        time.sleep(0.1)
        # The second passed the one before: a run that hangs holds up no other of its kind.
        assert seen == ["beside the first", "shown 2"]
    for thread in threads:
        thread.join(10)
    # The fourth need not wait for the one between: the first of its kind opened the door.
    assert set(seen[2:4]) == {"secret 1", "secret 4"}
    assert seen[4:] == ["alone 3"]
    with pytest.raises(KeyError), turns.turn("alone"):
        raise KeyError
    assert (turns._waiting, turns._going) == ([], [])


def test_no_more_go_at_once_than_may_and_nobody_is_passed_for_ever(monkeypatch):
    monkeypatch.setattr(cores_module, "MOST_PASSED", 3)
    turns = Turns()
    with contextlib.ExitStack() as first:
        first.enter_context(turns.turn("shown", 2))
        tickets = [cores_module._Ticket(kind, 2) for kind in ("secret", *["shown"] * 6)]
        turns._waiting += tickets
        gone = []
        for _ in range(5):
            with turns._changed:
                turns._let_in()
            assert len(turns._going) <= 2
            gone += [ticket for ticket in turns._going if ticket in tickets and ticket not in gone]
            turns._going[1:] = []
        assert gone == tickets[1:4]
    assert turns._going[0] is tickets[0]


def wait_until(true):
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_people_are_told_of_a_cell_by_its_name():
    assert cell_name("split-heads") == "cell 'split-heads'"
    ids = ("+1", "given-18")
    cells = (*(JobCell(id, f"1 / {n}") for n, id in enumerate(ids)), JobCell("+2", "exit_now"))
    cells = (*cells, JobCell("+3", "import os\nos._exit(0)"))
    result = Sandbox(limits=SMALL).run(Job(cells))
    lines = "\n".join(result.cells["+1"].outputs[0]["traceback"])
    assert "added cell 1, line 1" in lines
    assert "/" not in lines.replace("1 / 0", "")
    assert result.reason == "Your notebook ended the Python process in added cell 3."


# What can be broken


@pytest.mark.parametrize(
    "source",
    [
        "import os\nprint('before', flush=True)\nos._exit(0)",
        "import os\nprint('before', flush=True)\nos.kill(os.getpid(), 9)",
        "import ctypes\nprint('before', flush=True)\nctypes.string_at(0)",
        "import os\nprint('before', flush=True)\nos.closerange(0, 1000)",
        "import os, time\nprint('before', flush=True)\n"
        "if os.fork() == 0:\n    time.sleep(60)\nos._exit(1)",
    ],
    ids=["exit", "kill", "crash", "close everything", "leave a child with the pipe"],
)
def test_a_python_that_ends_costs_its_cell_and_the_rest(source):
    start = time.monotonic()
    result = run("from grading import check\ncheck('n', 1)", source, "check('m', 2)")
    assert time.monotonic() - start < 15
    assert (result.ended, result.reason) == (
        "died",
        "Your notebook ended the Python process in cell 'c1'.",
    )
    assert [cell.state for cell in result.cells.values()] == ["ok", "error", "not run"]
    assert result.cells["c1"].outputs[0]["text"].startswith("before")
    assert [message.value for message in result.messages] == [1]


def test_the_first_process_cannot_be_killed_from_inside(mode):
    # A warm run has a process beside it, which is its own and with which it would end; and its
    # parent is outside, for which it sees a 0: that means itself.
    others = ", os.getppid(), -1" if mode == "cold" else ""
    result = run(
        f"import os\nfor process in (1{others},):\n"
        "    try:\n        os.kill(process, 9)\n"
        "    except OSError:\n        pass",
        "'alive'",
    )
    assert result.ended == "finished"
    assert result.cells["c1"].state == "ok"


@pytest.mark.parametrize(
    "source",
    [
        "for fd in range(3, 512):\n    try: os.write(fd, b'junk' * 999)\n    except OSError: pass",
        "os.write(PIPE, b'\\x00\\x00\\x00\\x05{\"a\":')",
        "os.write(PIPE, b'\\xff' * 4)",
        "while True: os.write(PIPE, b'\\x00\\x00\\x00\\x02{}' * 1000)",
        "for _ in range(3):\n    os.write(PIPE, b'\\x00'); time.sleep(.1)\nos._exit(0)",
    ],
    ids=["every descriptor", "half a frame", "a huge length", "a flood", "a byte at a time"],
)
def test_garbage_in_the_pipe_ends_the_run_and_what_came_before_stands(source):
    find = "PIPE = int(open('/proc/self/cmdline').read().split('\\0')[-2])\nimport os, time\n"
    result = run("from grading import check\ncheck('n', 1)", find + source, "3")
    assert result.ended == "malformed"
    assert "in cell 'c1'" in result.reason
    assert [message.value for message in result.messages] == [1]
    assert result.cells["c2"].state == "not run"


@pytest.mark.slow
def test_a_slow_writer_cannot_hold_the_grader_up():
    find = "PIPE = int(open('/proc/self/cmdline').read().split('\\0')[-2])\nimport os, time\n"
    drip = (
        "os.write(PIPE, b'\\x00\\x00\\xff\\xff')\nwhile True:\n"
        "    os.write(PIPE, b' '); time.sleep(.01)"
    )
    limits = dataclasses.replace(SMALL, cell_seconds=60, seconds=2)
    assert run(find + drip, limits=limits).ended == "timed out"


def test_a_forged_end_is_the_end():
    forged = (
        "import os, json, struct\nPIPE = int(open('/proc/self/cmdline').read().split('\\0')[-2])\n"
        "for frame in ({'kind': 'done', 'cell': 'c0', 'state': 'ok'}, {'kind': 'end'}):\n"
        "    data = json.dumps(frame).encode()\n"
        "    os.write(PIPE, struct.pack('>I', len(data)) + data)\n"
        "while True: pass"
    )
    result = run(forged)
    assert (result.ended, result.messages) == ("finished", ())
    assert run(forged, "2").ended == "malformed"


# The machine's fault


@pytest.fixture
def untried(monkeypatch):
    missing_module._find_walls.cache_clear()
    yield monkeypatch
    missing_module._find_walls.cache_clear()


def put_in_place_of_bwrap(monkeypatch, folder, script):
    fake = folder / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    folder.chmod(0o755)
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: str(fake) if name == "bwrap" else which(name))


@pytest.mark.parametrize("child", [1, 4194303], ids=["another's", "gone"])
def test_a_bwrap_that_ends_early_is_quoted(monkeypatch, tmp_path, child):
    sandbox = Sandbox(limits=SMALL)
    find_info = 'while [ "$1" != --info-fd ]; do shift; done'
    tell = f"echo '{{\"child-pid\": {child}}}' > /proc/self/fd/$2"
    script = f"{find_info}\n{tell}\necho 'bwrap: Creating new namespace failed' >&2\nexit 1"
    put_in_place_of_bwrap(monkeypatch, tmp_path, script)
    with pytest.raises(SandboxError, match=r"It said: bwrap: Creating new namespace failed$"):
        sandbox.run(Job((JobCell("a", "1"),)))


def test_a_bwrap_that_says_nothing_leaves_its_status(monkeypatch, tmp_path):
    sandbox = Sandbox(limits=SMALL)
    put_in_place_of_bwrap(monkeypatch, tmp_path, "kill -9 $$")
    with pytest.raises(SandboxError, match="ended with status -9 and said nothing"):
        sandbox.run(Job((JobCell("a", "1"),)))


@pytest.mark.slow
def test_a_grader_that_is_kept_waiting_misses_nothing(monkeypatch):
    find_first = confined.Confined._find_first

    def find_late(*arguments):
        time.sleep(2)  # far more than the whole run takes
        return find_first(*arguments)

    monkeypatch.setattr(confined.Confined, "_find_first", find_late)
    assert printed("print('here')") == "here\n"


def test_processes_are_counted_from_outside_too(monkeypatch):
    """A run may have found a place that the kernel's limit does not hold."""
    descendants = guards.descendants

    def many(*processes):
        yield from descendants(*processes)
        yield from range(1 << 30, (1 << 30) + SMALL.processes)

    sandbox = Sandbox(limits=SMALL)
    assert sandbox.run(Job((JobCell("a", "import time; time.sleep(0.3)"),))).ended == "finished"
    monkeypatch.setattr(guards, "descendants", many)
    run = sandbox.run(Job((JobCell("a", "import time; time.sleep(5)"),)))
    assert run.ended == "died"
    assert f"started more than {SMALL.processes} processes" in run.reason


def test_a_fault_that_passes_is_no_missing_wall(untried):
    """Else a risk that was accepted would be taken where the wall stands."""

    def start(*_):
        raise SandboxError("no more files") from OSError(errno.EMFILE, "Too many open files")

    untried.setattr(missing_module, "Confined", start)
    with pytest.raises(SandboxError, match="no more files"):
        Sandbox(accepted=["no-sandbox"])


@pytest.mark.parametrize("tool", ["bwrap", "prlimit"])
def test_a_missing_program_is_named_and_nothing_runs(untried, tool):
    which = shutil.which
    untried.setattr(shutil, "which", lambda name: None if name == tool else which(name))
    (sentence,) = map(str, missing_walls())
    assert f"The program {tool} is missing" in sentence
    assert "apt-get install" in sentence
    with pytest.raises(SandboxError, match=tool):
        Sandbox()
    untried.setattr(shutil, "which", which)  # it was installed meanwhile
    assert missing_walls() == []


@pytest.mark.parametrize(
    ("refusal", "way_out"),
    [
        ("No permissions to create new namespace", "namespaces"),
        ("Unknown option --size", "bubblewrap 0.7 or newer"),
    ],
)
def test_a_bwrap_that_refuses_is_quoted_and_nothing_runs(untried, tmp_path, refusal, way_out):
    put_in_place_of_bwrap(untried, tmp_path, f"echo 'bwrap: {refusal}' >&2; exit 1")
    (sentence,) = map(str, missing_walls())
    assert refusal in sentence
    assert way_out in sentence
    with pytest.raises(SandboxError, match="could not make a sandbox"):
        Sandbox()


def test_a_wall_with_a_hole_is_found(untried):
    untried.setattr(seccomp, "call_filter", lambda: b"\x06\x00\x00\x00\x00\x00\xff\x7f")
    (sentence,) = map(str, missing_walls())
    assert "forbidden system calls work" in sentence
    untried.undo()
    untried.setattr(walls, "WRITABLE", walls.WRITABLE[:2])
    (sentence,) = map(str, missing_walls())
    assert "not all walls stand: /dev/shm is unlimited" in sentence


def test_a_runner_that_does_not_start_is_not_the_students_fault(mode, monkeypatch):
    monkeypatch.setattr(walls, "RUNNER", "/inside/grading/missing.py")
    monkeypatch.setattr(walls, "FORKED", "/inside/grading/missing.py")
    sandbox = sandbox_module.Sandbox(warm=None if mode == "cold" else ["nothing.of.that.name"])
    with pytest.raises(SandboxError, match="can't open file"):
        sandbox.run(Job((JobCell("a", "1"),)))
    assert mode == "cold" or "can't open file" in sandbox.why_cold


def test_a_module_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SandboxError, match="no package folder"):
        Sandbox(modules=[tmp_path / "nothing"])


def test_the_digest_follows_what_runs(tmp_path):
    module = tmp_path / "lib"
    module.mkdir()
    (module / "a.py").write_text("1")
    first = Sandbox(modules=[module]).digest()
    assert first == Sandbox(modules=[module]).digest()
    assert first != Sandbox(modules=[module], limits=SMALL).digest()
    (module / "a.py").write_text("2")
    assert first != Sandbox(modules=[module]).digest()


def test_the_files_of_a_version_2_cgroup_are_written_and_read_in_a_plain_folder(tmp_path):
    # It shows their names and contents only, so that it runs on machines with version 1 too.
    guard = guards.CgroupGuard(tmp_path, 1 << 30)
    (folder,) = tmp_path.iterdir()
    assert (folder / "memory.max").read_text() == str(1 << 30)
    assert (folder / "memory.oom.group").read_text() == "1"
    assert (folder / "memory.swap.max").read_text() == "0"
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 0\n")
    assert not guard.exceeded(0)
    (folder / "memory.events").write_text("low 0\noom 3\noom_kill 1\n")
    assert guard.exceeded(0)


@pytest.mark.parametrize("end", ["1", "os.fork()\nos._exit(0)", "os.closerange(0, 999)"])
def test_nothing_is_left_behind(end, monkeypatch):
    Sandbox()
    made = []
    make = guards.memory_guard
    monkeypatch.setattr(guards, "memory_guard", lambda limit: made.append(make(limit)) or made[-1])
    before = (len(list(Path("/proc/self/fd").iterdir())), threading.active_count())
    result = run(TELL + end)
    assert (len(list(Path("/proc/self/fd").iterdir())), threading.active_count()) == before
    assert left_over(result) == []
    (guard,) = made
    if isinstance(guard, guards.CgroupGuard):
        assert not Path(guard.prefix()[-1]).parent.exists()
