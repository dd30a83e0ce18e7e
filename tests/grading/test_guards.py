"""What graders that were killed leave behind is ended by the next one."""

import os
import signal
import subprocess
import time

import pytest

from grading import guards


@pytest.mark.skipif(guards.cgroup_parent() is None, reason="no memory cgroup can be made here")
def test_what_a_killed_grader_left_is_ended_and_its_cgroup_removed():
    parent = guards.cgroup_parent()
    with subprocess.Popen(["sleep", "60"]) as left, subprocess.Popen(["sleep", "60"]) as used:
        gone = parent / f"{guards._named_here()}-{left.pid}-1-aa"
        own = parent / f"{guards._named_here()}-{guards._life(os.getpid())}-bb"
        for folder, process in ((gone, left), (own, used)):
            folder.mkdir()
            (folder / "cgroup.procs").write_text(str(process.pid))
        guards.sweep(parent)
        assert left.wait(10) == -signal.SIGKILL
        assert used.poll() is None
        used.kill()
        used.wait()
        deadline = time.monotonic() + 10
        while gone.exists():  # An ended process may take a moment to leave it.
            assert time.monotonic() < deadline
            guards.sweep(parent)
        assert own.exists()
        own.rmdir()
