"""The process that runs are forked from: it has imported what an assignment imports, and waits.

It is started as `python forked.py CONTROL` and never sees a student's code, another's files or a
secret. For each run it forks a child, which goes behind the walls that bubblewrap has just made
for that run alone, gives up all rights, and only then reads what it is to run. Whatever that does
then, it does as in a process started there.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from grading import runner

# What linux/sched.h, linux/prctl.h and linux/capability.h call them.
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x40000000
_USERS, _PROCESSES = 0x10000000, 0x20000000
_DIE_WITH_PARENT, _SET_DUMPABLE, _SET_SECCOMP, _FILTER = 1, 4, 22, 2
_DROP_BOUND, _NO_NEW_PRIVS = 24, 38
_AMBIENT, _CLEAR_ALL = 47, 4
_CAPABILITIES_VERSION = 0x20080522
_MESSAGE = 1 << 16
_LEFT = ("/tmp", "/home/student")  # where imports may leave files

Left = Mapping[str, bytes | None]

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Get ready, and fork for each message that comes."""
    _call("prctl", _DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    sys.path += os.environ["PYTHONPATH"].split(":")
    from grading import runner

    control = socket.socket(fileno=int(sys.argv[1]))
    ready = runner.Ready()
    for name in json.load(sys.stdin.buffer):
        try:
            importlib.import_module(name)
        except Exception:  # A cell that imports it will say why.
            sys.modules.pop(name, None)
    if flaw := _flaw():
        control.send(f"{os.getpid()} {flaw}".encode())
        sys.exit(1)
    left = _left_by_imports()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked
    gc.collect()
    gc.freeze()  # so that no child copies what it only looks at
    control.send(f"{os.getpid()} ".encode())
    own = _own_processes()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 16, 2)
        if not message or _threads() != 1:
            os._exit(0)
        talk, first = socket.socket(fileno=descriptors[0]), descriptors[1]
        if own is None and os.fork():
            pass  # what was forked goes there, and forks in turn
        else:
            try:
                child = _fork_into(first, own)
            except OSError as error:
                child = -1
                _tell(talk, f"nothing could be forked ({error})")
            if child == 0:
                control.close()
                _run(talk, first, ready, left)
            if child > 0:
                _tell(talk, str(child))
            if own is None:
                control.close()
                talk.close()
                with contextlib.suppress(ChildProcessError):
                    os.wait()  # a dead process without its parent would hold the sandbox open
                os._exit(0)
        talk.close()
        os.close(first)


def _own_processes() -> int | None:
    """Open the own process namespace; None if a process that left it could not come back.

    An ordinary user has no right over the machine's, in which this process is.
    """
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _call("setns", own, _PROCESSES)
    except OSError:
        os.close(own)
        return None
    return own


def _tell(talk: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):  # the grader may have given up
        talk.send(text.encode())


def _fork_into(first: int, own: int | None) -> int:
    """Fork; the child is in the process namespace of ``first``, and this process stays in its own.

    Only what a process forks can be in another process namespace.
    """
    _call("setns", first, _PROCESSES)
    child = -1
    try:
        child = os.fork()
        return child
    finally:
        if child != 0 and own is not None:
            _call("setns", own, _PROCESSES)


def _run(talk: socket.socket, first: int, ready: runner.Ready, left: Left) -> NoReturn:
    try:
        _enter(talk, first)
        for name, content in left.items():
            if content is None:
                Path(name).mkdir(parents=True, exist_ok=True)
            else:
                Path(name).write_bytes(content)
        _start(ready)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _flaw() -> str:
    """Say why nothing can be forked from this process; "" if it can."""
    if (threads := _threads()) != 1:
        return f"an import started {threads - 1} threads"
    with Path("/proc/self/maps").open(encoding="ascii", errors="replace") as maps:
        for line in maps:
            rights = line.split()[1]
            if "w" in rights and "s" in rights:
                return "an import holds memory that forked processes would share"
    return ""


def _left_by_imports() -> Left:
    """Give the small files and the folders (None) that a run finds if it imports by itself."""
    found: dict[str, bytes | None] = {}
    for top in _LEFT:
        for path in sorted(Path(top).rglob("*")):
            if path.is_dir():
                found[str(path)] = None
            elif path.is_file() and path.stat().st_size < 1 << 20:
                found[str(path)] = path.read_bytes()
    return found


def _enter(talk: socket.socket, first: int) -> None:
    """Go behind the walls. Whoever comes back from here has no rights and no way out."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, descriptors, _, _ = socket.recv_fds(talk, _MESSAGE, 3)
    if not message:
        os._exit(1)
    talk.close()
    about = json.loads(message)
    os.sched_setaffinity(0, {about["core"]})
    user = about["user"]
    # An ordinary user's rights over the namespaces come from outside the last one.
    for kinds in (_NAMESPACES, *((_USERS,) if user is None else ())):
        _call("setns", first, kinds)
    os.chdir("/home/student")
    os.setsid()
    os.umask(0o022)
    _hold_only(*descriptors)
    for name, bounds in about["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), tuple(bounds))
    _give_up_rights(user)
    _filter_calls(bytes.fromhex(about["seccomp"]))
    _refuse_rights()


def _start(ready: runner.Ready) -> NoReturn:
    from grading import runner

    pipe = int(sys.argv[1])
    job: dict[str, Any] = json.load(sys.stdin.buffer)
    if "program" in job:  # the grader's own, which tries the walls
        exec(job["program"], {})
        os._exit(0)
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()  # as in a process that imports it: different each time
    runner.run(job, pipe, ready)
    os._exit(0)


def _hold_only(pipe: int, errors: int, given: int) -> None:
    """Close everything but the standard streams and the pipe, which gets the number it is told."""
    null = os.open(os.devnull, os.O_WRONLY)
    told = int(sys.argv[1])
    sources = [os.dup(descriptor) for descriptor in (given, null, errors, pipe)]
    for source, target in zip(sources, (0, 1, 2, told), strict=True):
        os.dup2(source, target)
    os.closerange(3, told)
    os.closerange(told + 1, 1 << 16)


def _give_up_rights(user: int | None) -> None:
    capability = 0
    while _libc.prctl(_DROP_BOUND, capability, 0, 0, 0) == 0:
        capability += 1
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _call("prctl", _AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
    _call("capset", header, bytes(24))
    _call("prctl", _NO_NEW_PRIVS, 1, 0, 0, 0)
    _call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)  # as after starting a program


def _filter_calls(steps: bytes) -> None:
    kept = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("@HP", len(steps) // 8, ctypes.addressof(kept))
    _call("prctl", _SET_SECCOMP, _FILTER, program, 0, 0)


def _refuse_rights() -> None:
    """Stop where anything is left of the rights that led here."""
    with Path("/proc/self/status").open(encoding="ascii", errors="replace") as file:
        status = dict(line.split(":", 1) for line in file)
    rights = [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    if any(rights) or status["NoNewPrivs"].split() != ["1"] or status["Seccomp"].split() != ["2"]:
        raise PermissionError("the forked process kept rights")


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


if __name__ == "__main__":
    main()
