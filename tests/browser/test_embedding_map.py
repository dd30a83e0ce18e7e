"""The embedding map in Chromium: its page computes what mha_lib does, and can be used."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import EmbeddingMap
from mha_lib.widgets.embedding_map import PRINCIPAL, VIEWS, WORDS
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, written

NAMES = list(WORDS)
TIGER = {"word": "tiger", "features": [0.9, 0.4, 0.9, 0.0]}
STONE = {"word": "stone", "features": [0.0, 0.0, 0.0, 0.1]}
OPENING = {"added": [], "view": "animal-soft", "selected": NAMES.index("horse")}


opened = opened_once(EmbeddingMap)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests."""
    opened.set(**OPENING)
    return opened


def view(demo: DemoPage) -> Locator:
    return demo.page.get_by_label("The map shows")


def word(demo: DemoPage, name: str) -> Locator:
    return demo.page.get_by_role("radio", name=name, exact=True)


def on_map(demo: DemoPage, name: str) -> Locator:
    return demo.page.locator(".mha-plane tspan", has_text=name)


def describe(demo: DemoPage, name: str, features: list[float]) -> None:
    """Fill in the form, and send it off."""
    demo.page.get_by_label("Your word").fill(name)
    for feature, number in enumerate(features):
        demo.page.locator("input[type=range]").nth(feature).fill(str(number))
    demo.page.get_by_role("button", name="Put it on the map").click()


def assert_shows(demo: DemoPage, **inputs: Any) -> None:
    python, page = EmbeddingMap(**inputs).result, demo.get("result")
    assert_same(page, python)
    words, cosines, selected = python["words"], python["cosines"], python["selected"]
    rows = demo.page.locator("tbody tr")
    named = rows.locator("th").all_inner_texts()
    assert named[0] == words[selected]
    assert sorted(named) == sorted(words)
    shown = dict(zip(named, rows.locator("td:first-of-type").all_inner_texts(), strict=True))
    assert shown == {each: written(cosine) for each, cosine in zip(words, cosines, strict=True)}
    order = [cosines[words.index(each)] for each in named[1:]]
    assert order == sorted(order, reverse=True)
    assert_drawn(demo, python)
    expect(word(demo, words[selected])).to_be_checked()


def assert_drawn(demo: DemoPage, python: dict[str, Any]) -> None:
    """Every word has its dot and its name, and dots lie as the points do, up being up."""
    dots = demo.page.locator(".mha-plane circle[data-key]").evaluate_all(
        "dots => dots.map(dot => ['data-key', 'cx', 'cy'].map(each => +dot.getAttribute(each)))"
    )
    at = {int(key): (x, y) for key, x, y in dots}
    assert sorted(at) == list(range(len(python["words"])))
    points = python["points"]
    scale = (at[0][0] - at[5][0]) / (points[0][0] - points[5][0])
    for key, (x, y) in enumerate(points):
        across, up = x - points[0][0], y - points[0][1]
        assert at[key][0] - at[0][0] == pytest.approx(scale * across, abs=0.01)
        assert at[0][1] - at[key][1] == pytest.approx(scale * up, abs=0.01)
    names = demo.page.locator(".mha-plane tspan").all_text_contents()
    assert sorted(names) == sorted(python["words"])
    selected = demo.page.locator(".mha-plane tspan[data-selected]")
    assert selected.all_text_contents() == [python["words"][python["selected"]]]
    places = demo.page.locator(".mha-map li").all_text_contents()
    assert [place.split(":")[0] for place in places] == python["words"]


def test_two_words_in_one_place_part_when_the_map_shows_more(demo: DemoPage) -> None:
    assert_shows(demo, **OPENING)
    expect(demo.seen).to_contain_text("the nearest to horse is dog (.97)")
    expect(demo.seen).to_contain_text("In the very same place on this map: fish (.69).")
    view(demo).select_option(PRINCIPAL)
    assert_shows(demo, view=PRINCIPAL)
    expect(demo.seen).to_contain_text("On this map dog is the closest, too.")
    describe(demo, "tiger", TIGER["features"])
    assert demo.get("added") == [TIGER]
    assert_shows(demo, view=PRINCIPAL, added=[TIGER], selected=10)
    on_map(demo, "sofa").click()
    assert_shows(demo, view=PRINCIPAL, added=[TIGER], selected=NAMES.index("sofa"))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", VIEWS)
def test_the_page_computes_and_shows_what_mha_lib_does(demo: DemoPage, chosen: str) -> None:
    for selected in (0, 4, 11):
        inputs = {"added": [TIGER, STONE], "view": chosen, "selected": selected}
        demo.set(**inputs)
        assert_shows(demo, **inputs)


@pytest.mark.slow
def test_the_keyboard_does_everything(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    view(demo).focus()
    keyboard.press("End")
    assert demo.get("view") == PRINCIPAL
    keyboard.press("Tab")
    expect(word(demo, "horse")).to_be_focused()
    keyboard.press("ArrowRight")
    expect(word(demo, "fish")).to_be_focused()
    assert_shows(demo, view=PRINCIPAL, selected=NAMES.index("fish"))
    keyboard.press("Tab")
    keyboard.type("eel")
    for key in ("End", "Home", "Home", "Home"):
        keyboard.press("Tab")
        keyboard.press(key)
    expect(demo.page.get_by_label("four legs")).to_have_attribute("aria-valuetext", "0")
    keyboard.press("Tab")
    keyboard.press("Enter")
    eel = {"word": "eel", "features": [1, 0, 0, 0]}
    assert demo.get("added") == [eel]
    assert_shows(demo, view=PRINCIPAL, added=[eel], selected=10)
    expect(demo.seen).to_contain_text("the nearest to eel is fish")
    keyboard.press("Tab")
    away = demo.page.get_by_role("button", name="Take my words away")
    expect(away).to_be_focused()
    keyboard.press("Space")
    assert demo.get("added") == []
    assert_shows(demo, view=PRINCIPAL, selected=9)
    expect(away).to_be_focused()
    expect(away).to_have_attribute("aria-disabled", "true")
    keyboard.press("Space")
    assert_shows(demo, view=PRINCIPAL, selected=9)


@pytest.mark.slow
def test_the_form_says_why_a_word_cannot_be_added(demo: DemoPage) -> None:
    refused = demo.page.get_by_role("alert")
    for name, features, why in (
        ("  ", [0.5] * 4, "Write a word first."),
        ("cat", [0.5] * 4, "cat is on the map already."),
        ("stone", [0.0] * 4, "the word points nowhere"),
    ):
        describe(demo, name, features)
        expect(refused).to_contain_text(why)
        assert demo.get("added") == []
    for number in range(5):
        describe(demo, f"<b>{number}", [0.1, 0.2, 0.3, 0.2 * number])
        expect(refused).to_be_empty()
    describe(demo, "one more", [0.5] * 4)
    expect(refused).to_contain_text("room for 5 words")
    assert [each["word"] for each in demo.get("added")] == [f"<b>{number}" for number in range(5)]
    assert_shows(demo, view="animal-soft", added=demo.get("added"), selected=14)


@pytest.mark.slow
@pytest.mark.parametrize("own", ["a*b*c", "*", "`x`", "\\", "שלום", "$&{word}"])
def test_a_word_of_any_signs_stays_as_it_was_written(demo: DemoPage, own: str) -> None:
    describe(demo, own, [0.9, 0.4, 0.9, 0.0])
    names = demo.seen.locator("em")
    expect(names.first).to_have_text(own)
    expect(demo.page.locator("caption em")).to_have_text(own)
    # What follows the word in the line stands to its right, whichever way the word is read.
    word(demo, "cat").check()
    expect(names.nth(1)).not_to_have_text(own)
    assert names.first.evaluate("em => getComputedStyle(em).unicodeBidi") == "isolate"
    describe(demo, own, [0.5] * 4)
    expect(demo.page.get_by_role("alert").locator("em")).to_have_text(own)


@pytest.mark.slow
def test_what_was_just_seen_and_what_to_try(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    caption = demo.page.locator(".mha-caption")
    expect(tried).to_contain_text("horse and fish lie in one place")
    expect(caption).to_contain_text("The map leaves out four legs, furniture.")
    word(demo, "sofa").check()
    expect(tried).to_contain_text("choose horse")
    expect(demo.seen).to_contain_text("Closest on this map: cushion (.84).")
    expect(demo.seen).to_contain_text("The map shows two features, the cosine counts all four.")
    view(demo).select_option(PRINCIPAL)
    expect(tried).to_contain_text("which numbers would you give to tiger?")
    expect(caption).to_contain_text("Across: .77 animal + .11 four legs − .63 furniture.")
    expect(demo.seen).to_contain_text("the nearest to sofa is mat (.93)")
    word(demo, "fish").check()
    expect(demo.seen).to_contain_text("the nearest to fish is cat (.79)")
    expect(demo.seen).to_contain_text("Closest on this map: kitten (.77).")
    expect(demo.seen).to_contain_text("the cosine compares only where they point")
    demo.set(added=[TIGER], selected=10)
    expect(tried).to_contain_text("add a word that is near to cat and to table")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(EmbeddingMap(language="en"), tmp_path, dark=dark, over="http") as demo:
        describe(demo, "", [0.5] * 4)
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            for inputs in (OPENING, {**OPENING, "added": [TIGER], "view": PRINCIPAL}):
                demo.set(**inputs)
                assert_accessible(demo.page)
                assert_fits(demo.page)
