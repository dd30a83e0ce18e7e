"""What an exercise calls: `check(name, value_or_callable)`, `seed(name)`, `pick(name, options)`.

In a student's Jupyter `check` says at once whether the value is right. While a submission is graded
it only sends the value out of the sandbox and compares nothing: there is nothing in here that
could be talked into giving marks.
"""

import difflib
import hashlib
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from grading.checks_file import FILE_NAME, Checks, DamagedChecks, read
from grading.expected import judge
from grading.values import Raised, decode, encode
from grading.variants import ID_FILE, draw, own_id

_LIBRARIES = sysconfig.get_path("purelib")

Option = TypeVar("Option")


class CheckFailed(AssertionError):
    """A check that did not pass. Its text says which one, what differs, and a hint."""

    def _render_traceback_(self) -> list[str]:
        """Keep Jupyter's output short: the student's own error, if any, and the message."""
        if self.__cause__ is None:
            return [f"CheckFailed: {self}"]
        error = traceback.TracebackException.from_exception(self.__cause__, limit=-15)
        # The call in this file is no line of the student's, and neither are those inside PyTorch.
        lines = [
            frame
            for frame in error.stack
            if frame.filename != __file__ and not frame.filename.startswith(_LIBRARIES)
        ]
        error.stack = traceback.StackSummary.from_list(lines)
        return [*"".join(error.format()).splitlines(), "", f"CheckFailed: {self}"]


class CellTimeout(BaseException):
    """The runner raises it in a cell that takes too long; nothing in here may catch it."""


class _Grading:
    """Where values go while a submission is graded; `send` is None in a student's Jupyter."""

    send: Callable[[str, Any], None] | None = None
    key = ""
    draws: Mapping[str, int] = {}


def check(name: str, value_or_callable: object, *arguments: object) -> None:
    """Say whether a value is right; a callable is called with the arguments and gives the value.

    Prints a line if it is right, and raises `CheckFailed` otherwise; the line begins with ✓, or
    with • where only the value's form was looked at. While a submission is graded it prints
    nothing, raises nothing, and only sends the value to the grader.
    """
    if _Grading.send is None:
        _check_here(name, value_or_callable, arguments)
    else:
        _send(_Grading.send, name, value_or_callable, arguments)


def seed(name: str) -> int:
    """Give a check's own seed for its random inputs: a whole number of 63 bits.

    It follows from the name, the same on every machine; inputs then depend neither on what ran
    before nor on the order of cells. Hidden checks get other numbers, which nobody can foretell.

    >>> seed("split_heads")
    1429457165354435189
    """
    if type(name) is not str:
        raise TypeError(f"seed() takes a check's name, a text like 'split_heads', not {name!r}")
    text = f"{_Grading.key}\0{name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def pick(name: str, options: Sequence[Option]) -> Option:
    """Give the student's own of several options, so that neighbours get different numbers.

    Where the exercise has variants it follows from the student's id, and a line says whose; else
    everybody gets the first. Name and options must be written out, since the grader reads them.
    """
    if _Grading.send is not None:
        drawn = _Grading.draws.get(name, 0)
        return options[drawn if drawn < len(options) else 0]
    checks = _read_checks()
    if not checks.picks:
        return options[0]
    if name not in checks.picks or len(options) != len(checks.picks[name]):
        raise CheckFailed(
            f"{FILE_NAME} knows no pick {name!r} of {len(options)} options. Put the cell back as "
            "it was in the exercise, or get the exercise again."
        )
    own = own_id(Path.cwd())
    if own.id:
        print(f"Drawn for the student {own.id!r} ({own.place}).")
    else:
        print(
            f"Nobody's id is known: {own.place}. So this is the first option, which may not be "
            f"yours. Write your id into {ID_FILE}, and run all cells again."
        )
    return options[_own_draw(checks, name)]


def start_grading(
    send: Callable[[str, Any], None], key: str, draws: Mapping[str, int] | None = None
) -> None:
    """Make `check` send (name, wire) from now on, `seed` use the key, and `pick` give what was
    drawn outside; the runner calls it.
    """
    _Grading.send = send
    _Grading.key = key
    _Grading.draws = draws or {}


def is_grading() -> bool:
    """Tell whether a submission is being graded here, and this is no student's Jupyter."""
    return _Grading.send is not None


def _send(
    send: Callable[[str, Any], None], name: str, value: object, arguments: tuple[object, ...]
) -> None:
    if type(name) is not str:
        return  # no test cell has such a check
    try:
        if callable(value):
            value = value(*arguments)
    except (KeyboardInterrupt, CellTimeout):
        raise
    except BaseException as error:  # exit() in a student's function costs this check only
        value = Raised.from_exception(error)
    # A message that does not arrive counts as wrong outside; the cell's other checks go on.
    try:
        send(name, encode(value))
    except Exception:
        return


def _check_here(name: str, value: object, arguments: tuple[object, ...]) -> None:
    entry = _find_entry(name)
    error: Exception | None = None
    if callable(value):
        try:
            value = value(*arguments)
        except Exception as raised:
            error = raised
            value = _first_line(Raised.from_exception(raised))
    try:
        verdict = judge(decode(encode(value)), entry)
    except DamagedChecks as damage:
        raise CheckFailed(_damaged(damage)) from None
    if type(error) is NotImplementedError:
        raise CheckFailed(f"{name}: {_not_written(error)}") from None
    if type(error) is NameError:
        raise CheckFailed(f"{name}: {verdict.message}{_where_is(error)}") from error
    if not verdict.passed:
        says = f"\n{verdict.says}" if verdict.says else ""
        hint = f"{says}\nHint: {entry['hint']}" if entry["hint"] else says
        raise CheckFailed(f"{name}: {verdict.message}{hint}") from error
    if verdict.form_only:
        print(
            f"• {name}: {entry['form']}, as it should be. "
            "Whether it is right is checked when it is graded."
        )
    else:
        print(f"✓ {name}: right.")


def _first_line(raised: Raised) -> Raised:
    """Leave out what the traceback above the message shows anyway."""
    first, *more = raised.message.strip().splitlines() or [""]
    return Raised(raised.kind, f"{first} ..." if more else first)


def _not_written(error: NotImplementedError) -> str:
    """Say where there is no answer yet: a hint would come too early."""
    place = list(traceback.walk_tb(error.__traceback__))[-1][0].f_code.co_name
    return (
        f"This is not written yet: {place} raises NotImplementedError. "
        "Put your code in the place of that line, run its cell, and then this one."
    )


def _where_is(error: NameError) -> str:
    """Say how a name comes to be there."""
    place = list(traceback.walk_tb(error.__traceback__))[-1][0]
    name = error.name or ""
    if "self" in place.f_locals and hasattr(place.f_locals["self"], name):
        return f". Did you mean self.{name}?"
    near = difflib.get_close_matches(name, place.f_globals, n=1, cutoff=0.85)
    guess = f" Did you mean {near[0]}?" if near else ""
    return (
        f".{guess}\nRun the cell above that defines it, once it is written. "
        "After a restart of the kernel, run all cells from the top."
    )


def _find_entry(name: str) -> Any:
    if type(name) is not str:
        raise CheckFailed(
            "check() takes the check's name first, a text like 'split_heads', then your value. "
            "Put the test cell back as it was in the exercise."
        )
    checks = _read_checks()
    if name in checks.checks:
        entry = checks.checks[name]
        if entry["kind"] == "drawn":
            return entry["entries"][_own_draw(checks, entry["pick"])]
        return entry
    close = difflib.get_close_matches(name, checks.checks, n=1)
    guess = f" Did you mean {close[0]!r}?" if close else ""
    raise CheckFailed(
        f"There is no check with the name {name!r} in {FILE_NAME}.{guess} "
        "Put the test cell back as it was in the exercise, or get the exercise again."
    )


def _own_draw(checks: Checks, name: str) -> int:
    """Draw a pick's option for whoever works here; the first where no id is known."""
    own = own_id(Path.cwd())
    return draw(own.id, checks.assignment, name, len(checks.picks[name])) if own.id else 0


def _read_checks() -> Checks:
    folder = Path.cwd()
    try:
        return read(folder / FILE_NAME)
    except FileNotFoundError:
        raise CheckFailed(
            f"There is no {FILE_NAME} in {folder}. It comes with the exercise and must lie beside "
            "the notebook. Open the notebook in the exercise's own folder, or get the exercise "
            "again."
        ) from None
    except DamagedChecks as damage:
        raise CheckFailed(_damaged(damage)) from None


def _damaged(damage: DamagedChecks) -> str:
    return (
        f"{FILE_NAME} is damaged: {damage}. Your work is fine. Get the exercise again and put its "
        f"{FILE_NAME} beside your notebook."
    )
