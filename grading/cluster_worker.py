"""What a cluster's worker does: prove that it is fit, and grade what travels to it.

A worker needs this package, the locked packages and bubblewrap. It gets the assignment, one
submission and the right values for it, and gives an outcome back. It is given neither the
gradebook nor the course's secret, but only the key of this assignment's hidden inputs.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import pickle
import platform
import shutil
import socket
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from grading import walls
from grading.assignment import Assignment
from grading.grade import Outcome, grade
from grading.imports import imports_of
from grading.pace import Pace, PutOff, Shown
from grading.reference import Reference
from grading.runs import InTurn, Unhurried
from grading.sandbox import Sandbox, missing_walls
from grading.submission import Submission

INSTALLERS = ("pip", "setuptools", "uv", "wheel")  # They bring packages in, and change no mark.
MOST_NAMED = 5  # differing packages: who sees so many knows what is the matter

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Kit:
    """What a machine grades with: it must be the same everywhere, or marks could differ."""

    python: str
    processor: str
    packages: frozenset[str]
    grader: str

    def differences(self, other: Kit) -> list[str]:
        """Say in sentences how another machine's kit differs from this one."""
        said = []
        if other.python != self.python:
            said.append(f"It has Python {other.python}; here it is {self.python}.")
        if other.processor != self.processor:
            said.append(f"Its processor is {other.processor}; here it is {self.processor}.")
        if other.grader != self.grader:
            said.append("Its grading package is another version than the one here.")
        lacking, more = self.packages - other.packages, other.packages - self.packages
        for names, what in ((lacking, "It lacks"), (more, "It has, and here there is not,")):
            if names:
                some = ", ".join(sorted(names)[:MOST_NAMED])
                rest = len(names) - MOST_NAMED
                said.append(f"{what} {some}{f' and {rest} more' if rest > 0 else ''}.")
        return said


@functools.cache
def own_kit() -> Kit:
    """Return what this process grades with."""
    grader = hashlib.sha256()
    here = Path(walls.__file__).parent
    for path in sorted(here.rglob("*.py")):
        grader.update(f"{path.relative_to(here)}\0".encode() + path.read_bytes())
    return Kit(
        python=platform.python_version(),
        processor=platform.machine(),
        packages=frozenset(
            path.stem.replace("-", " ")
            for folder in walls.package_folders()
            for path in folder.glob("*.dist-info")
            if path.stem.partition("-")[0] not in INSTALLERS
        ),
        grader=grader.hexdigest(),
    )


@dataclass(frozen=True)
class Batch:
    """What is the same for all submissions of one run; ``modules`` are files by package and name.

    ``key`` is made from the course's secret, which it does not tell.
    """

    assignment: Assignment
    key: str
    kit: Kit
    modules: Mapping[str, Files] = field(default_factory=dict)
    cold: bool = False

    def packed(self) -> bytes:
        """Return it as the few bytes that travel."""
        return zlib.compress(pickle.dumps(self))


@functools.lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Batch:
    batch: Batch = pickle.loads(zlib.decompress(packed))
    return batch


@functools.lru_cache(maxsize=1)
def _pace(packed: bytes) -> Pace:
    """Give the pace of a batch on this worker: another assignment has another."""
    return Pace()


def read_modules(folders: list[Path]) -> dict[str, dict[str, bytes]]:
    """Return the files of package folders, to be laid out again on a worker."""
    return {
        folder.name: {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix != ".pyc"
        }
        for folder in folders
    }


def unfit(kit: Mapping[str, Any]) -> list[str]:
    """Say in sentences why this worker must not grade, given the caller's kit; nothing if it may.

    The kit is plain data, since a worker may have another version of this module.
    """
    return [*Kit(**kit).differences(own_kit()), *map(str, missing_walls())]


@dataclass(frozen=True)
class Failed:
    """Why a submission could not be graded on a worker; ``unfit`` says that none can be there."""

    reason: str
    unfit: bool = False


def grade_there(packed_batch: bytes, work: bytes, hurry: bool) -> bytes:
    """Grade one submission of a packed batch on this worker; give a pickled Outcome or Failed.

    In a ``hurry`` it may be a PutOff. ``work`` are the pickled references, the submission, and what
    came of it before. All travels as plain bytes, errors too: Dask waits for ever for what it
    cannot pickle on one side or read on the other.
    """
    try:
        batch = _unpacked(packed_batch)
        references: Mapping[str, Reference]
        submission: Submission
        before: Shown | None
        references, submission, before = pickle.loads(work)
        came: Outcome | Failed | PutOff
        if flaws := unfit(asdict(batch.kit)):
            came = Failed(f"{socket.gethostname()}: {' '.join(flaws)}", unfit=True)
        else:
            modules = [_laid_out(name, _Files(files)) for name, files in batch.modules.items()]
            warm = None if batch.cold else imports_of(batch.assignment)
            sandbox = Sandbox(modules=modules, limits=batch.assignment.limits, warm=warm)
            runs = InTurn(sandbox, _pace(packed_batch)) if hurry else Unhurried(sandbox)
            came = grade(batch.assignment, references, submission, runs, batch.key, before)
        return pickle.dumps(came)
    except PutOff as put_off:
        return pickle.dumps(put_off)
    except Exception as error:
        return pickle.dumps(Failed(f"{socket.gethostname()}: {type(error).__name__}: {error}"))


class _Files:
    """Files that are equal when their contents are."""

    def __init__(self, files: Files) -> None:
        self.files = files
        whole = hashlib.sha256()
        for name in sorted(files):
            whole.update(f"{len(name)} {len(files[name])} {name}".encode() + files[name])
        self._digest = whole.digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and other._digest == self._digest


@functools.cache  # once for each version of a package, not once for each submission
def _laid_out(name: str, files: _Files) -> Path:
    """Write a package into a folder of this process's own, and return its path."""
    root = Path(tempfile.mkdtemp(prefix="grading-modules-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    folder = root / name
    for file, content in files.files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)
    for each in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        each.chmod(0o755)  # The sandbox's user is another one.
    return folder
