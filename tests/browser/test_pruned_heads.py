"""Two demos of a real model in Chromium: one word in two meanings, and heads that go."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from mha_lib.widgets import HeadPruning, MeaningByLayer
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once

meaning = opened_once(MeaningByLayer)
pruning = opened_once(HeadPruning)


def three(number: float) -> str:
    """A number as the table writes it: .854."""
    return f"{number:.3f}".removeprefix("0")


def test_each_layer_shows_what_was_measured(meaning: DemoPage) -> None:
    slider = meaning.page.get_by_role("slider")
    slider.focus()
    meaning.page.keyboard.press("Home")
    expect(meaning.seen).to_contain_text("Before the first layer the word is nearly the same")
    for layer in range(1, 7):
        meaning.page.keyboard.press("ArrowRight")
        python = MeaningByLayer(layer=layer, language="en").result
        assert_same(meaning.get("result"), python)
        expect(meaning.seen).to_contain_text(f"Of 8 uses, {python['nearest']} have one")
        cells = meaning.page.locator(".mha-heatmap td.mha-weight").all_text_contents()
        written = [f"{each:.2f}".removeprefix("0") for row in python["table"] for each in row]
        assert cells == written
    meaning.page.get_by_role("button", name="savings account").click()
    assert meaning.get("use") == 6
    expect(meaning.page.locator(".mha-heatmap tbody tr").nth(6)).to_have_attribute(
        "aria-current", "true"
    )


def test_the_curves_are_drawn_in_full(meaning: DemoPage) -> None:
    """A cosine of 1 would lie at the top, one of 0 at the bottom."""
    meaning.set(layer=6)
    found = meaning.page.evaluate(
        """() => {
          const field = document.querySelector(".mha-field");
          const [top, height] = ["y", "height"].map(name => Number(field.getAttribute(name)));
          return [...document.querySelectorAll(".mha-dot")].map(
            dot => 1 - (Number(dot.getAttribute("cy")) - top) / height);
        }"""
    )
    python = MeaningByLayer(layer=6).result
    assert found == pytest.approx([python["same"], python["other"]])


def test_heads_go_by_the_keyboard_in_each_order(pruning: DemoPage) -> None:
    slider = pruning.page.get_by_role("slider")
    for name, button in (("random", "at random"), ("greedy", "least change, measured anew")):
        pruning.button(button).click()
        slider.focus()
        pruning.page.keyboard.press("Home")
        for steps in range(1, 4):
            pruning.page.keyboard.press("ArrowRight")
            python = HeadPruning(order=name, steps=steps, language="en").result
            assert_same(pruning.get("result"), python)
            expect(slider).to_have_attribute("aria-valuetext", f"{8 * steps} of 72")
            assert pruning.page.locator("[data-off]").count() == 8 * steps
            expect(pruning.seen).to_contain_text(f"Without {8 * steps} heads")
            expect(pruning.seen).to_contain_text(three(python["task"]))
            here = pruning.page.locator("td[data-here]").all_text_contents()
            assert here == [three(python["task"]), three(python["gap"])]
        layer, head = python["off"][-1]
        cell = pruning.page.locator(".mha-which tbody tr").nth(layer).locator("td").nth(head)
        expect(cell).to_have_text("×off")
        assert pruning.page.locator(".mha-faint").count() == (4 if name == "random" else 0)
    pruning.page.keyboard.press("End")
    expect(pruning.seen).to_contain_text("Without any head no word knows of another.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "dark"), [(390, True), (1200, False)], ids=["390-dark", "1200-light"]
)
@pytest.mark.parametrize("demo_class", [MeaningByLayer, HeadPruning])
def test_they_are_accessible_and_fit(
    demo_class: type, width: int, dark: bool, tmp_path: Path
) -> None:
    with open_demo(demo_class(language="en"), tmp_path, dark=dark, width=width) as demo:
        assert_accessible(demo.page)
        assert_fits(demo.page, boxes_scroll=width == 390)
