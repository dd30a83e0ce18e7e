"""The strict reading of what a sandbox writes into its one pipe.

A frame is four bytes, the length (big-endian), and as many bytes of JSON. The student's code may
write anything at all into the pipe, so nothing here raises for what it reads: the first frame
that the runner would not write ends the reading, and what came before stands.
"""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from grading.job import CellRun, CellState, Ending, Job, Limits, Message, Run
from grading.values import Malformed, Unsupported, Value, decode

MAX_FRAME = 12 << 20  # bytes; one value may hold 8 MiB of array, which is 11 MiB of base64
# Bytes of a frame outside its strings. They bound how many objects the JSON reader makes.
MAX_STRUCTURE = 1 << 20
MAX_MESSAGES = 10_000
KEPT_OF_A_CHECK = 2  # messages, where the job names its checks: enough to see that one is not all
MAX_OUTPUTS = 2_000  # of one cell
MAX_NAME = 300  # characters
MAX_MILLISECONDS = 10**9

_STATES: Mapping[str, CellState] = {"ok": "ok", "error": "error", "timed out": "timed out"}
_MIME_TYPES = frozenset({"text/plain", "image/png"})
_STRING = re.compile(rb'"[^"]*"')
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class FrameError(ValueError):
    """A frame that the runner would not write."""


def read_json(data: bytes) -> Any:
    """Read a frame's JSON in bounded memory; raises FrameError.

    Refused beside what JSON refuses: fractions (values travel as text), NaN, a key twice, half a
    character, and more structure than any honest frame has.
    """
    # Inside a string a backslash always begins a pair. Without the pairs that hide a quotation
    # mark, a string ends at the next one, which a plain pattern finds in linear time.
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if _SURROGATE.search(bare):
        raise FrameError("half a character")
    if len(_STRING.sub(b"", bare)) > MAX_STRUCTURE:
        raise FrameError("too many parts in one frame")
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    except FrameError:
        raise
    except (ValueError, RecursionError) as error:
        raise FrameError(f"not the JSON that was agreed on ({type(error).__name__})") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise FrameError("a key twice in one object")
    return content


def _refuse(text: str) -> NoReturn:
    raise FrameError("a number that is not whole")


class Reader:
    """Takes the pipe's bytes as they come and keeps what the frames say.

    ``started`` and ``finished`` tell whether the runner's first and last frame came; ``flaw`` is
    empty, or says what was wrong with the first frame that was refused.
    """

    def __init__(self, job: Job, limits: Limits) -> None:
        self.started = False
        self.finished = False
        self.flaw = ""
        self.current: str | None = None
        self._order = [cell.id for cell in job.cells]
        self._keep_outputs = job.outputs
        measured = ("milliseconds",) if job.disturb is not None else ()
        self._end_fields = ("cell", "state", *measured)
        self._checks = job.checks
        self._came: Counter[tuple[str, str]] = Counter()
        self._next = 0
        self._room = limits.pipe_bytes
        self._buffer = bytearray()
        self._messages: list[Message] = []
        self._states: dict[str, CellState] = {}
        self._seconds: dict[str, float] = {}
        # The text of a stream is kept in parts: many small ones must not be copied again and again.
        self._outputs: dict[str, list[dict[str, Any]]] = {cell: [] for cell in self._order}

    def feed(self, data: bytes) -> None:
        """Take the next bytes; after the last frame, or a flaw, they are ignored."""
        if self.finished or self.flaw:
            return
        self._room -= len(data)
        if self._room < 0:
            self.flaw = "more was written than one run may write"
            return
        self._buffer += data
        try:
            while not self.finished and (frame := self._take_frame()) is not None:
                self._read(frame)
        except FrameError as error:
            self.flaw = str(error)
            self._buffer.clear()

    def close(self) -> None:
        """Say that no more bytes will come; a frame that was begun is a flaw."""
        if self._buffer and not self.finished and not self.flaw:
            self.flaw = "the last frame was cut off"

    def run(self, ended: Ending, reason: str = "") -> Run:
        """Give what was read, with the cells that did not end marked by how the run ended."""
        cells: dict[str, CellRun] = {}
        for index, cell in enumerate(self._order):
            state: CellState = "not run"
            if cell in self._states:
                state = self._states[cell]
            elif index < self._next:
                state = "timed out" if ended == "timed out" else "error"
            outputs = tuple(
                {**output, "text": "".join(output["text"])} if "text" in output else output
                for output in self._outputs[cell]
            )
            cells[cell] = CellRun(state, outputs, self._seconds.get(cell, 0.0))
        return Run(tuple(self._messages), cells, ended, reason)

    def _take_frame(self) -> bytes | None:
        if len(self._buffer) < 4:
            return None
        (length,) = struct.unpack_from(">I", self._buffer)
        if not 2 <= length <= MAX_FRAME:
            raise FrameError("a frame of an impossible length")
        if len(self._buffer) < 4 + length:
            return None
        frame = bytes(self._buffer[4 : 4 + length])
        del self._buffer[: 4 + length]
        return frame

    def _read(self, frame: bytes) -> None:
        content = read_json(frame)
        kind = content.get("kind") if type(content) is dict else None
        if kind == "ready" and not self.started and content.keys() == {"kind"}:
            self.started = True
        elif not self.started:
            raise FrameError("a frame before the first one")
        elif kind == "cell":
            self._begin(content)
        elif kind == "check":
            self._keep_message(content)
        elif kind == "output":
            self._keep_output(content)
        elif kind == "done":
            self._end(content)
        elif kind == "end" and self.current is None and content.keys() == {"kind"}:
            if self._next != len(self._order):
                raise FrameError("the end before the last cell")
            self.finished = True
        else:
            raise FrameError("a frame of an unknown kind, or at the wrong place")

    def _begin(self, content: dict[str, Any]) -> None:
        (cell,) = _fields(content, "cell")
        if self.current is not None or [cell] != self._order[self._next : self._next + 1]:
            raise FrameError("a cell at the wrong place")
        self.current = cell
        self._next += 1

    def _end(self, content: dict[str, Any]) -> None:
        cell, state, *time = _fields(content, *self._end_fields)
        self._must_run(cell)
        if type(state) is not str or state not in _STATES:
            raise FrameError("a cell's end that does not exist")
        for milliseconds in time:
            if type(milliseconds) is not int or not 0 <= milliseconds <= MAX_MILLISECONDS:
                raise FrameError("a time that no cell takes")
            self._seconds[cell] = milliseconds / 1000
        self._states[cell] = _STATES[state]
        self.current = None

    def _keep_message(self, content: dict[str, Any]) -> None:
        cell, name, wire = _fields(content, "cell", "name", "value")
        self._must_run(cell)
        if self._came.total() == MAX_MESSAGES:
            raise FrameError("more messages than one run may send")
        pair = (cell, _text(name, MAX_NAME))
        self._came[pair] += 1
        if self._checks is None or (pair in self._checks and self._came[pair] <= KEPT_OF_A_CHECK):
            self._messages.append(Message(*pair, _value(wire)))

    def _keep_output(self, content: dict[str, Any]) -> None:
        cell, output = _fields(content, "cell", "output")
        self._must_run(cell)
        if not self._keep_outputs:
            return
        outputs = self._outputs[cell]
        checked = _output(output)
        if checked["output_type"] == "stream":
            if outputs and outputs[-1].get("name") == checked["name"]:
                outputs[-1]["text"].append(checked["text"])
                return
            checked = {**checked, "text": [checked["text"]]}
        if len(outputs) == MAX_OUTPUTS:
            raise FrameError("more outputs than one cell may have")
        outputs.append(checked)

    def _must_run(self, cell: object) -> None:
        if self.current is None or cell != self.current:
            raise FrameError("a frame for a cell that does not run")


def _fields(content: dict[str, Any], *names: str) -> tuple[Any, ...]:
    if content.keys() != {"kind", *names}:
        raise FrameError("a frame with the wrong fields")
    return tuple(content[name] for name in names)


def _text(content: object, longest: int = MAX_FRAME) -> str:
    if type(content) is not str or len(content) > longest:
        raise FrameError("something other than a text, or a longer one than may be")
    return content


def _value(wire: object) -> Value:
    try:
        return decode(wire)
    except Malformed:
        return Unsupported("a value that cannot be read")


def _output(output: object) -> dict[str, Any]:
    """Check one nbformat 4 output, of the few kinds that the runner sends."""
    if type(output) is not dict or type(output.get("output_type")) is not str:
        raise FrameError("an output that is no output")
    kind = output["output_type"]
    if kind == "stream" and output.keys() == {"output_type", "name", "text"}:
        if output["name"] not in ("stdout", "stderr"):
            raise FrameError("a stream with another name")
        _text(output["text"])
    elif kind == "error" and output.keys() == {"output_type", "ename", "evalue", "traceback"}:
        _text(output["ename"])
        _text(output["evalue"])
        if type(output["traceback"]) is not list:
            raise FrameError("a traceback that is no list")
        for line in output["traceback"]:
            _text(line)
    elif kind == "display_data" and output.keys() == {"output_type", "data", "metadata"}:
        _check_data(output)
    elif kind == "execute_result" and output.keys() == {
        "output_type",
        "data",
        "metadata",
        "execution_count",
    }:
        _check_data(output)
        count = output["execution_count"]
        if type(count) is not int or not 0 <= count <= 1_000_000:
            raise FrameError("a count that is no count")
    else:
        raise FrameError("an output of another kind, or with other fields")
    return output


def _check_data(output: dict[str, Any]) -> None:
    data = output["data"]
    if type(data) is not dict or not data.keys() <= _MIME_TYPES or output["metadata"] != {}:
        raise FrameError("an output with other data than text and pictures")
    for content in data.values():
        _text(content)
