"""The tiled softmax stepper in Chromium, as the built site carries it: without a kernel."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import TiledSoftmax
from mha_lib.widgets.tiled_softmax import ORDERS, TILES
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once

opened = opened_once(TiledSoftmax)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.set(order="given", tile=4, step=2)
    return opened


def button(demo: DemoPage, name: str) -> Locator:
    return demo.page.get_by_role("button", name=name)  # an arrow stands in it too


def verdict(demo: DemoPage) -> Locator:
    return demo.page.locator(".mha-verdict")


def after(demo: DemoPage) -> list[str]:
    """Maximum, sum, weighted sum and output, as they are kept after this tile."""
    return demo.page.locator(".mha-running .mha-after").all_inner_texts()


def three(number: float) -> str:
    text = f"{number:.3f}"
    return text[1:] if text.startswith("0.") else text


def assert_shows(demo: DemoPage, python: TiledSoftmax) -> None:
    result, place = python.result, python.step - 1
    assert_same(demo.get("result"), result)
    names = ("sums", "weighted", "outputs")
    assert after(demo) == [
        f"{result['maxima'][place]:.0f}",
        *(three(result[name][place]) for name in names),
    ]
    tile = slice(place * python.tile, (place + 1) * python.tile)
    adds = [three(power) for power in result["powers"][tile]]
    assert demo.page.locator(".mha-work tbody td:nth-child(4)").all_inner_texts() == adds


def test_it_opens_at_a_rescale_and_ends_at_plain_softmax(demo: DemoPage) -> None:
    python = TiledSoftmax()
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("Its largest score, 3, is above the maximum so far, 2.")
    expect(demo.seen).to_contain_text("both sums are multiplied by e^(2 − 3) = .368")
    expect(verdict(demo)).to_contain_text("have not seen all keys yet")
    button(demo, "Next tile").click()
    python.step = 3
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("nothing is rescaled")
    expect(demo.seen).to_contain_text("That was the last tile: 17.803 / 3.794 = 4.692.")
    expect(verdict(demo)).to_contain_text("✓ The same")
    assert after(demo)[-1] == three(python.result["plain"]["output"])


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_every_step_of_every_cut_is_mha_libs(demo: DemoPage, order: str) -> None:
    demo.page.get_by_label("Order of the keys").select_option(order)
    python = TiledSoftmax(order=order)
    for tile in TILES:
        demo.page.get_by_label("Tile size").select_option(str(tile))
        python.tile, python.step = tile, 1
        tiles = len(python.result["maxima"])
        for step in range(1, tiles + 1):
            python.step = step
            assert demo.get("step") == step
            assert_shows(demo, python)
            factor = python.result["factors"][step - 1]
            said = "nothing to rescale" if step == 1 else "multiplied by"
            expect(demo.seen).to_contain_text("nothing is rescaled" if factor == 1 else said)
            if step < tiles:
                expect(verdict(demo)).not_to_contain_text("✓")
                button(demo, "Next tile").click()
        expect(verdict(demo)).to_contain_text("✓ The same")
        expect(verdict(demo)).not_to_contain_text("✗")


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    size = demo.page.get_by_label("Tile size")
    size.focus()
    keyboard.press("ArrowDown")
    assert (demo.get("tile"), demo.get("step")) == (5, 1)
    expect(size).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("ArrowDown")
    assert demo.get("order") == "rising"
    keyboard.press("Tab")
    keyboard.press("Enter")  # there is no tile before the first
    assert demo.get("step") == 1
    keyboard.press("Tab")
    following = button(demo, "Next tile")
    for _ in range(3):
        keyboard.press("Enter")
    assert demo.get("step") == 3
    expect(following).to_be_focused()
    expect(following).to_have_attribute("aria-disabled", "true")
    keyboard.press("Shift+Tab")
    keyboard.press("Space")
    assert demo.get("step") == 2


@pytest.mark.slow
def test_tiles_are_told_by_words_too(demo: DemoPage) -> None:
    heads = demo.page.locator(".mha-strip [scope=colgroup]")
    assert [re.sub(r"\s+", " ", text.strip()) for text in heads.all_text_contents()] == [
        "✓ 1 added",
        "▶ 2 now",
        "… 3 waiting",
    ]
    demo.page.get_by_label("Tile size").select_option("5")
    assert heads.evaluate_all("all => all.map(each => each.colSpan)") == [5, 5, 2]


@pytest.mark.slow
def test_a_step_beyond_the_last_tile_is_the_last(demo: DemoPage) -> None:
    demo.set(tile=6, step=12)
    expect(demo.seen).to_contain_text("Tile 2 of 2.")
    button(demo, "Previous tile").click()
    assert demo.get("step") == 1


@pytest.mark.slow
def test_what_is_suggested_can_be_done(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    for state, text in [
        ({}, "press Next tile"),
        ({"step": 3}, "choose another order"),
        ({"order": "rising", "step": 3}, "choose largest score first"),
        ({"order": "falling", "step": 3}, "choose tiles of 1 key"),
        ({"order": "given", "tile": 1, "step": 12}, "choose another tile size"),
        ({"tile": 12, "step": 1}, "choose a smaller tile"),
    ]:
        demo.set(**state)
        expect(tried).to_contain_text(text)


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """Jupyter loads one text, and what it shows comes from Python: nothing is computed there."""
    python = TiledSoftmax(tile=3, step=4, order="rising", language="en")
    shown = demo.packed(
        python, "el => [...el.querySelectorAll('.mha-after')].map(cell => cell.textContent)"
    )
    names = ("sums", "weighted", "outputs")
    assert shown == ["3", *(three(python.result[name][-1]) for name in names)]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(tmp_path: Path, dark: bool) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(TiledSoftmax(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            for tile, step in ((4, 2), (1, 12), (12, 1)):
                demo.set(tile=tile, step=step)
                assert_accessible(demo.page, within=".mha")
                assert_fits(demo.page)
        demo.page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert_fits(demo.page, boxes_scroll=True)
