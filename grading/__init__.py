"""Checks for the exercises, and their grading.

A test cell says `from grading import check, pick, seed`, a demo cell `from grading import demo`.
Nothing heavy is imported here: a student's kernel must not wait for nbgrader.
"""

from grading.check import check, pick, seed
from grading.demo import demo

__all__ = ["check", "demo", "pick", "seed"]
