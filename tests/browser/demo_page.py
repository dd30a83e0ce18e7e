"""A demo alone on a page, in a real browser, exactly as the built site carries it.

    with open_demo(HeadExplorer(), tmp_path, dark=True, width=390) as demo:
        demo.page.get_by_role("button", name="yêu").click()
        assert demo.get("query") == 1

or, where one page serves all tests of a module:

    opened = opened_once(HeadExplorer)

Nothing outside this machine can be reached. On leaving the block the page must
have had no console error, no uncaught exception, and no request to the outside.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page

from book.chromium import shared_browser, shut_outside
from book.serve import serving
from mha_lib.widgets import CourseWidget, assets, site_assets


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

    def button(self, name: str) -> Locator:
        """The button that is named so, and not only in part."""
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def seen(self) -> Locator:
        """The line that says what was just seen."""
        return self.page.locator(".mha-seen")

    def reload(self) -> None:
        """Have the demo as it opens: quicker than another window."""
        self.page.reload()
        self.page.wait_for_selector(".mha-demo[data-ready]")

    def count_news(self, region: str = ".mha-seen") -> Callable[[], int]:
        """Begin to count how often a live region is filled anew; return how to ask."""
        self.page.evaluate(
            """region => {
              window.news = 0;
              const line = document.querySelector(region);
              new MutationObserver(() => window.news++).observe(line, { childList: true });
            }""",
            region,
        )
        return lambda: int(self.page.evaluate("window.news"))

    def packed(self, python: CourseWidget, look: str) -> Any:
        """Draw `python` as Jupyter does, from one text; return what the function `look` finds.

        It gets the element, and the model: its `state`, and `heard`, who listens to what.
        Nothing is computed there, so all that it finds is Python's.
        """
        state = {name: getattr(python, name) for name in (*python.constants, *python.inputs)}
        state |= {name: getattr(python, name) for name in ("result", "texts", "language")}
        return self.page.evaluate(
            f"""async ([source, state]) => {{
              const blob = new Blob([source], {{ type: "text/javascript" }});
              const module = await import(URL.createObjectURL(blob));
              const heard = {{}};
              const on = (name, listener) => {{ heard[name] = listener; }};
              const model = {{ get: name => state[name], on, off() {{}}, state, heard }};
              const el = document.createElement("div");
              module.default.render({{ model, el }});
              return ({look})(el, model);
            }}""",
            [assets.inlined_module(python.module), state],
        )


def opened_once(make: Callable[..., CourseWidget]) -> Any:
    """Return a fixture: the demo that `make` makes, opened once for all tests of a module."""

    @pytest.fixture(scope="module")
    def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPage]:
        with open_demo(make(language="en"), tmp_path_factory.mktemp("demo")) as demo:
            yield demo

    return opened


def words_in(demo: DemoPage) -> set[str]:
    """Every word that the demo holds, folded away or not, however letters stand in it."""
    text = demo.page.locator(".mha").evaluate(
        """section => {
          const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
          const found = [];
          while (walker.nextNode()) found.push(walker.currentNode.data);
          return found.join("\\n");
        }"""
    )
    return set(re.findall(r"[^\W\d]+", text))


def assert_same(page: Any, python: Any) -> None:
    """The page's result is Python's: its numbers to 1e-6, and all else exactly."""
    if isinstance(python, dict):
        assert page.keys() == python.keys()
        for name, value in python.items():
            assert_same(page[name], value)
    elif isinstance(python, list | tuple):
        assert len(page) == len(python)
        for one, other in zip(page, python, strict=True):
            assert_same(one, other)
    elif isinstance(python, float):
        assert page == pytest.approx(python, rel=0, abs=1e-6)
    else:
        assert page == python


def written(number: float) -> str:
    """A number as demos write it: .25, -1.50, never minus zero."""
    text = f"{0.0 if abs(number) < 0.005 else number:.2f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


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
