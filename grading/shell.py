"""IPython's shell as the runner uses it inside the sandbox: what a cell shows becomes outputs.

Like all that runs inside, it only has to be right for honest notebooks; nobody trusts it.
"""

import ast
import base64
import contextlib
import io
import itertools
import linecache
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from IPython.core.compilerop import CachingCompiler
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

FLUSH_SECONDS = 0.2
FLUSH_CHARACTERS = 1 << 14
MAX_OUTPUTS = 1000  # of one cell
MAX_FRAMES = 12  # of one traceback
MAX_ERROR_CHARACTERS = 20_000
# Where a sandbox has this package and the installed ones; without a sandbox it is another place.
_INSIDE = f"{Path(__file__).parents[1]}/"
_PACKAGES = f"{Path(__file__).parents[2] / 'packages'}/"


class Outputs:
    """What the running cell shows, as nbformat 4 outputs, cut at a number of bytes.

    Printed text waits a little, so that it goes in larger pieces.
    """

    def __init__(self) -> None:
        self._send: Callable[[dict[str, Any]], None] = lambda output: None
        self._whole_room = 0
        self._lock = threading.RLock()
        self._waiting: list[str] = []
        self._characters = 0
        self._stream = "stdout"
        self._last_flush = 0.0
        self.begin()

    def connect(self, send: Callable[[dict[str, Any]], None], room: int) -> None:
        """Say who takes each output, and how many bytes of a cell's outputs."""
        self._send = send
        self._whole_room = room
        self.begin()

    def begin(self) -> None:
        """Start anew with a cell."""
        self.had_error = False
        self._room = self._whole_room
        self._count = 0

    def write(self, stream: str, text: str) -> None:
        """Take printed text, which keeps its place among all other outputs."""
        with self._lock:
            if stream != self._stream:
                self.flush()
                self._stream = stream
            self._waiting.append(text[: self._room + 1])
            self._characters += len(self._waiting[-1])
            late = time.monotonic() - self._last_flush > FLUSH_SECONDS
            if late or self._characters > FLUSH_CHARACTERS:
                self.flush()

    def flush(self) -> None:
        """Send the text that waits."""
        with self._lock:
            text = "".join(self._waiting)
            self._waiting.clear()
            self._characters = 0
            self._last_flush = time.monotonic()
            if text:
                self._put({"output_type": "stream", "name": self._stream, "text": text})

    def show(self, data: Mapping[str, Any], count: int | None = None) -> None:
        """Take what a cell displays; with a count it is the cell's result."""
        shown = {kind: data[kind] for kind in ("text/plain", "image/png") if kind in data}
        if isinstance(picture := shown.get("image/png"), bytes):
            shown["image/png"] = base64.b64encode(picture).decode()
        if not shown:
            return
        output: dict[str, Any] = {"output_type": "display_data", "data": shown, "metadata": {}}
        if count is not None:
            output |= {"output_type": "execute_result", "execution_count": count}
        self.flush()
        self._put(output)

    def error(self, name: str, message: str, lines: list[str]) -> None:
        """Take an exception; it is shown even where the other outputs were cut."""
        self.flush()
        self.had_error = True
        self._send({"output_type": "error", "ename": name, "evalue": message, "traceback": lines})

    def _put(self, output: dict[str, Any]) -> None:
        with self._lock:
            if self._room <= 0:
                return
            size = _size(output)
            if size <= self._room and self._count < MAX_OUTPUTS:
                self._room -= size
                self._count += 1
                self._send(output)
                return
            if output["output_type"] == "stream":
                part = output["text"].encode("utf-8", "replace")[: self._room]
                self._send({**output, "text": part.decode("utf-8", "ignore")})
            self._room = 0
            note = f"\n[Cut here: a cell may show {self._whole_room:,} bytes.]\n"
            self._send({"output_type": "stream", "name": "stderr", "text": note})


def _size(output: Any) -> int:
    if isinstance(output, str):
        return len(output.encode("utf-8", "replace"))
    return sum(map(_size, output.values())) if isinstance(output, Mapping) else 0


class Stream(io.TextIOBase):
    """Standard output or standard error of the cells."""

    def __init__(self, outputs: Outputs, name: str) -> None:
        self._outputs = outputs
        self._name = name

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Name the encoding, which some programs ask for."""
        return "utf-8"

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, text: str) -> int:
        """Hand the text on."""
        if not isinstance(text, str):
            raise TypeError(f"write() takes text, not {type(text).__name__}")
        self._outputs.write(self._name, text.replace("\r\n", "\n"))  # as a terminal prints `!ls`
        return len(text)

    def flush(self) -> None:
        """Send what waits."""
        self._outputs.flush()


class _Publisher(DisplayPublisher):
    def publish(self, data: Any, *_: Any, **__: Any) -> None:
        self.shell.outputs.show(data)

    def clear_output(self, wait: bool = False) -> None:
        """Leave what was shown: it is with the grader already."""


class _ResultHook(DisplayHook):
    def write_output_prompt(self) -> None:
        """Write none: the result carries its number."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        self.shell.outputs.show(format_dict, self.prompt_count)  # type: ignore[union-attr]

    def finish_displayhook(self) -> None:
        """Write no newline after a result."""


class _Compiler(CachingCompiler):
    """Names a cell's code as people are told of the cell; tracebacks and warnings show that."""

    cell_name = ""
    _parsed: tuple[tuple[Any, ...], ast.Module] | None = None

    def get_code_name(self, *_: Any) -> str:
        return self.cell_name

    def ast_parse(self, source: str, filename: str = "<unknown>", symbol: str = "exec") -> Any:
        """Parse a cell, but for one that `is_python` has just parsed."""
        parsed, self._parsed = self._parsed, None
        if parsed is not None and parsed[0] == (source, filename, symbol, self.flags):
            return parsed[1]
        return super().ast_parse(source, filename, symbol)

    def is_python(self, source: str) -> bool:
        """Say whether a cell is plain Python; what came of finding out is kept for its run."""
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            key = (source, self.cell_name, "exec", self.flags)
            self._parsed = key, self.ast_parse(source, self.cell_name)
            return True
        return False


class Shell(InteractiveShell):
    """The shell as a kernel has it, without a history, files, or a person who answers."""

    compiler_class = Type(_Compiler)
    display_pub_class = Type(_Publisher)
    displayhook_class = Type(_ResultHook)
    # Set while an exception is described: a cell's time must not end in the middle of that.
    reporting = False

    def __init__(self, outputs: Outputs, **settings: Any) -> None:
        self.outputs = outputs
        config = Config()
        config.HistoryManager.enabled = False
        super().__init__(config=config, **settings)  # type: ignore[no-untyped-call]
        self._usual = self._transforms()

    def run(self, name: str, source: str) -> bool:
        """Run one cell; say whether it ended without an exception."""
        self.compile.cell_name = name  # type: ignore[attr-defined]
        result = self.run_cell(source, store_history=True)  # type: ignore[no-untyped-call]
        return bool(result.success)

    def transform_cell(self, raw_cell: str) -> str:
        """Leave plain Python as it is; IPython would look for its magics token by token.

        It would change nothing in several lines, but for blank beginnings and for prompts, unless a
        cell has set transforms of its own. One line alone may be a magic without its sign.
        """
        lines = raw_cell.splitlines()
        prompts = any(line.lstrip().startswith((">>>", "...", "In [")) for line in lines)
        # Where Python warns of an escape in a text, it would do so once more here.
        plain = raw_cell[:1].strip() and not prompts and "\\" not in raw_cell and len(lines) > 1
        if plain and self._transforms() == self._usual:
            cell = raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
            if self.compile.is_python(cell):  # type: ignore[attr-defined]
                return cell
        return str(super().transform_cell(raw_cell))  # type: ignore[no-untyped-call]

    def should_run_async(self, raw_cell: str, **more: Any) -> bool:
        """Say whether a cell awaits something at its top; most are not even compiled for that."""
        if "await" not in raw_cell and "async" not in raw_cell:
            return False
        return bool(super().should_run_async(raw_cell, **more))

    def _transforms(self) -> list[list[Any]]:
        """Give all that changes a cell's text."""
        manager = self.input_transformer_manager
        places = (manager.cleanup_transforms, manager.line_transforms, manager.token_transformers)
        return [list(each) for each in (*places, self.input_transformers_post)]

    def showtraceback(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        """Send an exception as an error output."""
        error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
        if error is not None:
            sys.last_type, sys.last_value = type(error), error  # for `%tb`, as in Jupyter
            sys.last_traceback = error.__traceback__
            self.reporting = True
            try:
                self.outputs.error(*describe(error))
            finally:
                self.reporting = False

    def showsyntaxerror(self, *_: Any, **__: Any) -> None:
        """Send a syntax error like any other."""
        self.showtraceback()

    def _format_exception_for_storage(self, *_: Any, **__: Any) -> list[str]:
        """Keep no second account of an exception: IPython's takes longer than most notebooks."""
        return []

    def enable_gui(self, gui: str | None = None) -> None:
        """Do nothing: `%matplotlib inline` asks for no window, and there is none."""

    def ask_exit(self) -> None:
        """Make exit() and quit() an error of their cell."""
        raise SystemExit("exit() and quit() do not end a graded notebook")


class _Frames(traceback.StackSummary):
    """The lines of a traceback that help a student, with no path of the sandbox."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary) -> str:
        place = frame_summary.filename
        if place.startswith(_PACKAGES):
            place = place.removeprefix(_PACKAGES).partition("/")[2]
        where = f"  {place}, line {frame_summary.lineno}, in {frame_summary.name}\n"
        return f"{where}    {frame_summary.line}\n" if frame_summary.line else where


def describe(error: BaseException) -> tuple[str, str, list[str]]:
    """Give an exception's name, its message, and the lines of a short traceback.

    Never raises an `Exception`, whatever the exception's own methods do.
    """
    name = type(error).__name__
    try:
        message = str(error)
        linecache.checkcache()
        report = traceback.TracebackException.from_exception(error, compact=True)
        for part in _parts(report):
            part.stack = _shorten(part.stack)
        text = "".join(report.format())
    except Exception:
        message = "(its message cannot be read)"
        text = f"{name}: {message}"
    return name[:200], message[:MAX_ERROR_CHARACTERS], text[-MAX_ERROR_CHARACTERS:].splitlines()


def _parts(
    report: traceback.TracebackException | None,
) -> Iterator[traceback.TracebackException]:
    """Give an exception's report and those of all that it came from."""
    while report is not None:
        yield report
        for member in report.exceptions or ():
            yield from _parts(member)
        report = report.__cause__ or report.__context__


def _shorten(stack: traceback.StackSummary) -> _Frames:
    """Leave out what lies below the cell and inside `check`, and the middle of a long rest."""
    # What runs a cell lies in files; a cell's name is no path.
    frames = itertools.dropwhile(lambda frame: frame.filename.startswith("/"), stack)
    kept = [frame for frame in frames if not frame.filename.startswith(_INSIDE)]
    if len(kept) > MAX_FRAMES:
        kept = [*kept[: MAX_FRAMES // 2], *kept[-MAX_FRAMES // 2 :]]
    return _Frames(kept)
