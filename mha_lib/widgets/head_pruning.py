"""HeadPruning: how many heads of a real model can go, and who notices?"""

from html import escape
from typing import Any

import traitlets

from mha_lib.pretrained.export import ENGLISH
from mha_lib.widgets import assets
from mha_lib.widgets.base import CourseWidget

ORDERS = ("greedy", "one_shot", "random")


class HeadPruning(CourseWidget):
    """A model's heads are switched off, more and more: what is left of a task, and of a meaning.

    Args:
        order: Which heads go first: "greedy", "one_shot" or "random".
        steps: How many steps of the order are off, from 0; a step is 8 heads.
        language: "en", "vi" or "ms"; the reader's own unless given.

    Raises:
        TypeError: when another name is given.
        traitlets.TraitError: when a value is none of these; the message says what is.

    `result` holds `off`, the heads that are off, each a layer and a head; `task`, how well the
    model's likeness of sentences follows people's grades; and `gap`, how much nearer two uses of
    a word with one meaning are than two with different ones. All was measured by
    `mha_lib.pretrained.pruning`, which can switch off other heads too.

    >>> len(HeadPruning(steps=2).result["off"])
    16
    """

    module = "head_pruning.js"
    inputs = ("order", "steps")
    constants = ("recipe",)

    order = traitlets.Enum(ORDERS, "greedy").tag(sync=True)
    steps = traitlets.Int(0, min=0, max=9).tag(sync=True)
    recipe = traitlets.Dict(read_only=True).tag(sync=True)

    def __init__(self, **options: Any) -> None:
        held = assets.real_heads()
        model = held["models"][ENGLISH]
        size = {"layers": model["layers"], "heads": model["heads"]}
        self.set_trait("recipe", held["pruning"] | size)
        super().__init__(**options)

    def compute(self) -> dict[str, Any]:
        """Take what was measured with these heads off."""
        order = self.recipe["orders"][self.order]
        return {
            "off": order["heads"][: self.steps * self.recipe["step"]],
            "task": order["task"][self.steps],
            "gap": order["gap"][self.steps],
        }

    def fallback(self) -> str:
        """Return, for each order, task and gap after every step as a table."""
        rows = []
        for name, order in self.recipe["orders"].items():
            for what in ("task", "gap"):
                cells = "".join(f"<td>{value}</td>" for value in order[what])
                rows.append(f"<tr><th>{escape(f'{name} {what}')}</th>{cells}</tr>")
        return f"<table>{''.join(rows)}</table>"
