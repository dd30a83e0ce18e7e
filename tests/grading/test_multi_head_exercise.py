"""The multi-head exercise itself: right work passes every check, known mistakes do not.

One run of the sandbox holds all answers: each is followed by its test cell, and then the
instructor's answer is put back.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.students import answer_ids, right_answer
from grading.assignment import Assignment, Check, load
from grading.compare import compare
from grading.course import Course
from grading.job import Job, JobCell, Run
from grading.lint import lint
from grading.reference import Reference, reference, secret_key
from grading.release import is_current
from grading.sandbox import Sandbox
from tests.grading.exercise_mistakes import ALL, HONEST, MISTAKES, Answer

ROOT = Path(__file__).resolve().parents[2]
SECRET = "5a" * 32
SET_UP = JobCell("set-up", "import math\n\nimport torch\nfrom torch import nn")


class Exercise(NamedTuple):
    """The exercise, what its checks are worth, and where to try answers."""

    course: Course
    assignment: Assignment
    reference: Reference
    sandbox: Sandbox
    key: str

    def checks(self, answer: Answer, *, hidden: bool) -> dict[str, Check]:
        cell = f"check-{answer.cell}"
        return {
            check.name: check
            for check in self.assignment.notebooks[0].checks
            if check.cell == cell and check.hidden is hidden
        }

    def run(self, answers: list[Answer], *, hidden: bool) -> Run:
        """Run each answer with its test cell, the released text of it or the hidden one."""
        tests = {
            cell.id: cell.hidden if hidden else cell.released
            for cell in self.assignment.notebooks[0].cells
            if cell.role == "test"
        }
        cells = [SET_UP]
        cells += [JobCell(name, right_answer(name)) for name in answer_ids()]
        for number, answer in enumerate(answers):
            cells += [
                JobCell(f"answer-{number}", answer.source),
                JobCell(f"test-{number}", tests[f"check-{answer.cell}"]),
                JobCell(f"back-{number}", right_answer(answer.cell)),
            ]
        run = self.sandbox.run(Job(tuple(cells), key=self.key if hidden else "", outputs=False))
        assert run.ended == "finished", run.reason
        return run

    def failed(self, run: Run, number: int, answer: Answer, *, hidden: bool) -> set[str]:
        """Return the checks that an answer fails, compared as the grader compares."""
        known = self.reference.hidden if hidden else self.reference.visible
        failed = set()
        for name, check in self.checks(answer, hidden=hidden).items():
            values = [
                message.value
                for message in run.messages
                if message.cell == f"test-{number}" and message.name == name
            ]
            wrong = len(values) != 1 or compare(values[0], known[name], check.tolerance)
            if wrong:
                failed.add(name)
        return failed


@pytest.fixture(scope="module")
def exercise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exercise]:
    """Yield the exercise in a course of its own, whose hidden inputs are always the same."""
    course = Course(tmp_path_factory.mktemp("course"))
    shutil.copytree(ROOT / "solutions", course.solutions)
    shutil.copytree(ROOT / "exercises", course.exercises)
    secret = tmp_path_factory.mktemp("secret") / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    assignment = load(course, "multi-head")
    sandbox = Sandbox(limits=assignment.limits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MHA_COURSE_SECRET", str(secret))
        right = reference(course, assignment, assignment.notebooks[0], sandbox)
        key = secret_key(course.secret(), assignment.name)
        yield Exercise(course, assignment, right, sandbox, key)


def test_the_release_in_the_repository_is_current(exercise: Exercise) -> None:
    assert is_current(exercise.course, "multi-head") == []


@pytest.mark.slow
def test_the_exercise_has_no_flaw(exercise: Exercise) -> None:
    assert lint(exercise.course, "multi-head") == []


def test_marks_rest_on_hidden_checks_that_no_known_mistake_passes(exercise: Exercise) -> None:
    answers = [*HONEST, *MISTAKES]
    run = exercise.run(answers, hidden=True)
    found, wanted = {}, {}
    for number, answer in enumerate(answers):
        name = f"{answer.cell}: {answer.name}"
        every = set(exercise.checks(answer, hidden=True))
        wanted[name] = every if answer.fails == ALL else set(answer.fails)
        found[name] = exercise.failed(run, number, answer, hidden=True)
        assert wanted[name] <= every, name
    assert found == wanted
    assert all(wanted[f"{mistake.cell}: {mistake.name}"] for mistake in MISTAKES)


@pytest.mark.slow
def test_visible_checks_notice_what_can_be_seen_at_once(exercise: Exercise) -> None:
    answers = [*HONEST, *MISTAKES]
    run = exercise.run(answers, hidden=False)
    for number, answer in enumerate(answers):
        failed = exercise.failed(run, number, answer, hidden=False)
        assert bool(failed) is (bool(answer.fails) and answer.seen), answer.name


def test_there_is_a_mistake_for_each_hidden_check(exercise: Exercise) -> None:
    failed = set()
    for mistake in MISTAKES:
        every = exercise.checks(mistake, hidden=True)
        failed |= set(every if mistake.fails == ALL else mistake.fails)
    hidden = {check.name for check in exercise.assignment.notebooks[0].checks if check.hidden}
    assert failed == hidden


def test_the_points_add_up(exercise: Exercise) -> None:
    assert exercise.assignment.points == 100
