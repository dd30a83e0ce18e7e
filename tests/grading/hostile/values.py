"""For marks: values that only look right, and values found where they should not be."""

from __future__ import annotations

from textwrap import dedent

from benchmarks.students import answer, answer_ids
from grading.grade import Status
from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack, names_in


def always(work: Work, value: str) -> None:
    """Make everything that an answer should define give ``value``, called or as it is."""
    code = dedent(f"""
        import torch
        VALUE = {value}
        def give(*inputs, **options): return VALUE
        globals().update({{name: give if called else VALUE for name, called in NAMES.items()}})
    """)
    for grade_id in answer_ids():
        answer(work.notebook, grade_id, f"NAMES = {names_in(grade_id)!r}\n{code}")


@submission()
def gives_nan(work: Work) -> None:
    """NaN, which is as near to every number as to none: nothing."""
    always(work, "torch.tensor(float('nan'))")


@submission()
def gives_nothing_at_all(work: Work) -> None:
    """An empty tensor, all of whose elements are right: nothing."""
    always(work, "torch.empty(0)")


@submission()
def gives_infinity(work: Work) -> None:
    """Infinity, within any relative tolerance of itself: nothing."""
    always(work, "float('inf')")


@submission()
def gives_true(work: Work) -> None:
    """True, which Python takes for 1: nothing."""
    always(work, "True")


@submission()
def gives_complex_numbers(work: Work) -> None:
    """A complex number that fits every shape by broadcasting: nothing."""
    always(work, "torch.ones(1, 1, 1, 1, dtype=torch.complex64)")


@submission()
def lies_about_its_numbers(work: Work) -> None:
    """A tensor that answers every question of torch's and numpy's with yes: nothing."""
    always(
        work,
        "type('Yes', (torch.Tensor,), {"
        "'__torch_function__': classmethod(lambda *_, **__: True), "
        "'__array__': lambda self, *_, **__: self, 'shape': (), 'dtype': torch.float32})()",
    )


@submission()
def walks_to_what_is_expected(work: Work) -> None:
    """Looks through frames and all objects for an expected value, and answers with it: nothing."""
    code = dedent("""
        import gc, json, sys
        from pathlib import Path

        def found(*inputs, **options):
            places, frame = [], sys._getframe()
            while frame:
                places.append(frame.f_locals)
                frame = frame.f_back
            places += [thing for thing in gc.get_objects() if type(thing) is dict]
            for place in places:
                for key in ("expected", "right", "reference", "solution", "answer"):
                    try:
                        if key in place:
                            return place[key]
                    except Exception:
                        pass
            for path in Path("/").glob("**/checks.json"):
                return json.loads(path.read_text())

        globals().update({name: found if called else found() for name, called in NAMES.items()})
    """)
    for grade_id in answer_ids():
        answer(work.notebook, grade_id, f"NAMES = {names_in(grade_id)!r}\n{code}")


@submission()
def guesses_in_floods(work: Work) -> None:
    """Reports a million guesses under a few names: all but the first hundreds are left out."""
    attack(
        work,
        """
        from grading import check
        for guess in range(1_000_000):
            check(f"guess {guess % 7}", guess)
        """,
    )


@submission(status=Status.ATTENTION)
def guesses_past_the_runner(work: Work) -> None:
    """Takes the channel itself for as many: the reading ends there, and nothing."""
    attack(
        work,
        """
        import sys
        channel = sys.modules["grading.check"]._Grading.send.__self__
        for guess in range(1_000_000):
            channel.send("check", cell=channel._cell, name="head width", value=guess)
        """,
    )


@submission()
def reports_at_exit(work: Work) -> None:
    """Leaves handlers and a child behind that report once the notebook has ended: nothing."""
    attack(
        work,
        """
        import atexit, os, time
        from grading import check

        def late():
            for name in ("head width", "weights", "output"):
                check(name, 64)

        atexit.register(late)
        if os.fork() == 0:
            time.sleep(2)
            late()
            os._exit(0)
        """,
    )
