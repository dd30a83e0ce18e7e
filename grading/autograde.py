"""Grade everything under submitted/: the one function that every way in calls.

Sandboxes run side by side; what they came to is stored by the calling thread alone, under the
course's lock: gradebook, then notebook, then record. So a run may be stopped anywhere, and the
next one carries on where it ended.
"""

from __future__ import annotations

import os
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from grading import in_part, journal, records
from grading.assignment import Assignment, AssignmentError, load
from grading.backups import back_up
from grading.cluster import Cluster, ClusterCrew, ClusterError
from grading.cluster_worker import Batch, own_kit, read_modules
from grading.course import Course
from grading.crew import Crew, Here
from grading.draws import drawn, key, refuse_another_release
from grading.grade import ALREADY, NOT_GRADED, Outcome, Status, grade, unshowable
from grading.gradebook import GradebookError, GradebookWriter, checksums, refuse_id
from grading.imports import imports_of
from grading.journal import Journal
from grading.misplaced import misplaced
from grading.plain import one_line, printable
from grading.records import Record
from grading.reference import Reference, references_of, secret_key
from grading.release import register
from grading.render import NO_PAGE, render
from grading.runs import RUNS
from grading.sandbox import Sandbox
from grading.standings import marks, points_text, standings
from grading.submission import Submission, collect

LOOK_SECONDS = 1.0


class NothingToGrade(LookupError):
    """No submission matches what was asked for."""


@dataclass(frozen=True)
class Line:
    """What became of one submission in this run, marks by hand included.

    ``score`` is None where it is not known; ``waiting`` are points that only a person can give,
    ``penalty`` those that being late takes off.

    ``status`` is a Status, ALREADY or NOT_GRADED. ``private`` reasons may hold what the solution
    computes: they are for the instructor's eyes and kept nowhere.
    """

    student_id: str
    status: str
    score: float | None
    max_score: float
    reasons: tuple[str, ...] = ()
    waiting: float = 0.0
    penalty: float = 0.0
    private: bool = False


def _print(text: str) -> None:
    print(text, flush=True)


def autograde(
    course: Course,
    name: str,
    *,
    student_id: str | None = None,
    force: bool = False,
    only: Collection[str] | None = None,
    workers: int | None = None,
    cluster: str | None = None,
    cold: bool = False,
    progress: Callable[[str], None] = _print,
) -> list[Line]:
    """Grade the submissions of one assignment and store what they came to.

    Args:
        course: Where everything lies.
        name: The assignment.
        student_id: One student, or a pattern such as ``a*``; None for all.
        force: Grade also what is already graded and has not changed.
        only: Names of test cells: what is graded is graded anew, and of these cells alone the marks
            are stored. What is not graded as it is handed in is left as it is.
        workers: How many run at once on this machine; one for each core if None.
        cluster: The address of a Dask scheduler, whose workers then grade; here only the solution
            is run.
        cold: Start Python anew for each run, instead of forking it; behind the same walls.
        progress: Gets a line of text for each submission.

    Raises:
        AssignmentError: The assignment has flaws, its solution fails its own tests whatever is
            drawn, or students were given it with other variants.
        SandboxError: The machine lacks a wall; nothing was run outside one.
        ClusterError: The cluster cannot be used, or was lost; what was finished is stored.
        GradebookError: The gradebook cannot be opened, or not copied before marks are changed.
        LateError: What being late costs cannot be told; nothing was run.
        NothingToGrade: No submission matches.
        CourseError: ``only`` names what is no test cell.
        KeyboardInterrupt: Stopped by hand; what was finished is stored.
    """
    assignment = load(course, name)
    refuse_another_release(course, assignment)
    cells = in_part.named_cells(assignment, only)
    key_of_seeds = secret_key(course.secret(), assignment.name)
    modules = [course.root / module for module in assignment.modules]
    warm = None if cold else imports_of(assignment)
    sandbox = Sandbox(modules=modules, limits=assignment.limits, warm=warm)
    count = workers or _cores()
    options = {"student": student_id, "force": force, "task": sorted(cells), "workers": count}
    with ExitStack() as stack:
        stack.enter_context(records.locked(course, progress))
        log = stack.enter_context(journal.opened(course, name, assignment.digest, options))
        submissions = _chosen(course, assignment, student_id)
        for ignored in misplaced(course, assignment.name):
            progress(ignored)
        gradebook = stack.enter_context(GradebookWriter(course))
        if not gradebook.knows(assignment):
            progress(f"Entering {name} into the gradebook.")
            register(course, name)
            if not gradebook.knows(assignment):
                raise GradebookError(
                    f"The gradebook's cells of {name} differ from solutions/{name} even after "
                    f"entering it anew. Run: nbgrader generate_assignment {name} --force, "
                    "and read what it says."
                )
        failed = gradebook.renew_penalties(name)
        writer = _Writer(course, assignment, gradebook, log, cells)
        lines, waiting = writer.sort_out(submissions, force, failed)
        log.found(len(waiting), [line for line in lines if line.status == NOT_GRADED])
        if waiting:
            # Before anything takes long: whether the cluster can be used at all.
            connection = stack.enter_context(Cluster(cluster, progress)) if cluster else None
            writer.back_up(waiting, progress)
            if not cold and (why := sandbox.get_ready()):
                progress(f"Each run starts Python anew, which takes longer: {why}")
            progress(f"Running the solution of {name}, which says what is right.")
            students = [submission.student_id for submission in waiting]
            references = references_of(course, assignment, sandbox, students, count)

            def prepare(submission: Submission) -> tuple[Mapping[str, Reference], Submission]:
                log.begun(submission.student_id)
                # Read again, with the digest of what is read: it may have changed by now.
                found = collect(course, assignment, submission.student_id)
                if not found:
                    raise FileNotFoundError("it is not in submitted/ any more")
                own = references[key(drawn(assignment, submission.student_id))]
                if isinstance(own, AssignmentError):
                    raise ValueError("; ".join(own.flaws)) from own
                return own, found[0]

            def work(submission: Submission) -> Outcome:
                own, whole = prepare(submission)
                return grade(assignment, own, whole, sandbox, key_of_seeds)

            crew: Crew
            if connection is None:
                crew = Here(count, work)
            else:
                batch = Batch(assignment, key_of_seeds, own_kit(), read_modules(modules))
                crew = ClusterCrew(connection, batch, prepare)
            slowest = RUNS * assignment.limits.seconds * len(assignment.notebooks)
            lines += _run(waiting, crew, writer, slowest, progress)
    return sorted(lines, key=lambda line: line.student_id)


def _chosen(course: Course, assignment: Assignment, student_id: str | None) -> list[Submission]:
    if student_id is None or student_id == "*":
        return collect(course, assignment, contents=False)
    wanted = unicodedata.normalize("NFC", student_id)
    found = collect(course, assignment, wanted, contents=False)
    if not found and any(char in wanted for char in "*?["):
        everything = collect(course, assignment, contents=False)
        found = [each for each in everything if fnmatchcase(each.student_id, wanted)]
    if not found:
        raise NothingToGrade(
            f"No submission of {assignment.name} by {printable(wanted)} lies under "
            f"{course.submitted}; expected {printable(wanted)}/{assignment.name}/ there."
        )
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    waiting: Sequence[Submission],
    crew: Crew,
    writer: _Writer,
    slowest: float,
    progress: Callable[[str], None],
) -> list[Line]:
    """Grade side by side and store one by one, in the order in which they end.

    Only so many are submitted ahead that nobody waits: a whole course may not fit into memory.
    """
    lines: list[Line] = []
    begin = time.monotonic()
    coming: dict[Future[Outcome], Submission] = {}
    todo = deque(waiting)
    with crew:
        try:
            while todo or coming:
                while todo and len(coming) < crew.ahead:
                    submission = todo.popleft()
                    coming[crew.submit(submission)] = submission
                done, _ = wait(coming, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                crew.look()
                for future in done:
                    line = writer.store(coming.pop(future), future)
                    lines.append(line)
                    passed = time.monotonic() - begin
                    left = passed / len(lines) * (len(waiting) - len(lines))
                    text = _progress_line(line, len(lines), len(waiting), left)
                    if 0 < len(waiting) - len(lines) <= crew.size:
                        text += f"; one that hangs may take up to {slowest:g} s more"
                    progress(text)
        except KeyboardInterrupt:
            progress(
                f"Stopped: {len(lines)} of {len(waiting)} are graded and stored. Waiting for the "
                "sandboxes that still run; the same command carries on from here."
            )
            raise
    return lines


def _progress_line(line: Line, done: int, count: int, left: float) -> str:
    text = f"[{done}/{count}] {printable(line.student_id)}: {line.status}"
    if line.score is not None:
        text += f", {points_text(line.score, line.max_score, line.waiting, line.penalty)}"
    if line.status in (Status.ATTENTION, NOT_GRADED) and line.reasons:
        text += f" ({one_line(line.reasons[0])})"
    if done < count:
        text += f" — {journal.duration(left)} left"
    return text


class _Writer:
    """Stores outcomes, and knows what is stored already."""

    def __init__(
        self,
        course: Course,
        assignment: Assignment,
        gradebook: GradebookWriter,
        log: Journal,
        only: frozenset[str],
    ) -> None:
        self._course = course
        self._assignment = assignment
        self._gradebook = gradebook
        self._log = log
        self._only = only
        self._version = assignment.digest
        self._records = records.load(course, assignment.name)
        self._checksums = {notebook.id: checksums(notebook) for notebook in assignment.notebooks}

    def sort_out(
        self, submissions: Sequence[Submission], force: bool, failed: Mapping[str, str]
    ) -> tuple[list[Line], list[Submission]]:
        """Return lines for what needs no run, and the submissions that do.

        ``failed`` says whose late penalty cannot be told.
        """
        lines, waiting = [], []
        stored = self._gradebook.students(self._assignment.name)
        for submission in submissions:
            record = self._records.get(submission.student_id)
            try:
                refuse_id(submission.student_id)
            except GradebookError as error:
                lines.append(self._not_graded(submission, str(error)))
                continue
            graded = (
                record is not None
                and record.written
                and record.digest == submission.digest
                and submission.student_id in stored
                and all(path.is_file() for path in self._paths(submission.student_id))
            )
            if self._only:
                if graded:
                    waiting.append(submission)
                else:
                    lines.append(self._left(submission, record))
            elif record is not None and graded and record.assignment == self._version and not force:
                if submission.student_id in failed:
                    lines.append(self._not_graded(submission, failed[submission.student_id]))
                else:
                    lines.append(self._line(ALREADY, record))
            else:
                waiting.append(submission)
        return lines, waiting

    def back_up(self, waiting: Sequence[Submission], progress: Callable[[str], None]) -> None:
        """Copy the gradebook before marks that are in it are changed."""
        stored = self._gradebook.students(self._assignment.name)
        if any(submission.student_id in stored for submission in waiting):
            copy = back_up(self._course)
            if copy is not None:
                progress(f"Some of it has marks already; the gradebook was copied to {copy}.")

    def store(self, submission: Submission, future: Future[Outcome]) -> Line:
        """Store one outcome; what cannot be stored fails alone and is graded again next time."""
        line = self._stored(submission, future)
        self._log.ended(line)
        return line

    def _stored(self, submission: Submission, future: Future[Outcome]) -> Line:
        try:
            outcome, pages = self._pages(future.result())
        except ClusterError:
            raise  # It holds for all that follow.
        except Exception as error:  # The machine failed, or the grader has a hole.
            line = self._not_graded(submission, f"It could not be graded: {error}")
            return replace(line, private=isinstance(error.__cause__, AssignmentError))
        before = self._records.get(outcome.student_id)
        if self._only:
            return self._stored_in_part(submission, outcome, pages, before)
        record = Record(
            student_id=outcome.student_id,
            digest=outcome.digest,
            status=str(outcome.status),
            reasons=outcome.reasons,
            score=outcome.score,
            max_score=outcome.max_score,
            graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
            details=outcome.details,
            assignment=self._version,
            wrong=outcome.wrong,
            blank=outcome.blank,
        )
        try:
            if before is not None and before.written:
                # From here to the end of this function the old record is not true any more.
                records.save(self._course, self._assignment.name, replace(before, written=False))
            same_work = before is not None and before.digest == outcome.digest
            self._gradebook.write(outcome, same_work=same_work)
            self._write_notebooks(outcome, pages)
            records.save(self._course, self._assignment.name, record)
        except Exception as error:
            return self._not_graded(submission, f"It could not be stored: {error}")
        self._records[outcome.student_id] = record
        return self._line(outcome.status, record)

    def _stored_in_part(
        self,
        submission: Submission,
        outcome: Outcome,
        pages: Mapping[Path, str],
        before: Record | None,
    ) -> Line:
        if before is None or before.digest != outcome.digest:
            return self._left(submission, before)  # It was handed in anew while it waited.
        student, name = outcome.student_id, self._assignment.name
        try:
            parts = {
                path: in_part.patched(path.read_text(encoding="utf-8"), text, self._only)
                for path, text in pages.items()
            }
            news = in_part.has_news(before, outcome)
            self._gradebook.write_marks(outcome, self._only, news=news)
            for path, text in parts.items():
                records.write_file(path, text.encode("utf-8"))
            found = marks(self._course, name, student)
            record = in_part.merged(
                before, outcome, found, self._assignment, self._version, self._only
            )
            records.save(self._course, name, record)
        except Exception as error:
            return self._not_graded(submission, f"It could not be stored: {error}")
        self._records[student] = record
        return self._line(record.status, record)

    def _left(self, submission: Submission, record: Record | None) -> Line:
        line = self._line(in_part.LEFT, record) if record is not None else None
        line = line or Line(submission.student_id, in_part.LEFT, None, self._assignment.points)
        return replace(line, reasons=(in_part.NOT_AS_GRADED,))

    def _line(self, status: str, record: Record) -> Line:
        student = record.student_id
        stands = standings(self._course, self._assignment.name, student).get(student)
        if stands is None:  # Nothing in the assignment earns points that nbgrader knows.
            return Line(student, status, record.score, record.max_score, record.reasons)
        return Line(
            student,
            status,
            stands.score,
            stands.max_score,
            record.reasons,
            stands.waiting,
            stands.penalty,
        )

    def _pages(self, outcome: Outcome) -> tuple[Outcome, dict[Path, str]]:
        """Return the outcome and its notebooks; one that cannot be shown needs attention.

        Points never hang on a page: where even the released text cannot be shown, an empty one
        stands for it.
        """
        try:
            return outcome, self._render(outcome)
        except Exception as error:
            outcome = unshowable(outcome, error)
        try:
            return outcome, self._render(outcome)
        except Exception as error:
            told = f"{outcome.details}\nNor could the released text: {error}"
            empty = dict.fromkeys(self._paths(outcome.student_id), NO_PAGE)
            return replace(outcome, details=told), empty

    def _render(self, outcome: Outcome) -> dict[Path, str]:
        return {
            self._folder(outcome.student_id) / f"{graded.notebook.id}.ipynb": render(
                graded, outcome, self._checksums[graded.notebook.id]
            )
            for graded in outcome.notebooks
        }

    def _write_notebooks(self, outcome: Outcome, pages: dict[Path, str]) -> None:
        for path, text in pages.items():
            records.write_file(path, text.encode("utf-8"))
        # nbgrader compares this file's time with that of the submission.
        stamp = self._folder(outcome.student_id) / "timestamp.txt"
        if outcome.timestamp is not None:
            records.write_file(stamp, f"{outcome.timestamp.isoformat(' ')} UTC\n".encode())
        else:
            stamp.unlink(missing_ok=True)

    def _folder(self, student_id: str) -> Path:
        return self._course.autograded / student_id / self._assignment.name

    def _paths(self, student_id: str) -> list[Path]:
        folder = self._folder(student_id)
        return [folder / f"{notebook.id}.ipynb" for notebook in self._assignment.notebooks]

    def _not_graded(self, submission: Submission, reason: str) -> Line:
        return Line(submission.student_id, NOT_GRADED, None, self._assignment.points, (reason,))
