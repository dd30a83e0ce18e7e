"""Which submissions are nearly the same? Likeness is a reason to look, and no proof.

Compared are the answers in code cells, as the graded notebooks hold them: matched to their tasks
already, so it does not matter where a student put them. What was released to all and what the
solution says are left out, and what many wrote counts little.

Nothing is compared pair by pair that has nothing in common: each fingerprint knows who has it. (Of
the libraries for this, copydetect compares every pair, and datasketch estimates what is counted
here.)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from grading.assignment import Assignment
from grading.course import Course
from grading.fingerprints import Prints, fingerprints, tokens

LEAST_LIKENESS = 0.6
LEAST_SHARED = 5  # Fewer fingerprints in common are chance.
CELL_LIKENESS = 0.5  # From here on a cell is named.


@dataclass(frozen=True)
class Pair:
    """Two submissions, how alike they are (from 0 to 1), and in which cells.

    ``same`` says that all they wrote is the same but for names, comments, numbers and spacing.
    """

    first: str
    second: str
    likeness: float
    cells: tuple[str, ...]
    same: bool


@dataclass(frozen=True)
class Similarities:
    """The pairs, most alike first, and how many submissions were compared.

    ``too_little`` have next to nothing beside what was released and what the solution says;
    ``unread`` have no graded notebook that can be read.
    """

    pairs: tuple[Pair, ...]
    compared: int
    too_little: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Work:
    """What one student wrote: all fingerprints, those of each cell, and a digest of the whole."""

    student: str
    prints: Prints
    cells: Mapping[str, Prints]
    digest: bytes


def similar(
    course: Course, assignment: Assignment, *, least: float = LEAST_LIKENESS
) -> Similarities:
    """Compare what was graded of an assignment; ``least`` is the likeness that is listed."""
    known = _known(assignment)
    works: list[_Work] = []
    too_little, unread = [], []
    for student in _students(course, assignment):
        answers = _answers(course, assignment, student)
        if answers is None:
            unread.append(student)
            continue
        work = _work(student, answers, known)
        if len(work.prints) < LEAST_SHARED:
            too_little.append(student)
        else:
            works.append(work)
    pairs = sorted(_pairs(works, least), key=lambda pair: (-pair.likeness, pair.first, pair.second))
    return Similarities(tuple(pairs), len(works), tuple(too_little), tuple(unread))


def _known(assignment: Assignment) -> Prints:
    """Return the fingerprints of what everybody got, and of the solution."""
    sources = [
        source
        for notebook in assignment.notebooks
        for cell in notebook.cells
        if cell.type == "code"
        for source in (cell.released, cell.solution)
    ]
    return _together([fingerprints(tokens(source)) for source in sources])


def _students(course: Course, assignment: Assignment) -> list[str]:
    """Return whose graded notebooks there are."""
    folders = course.autograded.glob(f"*/{assignment.name}")
    return sorted(folder.parent.name for folder in folders if folder.is_dir())


def _answers(course: Course, assignment: Assignment, student: str) -> dict[str, str] | None:
    """Return the sources of a student's answers in code, by cell; None if they cannot be read."""
    folder = course.autograded / student / assignment.name
    several = len(assignment.notebooks) > 1
    found = {}
    for notebook in assignment.notebooks:
        answers = {cell.id for cell in notebook.cells if cell.role == "solution"}
        try:
            cells = json.loads((folder / f"{notebook.id}.ipynb").read_bytes())["cells"]
            for cell in cells:
                name = cell["metadata"].get("nbgrader", {}).get("grade_id")
                if cell["cell_type"] == "code" and name in answers:
                    found[f"{notebook.id}: {name}" if several else name] = str(cell["source"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
    return found


def _work(student: str, answers: Mapping[str, str], known: Prints) -> _Work:
    read = {name: tokens(source) for name, source in answers.items()}
    cells = {
        name: np.setdiff1d(fingerprints(found), known, assume_unique=True)
        for name, found in read.items()
    }
    whole = json.dumps(sorted(read.items()))
    digest = hashlib.sha256(whole.encode("utf-8", "replace")).digest()
    return _Work(student, _together(list(cells.values())), cells, digest)


def _together(prints: list[Prints]) -> Prints:
    return np.unique(np.concatenate([np.empty(0, np.uint64), *prints]))


def _pairs(works: list[_Work], least: float) -> Iterator[Pair]:
    """Yield who is alike: by the weight of what both have, against the lighter of the two.

    A fingerprint weighs the more, the fewer have it. Memory is that of all fingerprints, and one
    number for each submission.
    """
    if not works:
        return
    everything = np.concatenate([work.prints for work in works])
    owners = np.repeat(np.arange(len(works)), [len(work.prints) for work in works])
    names, numbers = np.unique(everything, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    holders = owners[order]  # by fingerprint, and in order for each
    counts = np.bincount(numbers, minlength=len(names))
    ends = np.cumsum(counts)
    weights = np.log1p(len(works) / counts)
    totals = np.bincount(owners, weights=weights[numbers], minlength=len(works))
    start = 0
    for index, work in enumerate(works):
        own = numbers[start : start + len(work.prints)]
        start += len(work.prints)
        shared, common = np.zeros(len(works)), np.zeros(len(works), np.int64)
        for each in own:
            others = holders[ends[each] - counts[each] : ends[each]]
            shared[others] += weights[each]
            common[others] += 1
        likeness = shared / np.minimum(totals, totals[index])
        chosen = (likeness >= least) & (common >= LEAST_SHARED)
        chosen[: index + 1] = False
        for other in np.flatnonzero(chosen):
            yield _pair(work, works[other], float(likeness[other]))


def _pair(one: _Work, other: _Work, likeness: float) -> Pair:
    alike = []
    for name, prints in one.cells.items():
        theirs = other.cells.get(name, np.empty(0, np.uint64))
        fewer = min(len(prints), len(theirs))
        both = len(np.intersect1d(prints, theirs, assume_unique=True))
        if fewer and both >= CELL_LIKENESS * fewer:
            alike.append(name)
    return Pair(
        one.student,
        other.student,
        min(1.0, round(likeness, 3)),
        tuple(alike),
        one.digest == other.digest,
    )
