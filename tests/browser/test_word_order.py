"""Permute the words in Chromium, as the built site carries it: without a kernel."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import WordOrder, word_order
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, written

START = "black dog chased cat"
BACK = f"Back to {START}"
BLACK, DOG, CHASED, CAT = range(4)


opened = opened_once(WordOrder)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests."""
    opened.set(order=word_order.OPENING, positions=False)
    return opened


def move(demo: DemoPage, word: str, side: str) -> Locator:
    return demo.page.get_by_role("button", name=f"Move {word} to the {side}", exact=True)


def positions(demo: DemoPage) -> Locator:
    return demo.page.get_by_label("add positions")


def sentence(demo: DemoPage) -> str:
    return " ".join(demo.page.locator(".mha-cards .mha-word").all_inner_texts())


def shown(demo: DemoPage, caption: str) -> list[str]:
    table = demo.page.locator("table").filter(has=demo.page.locator("caption", has_text=caption))
    return table.locator("tbody td").all_inner_texts()


def assert_shows(demo: DemoPage, python: WordOrder) -> None:
    result = python.result
    assert_same(demo.get("result"), result)
    assert sentence(demo) == " ".join(word_order.WORDS[word] for word in python.order)
    assert shown(demo, "What goes in") == [written(n) for row in result["rows"] for n in row]
    assert shown(demo, "Weights") == [written(n) for row in result["weights"] for n in row]
    taken = zip(result["mix"], result["same"], strict=True)
    assert shown(demo, "takes away") == [
        text
        for row, same in taken
        for text in (*map(written, row), "= same" if same else "≠ other")
    ]


def test_moving_a_word_changes_nothing_until_positions_are_added(demo: DemoPage) -> None:
    python = WordOrder(language="en")
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("dog chased black cat. Without positions")
    expect(demo.seen).to_contain_text(f"every word takes away the same as in {START}")
    expect(demo.seen).to_contain_text("black gives .48 to dog and .48 to cat: nothing tells it")
    positions(demo).check()
    python.positions = True
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text(f"every word takes away something else than in {START}")
    expect(demo.seen).to_contain_text("black gives .11 to dog and .77 to cat. cat is nearer.")


@pytest.mark.slow
def test_every_order_in_the_page_is_mha_libs(demo: DemoPage) -> None:
    python = WordOrder(language="en")
    for with_positions in (False, True):
        positions(demo).set_checked(with_positions)
        python.positions = with_positions
        for word, side, order in [
            ("black", "left", [DOG, BLACK, CHASED, CAT]),
            ("dog", "right", [BLACK, DOG, CHASED, CAT]),
            ("cat", "left", [BLACK, DOG, CAT, CHASED]),
            ("dog", "right", [BLACK, CAT, DOG, CHASED]),
        ]:
            move(demo, word, side).click()
            python.order = order
            assert_shows(demo, python)
        demo.page.get_by_role("button", name=BACK).click()
        python.order = [BLACK, DOG, CHASED, CAT]
        assert_shows(demo, python)
        expect(demo.seen).to_contain_text("this is the order that all others are compared with")
        demo.set(order=word_order.OPENING)


@pytest.mark.slow
def test_black_between_the_animals_is_torn(demo: DemoPage) -> None:
    positions(demo).check()
    demo.set(order=[DOG, BLACK, CAT, CHASED])
    expect(demo.seen).to_contain_text("black gives .46 to dog and .48 to cat, nearly the same")


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    left = move(demo, "black", "left")
    left.focus()
    keyboard.press("Enter")
    assert sentence(demo) == "dog black chased cat"
    expect(left).to_be_focused()
    keyboard.press("ArrowRight")
    keyboard.press("ArrowRight")
    assert sentence(demo) == "dog chased cat black"
    expect(left).to_be_focused()
    # At the end it says so, stays, and does nothing.
    right = move(demo, "black", "right")
    expect(right).to_have_attribute("aria-disabled", "true")
    keyboard.press("ArrowRight")
    right.focus()
    keyboard.press("Space")
    assert sentence(demo) == "dog chased cat black"
    keyboard.press("Tab")
    expect(positions(demo)).to_be_focused()
    keyboard.press("Space")
    assert demo.get("positions")
    keyboard.press("Tab")
    keyboard.press("Enter")
    assert sentence(demo) == START
    expect(demo.page.get_by_role("button", name=BACK)).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(WordOrder(language="en"), tmp_path, dark=dark, over="http") as demo:
        positions(demo).check()
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page)
            assert_fits(demo.page)
