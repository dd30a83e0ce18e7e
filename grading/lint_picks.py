"""Rules on the calls of pick, each broken one a sentence; they are read with the assignment.

The grader and a student's Jupyter must draw the same, each by itself: so all that is drawn from
stands in the text, and in cells that no student writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grading.check_calls import other_uses
from grading.matching import is_open_code
from grading.notebook import Cell, Notebook
from grading.parsing import parse_python
from grading.pick_calls import PickCall, find_picks, imports_pick

# To release it, the solution is run with each of them.
MOST_OPTIONS = 24
OUT_OF_REACH = "so the grader could not draw for it; write both out: pick('name', [1, 2])"


def read_picks(notebooks: Sequence[Notebook], flaws: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the options of each pick of an assignment, as written; flaws are added."""
    picks: dict[str, tuple[str, ...]] = {}
    places: dict[str, str] = {}
    shown: set[str] = set()
    for notebook in notebooks:
        if not any(_imports(cell) for cell in notebook.cells):
            continue
        for cell in notebook.cells:
            place = f"{notebook.id}.ipynb, cell {cell.id!r}"
            if cell.role in ("given", "test"):
                flaws += [f"{place}: {flaw}" for flaw in _other_uses(cell)]
            for call in _calls(cell, place, flaws):
                where = f"{place}, line {call.line}"
                flaws += [f"{where}: {flaw}" for flaw in _call_flaws(call, cell)]
                if call.name is None or call.options is None:
                    continue
                first = picks.setdefault(call.name, call.options)
                if first != call.options:
                    flaws.append(
                        f"{where}: pick {call.name!r} stands in {places[call.name]} with other "
                        "options; choose another name, or give it the same"
                    )
                places.setdefault(call.name, where)
            shown |= {call.name for call in _calls(cell, place, [], released=True) if call.name}
    flaws += _flaws_of_all(picks, places, shown)
    return picks


def _imports(cell: Cell) -> bool:
    try:
        return cell.type == "code" and imports_pick(cell.solution)
    except (SyntaxError, ValueError):
        return "pick" in cell.solution


def _calls(cell: Cell, place: str, flaws: list[str], *, released: bool = False) -> list[PickCall]:
    source = cell.released if released else cell.solution
    if cell.type != "code" or "pick" not in source:
        return []
    try:
        return find_picks(source)
    except (SyntaxError, ValueError) as error:
        if not released:
            flaws.append(
                f"{place}: it speaks of pick and is not plain Python ({error}); keep magics in "
                "another cell"
            )
        return []


def _other_uses(cell: Cell) -> list[str]:
    try:
        return [*other_uses(parse_python(cell.solution), "pick")] if cell.type == "code" else []
    except (SyntaxError, ValueError):
        return []  # With a magic, which is told elsewhere if it speaks of pick.


def _call_flaws(call: PickCall, cell: Cell) -> Iterator[str]:
    if cell.role in ("solution", "written") or is_open_code(cell):
        yield (
            "it calls pick in a cell that students write in; move the call into a locked cell or "
            "a test cell"
        )
    if call.name is None:
        yield f"pick's first argument is no literal text, {OUT_OF_REACH}"
    if call.options is None:
        yield f"pick's second argument is no list of literals, {OUT_OF_REACH}"
    elif len(call.options) < 2:
        yield "pick has fewer than two options, so nothing is drawn; give it two or more"
    elif len(set(call.options)) < len(call.options):
        twice = next(one for one in call.options if call.options.count(one) > 1)
        yield f"pick has the option {twice} twice; let each differ"


def _flaws_of_all(
    picks: Mapping[str, Sequence[str]], places: Mapping[str, str], shown: set[str]
) -> Iterator[str]:
    for name in picks:
        if name not in shown:
            yield (
                f"{places[name]}: pick {name!r} stands in hidden tests alone, so no student learns "
                "what was drawn; take it from seed(...), or pick it in what is released as well"
            )
    count = sum(map(len, picks.values()))
    if count > MOST_OPTIONS:
        yield (
            f"its picks have {count} options in all, and the solution would run with each; give "
            f"at most {MOST_OPTIONS}"
        )
