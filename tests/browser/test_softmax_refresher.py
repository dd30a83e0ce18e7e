"""The softmax refresher in Chromium: its page computes what mha_lib does, and can be used."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import SoftmaxRefresher
from mha_lib.widgets.softmax_refresher import OPENING
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once

opened = opened_once(SoftmaxRefresher)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens, one page for all tests; only what was done before is remembered."""
    opened.set(numbers=[0, 3, 1, 1])
    opened.set(numbers=OPENING)
    return opened


def slider(demo: DemoPage, number: int) -> Locator:
    return demo.page.locator("input[type=range]").nth(number - 1)


def press(demo: DemoPage, name: str) -> None:
    demo.page.get_by_role("button", name=name).click()


def assert_shows(demo: DemoPage, numbers: list[float]) -> None:
    python = SoftmaxRefresher(numbers=numbers).result
    assert_same(demo.get("result"), python)
    cells = [text for text in demo.page.locator("tbody td").all_inner_texts() if text.strip()]
    *rows, total, one = [float(text.replace("−", "-")) for text in cells]
    assert rows[0::3] == numbers
    assert rows[1::3] == pytest.approx(python["powers"], abs=0.0051)
    assert rows[2::3] == pytest.approx(python["weights"], abs=0.0051)
    assert (total, one) == (pytest.approx(python["total"], abs=0.0051), 1)
    bars = demo.page.locator("tbody .mha-bar").evaluate_all(
        "bars => bars.map(bar => bar.getBoundingClientRect().width / bar.parentElement.clientWidth)"
    )
    assert bars == pytest.approx(2 * python["weights"], abs=0.03)


def test_adding_to_all_changes_no_weight_and_one_larger_number_takes_most(demo: DemoPage) -> None:
    assert_shows(demo, [2, 1, 0, -1])
    expect(demo.seen).to_contain_text("Number 1 is the largest: 7.39 ÷ 11.48")
    press(demo, "Add 1 to all")
    assert_shows(demo, [3, 2, 1, 0])
    expect(demo.seen).to_contain_text("every power is 2.72 times what it was")
    expect(demo.seen).to_contain_text("no weight has changed")
    slider(demo, 3).fill("5")
    assert_shows(demo, [3, 2, 5, 0])
    expect(demo.seen).to_contain_text("The weight of number 3 rose from .09 to .84")
    expect(demo.seen).to_contain_text("It takes most.")


@pytest.mark.slow
@pytest.mark.parametrize(
    "numbers", [[0, 0, 0, 0], [5, -5, 0.3, 1.5], [-5, -5, -5, -5], [5, 5, 5, 5], [4.5, 0, -3, 4.5]]
)
def test_the_page_computes_and_shows_what_mha_lib_does(
    demo: DemoPage, numbers: list[float]
) -> None:
    demo.set(numbers=numbers)
    assert_shows(demo, numbers)


@pytest.mark.slow
def test_the_keyboard_does_everything(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    slider(demo, 1).focus()
    keyboard.press("ArrowRight")
    assert demo.get("numbers") == [2.5, 1, 0, -1]
    expect(slider(demo, 1)).to_have_attribute("aria-valuetext", "2.5")
    for number, key, value in ((2, "Home", -5), (3, "End", 5), (4, "ArrowLeft", -1.5)):
        keyboard.press("Tab")
        expect(slider(demo, number)).to_be_focused()
        keyboard.press(key)
        assert demo.get("numbers")[number - 1] == value
    expect(slider(demo, 4)).to_have_attribute("aria-valuetext", "−1.5")
    keyboard.press("Tab")
    # One number stands at the end of its slider: nothing can be added to all.
    add = demo.page.get_by_role("button", name="Add 1 to all")
    expect(add).to_be_focused()
    expect(add).to_have_attribute("aria-disabled", "true")
    keyboard.press("Enter")
    assert demo.get("numbers") == [2.5, -5, 5, -1.5]
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Enter")
    assert demo.get("numbers") == list(OPENING)
    keyboard.press("Shift+Tab")
    keyboard.press("Space")
    assert demo.get("numbers") == [1, 0, -1, -2]


@pytest.mark.slow
def test_what_was_just_seen_and_what_to_try(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    expect(tried).to_contain_text("press Add 1 to all")
    press(demo, "Take 1 from all")
    expect(demo.seen).to_contain_text("1 less for every number: every power is divided by 2.72")
    expect(tried).to_contain_text("move one slider")
    slider(demo, 2).fill("1")
    expect(demo.seen).to_contain_text("rose from .24 to .46")
    expect(tried).to_contain_text("all the way to the right")
    slider(demo, 2).fill("5")
    expect(demo.seen).to_contain_text("It takes nearly all")
    expect(tried).to_contain_text("all the way to the left")
    slider(demo, 2).fill("-5")
    expect(demo.seen).to_contain_text("The weight of number 2 fell from .98 to .00")
    demo.set(numbers=[1, 0.5, 0.5, 0])
    expect(demo.seen).to_contain_text("No number takes as much as half.")
    demo.set(numbers=[5, 5, 5, 0])
    expect(demo.seen).to_contain_text("148.41 ÷ 446.24 gives each of them .33")
    demo.set(numbers=[0, 0, 0, 0])
    expect(demo.seen).to_contain_text("All four numbers are 0, so all weights are the same")
    expect(demo.seen).to_contain_text("1.00 ÷ 4.00 = .25")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(SoftmaxRefresher(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page)
            for numbers in (OPENING, [5, 5, 5, -5]):
                demo.set(numbers=numbers)
                assert_fits(demo.page)
