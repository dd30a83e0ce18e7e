"""Checks for the exercises, and their grading.

A notebook says `from grading import check, pick, seed`. Nothing heavy is imported here: a student's
kernel must not wait for nbgrader.
"""

from grading.check import check, pick, seed

__all__ = ["check", "pick", "seed"]
