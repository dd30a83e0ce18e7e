"""Grading a whole course: nothing lost, nothing twice, whatever happens in between."""

import fcntl
import json
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import zipfile

import nbformat
import pytest
from nbgrader.api import Gradebook

from grading import autograde as autograde_module
from grading.assignment import AssignmentError, load
from grading.autograde import NothingToGrade, autograde
from grading.course import Course
from grading.grade import ALREADY, NOT_GRADED, Status
from grading.gradebook import GradebookError, GradebookWriter
from grading.job import Job, Limits
from grading.pace import PutOff
from grading.records import load as load_records
from grading.records import locked, write_file
from grading.reference import reference
from grading.release import register
from grading.sandbox import Sandbox, SandboxError
from grading.status import status
from tests.grading.outcomes import (
    RIGHT_A,
    RIGHT_B,
    ChosenSandbox,
    registered_course,
    set_secret,
    use,
)
from tests.grading.small_course import RIGHT, small_course, submit

EQUAL_TO_EVERYTHING = """\
class Any:
    def __eq__(self, other):
        return True

    def __array__(self, *arguments, **named):
        import numpy
        return numpy.ones((2, 5))


def weights(scores):
    return Any()
"""


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    return registered_course(tmp_path_factory, tmp_path / "course")


def quiet(text: str) -> None:
    pass


def run(course: Course, **options):
    return autograde(course, "tiny", progress=quiet, **options)


def everything(course: Course) -> dict:
    """Return all that is stored: marks, notebooks and records, without ids and times."""
    with Gradebook(course.database_url) as book:
        marks = {
            (submission.student.id, grade.name): (
                grade.auto_score,
                grade.manual_score,
                grade.needs_manual_grade,
                notebook.flagged,
            )
            for submission in book.assignment_submissions("tiny")
            for notebook in submission.notebooks
            for grade in notebook.grades
        }
        comments = {
            (submission.student.id, comment.name): comment.comment
            for submission in book.assignment_submissions("tiny")
            for notebook in submission.notebooks
            for comment in notebook.comments
        }
    files = {
        str(path.relative_to(course.autograded)): path.read_text(encoding="utf-8")
        for path in course.autograded.rglob("*")
        if path.is_file()
    }
    records = {
        name: (record.digest, record.status, record.score, record.written)
        for name, record in load_records(course, "tiny").items()
    }
    return {"marks": marks, "comments": comments, "files": files, "records": records}


# --- with real sandboxes ----------------------------------------------------------------------


@pytest.mark.slow
def test_a_course_is_graded_in_real_sandboxes(tmp_path, monkeypatch):
    """From solutions/ and submitted/ alone to marks: everything on the way is made."""
    set_secret(monkeypatch, tmp_path)
    course = small_course(tmp_path / "course")
    submit(course, "an")
    submit(course, "binh", {})
    submit(course, "Nguyễn Văn Dũng", {**RIGHT, "function": EQUAL_TO_EVERYTHING})
    submit(course, "ends", {**RIGHT, "function": "import os; os._exit(0)"})
    submit(course, "a<b")
    told = []
    lines = {line.student_id: line for line in autograde(course, "tiny", progress=told.append)}
    assert {name: (str(line.status), line.score) for name, line in lines.items()} == {
        "an": ("graded", 5.0),
        "binh": ("graded", 0.0),
        "Nguyễn Văn Dũng": ("graded", 2.0),
        "ends": ("needs attention", 2.0),
        "a<b": ("not graded", None),
    }
    assert "ended the Python process" in lines["ends"].reasons[0]
    assert "Rename the folder" in lines["a<b"].reasons[0]
    assert not (course.autograded / "a<b").exists()
    assert any(text.startswith("[4/4] ") for text in told)
    assert any(text.startswith("[1/4] ") and text.endswith(" left") for text in told)
    again = {line.student_id: line for line in run(course)}
    assert {line.status for name, line in again.items() if name != "a<b"} == {"already graded"}
    assert again["an"].score == 5.0
    text = (course.autograded / "an" / "tiny" / "tiny.ipynb").read_text()
    assert "HIDDEN" not in text
    assert "✓ weights" in text


# --- what is graded again, and what is not ----------------------------------------------------


def test_changed_work_is_graded_again_and_the_rest_is_not(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "binh")
    use(monkeypatch, ChosenSandbox())
    run(course)
    assert {state.state for state in status(course, "tiny")} == {"graded"}
    submit(course, "an", {**RIGHT, "number": "head_width = 63"})
    submit(course, "chi")
    assert {state.student_id: state.state for state in status(course, "tiny")} == {
        "an": "changed since graded",
        "binh": "graded",
        "chi": "waiting",
    }
    assert {line.student_id: str(line.status) for line in run(course)} == {
        "an": "graded",
        "binh": "already graded",
        "chi": "graded",
    }
    assert {str(line.status) for line in run(course, force=True)} == {"graded"}


def test_a_changed_assignment_is_graded_anew(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    settings = course.solutions / "tiny.toml"
    settings.write_text(settings.read_text().replace("[limits]", "[limits]\ncpu_seconds = 7"))
    (state,) = status(course, "tiny")
    assert state.state == "graded by an older version of the assignment"
    assert [str(line.status) for line in run(course)] == ["graded"]
    assert [str(line.status) for line in run(course)] == ["already graded"]


DAMAGES = {
    "score": None,
    "max_score": "7",
    "written": 1,
    "reasons": [3],
    "digest": None,
    "graded_at": 2026,
    "unheard": 1,
}


@pytest.mark.parametrize("field", DAMAGES)
def test_a_record_with_wrong_types_counts_as_damaged(course: Course, monkeypatch, field):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    path = course.state / "results" / "tiny" / "an.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: DAMAGES[field]}))
    assert [state.state for state in status(course, "tiny")] == ["waiting"]
    assert [line.score for line in run(course)] == [5.0]
    assert load_records(course, "tiny")["an"].max_score == 7.0


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o002])
def test_files_are_as_private_as_they_must_be(course: Course, monkeypatch, umask):
    """What the grader keeps is its own; the notebooks follow the instructor's umask."""
    shutil.rmtree(course.state, ignore_errors=True)
    course.state.mkdir(mode=0o755)  # As nbgrader makes it, for its exchange.
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    before = os.umask(umask)
    try:
        run(course)
        make_reference(course, ChosenSandbox())
    finally:
        os.umask(before)

    def mode(path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(course.state) == 0o700
    assert mode(course.state / "results" / "tiny" / "an.json") == 0o600
    assert [mode(path) for path in kept(course)] == [0o600]
    assert mode(course.autograded / "an" / "tiny" / "tiny.ipynb") == 0o666 & ~umask


def test_the_same_file_may_be_written_by_several_at_once(tmp_path):
    path = tmp_path / "kept" / "value.json"
    failures = []

    def write(text: bytes) -> None:
        try:
            for _ in range(20):
                write_file(path, text * 1000)
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in (b"a", b"b", b"c")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert path.read_bytes() in (b"a" * 1000, b"b" * 1000, b"c" * 1000)
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("lost", ["gradebook", "notebook", "record", "damaged record"])
def test_what_got_lost_is_made_again(course: Course, monkeypatch, lost):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    run(course)
    before = everything(course)
    record = course.state / "results" / "tiny" / "an.json"
    if lost == "gradebook":
        with Gradebook(course.database_url) as book:
            book.remove_submission("tiny", "an")
    elif lost == "notebook":
        (course.autograded / "an" / "tiny" / "tiny.ipynb").unlink()
    elif lost == "record":
        record.unlink()
    else:
        record.write_text("{")
    (line,) = run(course)
    assert line.status is Status.GRADED
    assert everything(course) == before


def test_notebooks_are_read_when_their_turn_comes(course: Course, monkeypatch):
    """What changes in between is graded as it is then, under its own digest; what goes is told."""
    for student in ("an", "binh", "chi"):
        submit(course, student)

    class Meddling(ChosenSandbox):
        def run(self, job, **how):
            if not job.key:
                submit(course, "binh", {})
                shutil.rmtree(course.submitted / "chi", ignore_errors=True)
            return super().run(job, **how)

    use(monkeypatch, Meddling())
    monkeypatch.setattr("grading.crew.THREADS", 1)  # Else all of them begin, and are read, at once.
    lines = {line.student_id: line for line in run(course, workers=1)}
    assert lines["chi"].status == NOT_GRADED
    assert "not in submitted/ any more" in lines["chi"].reasons[0]
    assert lines["binh"].status == Status.GRADED
    assert {line.status for line in run(course)} == {ALREADY}
    page = (course.autograded / "binh" / "tiny" / "tiny.ipynb").read_text()
    assert "YOUR ANSWER HERE" in page


def test_one_student_or_a_pattern(course: Course, monkeypatch):
    for student in ("an", "anh", "binh", "b[1]"):
        submit(course, student)
    use(monkeypatch, ChosenSandbox())
    assert [line.student_id for line in run(course, student_id="an")] == ["an"]
    assert [line.student_id for line in run(course, student_id="a*")] == ["an", "anh"]
    assert [line.student_id for line in run(course, student_id="b[1]")] == ["b[1]"]
    with pytest.raises(NothingToGrade, match="dung"):
        run(course, student_id="dung")
    assert len(run(course, student_id="*")) == 4


def test_nothing_handed_in_is_nothing_to_grade(course: Course, monkeypatch):
    use(monkeypatch, ChosenSandbox())
    assert run(course) == []


# --- killed, stopped, broken ------------------------------------------------------------------

STEPS = {
    "before anything": ("grading.writer.Writer._pages", 0),
    "before the gradebook": ("grading.gradebook.GradebookWriter.write", 0),
    "within the gradebook": ("grading.gradebook._store_comments", 0),
    "after the gradebook": ("grading.writer.Writer._write_notebooks", 0),
    "within the notebook": ("os.fsync", 1),
    "before the record": ("os.fsync", 2),
}


def _die_at(root, name: str, calls: int) -> None:
    """Grade in a child process that ends at the first call of something, as if killed."""
    count = 0

    def die(*_: object, **__: object) -> None:
        nonlocal count
        count += 1
        if count > calls:
            os._exit(9)

    patch = pytest.MonkeyPatch()
    use(patch, ChosenSandbox())
    patch.setattr(name, die)
    autograde(Course(root), "tiny", progress=quiet, workers=1, force=True)


@pytest.mark.parametrize("step", STEPS)
def test_killed_anywhere_the_next_run_gives_the_same(course: Course, monkeypatch, step):
    submit(course, "an")
    submit(course, "binh", {})
    use(monkeypatch, ChosenSandbox())
    run(course)
    wanted = everything(course)
    for folder in (course.autograded / "an", course.state / "results"):
        for path in sorted(folder.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
    with Gradebook(course.database_url) as book:
        book.remove_submission("tiny", "an")
    # "fork" keeps nbgrader imported, which takes seconds.
    child = multiprocessing.get_context("fork").Process(
        target=_die_at, args=(course.root, *STEPS[step])
    )
    child.start()
    child.join(60)
    assert child.exitcode == 9
    for left in course.root.rglob("*.new"):  # They are swept up when no write takes so long.
        os.utime(left, (0, 0))
    lines = run(course)
    assert {str(line.status) for line in lines} <= {"graded", "already graded"}
    assert everything(course) == wanted
    assert not list(course.root.rglob("*.new"))


def test_a_kill_in_a_forced_regrade_leaves_no_old_page(course: Course, monkeypatch):
    """The record says that the page is not true any more, although the work is the same."""
    submit(course, "an")
    use(monkeypatch, ChosenSandbox((), ()))
    run(course)
    child = multiprocessing.get_context("fork").Process(
        target=_die_at, args=(course.root, *STEPS["after the gradebook"])
    )
    child.start()
    child.join(60)
    assert child.exitcode == 9
    assert [state.state for state in status(course, "tiny")] == ["waiting"]
    use(monkeypatch, ChosenSandbox())
    (line,) = run(course)
    assert (line.status, line.score) == (Status.GRADED, 5.0)
    assert "2 of 2 points" in (course.autograded / "an" / "tiny" / "tiny.ipynb").read_text()


def test_one_that_cannot_be_stored_fails_alone_and_is_tried_again(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "binh")
    use(monkeypatch, ChosenSandbox())
    write = GradebookWriter.write

    def full(self, outcome, *, same_work):
        if outcome.student_id == "an":
            raise OSError(28, "No space left on device")
        write(self, outcome, same_work=same_work)

    with monkeypatch.context() as patch:
        patch.setattr(GradebookWriter, "write", full)
        lines = {line.student_id: line for line in run(course)}
    assert lines["an"].status == "not graded"
    assert "No space left" in lines["an"].reasons[0]
    assert lines["binh"].status is Status.GRADED
    assert {line.student_id: str(line.status) for line in run(course)} == {
        "an": "graded",
        "binh": "already graded",
    }


def test_points_are_stored_though_no_page_can_be_made(course: Course, monkeypatch):
    """The fault is the grader's own, and in the released text as well."""

    def render(*_: object) -> str:
        raise RuntimeError("no page today")

    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    with monkeypatch.context() as broken:
        broken.setattr("grading.writer.render", render)
        (line,) = autograde(course, "tiny", progress=quiet)
    assert line.status == Status.ATTENTION
    assert line.score == 5
    with Gradebook(course.database_url) as gradebook:
        stored = gradebook.find_submission_notebook("tiny", "tiny", "an")
        assert stored.score == 5
    page = nbformat.read(course.autograded / "an" / "tiny" / "tiny.ipynb", as_version=4)
    nbformat.validate(page)
    assert "Your points stand" in page.cells[0].source
    assert "no page today" in load_records(course, "tiny")["an"].details
    # Once the grader is mended, the page comes back.
    (line,) = autograde(course, "tiny", force=True, progress=quiet)
    assert (line.status, line.score) == (Status.GRADED, 5)
    page = nbformat.read(course.autograded / "an" / "tiny" / "tiny.ipynb", as_version=4)
    assert len(page.cells) > 1


def test_a_sandbox_that_breaks_fails_one_and_goes_on(course: Course, monkeypatch):
    submit(course, "an")
    submit(course, "binh")

    class Breaks(ChosenSandbox):
        broken = 0

        def run(self, job: Job, **_):
            Breaks.broken += 1
            if Breaks.broken == 1:
                raise SandboxError("bwrap: Resource temporarily unavailable")
            return super().run(job)

    use(monkeypatch, Breaks())
    lines = run(course, workers=1)
    assert sorted(str(line.status) for line in lines) == ["graded", "not graded"]


def test_stopped_by_hand_it_keeps_what_is_finished(course: Course, monkeypatch):
    for student in ("an", "binh", "chi"):
        submit(course, student)
    use(monkeypatch, ChosenSandbox())
    told = []

    def stop(text: str) -> None:
        told.append(text)
        if text.startswith("[1/3]"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        autograde(course, "tiny", workers=1, progress=stop)
    assert told[-1].startswith("Stopped: 1 of 3")
    assert told[-1].endswith("; the same command carries on from here.")
    assert len(load_records(course, "tiny")) == 1
    assert sorted(str(line.status) for line in run(course)) == [
        "already graded",
        "graded",
        "graded",
    ]


def test_sandboxes_run_side_by_side(course: Course, monkeypatch):
    for student in ("an", "binh"):
        submit(course, student)
    together = threading.Barrier(2, timeout=20)

    class Waits(ChosenSandbox):
        def run(self, job: Job, **_):
            together.wait()
            return super().run(job)

    use(monkeypatch, Waits())
    assert {str(line.status) for line in run(course, workers=2)} == {"graded"}


@pytest.mark.slow
def test_a_zip_from_an_lms_is_taken_apart_by_nbgraders_own_command(course: Course, monkeypatch):
    """Of each student the latest counts, and a later zip brings what was handed in again."""
    use(monkeypatch, ChosenSandbox())
    pattern = r".*/(?P<student_id>[^/_]+)_(?P<file_id>tiny)_(?P<timestamp>[0-9-]+)\.ipynb$"
    settings = f"c = get_config()\nc.FileNameCollectorPlugin.named_regexp = {pattern!r}\n"
    (course.root / "nbgrader_config.py").write_text(settings)
    archive = course.root / "downloaded" / "tiny" / "archive"
    archive.mkdir(parents=True)
    folder = submit(course, "draft")
    draft = (folder / "tiny.ipynb").read_text(encoding="utf-8")
    shutil.rmtree(folder.parent)

    def bring(name: str, **files: str) -> dict[str, str]:
        """Lay a zip with these notebooks there, each with a note, and say whose note is graded."""
        with zipfile.ZipFile(archive / name, "w") as zipped:
            for file, note in files.items():
                notebook = nbformat.reads(draft, as_version=4)
                notebook.metadata["note"] = note
                zipped.writestr(f"{file}.ipynb", nbformat.writes(notebook))
        command = [sys.executable, "-m", "nbgrader", "zip_collect", "tiny", "--force"]
        subprocess.run(command, cwd=course.root, check=True, capture_output=True)
        lines = autograde(course, "tiny", progress=lambda text: None)
        assert {line.status for line in lines} <= {Status.GRADED, ALREADY}
        return {
            line.student_id: nbformat.read(
                course.submitted / line.student_id / "tiny" / "tiny.ipynb", as_version=4
            ).metadata["note"]
            for line in lines
        }

    first = {
        "an_tiny_2026-11-01-10-00-00": "old",
        "an_tiny_2026-11-02-10-00-00": "newer",
        "bình_tiny_2026-11-01-10-00-00": "only",
    }
    assert bring("first.zip", **first) == {"an": "newer", "bình": "only"}
    again = {"bình_tiny_2026-11-03-10-00-00": "again"}
    assert bring("second.zip", **again) == {"an": "newer", "bình": "again"}
    assert {line.status for line in autograde(course, "tiny", progress=lambda _: None)} == {ALREADY}


class TakesLong(ChosenSandbox):
    """Puts a student's runs off while others wait, and notes whose runs come to their end."""

    def __init__(self, long: str) -> None:
        super().__init__()
        self.long, self.order = long, []

    def run(self, job: Job, **how):
        name = job.cells[0].source
        if self.long in name and "pace" in how and not how["pace"].nobody_waits:
            how["begun"]()
            raise PutOff
        self.order.append(name)
        return super().run(job, **how)


def test_whoever_stops_it_waits_for_no_run_whose_turn_has_not_come(course: Course, monkeypatch):
    class Slow(ChosenSandbox):
        def run(self, job: Job, **how):
            with turn:
                how["begun"]()
                begun.append(job)
                time.sleep(0.3)
                return super().run(job, begun=lambda: None)

    turn, begun = threading.Lock(), []
    for number in range(12):
        submit(course, f"an-{number:02}")
    use(monkeypatch, Slow())

    def stop(text: str) -> None:
        if text.startswith("[1/12]"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        autograde(course, "tiny", workers=1, progress=stop)
    assert len(begun) < 16


def test_what_takes_long_is_put_off_until_all_others_are_graded(course: Course, monkeypatch):
    for student in ("an", "binh", "chi"):
        submit(course, student, {**RIGHT, "number": f"head_width = 64  # {student}"})
    sandbox = TakesLong("# an")
    use(monkeypatch, sandbox)
    said = []
    lines = autograde(course, "tiny", workers=1, progress=said.append)
    assert {line.student_id: line.status for line in lines} == dict.fromkeys(
        ("an", "binh", "chi"), Status.GRADED
    )
    assert [name.rpartition(" ")[2] for name in sandbox.order[-2:]] == ["an", "an"]
    assert len(sandbox.order) == 6
    assert "an: takes long, and is put off until the others are graded" in said
    assert said[-1].startswith("[3/3] an: graded")
    events = [
        json.loads(line)
        for path in (course.state / "log" / "tiny").glob("*.jsonl")
        for line in path.read_text("utf-8").splitlines()
    ]
    told = [event["event"] for event in events if event.get("student") == "an"]
    assert told == [
        "submission begun",
        "submission put off",
        "submission begun",
        "submission ended",
    ]


def test_one_alone_is_never_put_off(course: Course, monkeypatch):
    submit(course, "an", {**RIGHT, "number": "head_width = 64  # an"})
    use(monkeypatch, TakesLong("# an"))
    said = []
    (line,) = autograde(course, "tiny", progress=said.append)
    assert line.status == Status.GRADED
    assert "put off" not in " ".join(said)


@pytest.mark.slow
def test_one_that_hangs_holds_up_nobody(tmp_path, monkeypatch):
    """With one run at a time: hidden tests of others would have to wait for its end."""
    set_secret(monkeypatch, tmp_path)
    monkeypatch.setattr("grading.pace.LEAST_SECONDS", 2.0)
    course = small_course(tmp_path / "course")
    settings = course.solutions / "tiny.toml"
    settings.write_text(
        settings.read_text("utf-8").replace("cell_seconds = 10", "cell_seconds = 5")
    )
    submit(course, "an", {**RIGHT, "number": "while True: pass"})
    others = [f"student-{number}" for number in range(4)]
    for student in others:
        submit(course, student)
    register(course, "tiny")
    ended = {}
    autograde(
        course,
        "tiny",
        workers=1,
        progress=lambda text: ended.setdefault(text.partition(":")[0], time.monotonic()),
    )
    others = [
        seconds for line, seconds in ended.items() if line.startswith("[") and "student" in line
    ]
    assert len(others) == 4
    assert ended["an"] < max(others) < ended["[5/5] an"]
    assert ended["[5/5] an"] - max(others) > 2 * 5  # its own time, without hidden tests and with
    lines = {line.student_id: line for line in autograde(course, "tiny", progress=quiet)}
    assert lines["an"].score < 5
    assert "took longer than 5 seconds" in " ".join(lines["an"].reasons)


def test_two_graders_wait_for_each_other(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    told: list[str] = []
    with locked(course, quiet):
        other = threading.Thread(
            target=lambda: autograde(course, "tiny", progress=told.append), daemon=True
        )
        other.start()
        end = time.monotonic() + 20
        while not told and time.monotonic() < end:
            time.sleep(0.02)
        assert told == ["Another grading run is at work on this course; waiting for it."]
        assert load_records(course, "tiny") == {}
    other.join(30)
    assert load_records(course, "tiny")["an"].status == "graded"


def test_the_lock_goes_with_its_process(course: Course):
    course.state.mkdir(exist_ok=True)
    (course.state / "lock").write_text("left by a dead process")
    with (
        locked(course, quiet),
        (course.state / "lock").open() as file,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_another_version_of_graded_work_is_refused_with_a_way_out(course: Course, monkeypatch):
    submit(course, "an")
    use(monkeypatch, ChosenSandbox())
    monkeypatch.setattr(autograde_module, "register", lambda *_: None)
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    notebook.write_text(notebook.read_text().replace('"points": 3', '"points": 4'))
    with pytest.raises(GradebookError, match="generate_assignment tiny --force"):
        run(course)


# --- the reference ----------------------------------------------------------------------------


class Counting(ChosenSandbox):
    runs = 0

    def run(self, job: Job, **_):
        self.runs += 1
        return super().run(job)


def make_reference(course: Course, sandbox: ChosenSandbox):
    assignment = load(course, "tiny")
    return reference(course, assignment, assignment.notebooks[0], sandbox)  # type: ignore[arg-type]


def kept(course: Course) -> list:
    return sorted((course.state / "reference").glob("*.json"))


def test_the_reference_is_run_twice_and_kept(course: Course):
    sandbox = Counting()
    first = make_reference(course, sandbox)
    assert sandbox.runs == 4
    assert make_reference(course, sandbox) == first
    assert sandbox.runs == 4
    (path,) = kept(course)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert course.secret().hex() not in path.read_text() + path.name
    assert set(first.visible) == {"head width", "weights"}
    assert set(first.hidden) == {"head width, once more", "weights, other sizes"}


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 1, "visible": {}, "hidden": {}}', b"\xff"],
)
def test_a_damaged_cache_is_made_anew(course: Course, damage):
    sandbox = Counting()
    first = make_reference(course, sandbox)
    (path,) = kept(course)
    path.write_bytes(damage)
    assert make_reference(course, sandbox) == first
    assert json.loads(path.read_text())["format"] == 1


def test_the_cache_hangs_on_solution_settings_and_secret(course: Course, monkeypatch, tmp_path):
    make_reference(course, Counting())
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    notebook.write_text(notebook.read_text().replace("768 // 12", "512 // 8"))
    make_reference(course, Counting())
    (tmp_path / "other").mkdir()
    set_secret(monkeypatch, tmp_path / "other")
    make_reference(course, Counting())
    assert len(kept(course)) == 3


FAILED_IMPORT = {
    "output_type": "error",
    "ename": "ImportError",
    "evalue": "no such\n(module)",
    "traceback": [],
}


class SecondRunStops(Counting):
    def run(self, job: Job, **_):
        self.states = {"number": "timed out"} if self.runs == 1 else {}
        return super().run(job)


@pytest.mark.parametrize(
    ("sandbox", "said"),
    [
        (ChosenSandbox(RIGHT_A[:1]), "'weights': 0 values arrived"),
        (
            ChosenSandbox((), states={"number-test": "timed out", "function": "not run"}),
            "released tests: cell 'number-test' was stopped.*machine is busy",
        ),
        (ChosenSandbox(hidden_states={"function": "not run"}), "hidden tests: .*was not run"),
        (
            ChosenSandbox(
                hidden_states={"function": "error"}, outputs={"function": [FAILED_IMPORT]}
            ),
            "hidden tests: cell 'function' raises ImportError: no such \\(module\\)$",
        ),
        (SecondRunStops(), "'number' was stopped.*in the second run"),
        (ChosenSandbox(RIGHT_A + RIGHT_A[:1]), "'head width': 2 values arrived"),
        (ChosenSandbox(hidden=RIGHT_B[:1]), "'weights, other sizes': 0 values arrived"),
        (ChosenSandbox(ended="timed out", reason="It took long."), "did not finish: It took long"),
    ],
)
def test_a_solution_that_fails_its_own_tests_is_refused(course: Course, sandbox, said):
    with pytest.raises(AssignmentError, match=said):
        make_reference(course, sandbox)
    assert kept(course) == []


def test_a_solution_that_draws_its_own_numbers_is_refused(tmp_path, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = small_course(tmp_path / "course")
    notebook = course.solutions / "tiny" / "tiny.ipynb"
    notebook.write_text(
        notebook.read_text().replace("raised = np.exp(", "raised = np.random.rand() + np.exp(")
    )
    with pytest.raises(AssignmentError, match="two runs of the solution disagree"):
        make_reference(course, Sandbox(limits=Limits(seconds=60)))  # type: ignore[arg-type]
