"""The mask painter in Chromium: its page computes what mha_lib does, and can be used."""

import random
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

from mha_lib import causal_mask, window_mask
from mha_lib.widgets import MaskPainter
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, words_in

N = 6
CAUSAL = causal_mask(N)
WORDS = ["The", "cat", "sat", "on", "the", "mat"]


opened = opened_once(MaskPainter)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(length=N, reading="keep", when="before", mask=CAUSAL.tolist())
    return opened


def box(demo: DemoPage, query: int, key: int) -> Locator:
    return demo.page.locator(".mha-boxes tbody tr").nth(query).locator("input").nth(key)


def drawn(demo: DemoPage) -> tuple[list[list[float]], list[str]]:
    """The weights that the cells' colours are made of, and what the sums' column says."""
    rows = demo.page.locator(".mha-both > :last-child tbody tr")
    numbers = rows.evaluate_all(
        """rows => rows.map(row => [...row.querySelectorAll(".mha-weight")].map(cell =>
          Number(cell.style.getPropertyValue("--mha-weight"))))"""
    )
    return numbers, rows.locator(".mha-row-sum").all_inner_texts()


def test_the_page_computes_what_mha_lib_does(demo: DemoPage) -> None:
    chance = random.Random(5)
    python = MaskPainter()
    fixed = [CAUSAL, ~CAUSAL, torch.zeros(N, N, dtype=torch.bool), window_mask(N, window=1)]
    states = [
        {"mask": mask.tolist(), "length": length, "reading": reading, "when": when}
        for mask in [*fixed, *(torch.rand(N, N) < chance.random() for _ in range(4))]
        for length in (N, 3)
        for reading in ("keep", "ignore")
        for when in ("before", "after")
    ]
    pages = demo.page.evaluate(
        """async ([states, recipe]) => {
          const { compute } = await mha.load("mask_painter.js");
          return states.map(state => compute({ ...state, recipe }));
        }""",
        [states, python.recipe],
    )
    for state, page in zip(states, pages, strict=True):
        assert_same(page, MaskPainter(**state).result)


@pytest.mark.slow
def test_deeds_in_the_page_do_what_they_do_in_python(demo: DemoPage) -> None:
    python = MaskPainter()

    def assert_shown() -> None:
        assert_same(demo.get("result"), python.result)
        weights, sums = drawn(demo)
        torch.testing.assert_close(
            torch.tensor(weights), torch.tensor(python.result["weights"]), atol=1e-6, rtol=0
        )
        for shown, total in zip(sums, python.result["sums"], strict=True):
            number = f"{total:.2f}".removeprefix("0")
            assert shown == (number if abs(total - 1) < 1e-6 else f"{number} ≠ 1")

    assert_shown()
    demo.button("after softmax").click()
    python.when = "after"
    assert_shown()
    expect(demo.seen).to_contain_text("no longer sum to 1: The (.17), cat (.14), sat (.50)")
    expect(demo.seen).to_contain_text("Leak: the rows of The, cat, sat, on, and the still depend")

    demo.button("before softmax").click()
    box(demo, 1, 2).click()
    mask = CAUSAL.clone()
    mask[1, 2] = True
    python.when, python.mask = "before", mask.tolist()
    assert_shown()
    expect(demo.seen).to_contain_text("This word looks at a later one: cat.")
    expect(demo.button("free-hand")).to_have_attribute("aria-pressed", "true")

    demo.button("padding").click()
    python.length = 3
    python.mask = [[True] * 3 + [False] * 3] * N
    assert_shown()
    expect(demo.seen).to_contain_text("Padding: nobody may look at [pad].")
    demo.button("free-hand").click()
    python.mask = [[True] * N] * N
    assert_shown()
    expect(demo.seen).to_contain_text("these rows give it weight: The, cat, and sat.")

    demo.button("window").click()
    python.length, python.mask = N, window_mask(N, window=1).tolist()
    assert_shown()


@pytest.mark.slow
def test_a_preset_is_right_in_the_reading_that_is_set(demo: DemoPage) -> None:
    demo.button("ignore (PyTorch)").click()
    assert demo.get("mask") == CAUSAL.tolist()
    expect(demo.seen).to_contain_text("This is the causal mask turned round")
    expect(demo.seen).to_contain_text("May look at nothing: mat.")
    expect(demo.button("free-hand")).to_have_attribute("aria-pressed", "true")
    demo.button("Turn every tick round").click()
    assert demo.get("mask") == (~CAUSAL).tolist()
    assert demo.get("result")["keep"] == CAUSAL.tolist()
    expect(demo.button("causal")).to_have_attribute("aria-pressed", "true")
    for name in ("window", "causal"):
        demo.button(name).click()
        expect(demo.button(name)).to_have_attribute("aria-pressed", "true")
    assert demo.get("result")["keep"] == CAUSAL.tolist()


@pytest.mark.slow
def test_the_grid_can_be_used_without_a_mouse(demo: DemoPage) -> None:
    page = demo.page
    stops = page.locator(".mha-boxes input[tabindex='0']")
    expect(stops).to_have_count(1)
    stops.focus()
    for key, place in [
        ("Home", None),
        ("ArrowDown", None),
        ("ArrowRight", None),
        ("ArrowRight", (1, 2)),
        ("End", (1, 5)),
        ("ArrowRight", (1, 5)),
        ("ArrowUp", (0, 5)),
        ("ArrowUp", (0, 5)),
    ]:
        page.keyboard.press(key)
        if place:
            expect(box(demo, *place)).to_be_focused()
            expect(stops).to_have_count(1)
    page.keyboard.press("Space")
    expect(box(demo, 0, 5)).to_be_checked()
    expect(box(demo, 0, 5)).to_be_focused()
    expect(box(demo, 0, 5)).to_have_accessible_name("The looks at mat")
    assert demo.get("mask")[0] == [True, False, False, False, False, True]


@pytest.mark.slow
def test_a_row_that_sees_nothing_is_zeros_and_says_so(demo: DemoPage) -> None:
    box(demo, 0, 0).click()
    expect(demo.seen).to_contain_text("May look at nothing: The. Its weights are zeros here")
    weights, sums = drawn(demo)
    assert weights[0] == [0] * N
    assert sums[0] == ".00 ≠ 1"


@pytest.mark.slow
def test_what_softmax_is_given(demo: DemoPage) -> None:
    demo.page.locator("summary").click()
    cells = demo.page.locator("details tbody tr").nth(1).locator("td")
    expect(cells).to_have_text([".00", ".00", "−∞", "−∞", "−∞", "−∞"])
    demo.button("after softmax").click()
    expect(cells).to_have_text([".00", ".00", "1.63", ".00", ".00", "1.63"])
    demo.page.locator("summary").click()


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    python = MaskPainter(when="after", language="en")
    shown = demo.packed(python, "el => el.querySelector('.mha-seen').textContent")
    assert "Rows that no longer sum to 1" in shown


@pytest.mark.usefixtures("dots_for_letters")
@pytest.mark.slow
def test_every_word_on_the_page_is_the_catalogues(tmp_path: Path) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    with open_demo(MaskPainter(language="en"), tmp_path) as demo:
        for state in ({}, {"when": "after", "length": 3}, {"reading": "ignore"}):
            demo.set(**state)
            # "and" is from the browser's own way to write lists in the page's language.
            left = words_in(demo) - {*WORDS, "pad", "and"}
            assert not left


@pytest.mark.slow
@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390)])
def test_it_is_accessible_and_fits(tmp_path: Path, dark: bool, width: int) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(
        MaskPainter(language="en"), tmp_path, dark=dark, width=width, over="http"
    ) as demo:
        demo.page.locator("summary").click()
        states = ({}, {"when": "after"}, {"length": 3}, {"reading": "ignore"})
        for size in ("100%", "200%"):
            demo.page.evaluate("size => document.documentElement.style.fontSize = size", size)
            for state in states:
                demo.set(**{"when": "before", "length": N, "reading": "keep"} | state)
                assert_fits(demo.page, boxes_scroll=True)
                # Between them, these two hold every part that the demo has.
                if size == "100%" and state in ({"when": "after"}, {"reading": "ignore"}):
                    assert_accessible(demo.page, within=".mha")
