"""The sandbox that an assignment's settings ask for."""

from __future__ import annotations

from grading.assignment import Assignment
from grading.course import Course
from grading.imports import imports_of
from grading.sandbox import Sandbox


def sandbox_for(course: Course, assignment: Assignment) -> Sandbox:
    """Return a sandbox with the assignment's modules and limits, warm for what it imports.

    Raises:
        SandboxError: The machine lacks a wall.
    """
    modules = [course.root / module for module in assignment.modules]
    return Sandbox(modules=modules, limits=assignment.limits, warm=imports_of(assignment))
