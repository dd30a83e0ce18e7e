"""Keeps from a run of the command what its libraries would load and nobody needs.

Not for other people's processes: what is left out there might be missed.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

# A grammar that jsonschema builds for addresses in other alphabets; it does without.
_NEVER = "rfc3987_syntax"
# nbgrader's pages for Jupyter's server, which importing nbgrader loads.
_PAGES = ("assignment_list", "course_list", "formgrader", "validate_assignment")


def spare_grammars() -> None:
    """Let jsonschema, and so nbformat, load without its largest grammar: call it first."""
    if _NEVER not in sys.modules:
        sys.modules[_NEVER] = None  # type: ignore[assignment]  # an import of it then fails


def import_nbgrader() -> None:
    """Import nbgrader without its server's pages; who wants one of them can still import it."""
    if "nbgrader" in sys.modules:
        return
    stand_ins = {}
    for page in _PAGES:
        stand_in = ModuleType(f"nbgrader.server_extensions.{page}")
        stand_in.load_jupyter_server_extension = None  # type: ignore[attr-defined]
        stand_ins[stand_in.__name__] = stand_in
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("nbgrader")
    finally:
        for name in stand_ins:
            del sys.modules[name]
