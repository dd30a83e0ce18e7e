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
from fnmatch import fnmatchcase
from functools import partial
from threading import Event

from grading import in_part, journal, records, risks
from grading.assignment import Assignment, AssignmentError, load
from grading.cluster import Cluster, ClusterCrew, ClusterError
from grading.cluster_worker import Batch, own_kit, read_modules
from grading.course import Course
from grading.crew import Crew, Here
from grading.draws import drawn, key, refuse_another_release
from grading.grade import NOT_GRADED, Outcome, Status, grade
from grading.gradebook import GradebookError, GradebookWriter
from grading.imports import imports_of
from grading.journal import Journal
from grading.misplaced import misplaced
from grading.pace import Pace, PutOff, Shown
from grading.plain import one_line, printable
from grading.reference import Reference, references_of, secret_key
from grading.release import register
from grading.runs import RUNS, InTurn, Unhurried
from grading.sandbox import Sandbox
from grading.spared import import_nbgrader
from grading.standings import points_text
from grading.submission import Submission, collect
from grading.writer import Line, Writer

LOOK_SECONDS = 1.0


class NothingToGrade(LookupError):
    """No submission matches what was asked for."""


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
    accepted: Collection[str] = (),
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
        accepted: Names of `risks` that are taken where their wall is missing on this machine.
        progress: Gets a line of text for each submission.

    Raises:
        AssignmentError: The assignment has flaws, its solution fails its own tests whatever is
            drawn, or students were given it with other variants.
        SandboxError: The machine lacks a wall whose risk is not accepted; nothing was run.
        ClusterError: The cluster cannot be used, or was lost; what was finished is stored. Or a
            risk was accepted for it.
        GradebookError: The gradebook cannot be opened, or not copied before marks are changed.
        LateError: What being late costs cannot be told; nothing was run.
        NothingToGrade: No submission matches.
        CourseError: ``only`` names what is no test cell.
        KeyboardInterrupt: Stopped by hand; what was finished is stored.
    """
    if cluster is not None and accepted:
        raise ClusterError(
            "A risk is taken on this machine alone, and each worker of a cluster needs all walls. "
            "Leave out --accept-risk, or --cluster."
        )
    assignment = load(course, name)
    refuse_another_release(course, assignment)
    cells = in_part.named_cells(assignment, only)
    key_of_seeds = secret_key(course.secret(), assignment.name)
    modules = [course.root / module for module in assignment.modules]
    warm = None if cold else imports_of(assignment)
    count = workers or _cores()
    sandbox = Sandbox(
        modules=modules, limits=assignment.limits, warm=warm, at_once=count, accepted=accepted
    )
    for line in risks.told(accepted, sandbox.taken):
        progress(line)
    import_nbgrader()  # while the warm process gets ready
    options = {"student": student_id, "force": force, "task": sorted(cells), "workers": count}
    options |= {"cluster": cluster is not None, "cold": cold}
    options |= {"risks": sorted(sandbox.taken)}
    with ExitStack() as stack:
        for risk in sorted(sandbox.taken):
            stack.callback(progress, risks.reminder(risk))
        stack.enter_context(records.locked(course, progress))
        submissions = _chosen(course, assignment, student_id)
        log = stack.enter_context(journal.opened(course, name, assignment.digest, options))
        for ignored in misplaced(course, assignment.name):
            progress(ignored)
        gradebook = stack.enter_context(GradebookWriter(course))
        writer = Writer(course, assignment, gradebook, log, cells)
        if not gradebook.knows(assignment):
            writer.back_up(submissions, progress)
            progress(f"Entering {name} into the gradebook.")
            register(course, name)
            if not gradebook.knows(assignment):
                raise GradebookError(
                    f"The gradebook's cells of {name} differ from solutions/{name} even after "
                    f"entering it anew. Run: nbgrader generate_assignment {name} --force, "
                    "and read what it says."
                )
        failed = gradebook.renew_penalties(name)
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
                # Read again, with the digest of what is read: it may have changed by now.
                found = collect(course, assignment, submission.student_id)
                if not found:
                    raise FileNotFoundError("it is not in submitted/ any more")
                own = references[key(drawn(assignment, submission.student_id))]
                if isinstance(own, AssignmentError):
                    raise ValueError("; ".join(own.flaws)) from own
                return own, found[0]

            pace, stopping = Pace(), Event()

            def work(submission: Submission, hurry: bool, before: Shown | None) -> Outcome:
                own, whole = prepare(submission)
                begun = partial(begin, submission.student_id)
                runs = InTurn(sandbox, pace, begun) if hurry else Unhurried(sandbox, begun)
                return grade(assignment, own, whole, runs, key_of_seeds, before)

            def begin(student_id: str) -> None:
                if stopping.is_set():
                    raise PutOff  # to another run of the command
                log.begun(student_id)

            crew: Crew
            if connection is None:
                crew = Here(count, work)
            else:
                packages = read_modules(modules)
                batch = Batch(assignment, key_of_seeds, own_kit(), packages, cold=cold)
                crew = ClusterCrew(connection, batch, prepare, log.begun)
            slowest = RUNS * assignment.limits.seconds * len(assignment.notebooks)
            carries_on = (
                "begins anew with all of them" if force or cells else "carries on from here"
            )
            lines += _run(waiting, crew, writer, log, pace, stopping, slowest, carries_on, progress)
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
    writer: Writer,
    log: Journal,
    pace: Pace,
    stopping: Event,
    slowest: float,
    carries_on: str,
    progress: Callable[[str], None],
) -> list[Line]:
    """Grade side by side and store one by one, in the order in which they end.

    Only so many are submitted ahead that nobody waits: a whole course may not fit into memory.
    What takes long is put off, and graded when all others are.
    """
    lines: list[Line] = []
    begin = time.monotonic()
    coming: dict[Future[Outcome], Submission] = {}
    todo, put_off, hurry = deque(waiting), deque[Submission](), True
    before: dict[str, Shown | None] = {}
    with crew:
        try:
            while todo or coming or put_off:
                if put_off and not todo and not coming:
                    todo, put_off, hurry = put_off, todo, False
                pace.nobody_waits = len(todo) + len(coming) <= 1
                while todo and len(coming) < crew.ahead:
                    submission = todo.popleft()
                    known = before.pop(submission.student_id, None)
                    coming[crew.submit(submission, hurry=hurry, before=known)] = submission
                done, _ = wait(coming, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                crew.look()
                for future in done:
                    submission = coming.pop(future)
                    if isinstance(late_one := future.exception(), PutOff):
                        put_off.append(submission)
                        before[submission.student_id] = late_one.shown
                        log.put_off(submission.student_id)
                        name = printable(submission.student_id)
                        progress(f"{name}: takes long, and is put off until the others are graded")
                        continue
                    log.begun(submission.student_id)  # it may have failed before its turn came
                    line = writer.store(submission, future)
                    lines.append(line)
                    text = _progress_line(line, len(lines), len(waiting))
                    if left := len(waiting) - len(lines):
                        passed = time.monotonic() - begin
                        text += f" — {journal.duration(passed / len(lines) * left)} left"
                    if late := len(put_off) if hurry else left:
                        text += f", and for {late} put off up to {slowest:g} s each"
                    progress(text)
        except KeyboardInterrupt:
            stopping.set()
            progress(
                f"Stopped: {len(lines)} of {len(waiting)} are graded and stored. Waiting for the "
                f"sandboxes that still run; the same command {carries_on}."
            )
            raise
    return lines


def _progress_line(line: Line, done: int, count: int) -> str:
    text = f"[{done}/{count}] {printable(line.student_id)}: {line.status}"
    if line.score is not None:
        text += f", {points_text(line.score, line.max_score, line.waiting, line.penalty)}"
    if line.status in (Status.ATTENTION, NOT_GRADED) and line.reasons:
        text += f" ({one_line(line.reasons[0])})"
    return text
