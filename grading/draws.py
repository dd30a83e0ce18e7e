"""Which options of an assignment each student drew, as the grader sees it.

A student's draws follow from the name of the submission's folder, and from nothing that is in it.
Where variants are off there are no draws, and everybody has the first options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from grading import checks_file
from grading.assignment import Assignment, AssignmentError
from grading.course import Course
from grading.variants import draw_all

Draws = Mapping[str, int]
DrawsKey = tuple[tuple[str, int], ...]


def drawn(assignment: Assignment, student_id: str) -> Draws:
    """Return which option of each pick a student has, counted from 0."""
    if not assignment.variants:
        return {}
    counts = {name: len(options) for name, options in assignment.picks.items()}
    return draw_all(student_id, assignment.name, counts)


def first_draws(assignment: Assignment) -> Draws:
    """Return the draws of one who has the first option of each pick."""
    return dict.fromkeys(assignment.picks, 0) if assignment.variants else {}


def last_draws(assignment: Assignment) -> Draws:
    """Return the draws of one who has the last option of each pick: all differ from the first."""
    if not assignment.variants:
        return {}
    return {name: len(options) - 1 for name, options in assignment.picks.items()}


def one_changed(assignment: Assignment) -> Iterator[tuple[str, int, Draws]]:
    """Yield each pick's further options, and the draws that have it and else the first ones."""
    if assignment.variants:
        for name, options in assignment.picks.items():
            for option in range(1, len(options)):
                yield name, option, {**first_draws(assignment), name: option}


def key(draws: Draws) -> DrawsKey:
    """Return draws in a form that can be a dictionary's key."""
    return tuple(sorted(draws.items()))


def with_options(assignment: Assignment, draws: Draws) -> str:
    """Name draws at the end of a place in a message; nothing where there are none.

    >>> from types import SimpleNamespace
    >>> with_options(SimpleNamespace(picks={"heads": ("8", "12")}), {"heads": 1})
    ", with 'heads' = 12"
    """
    named = [f"{name!r} = {assignment.picks[name][option]}" for name, option in draws.items()]
    return f", with {' and '.join(named)}" if named else ""


def refuse_another_release(course: Course, assignment: Assignment) -> None:
    """Refuse to grade what students were given with other draws than the settings ask for.

    Raises:
        AssignmentError: The release's record and the settings differ; the message says the way out.
    """
    path = course.exercises / assignment.name / checks_file.FILE_NAME
    wanted = _wanted(assignment)
    try:
        released = _released(path)
    except FileNotFoundError:
        if not wanted:
            return
        flaw = f"{path} is not there, so nobody can say whether students had variants"
    except checks_file.DamagedChecks as error:
        if not wanted:
            return  # Only the variants of a release bear on marks.
        flaw = f"{path} is damaged ({error}), so nobody can say whether students had variants"
    else:
        if released == wanted:
            return
        how = "with variants" if released else "without variants"
        if released and wanted:
            how = "with picks of other names or options"
        flaw = f"{_state(assignment)}, but exercises/{assignment.name} was released {how}"
    raise AssignmentError(
        assignment.name,
        [
            f"{flaw}. Marks would be wrong. If students still get the exercise anew, run: python "
            f"-m grading release {assignment.name}; if they have worked on it, put the settings "
            "and options back as they were"
        ],
    )


def refuse_to_draw_anew(course: Course, assignment: Assignment) -> None:
    """Refuse a release by which work that is handed in would be graded by other draws than its own.

    Raises:
        AssignmentError: Someone has handed in, and would; the message says the way out.
    """
    name = assignment.name
    try:
        released = _released(course.exercises / name / checks_file.FILE_NAME)
    except (FileNotFoundError, checks_file.DamagedChecks):
        return  # Nobody can say by which draws the work was done.
    if released == _wanted(assignment):
        return
    count = sum(1 for _ in course.submitted.glob(f"*/{name}"))
    if count:
        raise AssignmentError(
            name,
            [
                f"{_state(assignment)}, and its picks are not those of exercises/{name}, by which "
                f"{count} in submitted/ have worked already. They would lose marks. Put the "
                "settings, names and options back as they were; or release the new version under "
                f"another name; or, if all get it anew, move submitted/*/{name} elsewhere first"
            ],
        )


def _wanted(assignment: Assignment) -> dict[str, tuple[str, ...]]:
    return dict(assignment.picks) if assignment.variants else {}


def _released(path: Path) -> dict[str, tuple[str, ...]]:
    return {name: tuple(options) for name, options in checks_file.read(path).picks.items()}


def _state(assignment: Assignment) -> str:
    state = "true" if assignment.variants else "false, or not set"
    return f"solutions/{assignment.name}.toml has variants = {state}"
