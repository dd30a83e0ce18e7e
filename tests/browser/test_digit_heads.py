"""DigitHeads in Chromium, as the built site carries it: no kernel."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mha_lib.experiments.digits import DigitModel, train_digits
from mha_lib.widgets import DigitHeads
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo


@pytest.fixture(scope="module")
def model() -> DigitModel:
    return train_digits(steps=60)[0]


@pytest.fixture(scope="module")
def demo(model: DigitModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPage]:
    with open_demo(DigitHeads(model, language="en"), tmp_path_factory.mktemp("digits")) as opened:
        yield opened


def twin(demo: DemoPage, model: DigitModel) -> DigitHeads:
    """The same demo in Python, with the inputs that the page has now."""
    return DigitHeads(model, **{name: demo.get(name) for name in DigitHeads.inputs})


def test_each_digit_is_read_as_python_reads_it(demo: DemoPage, model: DigitModel) -> None:
    buttons = demo.page.get_by_role("group", name="Digit", exact=True).get_by_role("button")
    assert buttons.count() == 12
    for place in (11, 0, 7):
        buttons.nth(place).click()
        assert demo.get("digit") == place
        assert_same(demo.get("result"), twin(demo, model).result)
    expect(demo.page.locator(".mha-verdict")).to_contain_text("It is a 7")


def test_the_weights_of_the_head_and_the_patch_chosen_are_shown(
    demo: DemoPage, model: DigitModel
) -> None:
    demo.button("1.3").click()
    patches = demo.page.locator(".mha-cut button")
    patches.nth(0).focus()
    demo.page.keyboard.press("Tab")  # away, and back to the one stop among the patches
    demo.page.keyboard.press("Shift+Tab")
    demo.page.keyboard.press("ArrowDown")
    demo.page.keyboard.press("ArrowRight")
    demo.page.keyboard.press("Enter")
    assert (demo.get("layer"), demo.get("head"), demo.get("query")) == (0, 2, 6)
    expect(patches.nth(5)).to_have_attribute("aria-pressed", "true")
    expected = twin(demo, model).result["weights"][0][2]
    shown = demo.page.locator(".mha-cut .mha-weight").all_text_contents()
    for text, weight in zip(shown, expected[1:], strict=True):
        assert math.isclose(float(text), weight, abs_tol=0.006)
    expect(demo.seen).to_contain_text("The patch in row 2, column 2 asks, by head 1.3")
    demo.button("the class token").click()
    assert demo.get("query") == 0
    expect(demo.seen).to_contain_text("The class token asks")


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(390, True, id="390-dark"),
        pytest.param(1200, False, id="1200-light", marks=pytest.mark.slow),
    ],
)
def test_it_is_accessible_and_fits(
    dark: bool, width: int, model: DigitModel, tmp_path: Path
) -> None:
    with open_demo(DigitHeads(model, language="en"), tmp_path, dark=dark, width=width) as demo:
        assert_accessible(demo.page)
        assert_fits(demo.page)
