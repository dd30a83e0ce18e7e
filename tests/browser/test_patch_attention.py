"""The picture in patches, in Chromium, as the built site carries it: without a kernel."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, expect

from mha_lib.widgets import PatchAttention, assets
from mha_lib.widgets.patch_attention import KINDS, PATCH_SIZES, WORDS
from mha_lib.widgets.picture import SIZE, seaside
from tests.browser.accessible import assert_accessible
from tests.browser.demo_page import DemoPage, open_demo

BY_PLACE, BY_WORD = "a patch: who is near me?", "a word: where am I?"
SMALLER = "4 × 4 pixels"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPage]:
    with open_demo(PatchAttention(language="en"), tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(patch_size=8, kind="colour", pixel=[16, 0], word="sun")
    return opened


def button(demo: DemoPage, name: str) -> Locator:
    return demo.page.get_by_role("button", name=name, exact=True)


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


def assert_same(page: dict[str, Any], python: dict[str, Any]) -> None:
    assert page.keys() == python.keys()
    for name, value in python.items():
        if name in ("scores", "weights"):
            expected = torch.tensor(value, dtype=torch.float64)
            actual = torch.tensor(page[name], dtype=torch.float64)
            torch.testing.assert_close(actual, expected, atol=1e-6, rtol=0)
        else:
            assert page[name] == value, name


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

    button(demo, SMALLER).click()
    python.patch_size = 4
    assert_shown()
    expect(button(demo, SMALLER)).to_be_focused()
    expect(said(demo).first).to_contain_text("64 × 64 = 4,096 scores")
    expect(said(demo).first).to_contain_text("4 times the tokens of 8 × 8 patches, and 16 times")

    button(demo, BY_WORD).click()
    button(demo, "boat").click()
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
    button(demo, "8 × 8 pixels").focus()
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
    expect(button(demo, BY_WORD)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert demo.get("word") == "sky"


@pytest.mark.slow
def test_words_are_there_to_choose_where_a_word_asks_and_patches_where_a_patch_does(
    demo: DemoPage,
) -> None:
    expect(button(demo, "grass")).to_be_hidden()
    expect(demo.page.locator(".mha-cut button")).to_have_count(16)
    button(demo, BY_WORD).click()
    expect(button(demo, "grass")).to_be_visible()
    expect(demo.page.locator(".mha-cut button")).to_have_count(0)
    assert shown(demo) == rounded(PatchAttention(kind="word"))
    button(demo, BY_PLACE).click()
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
    state = {name: getattr(python, name) for name in (*python.constants, *python.inputs)}
    state |= {"result": python.result, "texts": python.texts, "language": "en"}
    counts = demo.page.evaluate(
        """async ([source, state, later]) => {
          const blob = new Blob([source], { type: "text/javascript" });
          const module = await import(URL.createObjectURL(blob));
          const heard = {};
          const on = (name, listener) => { heard[name] = listener; };
          const model = { get: name => state[name], on, off() {} };
          const el = document.createElement("div");
          module.default.render({ model, el });
          const count = () => el.querySelectorAll(".mha-cut li").length;
          const counts = [count()];
          state.patch_size = 4;
          heard["change:word"]();
          counts.push(count());
          state.result = later;
          heard["change:result"]();
          counts.push(count());
          return counts;
        }""",
        [
            assets.inlined_module("patch_attention.js"),
            state,
            PatchAttention(patch_size=4).result,
        ],
    )
    assert counts == [16, 16, 64]


@pytest.mark.slow
def test_every_word_on_the_page_is_the_catalogues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    dotted = {
        demo: {key: re.sub(r"\{\w+\}|\w", _dot, text) for key, text in texts.items()}
        for demo, texts in assets.strings("en").items()
    }
    monkeypatch.setattr(assets, "strings", lambda language: dotted)
    with open_demo(PatchAttention(language="en"), tmp_path) as demo:
        for size, kind, pixel in product(PATCH_SIZES, KINDS, ([0, 0], [0, 24], [18, 18], [24, 0])):
            demo.set(patch_size=size, kind=kind, pixel=pixel)
            text = demo.page.locator(".mha").inner_text()
            assert not re.findall(r"[^\W\d]+", text), (size, kind, pixel)


def _dot(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("{") else "·"


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
                wide = demo.page.evaluate("document.documentElement.scrollWidth")
                assert wide <= width, (size, patch_size, kind)
                # Each of the two sizes and each kind of query, once.
                if size == "100%" and (patch_size, kind) in ((8, "colour"), (4, "word")):
                    assert_accessible(demo.page, within=".mha")
