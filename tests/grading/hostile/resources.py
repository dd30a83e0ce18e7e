"""Against the batch: ends, loops, and everything that can run out."""

from __future__ import annotations

from textwrap import dedent

from benchmarks.students import answer, answer_ids, answer_wrongly
from grading.grade import Status
from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack, names_in

# Where several walls stand in the way, it hangs on the machine which one is met first.
ANY = (Status.GRADED, Status.WARNINGS, Status.ATTENTION)


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


@submission(status=ANY)
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


@submission(status=ANY)
def fills_every_disk(work: Work) -> None:
    """Writes into every folder it may write to until no byte is left: nothing."""
    attack(
        work,
        """
        import os
        from pathlib import Path
        for folder in (Path.home(), Path("/tmp"), Path("/dev/shm"), Path("/var/tmp")):
            try:
                with open(folder / "full", "wb") as file:
                    while True:
                        file.write(os.urandom(1 << 20))
            except OSError as error:
                print(folder, error)
        """,
    )


@submission(by_hand=True, status=ANY)
def makes_files_without_end(work: Work) -> None:
    """Makes empty files, which cost no space and still cost memory: a reason, and nothing."""
    attack(
        work,
        """
        import itertools
        from pathlib import Path
        for number in itertools.count():
            Path("/tmp", f"file {number}").touch()
        """,
    )


@submission(status=ANY)
def opens_every_file_it_may(work: Work) -> None:
    """Takes every file handle, and keeps them: nothing."""
    attack(
        work,
        """
        import os
        handles = []
        try:
            while True:
                handles.append(os.open("/dev/null", os.O_RDONLY))
        except OSError as error:
            print(len(handles), error)
        """,
    )


@submission(by_hand=True, status=ANY)
def forks_without_end(work: Work) -> None:
    """A fork bomb: nothing, and nobody else waits for it."""
    attack(
        work,
        """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """,
    )


@submission(by_hand=True, status=Status.ATTENTION)
def sleeps_for_ever(work: Work) -> None:
    """Sleeps where an interrupt ends nothing: a reason, and nothing."""
    attack(
        work,
        """
        import signal, threading
        for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        while True:
            try:
                threading.Event().wait()
            except BaseException:
                pass
        """,
    )


@submission(status=Status.ATTENTION)
def recurses_into_the_ground(work: Work) -> None:
    """Recursion without Python's limit, until the stack ends: a reason, and nothing."""
    attack(
        work,
        """
        import sys
        sys.setrecursionlimit(10**9)
        deep = []
        for _ in range(10**6):
            deep = [deep]
        repr(deep)
        """,
    )


@submission(status=ANY)
def gives_a_value_of_many_gigabytes(work: Work) -> None:
    """Answers with one number that claims to be 2**50 numbers: refused, and nothing."""
    answer_wrongly(work.notebook)
    for grade_id in answer_ids():
        names = names_in(grade_id)
        code = """
            import torch
            huge = torch.zeros(1).expand(2**50)
            globals().update({name: (lambda *_, **__: huge) if called else huge
                              for name, called in NAMES.items()})
        """
        answer(work.notebook, grade_id, f"NAMES = {names!r}\n{dedent(code)}")


@submission(saved=False, status=Status.ATTENTION)
def a_notebook_that_is_a_bomb(work: Work) -> None:
    """A hundred thousand lists, one in another: a reason, and nothing."""
    work.path.write_text("[" * 100_000 + "]" * 100_000, encoding="utf-8")
