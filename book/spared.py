"""What the build's libraries would do again and again, or for nothing; here they are spared it.

Either takes as long as reading a whole chapter. Without this module the site is built the same.
"""

import importlib.metadata
import sys
from typing import Any


def spare_needless_work() -> None:
    """Call this before the first import of what builds the book."""
    # Jupyter Book brings jsonschema, which at its start makes a grammar of internet addresses, if
    # the package that holds it is there. No schema here asks for one, and without it jsonschema
    # only leaves such addresses unchecked.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    look_up_styles_once()


def look_up_styles_once() -> None:
    """Let pybtex search what is installed once, and not for each citation."""
    import pybtex.plugin

    installed = importlib.metadata.entry_points()

    def entry_points(**wanted: Any) -> Any:
        return installed.select(**wanted)

    pybtex.plugin.entry_points = entry_points
