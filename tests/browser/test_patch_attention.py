"""The picture in patches, in Chromium, as the built site carries it: without a kernel."""

import json
import re
from itertools import product
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

from mha_lib.widgets import PatchAttention
from mha_lib.widgets.patch_attention import KINDS, PATCH_SIZES, WORDS
from mha_lib.widgets.picture import SIZE, seaside
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, words_in

BY_PLACE, BY_WORD = "a patch: who is near me?", "a word: where am I?"
SMALLER = "4 × 4 pixels"


opened = opened_once(PatchAttention)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(patch_size=8, kind="colour", pixel=[16, 0], word="sun")
    return opened


def patch(demo: DemoPage, row: int, column: int) -> Locator:
    name = re.compile(f"^row {row}, column {column}: [.\\d]+$")
    return demo.page.get_by_role("button", name=name)


def said(demo: DemoPage) -> Locator:
    """How many tokens there are, then where whoever asks looks."""
    return demo.page.locator("[aria-live=polite]")


def shown(demo: DemoPage) -> list[str]:
    return demo.page.locator(".mha-cut .mha-weight").all_text_contents()


def rounded(python: PatchAttention) -> list[str]:
    return [f"{weight:.2f}".removeprefix("0") for weight in python.result["weights"]]


def test_choices_on_the_page_do_what_they_do_in_python(demo: DemoPage) -> None:
    python = PatchAttention()

    def assert_shown() -> None:
        assert_same(demo.get("result"), python.result)
        assert shown(demo) == rounded(python)

    assert_shown()
    expect(said(demo).first).to_contain_text("4 × 4 = 16 tokens")
    expect(said(demo).first).to_contain_text("16 × 16 = 256 scores")
    expect(said(demo).last).to_contain_text(
        "The patch in row 3, column 1 (sea) gives most to itself and to row 3, column 4 (sea):"
    )

    patch(demo, 1, 4).click()
    python.pixel = [0, 24]
    assert_shown()
    expect(patch(demo, 1, 4)).to_be_focused()
    expect(patch(demo, 1, 4)).to_have_attribute("aria-pressed", "true")
    expect(said(demo).last).to_contain_text("column 4 (sun) gives most to itself: .93.")

    demo.button(SMALLER).click()
    python.patch_size = 4
    assert_shown()
    expect(demo.button(SMALLER)).to_be_focused()
    expect(said(demo).first).to_contain_text("64 × 64 = 4,096 scores")
    expect(said(demo).first).to_contain_text("4 times the tokens of 8 × 8 patches, and 16 times")

    demo.button(BY_WORD).click()
    demo.button("boat").click()
    python.kind, python.word = "word", "boat"
    assert_shown()
    expect(said(demo).first).to_contain_text("5 × 64 = 320 scores")
    expect(said(demo).last).to_contain_text("boat gives most to row 5, column 4 (boat): .82.")


@pytest.mark.slow
def test_the_page_computes_what_mha_lib_does(demo: DemoPage) -> None:
    states = [
        {"patch_size": size, "kind": kind, "pixel": pixel, "word": word}
        for size, kind, pixel, word in product(
            PATCH_SIZES, KINDS, ([0, 0], [18, 13], [SIZE - 1, 7]), WORDS
        )
    ]
    pages = demo.page.evaluate(
        """async ([states, recipe]) => {
          const { compute } = await mha.load("patch_attention.js");
          return states.map(state => compute({ ...state, recipe }));
        }""",
        [states, PatchAttention().recipe],
    )
    for state, page in zip(states, pages, strict=True):
        assert_same(page, PatchAttention(**state).result)


@pytest.mark.slow
def test_it_can_be_used_without_a_mouse(demo: DemoPage) -> None:
    page = demo.page
    demo.button("8 × 8 pixels").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert demo.get("patch_size") == 4
    for _ in range(4):  # the three kinds, then the patches: one stop, the patch that asks
        page.keyboard.press("Tab")
    expect(patch(demo, 5, 1)).to_be_focused()
    page.keyboard.press("ArrowLeft")  # there is nothing to the left
    expect(patch(demo, 5, 1)).to_be_focused()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    expect(patch(demo, 5, 2)).to_be_focused()
    assert demo.get("pixel") == [16, 0]  # going is not yet choosing
    page.keyboard.press("Enter")
    assert demo.get("pixel") == [16, 4]
    expect(patch(demo, 5, 2)).to_be_focused()
    expect(demo.page.locator(".mha-cut [aria-pressed=true]")).to_have_count(1)
    page.keyboard.press("Shift+Tab")
    expect(demo.button(BY_WORD)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert demo.get("word") == "sky"


@pytest.mark.slow
def test_words_are_there_to_choose_where_a_word_asks_and_patches_where_a_patch_does(
    demo: DemoPage,
) -> None:
    expect(demo.button("grass")).to_be_hidden()
    expect(demo.page.locator(".mha-cut button")).to_have_count(16)
    demo.button(BY_WORD).click()
    expect(demo.button("grass")).to_be_visible()
    expect(demo.page.locator(".mha-cut button")).to_have_count(0)
    assert shown(demo) == rounded(PatchAttention(kind="word"))
    demo.button(BY_PLACE).click()
    expect(demo.page.locator(".mha-cut button")).to_have_count(16)


@pytest.mark.slow
def test_the_picture_on_the_page_is_the_one_that_was_drawn(demo: DemoPage) -> None:
    painted = demo.page.get_by_role("img").evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 0, 32, 32).data]"
    )
    pixels = torch.tensor(painted).view(SIZE, SIZE, 4)[..., :3] / 255  # (H, W, C)
    drawn = seaside()[0].permute(1, 2, 0)  # (H, W, C)
    torch.testing.assert_close(pixels, drawn, atol=1 / 255, rtol=0)


@pytest.mark.slow
def test_the_more_weight_a_patch_has_the_more_of_it_shows(demo: DemoPage) -> None:
    faint = demo.page.locator(".mha-cut button").evaluate_all(
        "patches => patches.map(each => Number(each.style.getPropertyValue('--mha-seen')))"
    )
    weights = PatchAttention().result["weights"]
    assert max(faint) == 1
    assert min(faint) >= 0.15
    for one, other in product(range(16), repeat=2):
        if weights[one] > weights[other]:
            assert faint[one] >= faint[other]


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """In Jupyter the choice arrives before its result: until then the old patches stay whole."""
    python = PatchAttention(language="en")
    later = PatchAttention(patch_size=4).result
    counts = demo.packed(
        python,
        f"""(el, {{ state, heard }}) => {{
          const count = () => el.querySelectorAll(".mha-cut li").length;
          const counts = [count()];
          state.patch_size = 4;
          heard["change:word"]();
          counts.push(count());
          state.result = {json.dumps(later)};
          heard["change:result"]();
          counts.push(count());
          return counts;
        }}""",
    )
    assert counts == [16, 16, 64]


@pytest.mark.usefixtures("dots_for_letters")
@pytest.mark.slow
def test_every_word_on_the_page_is_the_catalogues(tmp_path: Path) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    with open_demo(PatchAttention(language="en"), tmp_path) as demo:
        for size, kind, pixel in product(PATCH_SIZES, KINDS, ([0, 0], [0, 24], [18, 18], [24, 0])):
            demo.set(patch_size=size, kind=kind, pixel=pixel)
            assert not words_in(demo), (size, kind, pixel)


@pytest.mark.slow
@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390), (True, 390)])
def test_it_is_accessible_and_fits(tmp_path: Path, dark: bool, width: int) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(
        PatchAttention(language="en"), tmp_path, dark=dark, width=width, over="http"
    ) as demo:
        for size in ("100%", "200%"):
            demo.page.evaluate("size => document.documentElement.style.fontSize = size", size)
            for patch_size, kind in product(PATCH_SIZES, KINDS):
                demo.set(patch_size=patch_size, kind=kind)
                assert_fits(demo.page, boxes_scroll=True)
                # Each of the two sizes and each kind of query, once.
                if size == "100%" and (patch_size, kind) in ((8, "colour"), (4, "word")):
                    assert_accessible(demo.page, within=".mha")
