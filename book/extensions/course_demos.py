"""Reads what mha_lib/widgets says about the demos' files, without the demos themselves.

To import mha_lib.widgets is to load torch and ipywidgets: seconds, at each build. The modules
that pack the demos' files and read the quizzes need neither, so they are loaded by themselves.
"""

from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

WIDGETS = Path(__file__).resolve().parents[2] / "mha_lib" / "widgets"


@cache
def widgets_module(name: str) -> ModuleType:
    """Return a module of mha_lib/widgets that imports nothing of mha_lib.

    >>> "mha/loader.js" in widgets_module("assets").site_assets()
    True
    """
    spec = spec_from_file_location(f"course_demos_{name}", WIDGETS / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
