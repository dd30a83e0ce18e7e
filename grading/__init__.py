"""Checks for the exercises, and their grading.

A test cell says `from grading import check, pick, seed`, a demo cell `from grading import demo`.
Nothing heavy is imported here: a student's kernel must not wait for nbgrader.
"""

import contextlib
import sys

from grading.check import check, pick, seed
from grading.demo import demo

if "IPython" in sys.modules:  # Perhaps a student's Jupyter.
    with contextlib.suppress(ImportError):  # The sandbox does not hold it.
        from grading.notice import watch

        watch()

__all__ = ["check", "demo", "pick", "seed"]
