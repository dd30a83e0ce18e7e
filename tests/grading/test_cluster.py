"""Grading on a Dask cluster: real schedulers and workers, some of which get lost on the way."""

import pickle
import shutil
import signal
from pathlib import Path

import pytest

from grading import cluster as cluster_module
from grading.assignment import load
from grading.autograde import autograde
from grading.cluster import ClusterError, _outcome
from grading.cluster_worker import Batch, Kit, grade_there, own_kit, read_modules
from grading.course import Course
from grading.pace import PutOff
from grading.records import load as load_records
from grading.submission import collect
from tests.grading.dask_cluster import DaskCluster
from tests.grading.outcomes import REFERENCE, ChosenSandbox, registered_course, set_secret
from tests.grading.small_course import RIGHT, submit
from tests.grading.without_root import REPOSITORY

SLOWLY = {**RIGHT, "number": "import time\ntime.sleep(1)\nhead_width = 64"}
WORK = {
    "an": RIGHT,
    "binh": {},
    "chi": SLOWLY,
    "dung": {**RIGHT, "number": "head_width = 63"},
    "ends": {**RIGHT, "function": "import os; os._exit(0)"},
    "giang": SLOWLY,
}
# Stands for whatever ends a worker while it grades one student's work; and a fault of ours.
FATAL_STUDENT = """
import os
from grading import cluster_worker
grade = getattr(cluster_worker, "right", cluster_worker.grade)  # Dask loads this file twice.
cluster_worker.right = grade
def fatal(assignment, references, submission, *rest):
    if submission.student_id == "fatal":
        os.kill(os.getpid(), 9)
    if submission.student_id == "deep":
        return fatal(assignment, references, submission, *rest)
    return grade(assignment, references, submission, *rest)
cluster_worker.grade = fatal
"""


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch) -> Course:
    set_secret(monkeypatch, tmp_path)
    return registered_course(tmp_path_factory, tmp_path / "course")


@pytest.fixture
def dask(tmp_path):
    folder = tmp_path / "dask"
    folder.mkdir()
    # One death is an accident, two on end are none: as by default, only sooner.
    with DaskCluster(folder, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1") as started:
        yield started


def stored(course: Course) -> dict:
    """Return all that grading left behind, without times."""
    files = {
        str(path.relative_to(course.autograded)): path.read_text("utf-8")
        for path in course.autograded.rglob("*")
        if path.is_file()
    }
    records = {
        name: (record.digest, record.status, record.reasons, record.score, record.written)
        for name, record in load_records(course, "tiny").items()
    }
    return {"files": files, "records": records}


def test_what_takes_long_on_a_worker_is_put_off(course: Course, monkeypatch):
    """What comes back says so; and sent without hurry it is graded."""
    submit(course, "an")
    assignment = load(course, "tiny")
    (submission,) = collect(course, assignment, "an")
    work = pickle.dumps(({"tiny": REFERENCE}, submission, None))
    packed = Batch(assignment, "a key", own_kit()).packed()

    class TakesLong(ChosenSandbox):
        def run(self, job, *, pace=None, **how):
            if pace is not None:
                raise PutOff
            return super().run(job, **how)

    monkeypatch.setattr("grading.cluster_worker.Sandbox", lambda **_: TakesLong())
    with pytest.raises(PutOff):
        _outcome(grade_there(packed, work, True))
    assert _outcome(grade_there(packed, work, False)).score == 5.0


@pytest.mark.slow
def test_a_lost_worker_costs_a_retry_and_a_lost_scheduler_nothing_stored(
    course: Course, dask: DaskCluster, tmp_path: Path
):
    """A worker is killed in the middle, then the scheduler; in the end all is as graded here."""
    for student, answers in WORK.items():
        submit(course, student, answers)
    for name in ("one", "two"):
        dask.start_worker(name, "--no-nanny")
    dask.wait_for_workers(2)
    shutil.copytree(course.root, tmp_path / "here")
    told: list[str] = []

    def disturb(text: str) -> None:
        told.append(text)
        if text.startswith("[1/"):
            dask.workers["one"].send_signal(signal.SIGKILL)
        if text.startswith("[4/"):
            dask.scheduler.send_signal(signal.SIGKILL)

    with pytest.raises(ClusterError, match="What was stored stays"):
        autograde(course, "tiny", cluster=dask.address, progress=disturb)
    assert "Grading on 2 workers, 2 submissions at a time." in told
    assert any("2 workers share 127.0.0.1" in text for text in told)
    first = stored(course)["records"]
    assert 4 <= len(first) < len(WORK)

    again = tmp_path / "again"
    again.mkdir()
    with DaskCluster(again) as second:
        second.start_worker("three", "--no-nanny")
        lines = autograde(course, "tiny", cluster=second.address, progress=told.append)
    assert {line.student_id for line in lines if line.status == "already graded"} == set(first)
    here = Course(tmp_path / "here")
    autograde(here, "tiny", progress=told.append)
    assert stored(course) == stored(here)
    assert {name: record[3] for name, record in stored(here)["records"].items()} == {
        **dict.fromkeys(("an", "chi", "giang"), 5.0),
        **{"binh": 0.0, "dung": 3.0, "ends": 2.0},
    }


@pytest.mark.slow
def test_work_that_ends_its_worker_each_time_needs_attention_and_stops_nobody(
    course: Course, dask: DaskCluster, tmp_path: Path
):
    preload = tmp_path / "fatal_student.py"
    preload.write_text(FATAL_STUDENT)
    dask.start_worker("one", "--nanny", "--preload", str(preload))
    for student in ("an", "binh", "deep", "fatal"):
        submit(course, student)
    lines = autograde(course, "tiny", cluster=dask.address, progress=lambda text: None)
    assert {line.student_id: (str(line.status), line.score) for line in lines} == {
        "an": ("graded", 5.0),
        "binh": ("graded", 5.0),
        "deep": ("not graded", None),
        "fatal": ("needs attention", 0.0),
    }
    reasons = {line.student_id: line.reasons[0] for line in lines if line.reasons}
    assert "RecursionError" in reasons["deep"]  # Raised, Dask would have waited for it for ever.
    assert "broke down, each time anew" in reasons["fatal"]
    assert "workers died" in load_records(course, "tiny")["fatal"].details


@pytest.mark.slow
def test_workers_that_must_not_grade_are_named_with_what_they_lack(
    course: Course, dask: DaskCluster, tmp_path: Path
):
    """One without bubblewrap, one with another grader, one with no grader at all."""
    submit(course, "an")
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("prlimit", "setpriv"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    dask.start_worker("no bubblewrap", "--no-nanny", PATH=str(tools))
    other = tmp_path / "other"
    shutil.copytree(REPOSITORY / "grading", other / "grading")
    with (other / "grading" / "compare.py").open("a") as file:
        file.write("# A line more.\n")
    dask.start_worker("another version", "--no-nanny", code=other)
    empty = tmp_path / "empty"
    (empty / "grading").mkdir(parents=True)
    (empty / "grading" / "__init__.py").touch()
    dask.start_worker("no grader", "--no-nanny", code=empty)
    dask.wait_for_workers(3)
    with pytest.raises(ClusterError) as refused:
        autograde(course, "tiny", cluster=dask.address, progress=lambda text: None)
    said = str(refused.value)
    assert "The program bwrap is missing" in said
    assert "apt-get install bubblewrap" in said
    assert "Its grading package is another version than the one here." in said
    assert "It cannot be asked (ModuleNotFoundError: No module named 'grading." in said
    assert said.count("\n- tcp://") == 3
    assert not course.autograded.exists()


@pytest.mark.parametrize("address", ["localhost:8786", "inproc://x", "udp://127.0.0.1:1", ""])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ClusterError, match="no address of a Dask scheduler; give tcp://HOST:PORT"):
        cluster_module.Cluster(address, print)


def test_a_scheduler_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 0.5)
    with pytest.raises(ClusterError, match="No Dask scheduler could be reached at tcp://127"):
        cluster_module.Cluster("tcp://127.0.0.1:9", print)


def test_what_differs_between_two_machines_is_named():
    own = own_kit()
    assert own.packages
    assert own.differences(own) == []
    numpy = next(name for name in own.packages if name.startswith("numpy "))
    more = {f"other {number}" for number in range(7)}
    other = Kit("3.99.1", "vax", (own.packages - {numpy}) | more, own.grader)
    python, processor, lacking, having = own.differences(other)
    assert "3.99.1" in python
    assert "vax" in processor
    assert lacking == f"It lacks {numpy}."
    assert having.endswith("other 3, other 4 and 2 more.")


def test_a_package_of_the_course_travels_whole(tmp_path):
    from grading import cluster_worker

    package = tmp_path / "lib"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from lib.inner.a import x")
    (package / "inner" / "a.py").write_text("x = 1")
    (package / "old.pyc").write_bytes(b"\0")
    modules = read_modules([package])
    laid = [cluster_worker._laid_out("lib", cluster_worker._Files(modules["lib"])) for _ in "ab"]
    assert laid[0] == laid[1] != package
    assert read_modules(laid[:1]) == modules
    assert set(modules["lib"]) == {"__init__.py", "inner/a.py"}
    assert laid[0].stat().st_mode & 0o005 == 0o005
