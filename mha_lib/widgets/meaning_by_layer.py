"""MeaningByLayer: where in a model does one word become two?"""

from html import escape
from typing import Any

import traitlets

from mha_lib.widgets import assets
from mha_lib.widgets.base import CourseWidget


class MeaningByLayer(CourseWidget):
    """One word in sentences that give it two meanings: its vectors' cosines, layer by layer.

    Args:
        layer: After how many layers, from 0 (before the first) on.
        use: The sentence whose row is marked, from 0.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `table`, the cosine of each use with each, (n, n); the mean cosine of two uses
    with the `same` meaning and of two with an `other` one; and `nearest`, of how many uses the
    nearest other use has the same meaning. All was measured by `mha_lib.pretrained.meaning`.

    >>> MeaningByLayer(layer=3).result["nearest"]
    8
    """

    module = "meaning_by_layer.js"
    inputs = ("layer", "use")
    constants = ("recipe",)

    layer = traitlets.Int(6, min=0, max=6).tag(sync=True)
    use = traitlets.Int(0, min=0, max=7).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, **options: Any) -> None:
        self.set_trait("recipe", assets.real_heads()["meaning"])
        super().__init__(**options)

    def compute(self) -> dict[str, Any]:
        """Take what was measured at the layer."""
        same, other, nearest = self.recipe["apart"][self.layer]
        table = self.recipe["cosines"][self.layer]
        return {"table": table, "same": same, "other": other, "nearest": nearest}

    def fallback(self) -> str:
        """Return, for each layer, the two means and the count as a table."""
        rows = (
            f"<tr><th>{layer}</th>{''.join(f'<td>{escape(str(each))}</td>' for each in row)}</tr>"
            for layer, row in enumerate(self.recipe["apart"])
        )
        return f"<table>{''.join(rows)}</table>"
