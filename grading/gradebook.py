"""The one writer to nbgrader's gradebook: one submission, one transaction.

It sets automatic scores and comments. Marks, extra credit and comments that a person gave are
never touched.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

from grading.assignment import Assignment, Notebook
from grading.course import Course
from grading.database import GradebookError as GradebookError
from grading.database import file_of
from grading.grade import NotebookGrade, Outcome, Status
from grading.late import LateError, LatePenalties
from grading.patience import patiently, wait_when_busy
from grading.plain import for_comment
from grading.programs import use_own_programs

ID_LENGTH = 128  # nbgrader's column
NO_RESPONSE = "No response."
# A comment that starts so says who set the flag: the grader, which may clear it, or a person.
FLAGGED_HERE = "Needs attention: "
FLAGGED_BEFORE = "Needs attention as well: "

_Result = TypeVar("_Result")


class GradebookWriter:
    """An open gradebook; use it from one thread, in a ``with`` block, under the course's lock."""

    def __init__(self, course: Course) -> None:
        from sqlalchemy import event

        use_own_programs()  # A new gradebook is made with a program that nbgrader starts by name.
        from nbgrader.api import Gradebook  # type: ignore[import-untyped]

        self._address = course.database_url
        self._gradebook: Any = patiently(lambda: Gradebook(self._address), self._address)
        self._session: Any = self._gradebook.db
        self._late_penalties = LatePenalties(course)
        engine = self._gradebook.engine
        if file_of(self._address):
            # Formgrader may write at any time; wait for it instead of failing after 5 seconds.
            event.listen(engine, "connect", wait_when_busy)
        else:
            # What formgrader, or a grader on another machine, changes meanwhile is not written
            # over: the server refuses, and all is done again on what stands there then.
            engine.update_execution_options(isolation_level="REPEATABLE READ")
        self._session.remove()
        engine.dispose()

    def __enter__(self) -> GradebookWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._gradebook.close()

    def knows(self, assignment: Assignment) -> bool:
        """Say whether the gradebook holds this assignment's notebooks and cells as they are now."""

        def stored() -> set[tuple[object, ...]]:
            known: set[tuple[object, ...]] = set()
            for row in self._notebooks(assignment.name):
                known.add((row.name,))
                known |= {(row.name, cell.name) for cell in row.solution_cells}
                known |= {
                    (row.name, cell.name, cell.max_score, cell.cell_type)
                    for cell in row.grade_cells
                }
            return known

        wanted: set[tuple[object, ...]] = set()
        for notebook in assignment.notebooks:
            wanted.add((notebook.id,))
            for cell in notebook.cells:
                if cell.role in ("solution", "written"):
                    wanted.add((notebook.id, cell.id))
                if cell.role in ("test", "written"):
                    wanted.add((notebook.id, cell.id, cell.points, cell.type))
        return self._do(stored) == wanted

    def students(self, assignment: str) -> set[str]:
        """Return the ids of the students who have a submission of the assignment."""
        from nbgrader.api import Assignment as Row
        from nbgrader.api import SubmittedAssignment

        def stored() -> set[str]:
            query = self._session.query(SubmittedAssignment.student_id).join(Row)
            return {student for (student,) in query.filter(Row.name == assignment)}

        return self._do(stored)

    def write(self, outcome: Outcome, *, same_work: bool) -> None:
        """Store one outcome, all of it or nothing.

        ``same_work`` says that this very submission was graded before: then what a person has
        settled stays so, marks and flags alike, unless the automatic score or the reasons moved.
        Reasons are kept in the comment on the first answer; without answers there is none, and
        work that needs attention is flagged each time.

        Raises:
            GradebookError: It cannot be written; nothing of this outcome is stored.
            LateError: It is late, and nobody can tell what that costs; as above.
        """
        refuse_id(outcome.student_id)
        self._do(lambda: self._store(outcome, same_work))

    def write_marks(self, outcome: Outcome, cells: Collection[str], *, news: bool) -> None:
        """Store these test cells' automatic marks, and nothing else of an outcome.

        A person is asked to look at them again where ``news`` says that the run had new trouble,
        and where a mark moved that a person gave.

        Raises:
            GradebookError: It cannot be written, or holds no such submission; nothing is stored.
        """
        self._do(lambda: self._store_marks(outcome, cells, news))

    def renew_penalties(self, assignment: str) -> dict[str, str]:
        """Let late penalties follow the due date, extensions and marks by hand as they are now.

        nbgrader reckons them when it grades, and never again. Returns, by student, why a penalty
        could not be told; what was stored of it stays.

        Raises:
            GradebookError: The gradebook cannot be written.
            LateError: The settings for late work cannot be used.
        """
        from nbgrader.api import Assignment as Row

        def renew() -> dict[str, str]:
            failed = {}
            row = self._session.query(Row).filter_by(name=assignment).one_or_none()
            if row is not None and row.duedate is not None:
                self._late_penalties.load()
            for submission in row.submissions if row is not None else ():
                if not (submission.late_submission_penalty or row.duedate is not None):
                    continue
                try:
                    self._renew(submission)
                except LateError as error:
                    failed[submission.student_id] = str(error)
            return failed

        return self._do(renew)

    def _do(self, action: Callable[[], _Result]) -> _Result:
        """Do something in one transaction, and again where another program was in its way."""

        def attempt() -> _Result:
            try:
                done = action()
                self._session.commit()
            finally:
                # Rolls back what is not committed, and forgets what it knew.
                self._session.remove()
            return done

        return patiently(attempt, self._address, is_open=True)

    def _renew(self, submission: Any) -> None:
        """Set the penalties of one submission, all or none."""
        found = [(each, self._late_penalties.of(submission, each)) for each in submission.notebooks]
        for notebook, penalty in found:
            if notebook.late_submission_penalty != penalty:
                notebook.late_submission_penalty = penalty

    def _store_marks(self, outcome: Outcome, cells: Collection[str], news: bool) -> None:
        from nbgrader.api import Assignment as AssignmentRow
        from nbgrader.api import Grade, SubmittedAssignment

        session = self._session
        query = session.query(SubmittedAssignment).filter_by(student_id=outcome.student_id)
        found = query.join(AssignmentRow).filter(AssignmentRow.name == outcome.assignment)
        submission = found.one_or_none()
        if submission is None:
            raise GradebookError("The gradebook does not hold this submission; grade it whole.")
        notebooks = {notebook.name: notebook for notebook in submission.notebooks}
        for graded in outcome.notebooks:
            notebook = notebooks[graded.notebook.id]
            rows = {cell.name: cell for cell in notebook.notebook.grade_cells}
            for name in graded.cells.keys() & {*cells}:
                key = {"cell_id": rows[name].id, "notebook_id": notebook.id}
                grade = _find_or_add(session, Grade, **key)
                moved = grade.auto_score != graded.cells[name].points
                grade.auto_score = graded.cells[name].points
                if news or (moved and grade.manual_score is not None):
                    grade.needs_manual_grade = True
            session.flush()
            session.expire(notebook)  # Its score is summed up by the database.
            notebook.late_submission_penalty = self._late_penalties.of(submission, notebook)
        session.flush()

    def _notebooks(self, assignment: str) -> list[Any]:
        from nbgrader.api import Assignment as AssignmentRow

        row = self._session.query(AssignmentRow).filter_by(name=assignment).one_or_none()
        return list(row.notebooks) if row is not None else []

    def _store(self, outcome: Outcome, same_work: bool) -> None:
        from nbgrader.api import Assignment as AssignmentRow
        from nbgrader.api import Student, SubmittedAssignment, SubmittedNotebook

        session = self._session
        assignment = session.query(AssignmentRow).filter_by(name=outcome.assignment).one()
        student = session.get(Student, outcome.student_id)
        if student is None:
            student = Student(id=outcome.student_id)
            session.add(student)
        submission = _find_or_add(
            session, SubmittedAssignment, assignment_id=assignment.id, student_id=student.id
        )
        submission.timestamp = outcome.timestamp
        graded_by_id = {graded.notebook.id: graded for graded in outcome.notebooks}
        for row in assignment.notebooks:
            notebook = _find_or_add(
                session, SubmittedNotebook, notebook_id=row.id, assignment_id=submission.id
            )
            graded = graded_by_id[row.name]
            answers = _answers(session, row, notebook, graded)
            news = outcome.status is Status.ATTENTION and not (
                same_work and answers and _reasons(outcome) in (answers[0].auto_comment or "")
            )
            _store_grades(session, row, notebook, graded, outcome, same_work, news)
            _store_comments(answers, notebook, graded, outcome, news)
            session.flush()
            session.expire(notebook)  # Its score is summed up by the database.
            notebook.late_submission_penalty = self._late_penalties.of(submission, notebook)
        session.flush()


def _store_grades(
    session: Any,
    row: Any,
    notebook: Any,
    graded: NotebookGrade,
    outcome: Outcome,
    same_work: bool,
    news: bool,
) -> None:
    """Write the automatic scores, and ask for a person where there is something to look at.

    ``news`` says that the work needs attention for reasons that no person has seen yet.
    """
    from nbgrader.api import Grade

    grades = _of_cells(session, Grade, row.grade_cells, notebook)
    for cell, grade in zip(row.grade_cells, grades, strict=True):
        points = graded.cells[cell.name].points
        moved = grade.auto_score != points or not same_work
        grade.auto_score = points
        by_hand = grade.manual_score is not None
        if news or (points is None and not by_hand):
            grade.needs_manual_grade = True
        elif by_hand or outcome.status is Status.ATTENTION:
            grade.needs_manual_grade = grade.needs_manual_grade or moved
        else:
            grade.needs_manual_grade = False


def _answers(session: Any, row: Any, notebook: Any, graded: NotebookGrade) -> list[Any]:
    """Return nbgrader's comments on the answers, in the notebook's order; it has no others."""
    from nbgrader.api import Comment

    order = [cell.id for cell in graded.notebook.cells]
    cells = sorted(row.solution_cells, key=lambda cell: order.index(cell.name))
    return _of_cells(session, Comment, cells, notebook)


def _store_comments(
    answers: list[Any], notebook: Any, graded: NotebookGrade, outcome: Outcome, news: bool
) -> None:
    """Write the automatic comments; the first one carries the reason for a flag, and whose it is.

    A notebook without answers has no comment, so it is flagged for good.
    """
    for index, comment in enumerate(answers):
        before = comment.auto_comment or ""
        parts = [NO_RESPONSE] if comment.name not in graded.rebuilt.changed else []
        if index == 0:
            by_grader = before.startswith(FLAGGED_HERE)
            if outcome.status is Status.ATTENTION:
                by_person = notebook.flagged if news else before.startswith(FLAGGED_BEFORE)
                start = FLAGGED_BEFORE if by_person and not by_grader else FLAGGED_HERE
                parts.insert(0, start + _reasons(outcome))
            elif by_grader:
                notebook.flagged = False
        comment.auto_comment = " ".join(parts) or None
    if news:
        notebook.flagged = True


def _reasons(outcome: Outcome) -> str:
    return for_comment(" ".join(outcome.reasons))


def _find_or_add(session: Any, table: Any, **key: Any) -> Any:
    found = session.query(table).filter_by(**key).one_or_none()
    if found is None:
        found = table(**key)
        session.add(found)
        session.flush()
    return found


def _of_cells(session: Any, table: Any, cells: Sequence[Any], notebook: Any) -> list[Any]:
    """Find or add what the table holds of each cell, in few questions to the database."""
    known = session.query(table).filter_by(notebook_id=notebook.id)
    found = {each.cell_id: each for each in known}
    missing = [
        table(cell_id=cell.id, notebook_id=notebook.id) for cell in cells if cell.id not in found
    ]
    session.add_all(missing)
    session.flush()
    found |= {each.cell_id: each for each in missing}
    return [found[cell.id] for cell in cells]


def checksums(notebook: Notebook) -> dict[str, str]:
    """Return nbgrader's checksum of each released cell that it knows, by grade_id."""
    import nbformat
    from nbgrader.utils import compute_checksum  # type: ignore[import-untyped]

    found = {}
    for cell in notebook.cells:
        if "grade_id" in cell.metadata.get("nbgrader", {}):
            node = nbformat.from_dict(  # type: ignore[no-untyped-call]
                {"cell_type": cell.type, "source": cell.released, "metadata": dict(cell.metadata)}
            )
            found[cell.id] = compute_checksum(node)
    return found


def refuse_id(student_id: str) -> None:
    """Refuse a student id that cannot be kept or shown safely.

    nbgrader's formgrader writes ids into its pages and scripts as they are, and where an id looks
    like a pattern of file names, generate_feedback looks into other people's folders.

    Raises:
        GradebookError: With the way out.

    >>> refuse_id("Nguyễn Văn An")
    """
    dangerous = sorted({char for char in student_id if char in '<>"*?[' or not _is_text(char)})
    if dangerous or student_id.endswith("\\"):
        shown = " ".join(ascii(char)[1:-1] for char in dangerous) or "a backslash at its end"
        raise GradebookError(
            "The folder's name holds characters that nbgrader would take for code or a pattern: "
            f"{shown}. Rename the folder below submitted/ and grade again."
        )
    if not student_id or len(student_id) > ID_LENGTH:
        raise GradebookError(
            f"The folder's name is {len(student_id)} characters long; nbgrader keeps 1 to "
            f"{ID_LENGTH}. Rename the folder below submitted/ and grade again."
        )


def _is_text(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp")
