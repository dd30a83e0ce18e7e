"""Query, key, value by hand in Chromium, as the built site carries it: without a kernel."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import QkvByHand, qkv_by_hand
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, written

GIVE = "Give W_Q the numbers of W_K"
BACK = "Set everything back"
CAT, SAT, ON, MAT = range(4)


opened = opened_once(QkvByHand)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.get_by_role("button", name=BACK).click()
    return opened


def cell(demo: DemoPage, name: str, row: int, column: int) -> Locator:
    return demo.page.get_by_label(f"{name}, row {row}, column {column}", exact=True)


def queries(demo: DemoPage) -> Locator:
    return demo.page.get_by_role("toolbar", name="Query word").get_by_role("button")


def table(demo: DemoPage, caption: str) -> Locator:
    return demo.page.locator("table").filter(has=demo.page.locator("caption", has_text=caption))


def shown(place: Locator) -> list[str]:
    return place.locator("tbody td").all_inner_texts()


def pair(numbers: list[float]) -> str:
    return f"[{', '.join(map(written, numbers))}]"


def assert_shows(demo: DemoPage, python: QkvByHand) -> None:
    result, query = python.result, python.query
    assert_same(demo.get("result"), result)
    products, scores = result["products"][query], result["scores"][query]
    weights = result["weights"][query]
    words = range(4)
    assert shown(table(demo, "meets every key")) == [
        text
        for j in words
        for text in (
            pair(result["k"][j]),
            written(products[j]),
            written(scores[j]),
            written(weights[j]),
        )
    ]
    shares = [[weights[j] * number for number in result["v"][j]] for j in words]
    assert shown(table(demo, "takes away")) == [
        *(
            text
            for j in words
            for text in (written(weights[j]), pair(result["v"][j]), pair(shares[j]))
        ),
        *("", "", pair(result["mix"][query])),
    ]
    assert shown(table(demo, "Scores")) == [written(n) for row in result["scores"] for n in row]
    heat = demo.page.locator(".mha-heatmap")
    assert shown(heat) == [written(n) for row in result["weights"] for n in row]
    expect(demo.seen).to_contain_text(
        f"{qkv_by_hand.WORDS[query]} asks with {pair(result['q'][query])}"
    )
    expect(demo.seen).to_contain_text(f"It takes away {pair(result['mix'][query])}.")


def test_every_number_in_the_page_is_mha_libs(demo: DemoPage) -> None:
    python = QkvByHand(language="en")
    assert_shows(demo, python)
    for name, row, column, number in [("W_V", 2, 1, 2.3), ("W_K", 3, 2, -1.0), ("W_Q", 1, 1, 0.4)]:
        cell(demo, name, row, column).fill(f"{number:g}")
        matrix = [list(each) for each in getattr(python, name)]
        matrix[row - 1][column - 1] = number
        setattr(python, name, matrix)
        assert_shows(demo, python)
    queries(demo).nth(MAT).click()
    python.query = MAT
    assert_shows(demo, python)
    demo.page.get_by_role("button", name=GIVE).click()
    python.W_Q = python.W_K
    assert_shows(demo, python)


@pytest.mark.slow
def test_the_query_is_worked_out_by_hand(demo: DemoPage) -> None:
    lines = demo.page.locator(".mha-working p")
    expect(lines.nth(0)).to_have_text("q1 = .45 × 0 + .33 × (-1) + .71 × 6 + .18 × 0 = 3.93")
    expect(lines.nth(1)).to_have_text("q2 = .45 × (-3) + .33 × 3 + .71 × 0 + .18 × 3 = .18")
    cell(demo, "W_Q", 1, 1).fill("0.001")
    expect(lines.nth(0)).to_have_text("q1 = .45 × 0.001 + .33 × (-1) + .71 × 6 + .18 × 0 ≈ 3.93")


@pytest.mark.slow
def test_a_change_says_and_marks_how_far_it_travels(demo: DemoPage) -> None:
    moved = demo.page.locator("td[data-moved]")
    cell(demo, "W_V", 2, 1).fill("2")
    expect(demo.seen).to_contain_text("W_V changed: the values moved")
    # The four values, what each of them adds, and the sum.
    expect(moved).to_have_count(9)
    assert set(
        moved.evaluate_all("all => all.map(each => each.closest('table').caption.innerText)")
    ) == {"What sat takes away"}
    cell(demo, "W_Q", 3, 1).fill("5")
    expect(demo.seen).to_contain_text("W_Q changed: the queries moved")
    cell(demo, "W_K", 1, 1).fill("0")
    expect(demo.seen).to_contain_text("W_K changed: the keys moved")
    queries(demo).nth(ON).click()
    expect(moved).to_have_count(0)
    expect(demo.seen).not_to_contain_text("changed")


@pytest.mark.slow
def test_one_matrix_for_both_makes_scores_symmetric_and_sat_looks_at_itself(
    demo: DemoPage,
) -> None:
    expect(demo.seen).to_contain_text("It gives .53 to cat, .42 to mat, .03 to on, and .02 to sat")
    expect(demo.seen).not_to_contain_text("symmetric")
    demo.page.get_by_role("button", name=GIVE).click()
    expect(demo.seen).to_contain_text("It gives .59 to sat")
    expect(demo.seen).to_contain_text("symmetric")


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(demo: DemoPage) -> None:
    words = queries(demo)
    words.nth(SAT).focus()
    demo.page.keyboard.press("ArrowLeft")
    expect(words.nth(CAT)).to_be_focused()
    assert demo.get("query") == CAT
    demo.page.keyboard.press("Tab")
    expect(cell(demo, "W_Q", 1, 1)).to_be_focused()
    demo.page.keyboard.press("ArrowUp")
    assert demo.get("W_Q")[0][0] == 1
    demo.page.keyboard.press("Control+A")
    demo.page.keyboard.type("-2.5")
    assert demo.get("W_Q")[0][0] == -2.5
    back = demo.page.get_by_role("button", name=BACK)
    back.focus()
    demo.page.keyboard.press("Enter")
    expect(back).to_be_focused()
    assert demo.get("W_Q") == demo.get("recipe")["opening"]["W_Q"]
    assert demo.get("query") == SAT
    expect(cell(demo, "W_Q", 1, 1)).to_have_value("0")


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["", "21", "-"])
def test_what_is_no_number_is_answered_and_not_used(demo: DemoPage, typed: str) -> None:
    field = cell(demo, "W_K", 1, 2)
    before = demo.get("result")
    field.focus()
    demo.page.keyboard.press("Control+A")
    demo.page.keyboard.press("Delete")
    demo.page.keyboard.type(typed)
    expect(field).to_have_attribute("aria-invalid", "true")
    message = demo.page.locator(".mha-error")
    kept = 2 if typed == "21" else 4
    expect(message).to_have_text(f"Write a number from -20 to 20. Until then {kept} stays in use.")
    assert field.get_attribute("aria-describedby") == message.get_attribute("id")
    if kept == 4:
        assert demo.get("result") == before
    demo.page.get_by_role("button", name=BACK).click()
    expect(message).to_be_hidden()
    expect(field).to_have_attribute("aria-invalid", "false")
    expect(field).to_have_value("4")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(QkvByHand(language="en"), tmp_path, dark=dark, over="http") as demo:
        demo.page.get_by_role("button", name=GIVE).click()
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page)
            assert_fits(demo.page)
