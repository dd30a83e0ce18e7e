"""nbgrader's formgrader on a course that we graded, in a real Jupyter server and Chromium."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from benchmarks.students import MARKER, NAME, ROOT, answer_ids, right_answer
from book.chromium import shared_browser, shut_outside
from grading.autograde import autograde
from tests.grading.handing_in import CASES, make
from tests.grading.submissions import Batch, grade_batch, marks_in_gradebook

pytestmark = pytest.mark.slow

HOSTILE = (
    "scripts_for_readers",
    "pictures_for_readers",
    "widgets_for_readers",
    "letters_for_readers",
)
GRADED = ("right", "half_right", "vietnamese_id", *HOSTILE)
LATER = CASES["wrong"]
# nbgrader's own pages ask for this, and do without.
MATHJAX = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/"
WRITTEN = "one-head"


@pytest.fixture(scope="module")
def batch(course_secret: Path, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    root = tmp_path_factory.mktemp("formgrader")
    return grade_batch(root, [CASES[name] for name in GRADED])


@pytest.fixture(scope="module")
def address(batch: Batch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a Jupyter server whose folder is the course."""
    home = tmp_path_factory.mktemp("home")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
        *(f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="),
        f"--ServerApp.root_dir={batch.course.root}",
        "--ServerApp.jpserver_extensions={'nbgrader.server_extensions.formgrader': True}",
    ]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
    log = home / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, cwd=batch.course.root
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/api", server, log)
            yield f"http://127.0.0.1:{port}/formgrader"
        finally:
            server.terminate()
            server.wait(timeout=30)


def wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"the Jupyter server did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture
def context() -> Iterator[BrowserContext]:
    """Yield a window that may not ask anybody outside, and that notes who it would have asked."""
    context = shared_browser().new_context(viewport={"width": 1200, "height": 1000})
    context.set_default_timeout(30_000)
    tried = shut_outside(context)
    yield context
    context.close()
    assert [url for url in tried if not url.startswith(MATHJAX)] == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


def row_of(page: Page, student: str) -> Locator:
    cell = page.locator("td.student-id", has_text=re.compile(f"^{re.escape(student)}$"))
    return page.locator("tr", has=cell)


def open_submission(page: Page, address: str, student: str) -> None:
    """Open one student's notebook as a grader does: through the page of their work."""
    page.goto(f"{address}/manage_students/{student}/{NAME}")
    page.get_by_role("link", name=NAME, exact=True).last.click()
    # Marks and comments arrive after the page, and replace what was typed before.
    page.locator("input.score").first.wait_for()
    page.wait_for_load_state("networkidle")


def test_the_list_shows_our_scores(page: Page, address: str, batch: Batch) -> None:
    page.goto(f"{address}/manage_submissions/{NAME}")
    for name in ("right", "half_right", "scripts_for_readers", "vietnamese_id"):
        row = row_of(page, CASES[name].student)
        expect(row.locator(".score")).to_have_text(f"{sum(CASES[name].marks.values()):g} / 100")
        # Who left the written answer blank has 0 for it; the others wait for a person.
        status = "graded" if name == "half_right" else "needs manual grading"
        expect(row.locator(".status")).to_have_text(status)


def test_a_submission_opens_with_its_points(page: Page, address: str, batch: Batch) -> None:
    open_submission(page, address, CASES["half_right"].student)
    for test, points in CASES["half_right"].marks.items():
        expect(page.locator(f"#{test}")).to_have_attribute("placeholder", f"{points:g}")


@pytest.mark.parametrize("place", ["formgrader", "feedback", "answers"])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_of_a_hostile_submission_runs(
    page: Page, address: str, batch: Batch, name: str, place: str
) -> None:
    """No script of the student's runs, by itself or when its link is pressed; nobody is asked."""
    student = CASES[name].student
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    if place == "feedback":
        subprocess.run(
            [sys.executable, "-m", "nbgrader", "generate_feedback", NAME, f"--student={student}"],
            cwd=batch.course.root,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        path = batch.course.feedback / student / NAME / f"{NAME}.html"
        page.goto(path.as_uri())
    elif place == "formgrader":
        open_submission(page, address, student)
    else:
        page.goto(f"{address}/manage_students/{student}/{NAME}")
    page.wait_for_load_state("networkidle")
    for link in page.get_by_role("link", name="look").all():
        link.click(force=True, no_wait_after=True)
    page.wait_for_timeout(500)
    assert page.evaluate("window.hacked") is None
    assert not page.locator("iframe, object, embed, svg script, [onerror], [onload]").count()
    assert dialogs == []
    assert not [url for url in asked if "example.org" in url]


def given_by_hand(batch: Batch, student: str) -> tuple[float | None, str | None]:
    """Return mark and comment of the written answer that a person gave."""
    from nbgrader.api import Gradebook

    with Gradebook(batch.course.database_url) as book:
        grade = book.find_grade(WRITTEN, NAME, NAME, student)
        comment = book.find_comment(WRITTEN, NAME, NAME, student)
        return grade.manual_score, comment.manual_comment


def test_a_hand_mark_survives_a_regrade(page: Page, address: str, batch: Batch) -> None:
    student = CASES["right"].student
    open_submission(page, address, student)
    score = page.locator(f"#{WRITTEN}")
    score.fill("7")
    score.press("Tab")
    comment = page.locator(f"#{WRITTEN}-comment")
    comment.press_sequentially("Well said.")
    comment.press("Tab")
    end = time.monotonic() + 20
    while given_by_hand(batch, student) != (7, "Well said.") and time.monotonic() < end:
        page.wait_for_timeout(100)
    assert given_by_hand(batch, student) == (7, "Well said.")
    lines = autograde(batch.course, NAME, student_id=student, force=True)
    assert [line.student_id for line in lines] == [student]
    assert given_by_hand(batch, student) == (7, "Well said.")
    assert marks_in_gradebook(batch.course)[student].score == 97
    open_submission(page, address, student)
    expect(page.locator(f"#{WRITTEN}")).to_have_value("7")
    expect(page.locator(f"#{WRITTEN}-comment")).to_have_value("Well said.")


def texts(path: Path) -> str:
    """Return the sources of a notebook's cells, without nbgrader's markers."""
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(MARKER.sub("", cell.source) for cell in cells)


def test_the_autograde_button_grades_by_our_path(page: Page, address: str, batch: Batch) -> None:
    make(LATER, batch.course.root)
    make(CASES["link_to_the_solution"], batch.course.root)
    for case in (LATER, CASES["link_to_the_solution"]):
        page.goto(f"{address}/manage_submissions/{NAME}")
        row = row_of(page, case.student)
        expect(row.locator(".status")).to_have_text("needs autograding")
        row.locator(".autograde a").click()
        expect(page.locator(".modal-title")).to_have_text("Success", timeout=120_000)
        marks = marks_in_gradebook(batch.course)[case.student]
        assert {cell: marks.cells[cell] for cell in case.marks} == case.marks
        record = batch.course.state / "results" / NAME / f"{case.student}.json"
        assert record.is_file(), "our path leaves a record; nbgrader's own does not"
    # The one that handed in a link has nothing of what the link led to, and waits for a person.
    linked = CASES["link_to_the_solution"].student
    path = batch.course.autograded / linked / NAME / f"{NAME}.ipynb"
    assert not path.is_symlink()
    shown = texts(path)
    assert [name for name in answer_ids() if right_answer(name) in shown] == []
    assert marks_in_gradebook(batch.course)[linked].flagged
    # The search would find it.
    solution = texts(batch.course.solutions / NAME / f"{NAME}.ipynb")
    assert right_answer("head-widths") in solution
