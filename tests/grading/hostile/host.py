"""For the machine: the kernel, the file system, the network and whoever else is on it.

Each prints a sentence of `PASSED` where it got through; it must never stand in what comes back.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from grading.grade import Status
from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack


@submission()
def asks_the_kernel_for_more(work: Work) -> None:
    """Namespaces, mounts, ptrace, keyrings, io_uring, another user, by the bare call: nothing."""
    attack(
        work,
        """
        import ctypes, os, platform, subprocess
        libc = ctypes.CDLL(None, use_errno=True)
        column = 0 if platform.machine() == "x86_64" else 1
        calls = {
            "unshare": ((272, 97), 0x10000000), "setns": ((308, 268), 3, 0),
            "mount": ((165, 40), b"none", b"/tmp", b"tmpfs", 0, 0),
            "umount": ((166, 39), b"/tmp", 2),
            "ptrace": ((101, 117), 16, 1, 0, 0), "keyctl": ((250, 219), 0, -3, 1),
            "add_key": ((248, 217), b"user", b"a", b"b", 1, -3), "bpf": ((321, 280), 0, 0, 0),
            "io_uring_setup": ((425, 425), 8, ctypes.create_string_buffer(256)),
            "perf_event_open": ((298, 241), ctypes.create_string_buffer(128), 0, -1, -1, 0),
            "userfaultfd": ((323, 282), 0), "memfd_create": ((319, 279), b"x", 0),
            "chroot": ((161, 51), b"/tmp"), "setuid": ((105, 146), 0), "setgid": ((106, 144), 0),
            "sethostname": ((170, 161), b"mine", 4), "swapoff": ((168, 225), b"/x"),
            "open_by_handle_at": ((304, 265), 3, ctypes.create_string_buffer(64), 0),
            "kexec_load": ((246, 104), 0, 0, 0, 0), "init_module": ((175, 105), 0, 0, b""),
            "process_vm_readv": ((310, 270), 1, 0, 0, 0, 0, 0),
        }
        for name, ((*numbers,), *arguments) in calls.items():
            if libc.syscall(numbers[column], *arguments) >= 0:
                through(name)
        programs = [["su", "-c", "id"], ["sudo", "-n", "id"], ["unshare", "-r", "id"],
                    ["mount", "-t", "tmpfs", "none", "/tmp"], ["nsenter", "-t", "1", "-a", "id"],
                    ["bwrap", "--dev-bind", "/", "/", "id"], ["newgrp", "root"]]
        for words in programs:
            try:
                done = subprocess.run(words, capture_output=True, timeout=2, input=b"")
                if done.returncode == 0:
                    through(" ".join(words))
            except (OSError, subprocess.SubprocessError):
                pass
        if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()):
            through("it is root")
        """,
    )


@submission()
def writes_wherever_it_can(work: Work) -> None:
    """Looks for any folder that outlives its run, and leaves start-up files there: nothing."""
    attack(
        work,
        """
        import os, sys
        own = ("/home/student", "/tmp", "/dev/shm", "/proc")
        names = ("sitecustomize.py", "torch.py", "zzz.pth", "grading.py")
        for folder, folders, files in os.walk("/"):
            if folder.startswith(own):
                folders.clear()
                continue
            plain = [name for name in files[:9] if os.path.isfile(os.path.join(folder, name))]
            for name in (*names, *plain):  # not /dev/null, which may be written to
                try:
                    with open(os.path.join(folder, name), "ab") as file:
                        file.write(b"print('mine')")
                    through("wrote " + folder)
                except OSError:
                    pass
        # A lower number would have the machine end others before it when memory is short.
        for name in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
                     "/proc/sysrq-trigger", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj"):
            try:
                with open(name, "wb") as file:
                    file.write(b"-999")
                    file.flush()
                through("wrote " + name)
            except OSError:
                pass
        """,
    )


@submission()
def leaves_startup_files(work: Work) -> None:
    """Start-up files and modules of its own, handed in and written at run time: nothing."""
    attack(
        work,
        """
        from pathlib import Path
        fake = "def check(*a, **k): pass"
        for place in ("/home/student", "/tmp", "/dev/shm", "."):
            for name in ("sitecustomize.py", "usercustomize.py", "torch.py", "numpy.py", "json.py",
                         "grading/__init__.py", "grading/check.py", "mha_lib/__init__.py",
                         ".ipython/profile_default/startup/00.py", ".pythonrc", ".bashrc"):
                path = Path(place, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(fake)
        """,
    )
    fake = "raise SystemExit('the module of the student was imported')"
    for name in ("sitecustomize.py", "torch.py", "numpy.py", "json.py", ".pythonrc", "my.pth"):
        (work.folder / name).write_text(fake)
    startup = work.folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-first.py").write_text(fake)
    (work.folder / "grading").mkdir()
    (work.folder / "grading" / "__init__.py").write_text(fake)


@submission()
def calls_out(work: Work) -> None:
    """Sockets to the net, to this machine's own services and to the grader's: nothing answers."""
    attack(
        work,
        """
        import os, socket
        hosts = [("1.1.1.1", 53), ("8.8.8.8", 443), ("169.254.169.254", 80), ("10.0.0.1", 80)]
        ports = (22, 25, 80, 443, 2375, 5432, 6379, 8080, 8786, 8888)
        hosts += [("127.0.0.1", port) for port in ports]
        for address in hosts:
            with socket.socket() as one:
                one.settimeout(0.3)
                try:
                    one.connect(address)
                    through("reached %s:%d" % address)
                except OSError:
                    pass
        for folder in ("/run", "/var/run", "/tmp", "/home"):
            for place, _, files in os.walk(folder):
                for name in files:
                    with socket.socket(socket.AF_UNIX) as one:
                        try:
                            one.connect(os.path.join(place, name))
                            through("reached " + name)
                        except OSError:
                            pass
        try:
            lines = open("/proc/net/unix").read().splitlines()
            names = [line.split()[-1] for line in lines if "@" in line]
        except OSError:
            names = []
        for name in [*names, "@/tmp/.X11-unix/X0", "@dbus", "@mha"]:
            with socket.socket(socket.AF_UNIX) as one:
                try:
                    one.connect("\\0" + name[1:])
                    through("reached " + name)
                except OSError:
                    pass
        """,
    )


@submission()
def passes_notes_between_its_runs(work: Work) -> None:
    """The run with the hidden tests leaves their text about; the other prints it: nothing."""
    attack(
        work,
        """
        import glob, os, socket, tempfile, time
        from multiprocessing import shared_memory

        def leave(info):
            text = (info.raw_cell or "").encode()
            for place in ("/dev/shm", "/tmp", "/var/tmp", "/home/student", tempfile.gettempdir()):
                try:
                    with open(place + "/note", "ab") as file:
                        file.write(text)
                except OSError:
                    pass
            try:
                block = shared_memory.SharedMemory("note", create=True, size=100_000)
                block.buf[:len(text)] = text
            except Exception:
                pass

        for place in ("/dev/shm", "/tmp", "/var/tmp", "/home/student"):
            for name in glob.glob(place + "/**", recursive=True):
                if os.path.isfile(name) and "/note" in name:
                    through("a note: " + open(name, errors="replace").read())
        try:
            block = shared_memory.SharedMemory("note")
            through("a note: " + bytes(block.buf).decode(errors="replace"))
        except Exception:
            pass
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind("\\0note")
        except OSError:
            through("the other run holds this name")
        get_ipython().events.register("pre_run_cell", leave)
        """,
    )


@submission()
def looks_at_other_processes(work: Work) -> None:
    """Reads and follows whatever /proc shows, and asks for their memory: only its own are there."""
    attack(
        work,
        """
        import os
        mine = {str(os.getpid()), str(os.getppid())}
        for name in sorted(os.listdir("/proc")):
            if not name.isdigit():
                continue
            for what in ("cmdline", "environ", "maps", "status", "stat", "limits"):
                try:
                    print(name, what, open(f"/proc/{name}/{what}", errors="replace").read()[:5000])
                except OSError:
                    pass
            for what in ("root", "cwd"):
                try:
                    inside = os.listdir(f"/proc/{name}/{what}")
                    if {"submitted", "solutions", "work"} & set(inside):
                        through(f"{what} of {name}: {inside}")
                except OSError:
                    pass
            try:
                for number in os.listdir(f"/proc/{name}/fd"):
                    target = os.readlink(f"/proc/{name}/fd/{number}")
                    if not target.startswith(("/dev/null", "/home/student")):
                        print(name, number, target)
            except OSError:
                pass
        """,
    )


@submission(saved=False, status=Status.ATTENTION)
def a_pipe_for_a_notebook(work: Work) -> None:
    """A named pipe where the notebook belongs, on which a reader would wait for ever: a reason."""
    os.mkfifo(work.path)


@submission(saved=False, status=Status.ATTENTION)
def a_socket_for_a_notebook(work: Work) -> None:
    """A socket where the notebook belongs: a reason, and nothing."""
    before = Path.cwd()
    os.chdir(work.folder)  # a socket's path may have a hundred letters
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(work.path.name)
    finally:
        os.chdir(before)


@submission()
def names_that_are_commands(work: Work) -> None:
    """Files whose names are options, commands, climbing paths and turned letters: left alone."""
    attack(work, "")
    for name in (
        "-rf",
        "--force",
        "$(touch hacked)",
        "; touch hacked;",
        "..\\..\\gradebook.db",
        "%2e%2e%2fgradebook.db",
        "line\nbreak.ipynb.txt",
        "\u202egnp.bynpi.txt",
        "a" * 250,
    ):
        (work.folder / name).write_text("x")
