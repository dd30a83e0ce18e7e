"""nbgrader's own ways in take the safe path, and a broken configuration grades nothing."""

import ast
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from grading.course import Course
from tests.grading.outcomes import registered_course, set_secret
from tests.grading.small_course import RIGHT, submit

slow = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
EQUAL_TO_EVERYTHING = """\
class Any:
    def __eq__(self, other):
        return True


def weights(scores):
    return Any()
"""
# What formgrader's button calls.
BUTTON = """\
import sys
from nbgrader.apps import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
app = NbGrader()
app.initialize([])
result = NbGraderAPI(app.coursedir, parent=app).autograde("tiny", "an")
print(result.get("log", ""), result.get("error", ""))
sys.exit(0 if result["success"] else 1)
"""


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    """Return a course as it lies in a clone: with nbgrader's configuration and the package."""
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    for name in ("nbgrader_config.py", "nbgrader_config.json"):
        shutil.copy(ROOT / name, course.root)
    shutil.copytree(
        ROOT / "grading", course.root / "grading", ignore=shutil.ignore_patterns("__pycache__")
    )
    submit(course, "an", {**RIGHT, "function": EQUAL_TO_EVERYTHING})
    return course


def start(course: Course, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *words], cwd=course.root, capture_output=True, text=True, timeout=180
    )


def nbgrader(course: Course, *words: str) -> subprocess.CompletedProcess:
    return start(course, "-m", "nbgrader", *words)


def scores(course: Course) -> dict[str, float | None]:
    """Return the automatic scores that the gradebook holds, and nothing for a missing row."""
    query = (
        "select base_cell.name, grade.auto_score from grade "
        "join base_cell on base_cell.id = grade.cell_id where grade.auto_score is not null"
    )
    with sqlite3.connect(course.root / "gradebook.db") as book:
        return dict(book.execute(query).fetchall())


def test_nbgrader_autograde_takes_the_safe_path(course: Course):
    submit(course, "binh")
    done = nbgrader(course, "autograde", "tiny", "--student", "an")
    assert done.returncode == 0, done.stderr
    assert scores(course) == {"number-test": 2.0, "function-test": 0.0}
    done = nbgrader(course, "autograde", "tiny")
    assert done.returncode == 0, done.stderr
    assert "binh: graded, 5 of 7" in done.stderr


@pytest.mark.slow
def test_formgraders_button_takes_the_safe_path(course: Course):
    done = start(course, "-c", BUTTON)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "an: graded, 2 of 7" in done.stdout
    assert scores(course) == {"number-test": 2.0, "function-test": 0.0}


@slow
def test_the_button_shows_what_could_not_be_graded(course: Course):
    (course.solutions / "tiny.toml").write_text("title = 3")
    done = start(course, "-c", BUTTON)
    assert done.returncode == 1
    assert "assignment 'tiny' has" in done.stdout
    assert scores(course) == {}


LIST = """\
from nbgrader.apps import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
app = NbGrader()
app.initialize([])
api = NbGraderAPI(app.coursedir, parent=app)
print([(each["student"], each["timestamp"]) for each in api.get_submissions("tiny")])
print(app.coursedir.get_existing_timestamp("submitted/binh/tiny"))
"""


def test_no_timestamp_of_one_student_stops_formgrader_for_all(course: Course):
    texts = {
        "binh": b"yesterday",
        "chi": b"\xff\xfe\x00",
        "dung": b"0001-01-01 00:00:00 -1200",
        "em": b"x" * 100_000,
        "phuc": b"2026-01-02 03:04:05 UTC",
    }
    for student, text in texts.items():
        (submit(course, student) / "timestamp.txt").write_bytes(text)
    os.mkfifo(submit(course, "giang") / "timestamp.txt")
    done = start(course, "-c", LIST)
    assert done.returncode == 0, done.stderr
    expected = [(name, None) for name in ("an", "binh", "chi", "dung", "em", "giang")]
    expected.append(("phuc", "2026-01-02T03:04:05"))
    listed, existing = done.stdout.splitlines()
    assert sorted(ast.literal_eval(listed)) == expected
    assert existing == "None"


# What formgrader's button "Generate" calls.
GENERATE = BUTTON.replace('.autograde("tiny", "an")', '.generate_assignment("tiny")')


@slow
@pytest.mark.parametrize("way", ["command", "button"])
def test_nbgraders_generate_assignment_releases_by_our_path(course: Course, way):
    """It makes checks.json too, and refuses what lint refuses."""

    def generate() -> subprocess.CompletedProcess:
        if way == "button":
            return start(course, "-c", GENERATE)
        return nbgrader(course, "generate_assignment", "tiny")

    done = generate()
    assert done.returncode == 0, done.stdout + done.stderr
    made = course.exercises / "tiny"
    assert sorted(path.name for path in made.iterdir()) == ["checks.json", "tiny.ipynb"]
    before = {path: path.read_bytes() for path in made.iterdir()}
    settings = course.solutions / "tiny.toml"
    settings.write_text(settings.read_text().replace("minutes = 10", "minutes = 11"))
    done = generate()
    assert done.returncode == 1
    assert "minutes" in done.stdout + done.stderr
    assert {path: path.read_bytes() for path in made.iterdir()} == before


BREAKS = {
    "a missing package": ("grading/__init__.py", "raise ModuleNotFoundError('grading')\n"),
    "an import error in grading": ("grading/autograde.py", "import no_such_module_at_all\n"),
    "a syntax error in grading": ("grading/grade.py", "def broken(:\n"),
    "an exception in grading": ("grading/nbgrader_plugin.py", "raise RuntimeError('broken')\n"),
    "a syntax error in the configuration": ("nbgrader_config.py", "def broken(:\n"),
    "an exception in the configuration": ("nbgrader_config.py", "raise RuntimeError('broken')\n"),
}


def break_it(course: Course, what: str) -> None:
    name, line = BREAKS[what]
    path = course.root / name
    path.write_text(path.read_text() + line)


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        what if what == "a syntax error in the configuration" else pytest.param(what, marks=slow)
        for what in BREAKS
    ],
)
def test_a_broken_configuration_grades_nothing(course: Course, what):
    marker = course.root / "it ran"
    submit(course, "an", {**RIGHT, "number": f"open({str(marker)!r}, 'w')\nhead_width = 64"})
    break_it(course, what)
    done = nbgrader(course, "autograde", "tiny")
    assert done.returncode != 0, done.stderr
    assert scores(course) == {}
    assert not marker.exists()
    assert not list(course.autograded.rglob("*.ipynb"))


@slow
@pytest.mark.parametrize("what", ["a syntax error in the configuration", "a missing package"])
def test_the_button_of_a_broken_configuration_grades_nothing(course: Course, what):
    break_it(course, what)
    done = start(course, "-c", BUTTON)
    assert done.returncode == 1
    assert scores(course) == {}


@slow
def test_other_places_are_refused_rather_than_ignored(course: Course):
    done = nbgrader(course, "autograde", "tiny", "--db=sqlite:///other.db")
    assert done.returncode != 0
    assert "db_url" in done.stderr
    assert scores(course) == {}


@slow
def test_the_whole_way_through_nbgrader(course: Course):
    """Grade, give a mark by hand, make feedback: nbgrader's tools work on what is stored."""
    (course.submitted / "an" / "tiny" / "timestamp.txt").write_text("2026-01-02 03:04:05 UTC\n")
    assert nbgrader(course, "autograde", "tiny").returncode == 0
    done = nbgrader(course, "generate_feedback", "tiny")
    assert done.returncode == 0, done.stderr
    page = (course.feedback / "an" / "tiny" / "tiny.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "cdnjs" not in page
    assert "Test cell" not in page
    assert ">Checks</a>, number-test (Score: 2.0 / 2.0)" in page
    assert page.count("<body>") == 1
    listing = """\
from nbgrader.apps import NbGraderAPI
from nbgrader.apps.baseapp import NbGrader
app = NbGrader()
app.initialize([])
api = NbGraderAPI(app.coursedir, parent=app)
print(api.get_autograded_students("tiny"), app.coursedir.root)
"""
    done = start(course, "-c", listing)
    assert done.stdout.strip() == f"{{'an'}} {course.root}", done.stderr
