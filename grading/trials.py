"""Each answer of the bank handed in: what it fails, and what it earns.

The answers to a notebook share a few sandboxes: each is run after the whole solution, followed by
the test cells that judge it, and then the instructor's answer is put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from grading.answers import Answer, answers_file, read_answers
from grading.assignment import Assignment, Notebook
from grading.assignment_sandbox import sandbox_for
from grading.course import Course
from grading.draws import Draws, first_draws, last_draws, with_options
from grading.grade import CheckResult, judge, share_points
from grading.job import Job, JobCell, Message, Run
from grading.rebuild import jobs, solved
from grading.reference import Reference, received, reference, secret_key
from grading.sandbox import Sandbox
from grading.values import Value

SIDE_BY_SIDE = 2
TOGETHER = 12  # answers in one sandbox: few enough for its limits, enough to share the start


@dataclass(frozen=True)
class Trial:
    """What came of one answer.

    ``results`` are those of its own test cells. ``seen`` holds what visible checks received,
    where it was one value.
    """

    answer: Answer
    notebook: Notebook
    results: Mapping[str, CheckResult]
    seen: Mapping[str, Value]

    @property
    def failed(self) -> set[str]:
        """The hidden checks that it fails."""
        return {name for name, one in self.results.items() if one.check.hidden and not one.passed}

    @property
    def is_seen(self) -> bool:
        """Whether a visible check says that something is wrong."""
        return any(not one.check.hidden and not one.passed for one in self.results.values())

    @property
    def points(self) -> tuple[float, float]:
        """The points that its cells earn, and those there are."""
        earned = whole = 0.0
        for cell in judging_cells(self.notebook, self.answer.cell):
            own = tuple(one for one in self.results.values() if one.check.cell == cell)
            points = next(each.points for each in self.notebook.cells if each.id == cell)
            earned += share_points(points, own, self.results)
            whole += points
        return round(earned, 2), whole


def judging_cells(notebook: Notebook, answer_cell: str) -> list[str]:
    """Return the test cells that judge an answer: those between it and the next one.

    Where the next answer follows at once, those that follow that.
    """
    ids = [cell.id for cell in notebook.cells]
    found: list[str] = []
    for cell in notebook.cells[ids.index(answer_cell) + 1 :]:
        if cell.role == "test":
            found.append(cell.id)
        elif cell.role == "solution" and found:
            break
    return found


def try_answers(
    course: Course,
    assignment: Assignment,
    answers: Sequence[Answer],
    *,
    hidden: bool = True,
    draws: Draws | None = None,
) -> list[Trial]:
    """Hand in each answer, everything else being right; in the order of ``answers``.

    Without ``hidden`` only the visible checks are run. ``draws`` are those of the student who hands
    them in; the first options if None.

    Raises:
        AssignmentError: The solution does not run.
        SandboxError: The machine lacks a wall.
    """
    sandbox = sandbox_for(course, assignment)
    key = secret_key(course.secret(), assignment.name)
    draws = first_draws(assignment) if draws is None else draws
    trials: dict[Answer, Trial] = {}
    for notebook in assignment.notebooks:
        ids = {cell.id for cell in notebook.cells}
        own = [answer for answer in answers if answer.cell in ids]
        right = reference(course, assignment, notebook, sandbox, draws)
        batches = [own[start : start + TOGETHER] for start in range(0, len(own), TOGETHER)]
        visible, secret = jobs(solved(notebook), assignment.files, key, draws=draws)
        wanted = [replace(visible, outputs=False), secret] if hidden else [visible]
        tasks = [(_job(job, notebook, batch), batch) for batch in batches for job in wanted]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            runs = [*pool.map(lambda task: _run(sandbox, *task), tasks)]
        for number, batch in enumerate(batches):
            of_batch = runs[number * len(wanted) : (number + 1) * len(wanted)]
            for place, answer in enumerate(batch):
                both = [_own_run(run, place) for run in of_batch]
                trials[answer] = _trial(answer, notebook, right, both[0], both[-1])
    return [trials[answer] for answer in answers]


def answer_flaws(course: Course, assignment: Assignment) -> list[str]:
    """Return a sentence for each answer of the bank that does not come to what it should.

    What can be seen without handing them in is :mod:`grading.lint_answers`'s.

    Raises:
        AssignmentError: The file of answers has flaws, or the solution does not run.
        SandboxError: The machine lacks a wall.
    """
    answers = read_answers(course, assignment)
    if not answers:
        return []
    place = answers_file(course, assignment.name).name
    trials = try_answers(course, assignment, answers)
    flaws = [f"{place}: {flaw}" for trial in trials for flaw in _trial_flaws(trial)]
    if assignment.variants:
        # An answer has to be right, or wrong, whatever its student drew.
        draws = last_draws(assignment)
        flaws += [
            f"{place}{with_options(assignment, draws)}: {flaw}"
            for trial in try_answers(course, assignment, answers, draws=draws)
            for flaw in _trial_flaws(trial)
        ]
    return flaws


def _trial_flaws(trial: Trial) -> Iterator[str]:
    answer = trial.answer
    every = {name for name, one in trial.results.items() if one.check.hidden}
    wanted = every if answer.fails is None else {*answer.fails}
    if not answer.wrong and (trial.failed or trial.is_seen):
        missed = sorted(name for name, one in trial.results.items() if not one.passed)
        yield f"the honest {answer.place} fails {', '.join(map(repr, missed))}; let it pass"
        return
    if wanted != trial.failed:
        missing, more = sorted(wanted - trial.failed), sorted(trial.failed - wanted)
        told = [f"passes {', '.join(map(repr, missing))}"] if missing else []
        told += [f"fails {', '.join(map(repr, more))} too"] if more else []
        yield f"the wrong {answer.place} {' and '.join(told)}; mend the checks or its fails"
    if answer.wrong and answer.seen is not trial.is_seen:
        how = "is noticed" if trial.is_seen else "is not noticed"
        yield f"the wrong {answer.place} {how} by a visible check; mend its seen"
    earned, whole = trial.points
    if answer.wrong and earned >= whole > 0:
        yield f"the wrong {answer.place} earns all {whole:g} points; it must lose some"
    if (flaw := said_to_nobody(trial)) is not None:
        yield flaw


def said_to_nobody(trial: Trial) -> str | None:
    """Return a sentence where what a mistake says would reach no student; else None."""
    if not trial.answer.says or trial.is_seen:
        return None
    return (
        f"the wrong {trial.answer.place} says something, but no visible check notices it; take its "
        "says out"
    )


def _job(job: Job, notebook: Notebook, batch: Sequence[Answer]) -> Job:
    """Put the answers of a batch behind the solution, each with its tests."""
    tests = {cell.id for cell in notebook.cells if cell.role == "test"}
    source = {cell.id: cell.source for cell in job.cells}
    cells = [cell for cell in job.cells if cell.id not in tests]
    for number, answer in enumerate(batch):
        cells.append(JobCell(f"answer {number}", answer.source))
        cells += [
            JobCell(f"test {number} {cell}", source[cell])
            for cell in judging_cells(notebook, answer.cell)
        ]
        cells.append(JobCell(f"back {number}", source[answer.cell]))
    return replace(job, cells=tuple(cells))


def _run(sandbox: Sandbox, job: Job, batch: Sequence[Answer]) -> Run:
    """Run a batch; if one answer took all with it, each by itself."""
    run = sandbox.run(job)
    if run.ended == "finished" or len(batch) == 1:
        return run
    shared = [cell for cell in job.cells if not _is_trial(cell.id)]
    messages: list[Message] = []
    for number in range(len(batch)):
        own = [cell for cell in job.cells if _is_trial(cell.id, number)]
        messages += sandbox.run(replace(job, cells=(*shared, *own))).messages
    return replace(run, messages=tuple(messages))


def _is_trial(cell: str, number: int | None = None) -> bool:
    """Tell whether a cell was added for an answer, for this one if a number is given."""
    _, *rest = cell.split(" ")  # a grade_id holds no space
    return bool(rest) and (number is None or rest[0] == str(number))


def _own_run(run: Run, number: int) -> Run:
    """Return what one answer sent, as if it had been handed in by itself."""
    start = f"test {number} "
    return replace(
        run,
        messages=tuple(
            replace(message, cell=message.cell.removeprefix(start))
            for message in run.messages
            if message.cell.startswith(start)
        ),
    )


def _trial(answer: Answer, notebook: Notebook, right: Reference, run_a: Run, run_b: Run) -> Trial:
    cells = judging_cells(notebook, answer.cell)
    results = judge(notebook, right, run_a, run_b)
    own = {name: result for name, result in results.items() if result.check.cell in cells}
    seen = {
        name: values[0]
        for name, result in own.items()
        if not result.check.hidden and len(values := received(run_a, result.check)) == 1
    }
    return Trial(answer, notebook, own, seen)


def table(trials: Iterable[Trial]) -> str:
    """Write what each answer earned, a line for each.

    >>> table([])
    'cell  answer  earned  of  fails'
    """
    rows = [("cell", "answer", "earned", "of", "fails")]
    for trial in trials:
        earned, whole = trial.points
        name = trial.answer.name if trial.answer.wrong else f"(right) {trial.answer.name}"
        fails = "; ".join(sorted(trial.failed)) or "-"
        rows.append((trial.answer.cell, name, f"{earned:g}", f"{whole:g}", fails))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
