"""The instructor's page of results in a browser: two thousand rows, hostile ones among them."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from grading.report import page as page_text
from grading.status import State
from grading.summary import Bar, Mistakes, Part, Summary, Task
from tests.browser.accessible import assert_accessible, assert_fits

pytestmark = pytest.mark.slow

COUNT = 2000
HOSTILE = (
    "</td></style><script>document.title = 'taken'</script>",
    "<img src=https://evil.example/x onerror=\"document.title='taken'\">",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "</title><base href=https://evil.example/><iframe src=javascript:alert(1)>",
    "𝒶\u202eevil" * 30,
    "x" * 240,
)


def results() -> Summary:
    """Return what two thousand students might come to."""
    states = [
        State(
            f"student {number:04}" if number >= len(HOSTILE) else HOSTILE[number],
            "needs attention" if number % 40 == 0 else "graded with warnings",
            float(number % 101),
            100,
            tuple(HOSTILE[(number + each) % len(HOSTILE)] for each in range(number % 5)),
            10.0 * (number % 2),
        )
        for number in range(COUNT)
    ]
    bars = [Bar(10.0 * each, 10.0 * each + 10, each * 40) for each in range(10)]
    tasks = [
        Task(Part(f"Task {each}. {HOSTILE[0]}", 10, 0.5), (Part("check-a", 10, 0.5),), each, COUNT)
        for each in range(10)
    ]
    common = tuple((text, 9) for text in HOSTILE)
    mistakes = [
        Mistakes(HOSTILE[each % 7], "Task", True, 99, COUNT, common, 3) for each in range(7)
    ]
    return Summary(
        "tiny", HOSTILE[4], 100, tuple(states), (1.0,), tuple(bars), tuple(tasks), tuple(mistakes)
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "tiny.html"
    path.write_text(page_text(results(), datetime(2026, 1, 2, tzinfo=UTC)), encoding="utf-8")
    return path.as_uri()


def test_hostile_names_and_reasons_stay_text(page: Page, address: str) -> None:
    page.goto(address)
    assert page.title() == f"{HOSTILE[4]}: results"
    assert page.locator("script, iframe, img, base, style:not(head style)").count() == 0
    expect(page.locator("table.all tbody tr")).to_have_count(COUNT)
    expect(page.get_by_text(HOSTILE[2]).first).to_be_visible()
    assert page.url == address


def test_a_style_or_a_script_that_got_in_would_do_nothing(browser: Browser, address: str) -> None:
    """The policy stands even where escaping had failed; the browser tells what it refused."""
    refused: list[str] = []
    with browser.new_context() as context:
        window = context.new_page()
        window.on("console", lambda line: refused.append(line.text))
        path = Path(address.removeprefix("file://"))
        forged = path.with_name("forged.html")
        added = "<script>document.title='taken'</script><style>main{display:none}</style></main>"
        forged.write_text(path.read_text(encoding="utf-8").replace("</main>", added), "utf-8")
        window.goto(forged.as_uri())
        assert window.title() != "taken"
        expect(window.locator("main")).to_be_visible()
        assert len([text for text in refused if "Content Security Policy" in text]) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_can_be_read(
    new_page: Callable[..., Page], address: str, scheme: str, width: int
) -> None:
    window = new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    window.goto(address)
    assert_fits(window)
    # Two thousand rows are alike: axe looks at the first ones.
    window.evaluate("document.querySelectorAll('.chunk + .chunk').forEach(each => each.remove())")
    assert_accessible(window)
    box = window.locator(".bar rect").last.bounding_box()
    assert box is not None
    assert box["width"] > 50
