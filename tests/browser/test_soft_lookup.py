"""The soft lookup in Chromium: its page computes what mha_lib does, and can be used."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import SoftLookup
from mha_lib.widgets.soft_lookup import DICTIONARY, OPENING, SCALES
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once

opened = opened_once(SoftLookup)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests."""
    opened.set(query=list(OPENING), scale=2)
    return opened


def slider(demo: DemoPage, name: str) -> Locator:
    return demo.page.get_by_label(name, exact=True)


def answers(demo: DemoPage) -> list[str]:
    return demo.page.locator(".mha-answers td").all_inner_texts()


def number(text: str) -> float:
    return float(text.rstrip("°").replace("−", "-"))


def assert_shows(demo: DemoPage, query: list[float], scale: float) -> None:
    python, page = SoftLookup(query=query, scale=scale).result, demo.get("result")
    assert_same(page, python)

    table = demo.page.locator("table:not(.mha-answers) tbody")
    rows = [row.locator("td").all_inner_texts() for row in table.locator("tr").all()]
    for entry, score, weight, row in zip(
        DICTIONARY, python["scores"], python["weights"], rows[:-1], strict=True
    ):
        _, *numbers = row
        expected = [score, weight, entry.value, weight * entry.value]
        assert [number(text) for text in numbers] == pytest.approx(expected, abs=0.0051)
    assert number(rows[-1][-1]) == pytest.approx(python["answer"], abs=0.0051)

    exact, nearest, soft = answers(demo)
    entry = DICTIONARY[python["nearest"][0]]
    assert exact == ("KeyError" if python["exact"] < 0 else f"{entry.value:g}°")
    assert nearest.startswith(f"{entry.value:g}° ({entry.name}")
    assert nearest.endswith(", the first)") == (len(python["nearest"]) > 1)
    assert number(soft) == pytest.approx(python["answer"], abs=0.051)
    assert_drawn(demo, query)


def assert_drawn(demo: DemoPage, query: list[float]) -> None:
    """The query's dot lies among the keys' as its numbers do."""
    dots = demo.page.locator(".mha-plane circle[data-key]").evaluate_all(
        "dots => dots.map(dot => ['data-key', 'cx', 'cy'].map(each => +dot.getAttribute(each)))"
    )
    at = {int(key): (x, y) for key, x, y in dots}
    north, east, south, west, asked = (at[key] for key in range(5))
    assert asked[0] == pytest.approx(((1 + query[0]) * east[0] + (1 - query[0]) * west[0]) / 2)
    assert asked[1] == pytest.approx(((1 + query[1]) * north[1] + (1 - query[1]) * south[1]) / 2)
    assert north[1] < south[1]
    assert west[0] < east[0]


def test_made_sharp_the_soft_lookup_agrees_with_the_nearest_key(demo: DemoPage) -> None:
    assert_shows(demo, [0.8, 0.6], 2)
    assert answers(demo) == ["KeyError", "10° (east)", "8.4°"]
    expect(demo.seen).to_contain_text("east has the largest weight, .56, and the blend is 8.4°")
    slider(demo, "sharpness").fill("8")
    assert_shows(demo, [0.8, 0.6], 64)
    assert answers(demo) == ["KeyError", "10° (east)", "10°"]
    expect(demo.seen).to_contain_text("its answer is the nearest key's")
    slider(demo, "query, to the east").fill("0.6")
    assert_shows(demo, [0.6, 0.6], 64)
    expect(demo.seen).to_contain_text("north and east are equally near")
    demo.page.locator(".mha-plane tspan", has_text="south").click()
    assert_shows(demo, [0, -1], 64)
    expect(demo.seen).to_contain_text("The query equals the key of south")


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_the_page_computes_and_shows_what_mha_lib_does(demo: DemoPage, scale: float) -> None:
    for query in ([0, 0], [-1, 1], [0.3, -0.9], [1, 0], [0.123, 0.456]):
        demo.set(query=query, scale=scale)
        assert_shows(demo, query, scale)


@pytest.mark.slow
def test_the_keyboard_does_everything(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    slider(demo, "query, to the east").focus()
    keyboard.press("ArrowRight")
    assert demo.get("query") == [0.9, 0.6]
    keyboard.press("Home")
    keyboard.press("Tab")
    expect(slider(demo, "query, to the north")).to_be_focused()
    keyboard.press("ArrowLeft")
    assert demo.get("query") == [-1, 0.5]
    expect(slider(demo, "query, to the east")).to_have_attribute("aria-valuetext", "−1")
    keyboard.press("Tab")
    keyboard.press("ArrowRight")
    expect(slider(demo, "sharpness")).to_have_attribute("aria-valuetext", "4")
    assert_shows(demo, [-1, 0.5], 4)
    keyboard.press("Home")
    assert_shows(demo, [-1, 0.5], 0)
    expect(demo.seen).to_contain_text("14° is the plain mean of all values")
    keyboard.press("End")
    assert_shows(demo, [-1, 0.5], 64)


@pytest.mark.slow
def test_what_was_just_seen_and_what_to_try(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    for query, scale, told, suggested in (
        ([0.8, 0.6], 2, "No key equals the query", "raise the sharpness step by step"),
        ([0.8, 0.6], 64, "so sharp, soft is as good as hard", "walk the query past the middle"),
        # A blend that happens to be what west says is no agreement.
        ([-0.6, -0.2], 2.6, "and the blend is 18°", "raise the sharpness step by step"),
        ([0, 1], 1, "a dictionary finds it", "the query equals a key now"),
        ([0.5, 0.5], 1, "north and east are equally near", "Does the soft lookup choose"),
        ([0.5, 0.5], 64, "the same weight, .50 each. Its answer is 7°", "by one step towards"),
        ([0, 0], 1, "north, east, south, and west are equally near", "Does the soft lookup"),
    ):
        demo.set(query=query, scale=scale)
        expect(demo.seen).to_contain_text(told)
        expect(tried).to_contain_text(suggested)


@pytest.mark.slow
def test_a_sharpness_between_two_steps_shows_as_it_is(demo: DemoPage) -> None:
    demo.set(scale=3)
    expect(slider(demo, "sharpness")).to_have_value("3")
    expect(slider(demo, "sharpness")).to_have_attribute("aria-valuetext", "3")
    assert_shows(demo, [0.8, 0.6], 3)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(SoftLookup(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page)
            for query, scale in ((list(OPENING), 2), ([-1, -1], 64)):
                demo.set(query=query, scale=scale)
                assert_fits(demo.page)
