"""What is said about a student's notebook, with all of one kind in one sentence."""

from __future__ import annotations

from dataclasses import dataclass

MOST_NAMED = 5


@dataclass(frozen=True)
class Kind:
    """A kind of sentence, spoken to the student.

    ``one`` is for one thing, which stands where it says ``{it}``; ``many`` for several, of which
    it says the ``{count}`` and some of ``{them}``. What is ``grave`` calls for a person.
    """

    one: str
    many: str = ""
    grave: bool = False


class Remarks:
    """Remarks as they are found, each thing once.

    >>> moved = Kind("The cell {it} was moved.", "{count} cells were moved: {them}.")
    >>> remarks = Remarks()
    >>> for name in ("'a'", "'b'", "'a'"):
    ...     remarks.add(moved, name)
    >>> remarks.warnings
    ("2 cells were moved: 'a', 'b'.",)
    """

    def __init__(self) -> None:
        self._said: dict[Kind, dict[str, dict[str, object]]] = {}

    def add(self, kind: Kind, it: str = "", **facts: object) -> None:
        """Remark on one thing. ``facts`` fill what else the sentence for one thing leaves open."""
        self._said.setdefault(kind, {}).setdefault(it, facts)

    def holds(self, kind: Kind, it: str) -> bool:
        """Tell whether this was remarked of this thing."""
        return it in self._said.get(kind, {})

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is told to the student alone."""
        return self._sentences(grave=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """What calls for a person."""
        return self._sentences(grave=True)

    def _sentences(self, *, grave: bool) -> tuple[str, ...]:
        return tuple(_sentence(kind, of) for kind, of in self._said.items() if kind.grave == grave)


def _sentence(kind: Kind, things: dict[str, dict[str, object]]) -> str:
    if len(things) == 1:
        ((it, facts),) = things.items()
        return kind.one.format(it=it, **facts)
    them = ", ".join([*things][:MOST_NAMED]) + (", ..." if len(things) > MOST_NAMED else "")
    return kind.many.format(count=f"{len(things):,}", them=them)
