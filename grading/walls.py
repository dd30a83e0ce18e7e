"""The walls of a sandbox: what is visible inside, what may be done, and how it is said to bwrap.

Inside there is the system (read-only), Python, the packages' folders, a few files of `grading`,
and three small writable folders. The repository, the course and other people's homes are not
mounted at all.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grading.job import Limits

HOME = "/home/student"
WRITABLE = (HOME, "/tmp", "/dev/shm")  # each is a tmpfs of its own, of limited size
# What a notebook and the runner import; none of it knows an answer.
INSIDE_FILES = (
    "__init__.py",
    "check.py",
    "checks_file.py",
    "compare.py",
    "demo.py",
    "describe.py",
    "expected.py",
    "values.py",
    "variants.py",
    "forked.py",
    "runner.py",
    "shell.py",
)
RUNNER = "/inside/grading/runner.py"
FORKED = "/inside/grading/forked.py"
# Packages of this repository: even an installed copy is visible only to a task that names it.
OWN_PACKAGES = ("mha_lib", "grading")

_HERE = Path(__file__).resolve().parent
_SYSTEM = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec")
_MERGED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")  # links into /usr, or real folders
_SMALL = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/alternatives",
    "/usr/share/zoneinfo",
    "/sys/devices/system/cpu",  # torch asks there which instructions the processor has
)

# Of /proc, beside its processes. All else there counts what the whole machine does, by which two
# sandboxes could talk: hidden tests run in one while another shows what it prints.
_SHOWN_OF_PROC = ("cpuinfo", "filesystems", "sys", "version")
_HIDDEN_OF_PROC_SYS = ("fs", "kernel/pty")


def package_folders() -> list[Path]:
    """Give the folders of installed packages that this Python uses, in its order."""
    names = ("site-packages", "dist-packages")
    found = dict.fromkeys(Path(entry) for entry in sys.path if Path(entry).name in names)
    return [folder for folder in found if folder.is_dir()]


def python() -> Path:
    """Give the Python behind a virtual environment, which needs no file of the environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def view(modules: Sequence[Path], limits: Limits) -> tuple[str, ...]:
    """Give the words for all that is visible inside; finding it takes a while, so keep them."""
    words = ["--clearenv"]
    for name, value in environment().items():
        words += ["--setenv", name, value]
    return (*words, *_mounts(modules, limits))


def command(
    visible: Sequence[str],
    limits: Limits,
    user: int | None,
    *,
    info: int,
    hold: int,
    seccomp: int,
) -> list[str]:
    """Give the words that start a program inside new walls; the program's own words follow.

    ``visible`` comes from `view` and ``user``, who it runs as, from `fresh_user`. ``info``,
    ``hold`` and ``seccomp`` are file descriptors. bwrap writes to the first who its child is, and
    waits for the second to be closed before anything runs.
    """
    words = [_tool("bwrap"), "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--info-fd", str(info), "--block-fd", str(hold)]
    words += ["--seccomp", str(seccomp)]
    if user is None:
        words += ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    else:
        words += _capabilities("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
    words += visible
    if user is not None:
        words += _become(user)
    return [*words, *limited(process_limits(limits))]


def warm_command(visible: Sequence[str]) -> list[str]:
    """Give the words that start the process which others are forked from.

    It sees what a sandbox sees and runs no student's code. It keeps the rights to lead what it
    forks into a sandbox, so it stays in the grader's own process namespace, and a sandbox of an
    ordinary user is made inside its user namespace.
    """
    words = [_tool("bwrap"), "--new-session", "--hostname", "sandbox"]
    words += ["--unshare-ipc", "--unshare-net", "--unshare-uts"]
    if os.geteuid() != 0:
        words += ["--unshare-user", "--uid", "0", "--gid", "0"]
    names = ("SETUID", "SETGID", "SETPCAP", "SYS_ADMIN", "SYS_CHROOT", "SYS_PTRACE")
    words += _capabilities(*(f"CAP_{name}" for name in names))
    return [*words, *visible]


def inside_user_namespace(namespace: int) -> list[str]:
    """Give the words that go before a command which is to start in a user namespace."""
    return [_tool("nsenter"), f"--user=/proc/self/fd/{namespace}", "--preserve-credentials"]


def _capabilities(*names: str) -> list[str]:
    return ["--cap-drop", "ALL", *(word for name in names for word in ("--cap-add", name))]


def _tool(name: str) -> str:
    return shutil.which(name) or name


def environment(root: str = "") -> dict[str, str]:
    """Give all variables that a run finds; what it needs lies below the folder ``root``."""
    path = [str(python().parent), "/usr/bin", "/bin"]
    packages = (f"/packages/{number}" for number in range(len(package_folders())))
    return {
        "HOME": f"{root}{HOME}",
        "USER": "student",
        "LOGNAME": "student",
        "LANG": "C.UTF-8",
        "PATH": ":".join(dict.fromkeys(path)),
        "PYTHONPATH": ":".join(f"{root}{folder}" for folder in ("/inside", "/modules", *packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": f"{root}/tmp/ipython",
        "MPLCONFIGDIR": f"{root}/tmp/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        # One thread each: sums then do not depend on the machine, and many sandboxes share it.
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _mounts(modules: Sequence[Path], limits: Limits) -> list[str]:
    trees = _trees()
    words = ["--proc", "/proc", *_hide_counters(), "--dev", "/dev"]
    words += _enterable_parents(map(Path, WRITABLE))
    # Before all others: Python itself may lie below one of these folders.
    for mount in WRITABLE:
        words += ["--perms", "1777", "--size", str(limits.disk_bytes), "--tmpfs", mount]
    own = map(Path, ("/packages/0", "/modules/x", "/inside/grading/x"))
    words += _enterable_parents([*trees, *map(Path, _SMALL), *own])
    for tree in trees:
        words += ["--ro-bind", str(tree), str(tree)]
    for name in _MERGED:
        if Path(name).is_symlink():
            words += ["--symlink", str(Path(name).readlink()), name]
    for small in _SMALL:
        words += ["--ro-bind-try", small, small]
    for number, folder in enumerate(package_folders()):
        words += ["--ro-bind", str(folder), f"/packages/{number}"]
    for hidden in _hidden(trees):
        words += _empty(hidden)
    for name in INSIDE_FILES:
        words += ["--ro-bind", str(_HERE / name), f"/inside/grading/{name}"]
    for module in modules:
        words += ["--ro-bind", str(module.resolve()), f"/modules/{module.name}"]
    # What bwrap itself made is an unlimited tmpfs, which an ordinary user owns inside.
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME]


def _hide_counters() -> list[str]:
    words = []
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdecimal() or entry.name in _SHOWN_OF_PROC or entry.is_symlink():
            continue
        words += _empty(str(entry)) if entry.is_dir() else ["--ro-bind", "/dev/null", str(entry)]
    for name in _HIDDEN_OF_PROC_SYS:
        words += _empty(f"/proc/sys/{name}")
    return words


def _empty(folder: str) -> list[str]:
    return ["--perms", "0555", "--size", "4096", "--tmpfs", folder, "--remount-ro", folder]


def _enterable_parents(folders: Iterable[Path]) -> list[str]:
    """Make the folders above what is mounted; bwrap alone would make them for root only."""
    parents = {parent for folder in folders for parent in folder.parents}
    words = []
    for parent in sorted(parents - {Path("/"), Path("/dev"), *map(Path, WRITABLE)}):
        words += ["--perms", "0755", "--dir", str(parent)]
    return words


def _trees() -> list[Path]:
    """Give the folders of the system and of Python that are shown under their own names."""
    system = [*_SYSTEM, *(name for name in _MERGED if not Path(name).is_symlink())]
    prefix = [Path(sys.base_prefix) / name for name in ("bin", "lib", "lib64")]
    found = dict.fromkeys(folder for folder in (*map(Path, system), *prefix) if folder.is_dir())
    return list(found)


def _hidden(trees: Iterable[Path]) -> Iterator[str]:
    """Give what lies in visible folders and must not be seen: copies of this repository."""
    repository = _HERE.parent
    shown = {f"/packages/{number}": folder for number, folder in enumerate(package_folders())}
    for tree in trees:
        for folder in (*tree.glob("python3*/site-packages"), *tree.glob("python3*/dist-packages")):
            shown[str(folder)] = folder
        if repository.is_relative_to(tree) and repository not in package_folders():
            yield str(repository)
    for inside, folder in shown.items():
        for name in OWN_PACKAGES:
            if (folder / name).is_dir():
                yield f"{inside}/{name}"


def fresh_user() -> int | None:
    """Choose whom a sandbox runs as: None where bwrap shows an ordinary user another number.

    As root each sandbox has a user of its own, to whom nothing belongs, as the kernel counts
    processes by user.
    """
    if os.geteuid() != 0:
        return None
    mapped = Path("/proc/self/uid_map").read_text().split()
    # In a container often only 65,536 users exist; the upper ones below belong to nobody.
    first, last = (1 << 30, (1 << 31) - 2) if int(mapped[2]) > 1 << 31 else (61184, 65519)
    return random.SystemRandom().randint(first, last)


def _become(user: int) -> list[str]:
    """Give up root's rights for those of a user."""
    words = [_tool("setpriv"), "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    return [*words, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]


def limited(bounds: Mapping[str, tuple[int, int]]) -> list[str]:
    """Give the words that go before a command whose processes have limits, soft and hard."""
    return [_tool("prlimit"), *(f"--{name}={soft}:{hard}" for name, (soft, hard) in bounds.items())]


def process_limits(limits: Limits) -> dict[str, tuple[int, int]]:
    """Give what each process may use, soft and hard, by the names that prlimit has for it."""
    values = {
        # Met before the whole sandbox's limit, by a MemoryError: it costs a cell and not the run.
        "data": limits.memory_bytes * 7 // 8,
        "nproc": limits.processes,
        "fsize": limits.file_bytes,
        "nofile": 512,
        "stack": 8 << 20,
        "memlock": 64 << 10,
        "msgqueue": 0,
        "core": 0,
    }
    bounds = {name: (value, value) for name, value in values.items()}
    return bounds | {"cpu": (limits.cpu_seconds, limits.cpu_seconds + 1)}
