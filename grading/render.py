"""The autograded notebook, built anew: what a browser shows of a submission.

Nothing that a student wrote stays active. The instructor's cells are the released ones, never the
hidden text; the student's code is text; of outputs only text and pictures stay, and pictures are
drawn anew. Type, tags and metadata are the instructor's.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import nbformat

from grading.assignment import Cell
from grading.grade import CellGrade, NotebookGrade, Outcome, Status
from grading.job import CellRun
from grading.markdown import MAX_CHARACTERS, safe_html
from grading.plain import PICTURE_TYPES, clean, clean_source, one_line, picture
from grading.rebuild import RebuiltCell
from grading.release import KEPT_METADATA
from grading.tasks import places, tasks

Made = dict[str, Any]  # a cell or an output, in nbformat 4's form

NOTEBOOK_METADATA = ("kernelspec", "language_info")
MAX_CELL_TEXT = 100_000
MAX_NOTEBOOK_TEXT = 2_000_000
MAX_NOTEBOOK_MARKDOWN = 40_000
# Code is coloured by regular expressions that take some texts time by the square of their length.
MAX_CODE = 20_000
MAX_CODE_LINES = 1_000
MAX_CODE_LINE = 1_000
MAX_BLANK_LINES = 3
MAX_NOTEBOOK_CODE = 100_000
MAX_CELL_OUTPUTS = 100
MAX_NOTEBOOK_PICTURES = 20
MAX_NOTEBOOK_PICTURE_CHARACTERS = 12_000_000
NO_PICTURE = "[A picture is left out: it is damaged, too large or of another kind.]\n"
CUT = "\n[The rest is left out: too long.]"
CODE_CUT = "\n# [The rest is left out: too long.]"
LINE_CUT = "  # [The rest of this line is left out: too long.]"
ADDED = "<strong>Added by the student:</strong>"
TASK = "course_task"  # in a graded cell's metadata: its task, for the list on the feedback page
PRINTED = "── Printed while this cell ran ──"

# Stands for a notebook that cannot be shown at all.
NO_PAGE = json.dumps(
    {
        "cells": [
            {
                "id": "cell-0",
                "cell_type": "markdown",
                "metadata": {},
                "source": "The grader could not show your work. Your points stand; a person will "
                "look at it.",
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)


def render(graded: NotebookGrade, outcome: Outcome, checksums: Mapping[str, str]) -> str:
    """Return one autograded notebook as the text of its file.

    ``checksums`` are nbgrader's, of the released cells by grade_id.
    """
    instructors = {cell.id: cell for cell in graded.notebook.cells}
    budget = _Budget()
    task_of = tasks(graded.notebook, graded.rebuilt)
    links: dict[str, int] = {}  # where the cells stand that reasons speak of
    named = places(graded.notebook, graded.rebuilt)
    cells: list[Made] = [] if outcome.status is Status.GRADED else [{}]  # kept for the head
    number = 0
    for cell in graded.rebuilt.cells:
        original = instructors.get(cell.id) if cell.role != "carried" else None
        if original is None:
            # In front of it stands our word, so that it cannot pass for a page's head or a report.
            cells.append(_cell("markdown", ADDED))
            made = _students_cell(cell, budget)
        else:
            made = _instructors_cell(cell, original, graded, budget)
            if cell.id in checksums:
                made["metadata"]["nbgrader"]["checksum"] = checksums[cell.id]
            if cell.id in graded.cells and task_of[cell.id]:
                made["metadata"][TASK] = task_of[cell.id]
        if made["cell_type"] == "code":
            outputs = _outputs(cell.id, graded, budget)
            if original is None and outputs:
                outputs.insert(0, _stream(f"{PRINTED}\n"))
            made |= {"outputs": outputs, "execution_count": None}
            if _ran(graded, cell.id):
                number += 1
                made["execution_count"] = number
        if cell.id in named:
            links[named[cell.id]] = len(cells)
        cells.append(made)
    if cells and not cells[0]:
        cells[0] = _head(outcome, links)
    for index, made in enumerate(cells):
        made["id"] = f"cell-{index}"
    metadata = graded.notebook.metadata
    document = {
        "cells": cells,
        "metadata": {name: metadata[name] for name in NOTEBOOK_METADATA if name in metadata},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    nbformat.validate(document)
    return json.dumps(document, ensure_ascii=False) + "\n"  # indented it takes 20 times as long


class _Budget:
    """What one notebook may still hold, so that no submission makes a page nobody can open."""

    def __init__(self) -> None:
        self.text = MAX_NOTEBOOK_TEXT
        self.markdown = MAX_NOTEBOOK_MARKDOWN
        self.code = MAX_NOTEBOOK_CODE
        self.pictures = MAX_NOTEBOOK_PICTURES
        self.picture_characters = MAX_NOTEBOOK_PICTURE_CHARACTERS

    def cut(self, text: str, limit: int = MAX_CELL_TEXT) -> str:
        """Return as much of a text as there is room for."""
        limit = min(limit, self.text)
        self.text -= min(len(text), limit)
        return text if len(text) <= limit else text[:limit] + CUT

    def cut_code(self, source: str) -> str:
        """Return as much of a student's code as there is room for, without long empty stretches."""
        start = clean_source(source[: 2 * MAX_CODE])
        kept: list[str] = []
        blank = 0
        for line in start.split("\n"):
            shown = line.rstrip()
            blank = 0 if shown else blank + 1
            if blank <= MAX_BLANK_LINES:
                kept.append(
                    shown if len(shown) <= MAX_CODE_LINE else shown[:MAX_CODE_LINE] + LINE_CUT
                )
        text = "\n".join(kept[:MAX_CODE_LINES])
        limit = max(0, min(MAX_CODE, self.code))
        whole = len(source) <= 2 * MAX_CODE and len(kept) <= MAX_CODE_LINES and len(text) <= limit
        text = text if whole else text[:limit] + CODE_CUT
        self.code -= len(text)
        return text

    def picture(self, encoded: object) -> str | None:
        """Return a picture drawn anew, or None if it is none or there is no room."""
        if self.pictures <= 0:
            return None
        self.pictures -= 1
        data = picture(encoded)
        if data is None or len(data) > self.picture_characters:
            return None
        self.picture_characters -= len(data)
        return data


def _cell(cell_type: str, source: str, metadata: Mapping[str, Any] | None = None) -> Made:
    kept = {name: (metadata or {})[name] for name in KEPT_METADATA if name in (metadata or {})}
    return {"cell_type": cell_type, "metadata": copy.deepcopy(kept), "source": source}


def _head(outcome: Outcome, links: Mapping[str, int]) -> Made:
    """Return the cell that says why a person should look, or what was noticed.

    A place in a notebook that a reason begins with leads there.
    """
    title = {
        Status.ATTENTION: "A person will look at your work.",
        Status.WARNINGS: "Graded, and this was noticed:",
    }[outcome.status]
    reasons = "".join(f"<li>{_linked(one_line(each), links)}</li>" for each in outcome.reasons)
    if outcome.status is Status.ATTENTION:
        title += f" So far you have {outcome.score:g} of {outcome.max_score:g} points."
    text = f"<strong>{title}</strong><ul>{reasons}</ul>"
    text = text.replace("$", "&#36;").replace("\\", "&#92;")
    return _cell("markdown", f'<div class="tex2jax_ignore mathjax_ignore">{text}</div>')


def _linked(reason: str, links: Mapping[str, int]) -> str:
    for place, index in links.items():
        if reason.startswith((f"{place} ", f"{place},")):
            rest = escape(reason.removeprefix(place))
            return f'<a href="#cell-{index}">{escape(place)}</a>{rest}'
    return escape(reason)


def _instructors_cell(
    cell: RebuiltCell, original: Cell, graded: NotebookGrade, budget: _Budget
) -> Made:
    """Return one of the instructor's cells, with the student's text where that belongs."""
    students = cell.role in ("solution", "written") and cell.source != original.released
    if not students:
        # A picture that the cell does not bring along would stop nbconvert.
        source = original.released.replace("](attachment:", "](#missing-")
        return _cell(original.type, source, original.metadata)
    if original.type == "code":
        return _cell("code", budget.cut_code(cell.source), original.metadata)
    return _cell("markdown", _markdown(cell, budget), original.metadata)


def _students_cell(cell: RebuiltCell, budget: _Budget) -> Made:
    """Return a cell that the student added: code as text, anything else as harmless HTML."""
    if cell.type == "code":
        return _cell("code", budget.cut_code(cell.source))
    return _cell("markdown", _markdown(cell, budget))


def _markdown(cell: RebuiltCell, budget: _Budget) -> str:
    source = budget.cut(cell.source)
    budget.markdown -= len(source)
    if cell.type == "raw" or budget.markdown < 0 or len(source) > MAX_CHARACTERS:
        text = escape(clean_source(source)).replace("$", "&#36;").replace("\\", "&#92;")
        text = text.replace("\n", "&#10;")
        if cell.attachments:
            text += "&#10;[Pictures are left out: the text is too long.]"
        return f'<div class="tex2jax_ignore mathjax_ignore"><pre>{text}</pre></div>'
    pictures = {
        str(name): data
        for name, bundle in cell.attachments.items()
        if isinstance(bundle, Mapping) and (data := _drawn(bundle, budget)) is not None
    }
    return safe_html(source, pictures)


def _drawn(bundle: Mapping[Any, Any], budget: _Budget) -> str | None:
    """Return the first picture of a bundle {type: base64} that can be drawn anew."""
    drawn = (budget.picture(bundle[kind]) for kind in PICTURE_TYPES if kind in bundle)
    return next((data for data in drawn if data is not None), None)


# --- outputs ----------------------------------------------------------------------------------


def _ran(graded: NotebookGrade, cell_id: str) -> bool:
    run = graded.run.cells.get(cell_id) if graded.run is not None else None
    return run is not None and run.state != "not run"


def _outputs(cell_id: str, graded: NotebookGrade, budget: _Budget) -> list[Made]:
    """Return a cell's outputs; the grader's report on a test cell always comes first."""
    run = graded.run.cells.get(cell_id) if graded.run is not None else None
    shown = list(_shown(run, budget)) if run is not None else []
    grade = graded.cells.get(cell_id)
    if grade is None or not (grade.checks or grade.points is not None):
        return shown
    text = _report(grade, run)
    if shown:
        text += f"\n{PRINTED}\n"
    return [_stream(text), *shown]


def _report(grade: CellGrade, run: CellRun | None) -> str:
    """Say what each check came to. Nothing else that is shown can stand before this text."""
    lines = []
    for result in grade.checks:
        if not result.check.hidden:
            mark, colon = ("✓" if result.passed else "✗"), (": " if result.said else "")
            lines.append(f"{mark} {result.check.name}{colon}{one_line(result.said, 1000)}")
    hidden = [result for result in grade.checks if result.check.hidden]
    if hidden:
        passed = sum(result.passed for result in hidden)
        lines.append(f"Hidden checks: {passed} of {len(hidden)} passed.")
        lines += [f"✗ {one_line(result.said, 1000)}" for result in hidden if not result.passed]
    if run is None or run.state == "not run":
        lines.append("This cell was not run.")
    if grade.points is not None:
        unit = "point" if grade.max_points == 1 else "points"
        lines.append(f"{grade.points:g} of {grade.max_points:g} {unit}")
    return "\n".join(dict.fromkeys(lines)) + "\n"


def _shown(run: CellRun, budget: _Budget) -> Iterator[Made]:
    room = MAX_CELL_TEXT
    for index, output in enumerate(run.outputs):
        if index == MAX_CELL_OUTPUTS:
            yield _stream("[Further outputs are left out: too many.]\n")
            return
        made = _output(output, budget, room) if isinstance(output, Mapping) else []
        if not made:
            yield _stream("[An output is left out: only text and pictures are shown.]\n")
        for each in made:
            room -= len(str(each.get("text", ""))) + len(str(each.get("traceback", "")))
            yield each
        if room <= 0:
            yield _stream("[Further outputs are left out: too long.]\n")
            return


def _output(output: Mapping[str, Any], budget: _Budget, room: int) -> list[Made]:
    """Return one output built anew, or nothing if nothing of it can be shown."""
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        return [_stream(budget.cut(_text(output.get("text")), room), name)]
    if kind == "error":
        trace = output.get("traceback")
        lines = trace if isinstance(trace, list) else []
        text = budget.cut("\n".join(_text(line) for line in lines), room)
        made = {
            "output_type": "error",
            "ename": one_line(_text(output.get("ename"))),
            "evalue": one_line(_text(output.get("evalue"))),
            "traceback": text.split("\n"),
        }
        return [made]
    if kind in ("display_data", "execute_result"):
        return _display(output.get("data"), budget, room)
    return []


def _display(data: object, budget: _Budget, room: int) -> list[Made]:
    """Return a picture, else a note that it is missing and the text that stands for the object."""
    if not isinstance(data, Mapping):
        return []
    drawn = _drawn(data, budget)
    if drawn is not None:
        return [_display_of("image/png", drawn, {"alt": "A picture that this cell made."})]
    text = _text(data.get("text/plain"))
    note = [_stream(NO_PICTURE)] if any(kind in data for kind in PICTURE_TYPES) else []
    return note + ([_display_of("text/plain", budget.cut(text, room), {})] if text else [])


def _display_of(kind: str, content: str, metadata: Mapping[str, str]) -> Made:
    return {"output_type": "display_data", "data": {kind: content}, "metadata": dict(metadata)}


def _stream(text: str, name: str = "stdout") -> Made:
    return {"output_type": "stream", "name": name, "text": text}


def _text(content: object) -> str:
    """Return text that a student chose, clean; a list of texts is joined, as nbformat does."""
    if isinstance(content, list):
        content = "".join(part for part in content if isinstance(part, str))
    return clean(content[: 4 * MAX_CELL_TEXT]) if isinstance(content, str) else ""
