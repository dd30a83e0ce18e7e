"""Checks for the exercises, and their grading.

A notebook says `from grading import check, seed`. Nothing heavy is imported here: a student's
kernel must not wait for nbgrader.
"""

from grading.check import check, seed

__all__ = ["check", "seed"]
