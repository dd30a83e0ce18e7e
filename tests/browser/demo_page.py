"""A demo alone on a page, in a real browser, exactly as the built site carries it.

    with open_demo(HeadExplorer(), tmp_path, dark=True, width=390) as demo:
        demo.page.get_by_role("button", name="yêu").click()
        assert demo.get("query") == 1

Nothing outside this machine can be reached. On leaving the block the page must
have had no console error, no uncaught exception, and no request to the outside.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Page

from benchmarks.chromium import shared_browser, shut_outside
from book.serve import serving
from mha_lib.widgets import CourseWidget, site_assets


@dataclass
class DemoPage:
    """A page that carries one demo, ready to be used."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def get(self, name: str) -> Any:
        """A trait of the demo, as the page holds it now."""
        return self.page.evaluate(
            "name => document.querySelector('.mha-demo').mhaModel.get(name)", name
        )

    def set(self, **traits: Any) -> None:
        """Set traits from outside the demo's own controls, as Python does in Jupyter."""
        self.page.evaluate(
            """traits => {
              const model = document.querySelector('.mha-demo').mhaModel;
              for (const [name, value] of Object.entries(traits)) model.set(name, value);
              model.save_changes();
            }""",
            traits,
        )


@contextmanager
def open_demo(
    widget: CourseWidget,
    folder: Path,
    *,
    dark: bool = False,
    width: int = 1280,
    height: int = 1000,
    over: Literal["file", "http"] = "file",
    language: str = "en",
) -> Iterator[DemoPage]:
    """Open `widget` in Chromium, mounted without a kernel, from files or over http."""
    write_site(folder, widget.static_html(), dark=dark, language=language)
    address = f"{folder.resolve().as_uri()}/"
    with nullcontext(address) if over == "file" else serving(folder) as address:
        context = shared_browser().new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        outside = shut_outside(context)
        demo = DemoPage(context.new_page())
        _watch(demo)
        try:
            demo.page.goto(f"{address}index.html")
            demo.page.wait_for_selector(".mha-demo[data-ready]", timeout=20_000)
            yield demo
        finally:
            context.close()
    assert not demo.problems, "\n".join(demo.problems)
    assert not outside, f"asked the outside for {outside}"


def write_site(folder: Path, content: str, *, dark: bool = False, language: str = "en") -> None:
    """Write the smallest site that can carry demos: a page, the scripts, the styles."""
    for name, text in site_assets().items():
        path = folder / "_static" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    paper, ink = ("#121212", "#ced6dd") if dark else ("#ffffff", "#222832")
    (folder / "index.html").write_text(
        f"""<!doctype html>
<html lang="{language}" data-theme="{"dark" if dark else "light"}">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>One demo</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="_static/mha/widgets.css">
<script src="_static/mha/loader.js"></script>
</head>
<body style="font-family: sans-serif; background: {paper}; color: {ink}; margin: 1rem">
<main style="max-width: 60rem; margin: auto"><h1>One demo</h1>
{content}
</main></body></html>
""",
        encoding="utf-8",
    )


def _watch(demo: DemoPage) -> None:
    demo.page.on("pageerror", lambda error: demo.problems.append(f"uncaught: {error}"))
    demo.page.on(
        "console",
        lambda message: (
            demo.problems.append(f"console {message.type}: {message.text}")
            if message.type in ("error", "warning")
            else None
        ),
    )
    demo.page.on(
        "requestfailed",
        lambda request: demo.problems.append(f"failed: {request.url} {request.failure}"),
    )
