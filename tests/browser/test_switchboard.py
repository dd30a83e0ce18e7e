"""The switchboard in Chromium, as the built site carries it: without a kernel."""

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, expect

from mha_lib.widgets import Switchboard
from mha_lib.widgets.switchboard import KINDS, SOURCE, TARGET
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, words_in

MASKED, CROSS = "masked self-attention", "cross-attention"
ENCODER = "encoder self-attention"


opened = opened_once(Switchboard)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(kind="cross", written=len(TARGET), query=2)
    return opened


def slider(demo: DemoPage) -> Locator:
    return demo.page.get_by_label("Tokens in the decoder")


def parts(demo: DemoPage) -> list[str]:
    """What the two boxes say of the encoder's and of the decoder's sentence."""
    return demo.page.locator(".mha-side").evaluate_all("boxes => boxes.map(b => b.dataset.part)")


def drawn(demo: DemoPage) -> list[list[str]]:
    rows = demo.page.locator(".mha-heatmap tbody tr")
    return rows.evaluate_all(
        """rows => rows.map(row => [...row.querySelectorAll("td")].map(cell => cell.textContent))"""
    )


def shown(python: Switchboard) -> list[list[str]]:
    return [
        [
            f"{weight:.2f}".removeprefix("0") if kept else "✕shut"
            for kept, weight in zip(keep, weights, strict=True)
        ]
        for keep, weights in zip(python.result["keep"], python.result["weights"], strict=True)
    ]


def test_choices_on_the_page_do_what_they_do_in_python(demo: DemoPage) -> None:
    python = Switchboard()

    def assert_shown(*roles: str) -> None:
        assert_same(demo.get("result"), python.result)
        assert demo.get("query") == python.query
        assert drawn(demo) == shown(python)
        assert parts(demo) == list(roles)

    assert_shown("answers", "asks")
    expect(demo.seen).to_contain_text("mèo gives most to black: .87.")
    expect(demo.seen).to_contain_text("The row of mèo has to say the next word: đen.")

    demo.button("ngồi").click()
    python.query = 4
    assert_shown("answers", "asks")
    expect(demo.button("ngồi")).to_be_focused()
    expect(demo.seen).to_contain_text("Of the words that ngồi may see, none fits better")
    expect(demo.seen).to_contain_text("has to say that the sentence ends here")

    demo.button(ENCODER).click()
    python.kind = "encoder"  # with four words, so the last of them asks
    assert_shown("both", "none")
    expect(demo.seen).to_contain_text("sat gives most to cat: .87.")
    expect(demo.seen).not_to_contain_text("next word")

    demo.button(MASKED).click()
    python.kind = "decoder"
    demo.button("Con").click()
    python.query = 1
    assert_shown("none", "both")
    expect(demo.seen).to_contain_text("shut: 10 of 25 cells")
    expect(demo.seen).to_contain_text("mèo would fit Con better still, but it comes later")


@pytest.mark.slow
def test_the_page_computes_what_mha_lib_does(demo: DemoPage) -> None:
    states = [
        {"kind": kind, "written": written, "query": 0}
        for kind in KINDS
        for written in range(1, len(TARGET) + 1)
    ]
    pages = demo.page.evaluate(
        """async ([states, recipe]) => {
          const { compute } = await mha.load("switchboard.js");
          return states.map(state => compute({ ...state, recipe }));
        }""",
        [states, Switchboard().recipe],
    )
    for state, page in zip(states, pages, strict=True):
        assert_same(page, Switchboard(**state).result)


@pytest.mark.slow
def test_it_can_be_used_without_a_mouse(demo: DemoPage) -> None:
    page = demo.page
    demo.button(ENCODER).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(demo.button(MASKED)).to_have_attribute("aria-pressed", "true")
    expect(demo.button(MASKED)).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(slider(demo)).to_be_focused()
    page.keyboard.press("Home")
    assert demo.get("written") == 1
    assert demo.get("query") == 0
    expect(demo.seen).to_contain_text("So far there is one token, and nothing to shut.")
    expect(demo.seen).to_contain_text("may look at nothing but itself")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(slider(demo)).to_be_focused()
    assert drawn(demo) == shown(Switchboard(kind="decoder", written=3))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(demo.button("Con")).to_be_focused()
    page.keyboard.press("Enter")
    assert demo.get("query") == 1
    expect(demo.button("Con")).to_be_focused()
    row = page.locator(".mha-heatmap tbody tr").nth(1)
    expect(row).to_have_attribute("aria-current", "true")


@pytest.mark.slow
def test_between_two_sentences_each_weight_is_a_line(demo: DemoPage) -> None:
    """It is a picture of the table, and clicks on its words do what the table's buttons do."""
    expect(demo.page.locator(".mha-links")).to_have_attribute("aria-hidden", "true")

    def drawn_widths() -> list[float]:
        return demo.page.locator(".mha-links [data-selected] path").evaluate_all(
            "paths => paths.map(path => parseFloat(path.style.strokeWidth))"
        )

    def assert_drawn(python: Switchboard) -> None:
        row = torch.tensor(python.result["weights"][python.query])
        widths = torch.tensor(drawn_widths())
        torch.testing.assert_close(widths / widths.sum(), row, atol=1e-3, rtol=0)

    assert_drawn(Switchboard())
    demo.page.locator(".mha-links").get_by_text("đen").click()
    assert_drawn(Switchboard(query=3))
    assert demo.get("query") == 3
    row = demo.page.locator(".mha-heatmap tbody tr").nth(3)
    expect(row).to_have_attribute("aria-current", "true")
    slider(demo).fill("2")
    expect(demo.page.locator(".mha-links g")).to_have_count(2)
    for kind in (ENCODER, MASKED):  # within one sentence there is nothing between
        demo.button(kind).click()
        expect(demo.page.locator(".mha-links")).to_have_count(0)


@pytest.mark.slow
def test_each_word_is_said_in_its_language(demo: DemoPage) -> None:
    spoken = demo.seen.locator("em")
    languages = spoken.evaluate_all("all => all.map(word => [word.textContent, word.lang])")
    assert languages == [["mèo", "vi"], ["black", "en"], ["mèo", "vi"], ["đen", "vi"]]
    expect(demo.page.locator("th[scope=col] [lang=en]")).to_have_count(len(SOURCE))
    expect(demo.page.locator("th[scope=row] [lang=vi]")).to_have_count(len(TARGET))


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """In Jupyter the choice arrives before its result: until then the old table stays whole."""
    python = Switchboard(kind="encoder", language="en")
    said = demo.packed(
        python,
        """(el, model) => {
          const opened = el.querySelector("[aria-live=polite]").textContent;
          model.state.kind = "cross";
          model.heard["change:kind"]();
          return [opened, el.querySelector("[aria-live=polite]").textContent];
        }""",
    )
    assert said[0] == said[1]
    assert said[0].startswith("Encoder self-attention")


@pytest.mark.usefixtures("dots_for_letters")
@pytest.mark.slow
def test_every_word_on_the_page_is_the_catalogues(tmp_path: Path) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    words = {word for token in (*SOURCE, *TARGET) for word in re.findall(r"\w+", token.text)}
    with open_demo(Switchboard(language="en"), tmp_path) as demo:
        for kind in KINDS:
            demo.set(kind=kind, query=1)
            assert not words_in(demo) - words


@pytest.mark.slow
@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390), (True, 390)])
def test_it_is_accessible_and_fits(tmp_path: Path, dark: bool, width: int) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(
        Switchboard(language="en"), tmp_path, dark=dark, width=width, over="http"
    ) as demo:
        for size in ("100%", "200%"):
            demo.page.evaluate("size => document.documentElement.style.fontSize = size", size)
            for kind in KINDS:
                demo.set(kind=kind, query=1)
                assert_fits(demo.page, boxes_scroll=True)
                if size == "100%" and kind != "encoder":
                    assert_accessible(demo.page, within=".mha")
