"""What lies under submitted/ where nothing is looked for, so that nobody's work is overlooked."""

from __future__ import annotations

import os
import stat

from grading.course import Course
from grading.plain import printable
from grading.submission import MAX_NAMES, open_folder, shown_name, student_id_of

MAX_TOLD = 20
HANDED_IN = (".ipynb", ".zip")


def misplaced(course: Course, assignment: str) -> list[str]:
    """Return a sentence for each student who handed something in, but not where it is looked for.

    Folders of the course's other assignments are in their place.
    """
    try:
        root = os.open(course.submitted, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    others = {path.stem for path in course.solutions.glob("*.toml")}
    said = []
    try:
        for name in sorted(os.listdir(root)):  # noqa: PTH208 (a descriptor, no path)
            student, place = student_id_of(name), f"{student_id_of(name)}/{assignment}/"
            if name.lower().endswith(HANDED_IN):
                said.append(
                    f"ignored: {shown_name(name)} lies in submitted/ itself; put what belongs to a "
                    f"student into submitted/ID/{assignment}/"
                )
            elif not name.startswith(".") and (found := _found_instead(root, name, assignment)):
                strange = [each for each in found if each not in others]
                if strange:
                    there = ", ".join(shown_name(each) for each in strange[:3])
                    said.append(
                        f"ignored: {shown_name(student)} has no folder {assignment}, but {there}; "
                        f"what belongs to it has to be in submitted/{shown_name(place)}"
                    )
    finally:
        os.close(root)
    rest = len(said) - MAX_TOLD
    said = [printable(each) for each in said]
    return said if rest <= 0 else [*said[:MAX_TOLD], f"ignored: {rest:,} more like these"]


def _found_instead(root: int, student: str, assignment: str) -> list[str]:
    """Return the folders and notebooks of a student who has none of the assignment."""
    try:
        with open_folder(student, root) as folder:
            names = sorted(os.listdir(folder))[:MAX_NAMES]  # noqa: PTH208 (a descriptor, no path)
            if assignment in names:
                return []
            return [
                name
                for name in names
                if not name.startswith(".")
                and (
                    name.lower().endswith(HANDED_IN)
                    or stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
                )
            ]
    except OSError:
        return []  # A stray file; or a folder that cannot be opened, which collect tells.
