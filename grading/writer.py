"""What is stored of a submission, and what needs no run: records, gradebook, graded notebooks.

One thread alone writes, under the course's lock: gradebook, then notebook, then record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grading import in_part, records
from grading.assignment import Assignment, AssignmentError
from grading.backups import back_up
from grading.cluster import ClusterError
from grading.course import Course
from grading.database import GradebookLost, file_of
from grading.grade import ALREADY, NOT_GRADED, Outcome, unshowable
from grading.gradebook import GradebookError, GradebookWriter, checksums, refuse_id
from grading.journal import Journal
from grading.records import Record
from grading.render import NO_PAGE, render
from grading.standings import marks, standings
from grading.submission import Submission


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


class Writer:
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
        self._copied = False
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
        """Copy the gradebook before marks that are in it are changed, once in a run."""
        stored = self._gradebook.students(self._assignment.name)
        if not self._copied and any(submission.student_id in stored for submission in waiting):
            copy = back_up(self._course)
            self._copied = True
            if copy is not None:
                progress(f"Some of it has marks already; the gradebook was copied to {copy}.")
            elif file_of(self._course.database_url) is None:
                progress(
                    "Some of it has marks already; the gradebook's server keeps them, and no copy "
                    "is made here. Its own tool is pg_dump."
                )

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
        except GradebookLost:
            raise  # Nor could any that follows.
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
        except GradebookLost:
            raise  # Nor could any that follows.
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
