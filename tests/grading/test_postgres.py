"""A gradebook on a real PostgreSQL server: the same marks, whatever happens to its connections."""

import itertools
import subprocess
import sys

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grading import gradebook as gradebook_module
from grading import patience
from grading.autograde import autograde
from grading.course import Course
from grading.database import GradebookError, GradebookLost
from grading.gradebook import GradebookWriter
from grading.status import status
from tests.grading.outcomes import ChosenSandbox, set_secret, use
from tests.grading.postgres import PASSWORD, Postgres
from tests.grading.small_course import small_course, submit
from tests.grading.without_root import REPOSITORY

pytestmark = pytest.mark.slow
NUMBERS = itertools.count()
STUDENTS = ("an", "binh", "Nguyễn Văn Dũng")


@pytest.fixture(scope="module")
def server():
    with Postgres() as started:
        yield started


@pytest.fixture
def course(tmp_path, monkeypatch, server: Postgres) -> Course:
    """Return a course whose gradebook is a new database of the server."""
    set_secret(monkeypatch, tmp_path)
    made = small_course(tmp_path / "course")
    use_gradebook(made, server.make(f"course-{next(NUMBERS)}"))
    for student in STUDENTS:
        submit(made, student)
    return made


def use_gradebook(course: Course, address: str) -> None:
    settings = (REPOSITORY / "nbgrader_config.py").read_text("utf-8")
    before = "c.CourseDirectory.db_url = f\"sqlite:///{ROOT / 'gradebook.db'}\""
    assert before in settings
    text = settings.replace(before, f"c.CourseDirectory.db_url = {address!r}")
    (course.root / "nbgrader_config.py").write_text(text, encoding="utf-8")


def run(course: Course, **options) -> dict[str, tuple[str, float | None]]:
    lines = autograde(course, "tiny", progress=lambda text: None, **options)
    return {line.student_id: (str(line.status), line.score) for line in lines}


def stored(course: Course) -> dict:
    """Read the gradebook by nbgrader's own API."""
    with Gradebook(course.database_url) as book:
        return {
            (submission.student_id, grade.name): (grade.auto_score, grade.manual_score)
            for submission in book.assignment_submissions("tiny")
            for notebook in submission.notebooks
            for grade in notebook.grades
        }


def test_a_real_submission_is_graded_into_it(course: Course, capsys):
    """In real sandboxes; then read by nbgrader, and regraded without touching a person's mark."""
    submit(course, "binh", {})
    assert run(course) == {
        "an": ("graded", 5.0),
        "binh": ("graded", 0.0),
        "Nguyễn Văn Dũng": ("graded", 5.0),
    }
    marks = stored(course)
    assert marks["an", "number-test"] == (2.0, None)
    assert marks["an", "answer"] == (None, None)
    assert {state.state for state in status(course, "tiny")} == {"graded"}
    folder = CourseDirectory(
        root=str(course.root), db_url=course.database_url, source_directory="solutions"
    )
    folder.config = Config()
    api = NbGraderAPI(folder)
    (assignment,) = api.get_assignments()
    assert assignment["num_submissions"] == len(STUDENTS)
    assert assignment["average_score"] == pytest.approx(10 / 3)
    scores = {each["id"]: each["score"] for each in api.get_students()}
    assert scores["Nguyễn Văn Dũng"] == 5.0
    assert len(api.get_notebook_submissions("tiny", "tiny")) == len(STUDENTS)
    with Gradebook(course.database_url) as book:
        grade = book.find_grade("answer", "tiny", "tiny", "an")
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    assert run(course, force=True)["an"] == ("graded", 6.5)
    exported = course.root / "grades.csv"
    command = [sys.executable, "-m", "nbgrader", "export", f"--to={exported}"]
    done = subprocess.run(command, cwd=course.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ",an," in exported.read_text("utf-8")
    assert PASSWORD not in done.stdout + done.stderr + "".join(capsys.readouterr())
    assert not (course.root / "gradebook.db").exists()


def test_a_killed_connection_and_a_mark_given_meanwhile_lose_nothing(
    course: Course, server: Postgres, monkeypatch
):
    use(monkeypatch, ChosenSandbox())
    run(course)
    wanted = stored(course)
    database = course.database_url.rpartition("/")[2]
    server.ask("update grade set auto_score = 0 where auto_score is not null", database)
    begin = gradebook_module._answers
    seen: list[str] = []

    def disturbed(session, row, notebook, graded) -> list:
        seen.append(notebook.student.id)
        if len(seen) == 1:
            server.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                f"where datname = '{database}' and pid <> pg_backend_pid()"
            )
        if len(seen) == 3:  # The second student's, as formgrader does it.
            server.ask(
                "update grade set manual_score = 1.0, needs_manual_grade = false "
                f"where notebook_id = '{notebook.id}' and cell_id in "
                "(select id from base_cell where name = 'number-test')",
                database,
            )
        return begin(session, row, notebook, graded)

    monkeypatch.setattr(gradebook_module, "_answers", disturbed)
    assert set(run(course, force=True, workers=1)) == set(STUDENTS)
    assert len(seen) == len(STUDENTS) + 2  # Each disturbed one was stored anew.
    monkeypatch.setattr(gradebook_module, "_answers", begin)
    by_hand = stored(course)
    assert by_hand == {**wanted, (seen[2], "number-test"): (2.0, 1.0)}
    run(course, force=True)
    assert stored(course) == by_hand


def test_a_server_that_is_gone_ends_the_run_and_the_next_ends_the_same(
    course: Course, server: Postgres, monkeypatch
):
    use(monkeypatch, ChosenSandbox())
    monkeypatch.setattr(patience, "BUSY_SECONDS", 1.0)
    run(course)
    wanted = stored(course)
    with Gradebook(course.database_url) as book:
        book.remove_submission("tiny", "an")
        book.remove_submission("tiny", "binh")
    told: list[str] = []

    def stop(text: str) -> None:
        told.append(text)
        if text.startswith("[1/2]"):
            server.stop()

    try:
        with pytest.raises(GradebookLost, match="What was stored stays") as lost:
            autograde(course, "tiny", progress=stop, workers=1)
        with pytest.raises(GradebookError, match="cannot be read"):
            status(course, "tiny")
        with pytest.raises(GradebookError, match="cannot be used"):
            GradebookWriter(course)
    finally:
        server.start()
    assert PASSWORD not in str(lost.value)
    assert len(told) > 1
    again = run(course)
    assert sorted(state for state, _ in again.values()) == [
        "already graded",
        "already graded",
        "graded",
    ]
    assert stored(course) == wanted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ((PASSWORD, "another-password"), "password authentication failed"),
        (("127.0.0.1", "127.0.0.2"), "refused"),
        (("postgresql://", "postgres://"), "has to begin with one of sqlite:///, postgresql://"),
        (("postgresql://", "postgresql+psycopg2://"), "has to begin with one of"),
    ],
)
def test_an_address_that_does_not_work_is_said_without_its_password(course: Course, change, said):
    use_gradebook(course, course.database_url.replace(*change))
    for action in (lambda: GradebookWriter(course), lambda: status(course, "tiny")):
        with pytest.raises(GradebookError, match=said) as refused:
            action()
        assert PASSWORD not in str(refused.value)
        assert "another-password" not in str(refused.value)
