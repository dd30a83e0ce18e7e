"""When demos start on the built site, and what a reader sees when one does not."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mha_lib.widgets import HeadExplorer, ShapeStepper, assets, quiz
from tests.browser.demo_page import write_site

NEVER_IDLE = "window.requestIdleCallback = () => 0;"
NO_IDLE_CALLBACK = "delete window.requestIdleCallback;"
# What has been asked for by the time each demo is ready, in the order in which they are.
NOTE_STARTS = """
  window.starts = [];
  new MutationObserver(changes => changes.forEach(({ target }) => starts.push({
    module: target.dataset.modules.split(" ").at(-1),
    asked: performance.getEntriesByType("resource").map(({ name }) => name.split("/").pop()),
  }))).observe(document, { attributeFilter: ["data-ready"], subtree: true });
"""


@pytest.fixture
def far_apart(tmp_path: Path) -> str:
    """The address of a page with three demos, of which only the first is near the window."""
    demos = [HeadExplorer(language="en"), ShapeStepper(language="en"), quiz("multi-head")]
    space = '<div style="height: 5000px"></div>'
    write_site(tmp_path, space.join(each.static_html() for each in demos))
    return f"{tmp_path.as_uri()}/index.html"


@pytest.mark.parametrize("browser_has", ["", NO_IDLE_CALLBACK], ids=["idle callback", "none"])
def test_every_demo_starts_in_turn_without_being_scrolled_to(
    new_page: Callable[..., Page], far_apart: str, browser_has: str
) -> None:
    page = new_page()
    page.add_init_script(browser_has + NOTE_STARTS)
    page.goto(far_apart)
    expect(page.locator(".mha-demo[data-ready]")).to_have_count(3)
    starts = page.evaluate("starts")
    modules = ["head_explorer.js", "shape_stepper.js", "quiz.js"]
    assert [each["module"] for each in starts] == modules
    # No demo waits for what only a later one needs.
    for place, start in enumerate(starts):
        assert not set(modules[place + 1 :]) & set(start["asked"])


def test_a_demo_starts_before_its_turn_when_it_is_scrolled_to(
    new_page: Callable[..., Page], far_apart: str
) -> None:
    page = new_page()
    page.add_init_script(NEVER_IDLE)
    page.goto(far_apart)
    last = page.locator(".mha-demo").last
    last.scroll_into_view_if_needed()
    expect(last.get_by_role("button", name="Check").first).to_be_visible()
    expect(page.locator(".mha-demo[data-ready]")).to_have_count(2)


def test_printing_starts_what_has_not_started_and_leaves_no_hole_for_it(
    new_page: Callable[..., Page], far_apart: str
) -> None:
    page = new_page()
    page.add_init_script(NEVER_IDLE)
    page.goto(far_apart)
    expect(page.locator(".mha-demo[data-ready]")).to_have_count(1)
    waiting = page.locator(".mha-demo").last
    assert waiting.bounding_box()["height"] >= 480  # 30rem
    page.emulate_media(media="print")
    assert waiting.bounding_box()["height"] < 20
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator(".mha-demo[data-ready]")).to_have_count(3)


@pytest.mark.parametrize("language", ["en", "vi", "fr"])
def test_a_demo_that_does_not_start_says_so_in_the_readers_language(
    browser: Browser, tmp_path: Path, language: str
) -> None:
    demos = HeadExplorer(language="en").static_html() + ShapeStepper(language="en").static_html()
    write_site(tmp_path, demos, language=language)
    (tmp_path / "_static" / "mha" / "arcs.js").unlink()
    page = browser.new_page()
    uncaught: list[str] = []
    page.on("pageerror", lambda error: uncaught.append(error.message))
    page.goto(f"{tmp_path.as_uri()}/index.html")
    said = "en" if language == "fr" else language
    alert = page.get_by_role("alert")
    expect(alert).to_have_text(assets.strings(said)["common"]["not_started"])
    assert alert.evaluate("alert => alert.closest('[lang]').lang") == said
    # Whoever mends it finds the cause, and the other demo is not held up.
    expect(page.locator(".mha-demo").last).to_have_attribute("data-ready", "")
    assert uncaught == ["arcs.js did not load"]
    assert page.locator(".mha-demo").first.bounding_box()["height"] < 200
    page.close()


def test_a_text_needs_each_of_its_values(new_page: Callable[..., Page], far_apart: str) -> None:
    page = new_page()
    page.goto(far_apart)
    said = page.evaluate(
        """async () => {
          const { translator } = await mha.load("ui.js");
          const texts = { demo: { sum: "{a} and {b}", some: "{a}" } };
          const t = translator({ get: () => texts }, "demo");
          const answer = (...given) => {
            try { return t(...given); } catch (problem) { return problem.message; }
          };
          return [
            answer("sum", { a: 0, b: "" }),
            answer("sum", { a: 1 }),
            answer("some", { a: undefined }),
            answer("none"),
          ];
        }"""
    )
    assert said == [
        "0 and ",
        "text demo.sum needs {b}",
        "text demo.some needs {a}",
        "no text demo.none",
    ]
