"""Texts are parsed whole in many threads, whatever the garbage collector runs meanwhile."""

from __future__ import annotations

import gc
import inspect
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from grading import lint_cells
from grading.parsing import parse_python

TEXT = inspect.getsource(lint_cells)


@pytest.fixture
def switching() -> Iterator[None]:
    """Let another thread in wherever the collector runs, as any Python finalizer may."""

    def let_in(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-5)
    gc.set_threshold(200)
    gc.callbacks.append(let_in)
    yield
    gc.callbacks.remove(let_in)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching")
def test_threads_do_not_spoil_each_others_trees() -> None:
    with ThreadPoolExecutor(6) as pool:
        sizes = {len(tree.body) for tree in pool.map(parse_python, [TEXT] * 200)}
    assert sizes == {len(parse_python(TEXT).body)}
