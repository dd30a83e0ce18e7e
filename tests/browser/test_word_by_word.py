"""The demo that writes word by word in Chromium, as the built site carries it: no kernel."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from mha_lib.widgets import WordByWord
from mha_lib.widgets.word_by_word import VOCABULARY
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once

STEPS = range(1, 7)


opened = opened_once(WordByWord)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(step=5, cache=True)
    return opened


def cells(demo: DemoPage, table: str) -> list[list[str]]:
    """The text of each row's cells, without its header."""
    return demo.page.locator(f".mha-{table} tbody tr").evaluate_all(
        """rows => rows.map(row => [...row.querySelectorAll("td")].map(cell => cell.textContent))"""
    )


def two(number: float) -> str:
    text = f"{number:.2f}".removeprefix("0")
    return "0" if number == 0 else text


def rows_of(python: WordByWord) -> list[list[str]]:
    """What the first table must show: marks for query and pair, then the weights."""
    result = python.result
    rows = []
    for place in range(python.step):
        newest = place == python.step - 1
        if place not in result["projected"]:
            rows.append(["–not needed", "✓ kept", "not needed again"])
            continue
        computed = result["projected"].index(place)
        mark = "+ new" if newest else "↻ again"
        pairs = zip(result["weights"][computed], result["keep"][computed], strict=True)
        weights = [
            f"{weight:.2f}".removeprefix("0") if kept else "✕hidden: it comes later"
            for weight, kept in pairs
        ]
        rows.append([mark, mark, *weights])
    return rows


def assert_shows(demo: DemoPage, python: WordByWord) -> None:
    assert_same(demo.get("result"), python.result)
    result = python.result
    assert cells(demo, "rows") == rows_of(python)
    numbers = zip(result["table"], result["found"], result["logits"], strict=True)
    assert cells(demo, "choices") == [[two(each) for each in row] for row in numbers]
    chosen = demo.page.locator(".mha-choices tr[aria-current] th")
    expect(chosen).to_have_text(f"▶ {VOCABULARY[result['next']]} chosen")
    assert cells(demo, "work") == [
        [str(number) for kind in way.values() for number in (kind[-1], sum(kind))]
        for way in result["work"].values()
    ]
    words = " ".join(VOCABULARY[word] for word in result["words"])
    expect(demo.page.locator(".mha-sentence")).to_have_text(
        f"{words} → {VOCABULARY[result['next']]}"
    )
    expect(demo.page.locator(".mha-verdict")).to_contain_text("✓ At every step so far")


def test_the_cache_can_be_switched_off_and_the_sentence_written_on(demo: DemoPage) -> None:
    python = WordByWord()
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("its key and value join the 4 pairs that were kept")
    expect(demo.seen).to_contain_text("the looks most at on: .87. The table alone would say cat.")
    demo.button("without a cache").click()
    python.cache = False
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("the 4 words before it get query, key and value again")
    demo.button("Next word →").click()
    python.step = 6
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("Next comes the full stop")
    demo.button("Start over").click()
    python.step = 1
    assert_shows(demo, python)


@pytest.mark.slow
@pytest.mark.parametrize("cache", [True, False], ids=["with", "without"])
def test_every_step_is_mha_libs(demo: DemoPage, cache: bool) -> None:
    demo.set(step=1, cache=cache)
    for step in STEPS:
        assert_shows(demo, WordByWord(step=step, cache=cache))
        # By force: Playwright waits for a button that is aria-disabled, a reader need not.
        demo.button("Next word →").click(force=True)
    assert demo.get("step") == STEPS[-1]  # there is no next word after the last
    for step in reversed(STEPS):
        assert demo.get("step") == step
        demo.button("← Back").click(force=True)
    assert demo.get("step") == 1


@pytest.mark.slow
def test_the_page_computes_from_the_recipe_it_is_given(demo: DemoPage) -> None:
    """Another recipe gives other words: nothing on the page is written down beforehand."""
    recipe = WordByWord().recipe
    recipe["projections"]["W_Q"] = [[0.0] * len(row) for row in recipe["projections"]["W_Q"]]
    page = demo.page.evaluate(
        """async recipe => {
          const { compute } = await mha.load("word_by_word.js");
          return compute({ recipe, step: 5, cache: true });
        }""",
        recipe,
    )
    # Without a query the second "the" looks at all words equally, and the table wins.
    assert page["weights"][0] == pytest.approx([0.2] * 5)
    assert VOCABULARY[page["next"]] == "cat"


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    demo.button("with a cache").focus()
    keyboard.press("Tab")
    keyboard.press("Space")
    assert demo.get("cache") is False
    expect(demo.button("without a cache")).to_be_focused()
    expect(demo.button("without a cache")).to_have_attribute("aria-pressed", "true")
    keyboard.press("Tab")
    keyboard.press("Enter")
    assert demo.get("step") == 1
    expect(demo.button("Start over")).to_be_focused()
    expect(demo.button("Start over")).to_have_attribute("aria-disabled", "true")
    keyboard.press("Tab")
    keyboard.press("Enter")  # there is no step before the first
    assert demo.get("step") == 1
    keyboard.press("Tab")
    for _ in STEPS:
        keyboard.press("Enter")
    assert demo.get("step") == STEPS[-1]
    expect(demo.button("Next word →")).to_be_focused()
    expect(demo.button("Next word →")).to_have_attribute("aria-disabled", "true")
    keyboard.press("Shift+Tab")
    keyboard.press("Space")
    assert demo.get("step") == STEPS[-1] - 1


@pytest.mark.slow
def test_what_is_said_and_suggested_goes_with_the_state(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    for state, said, suggested in [
        ({"step": 1}, "The cache was empty", "watch the row that was new"),
        ({"step": 2}, "join the pair that was kept", "watch the row that was new"),
        ({"step": 5}, "join the 4 pairs", "choose without a cache"),
        ({"step": 6}, "mat asks for nothing", "press Start over"),
        ({"step": 1, "cache": False}, "both ways do the same work", "Which totals grow faster"),
        ({"step": 2}, "the word before it gets", "Which totals grow faster"),
        ({"step": 6}, "the 5 words before it get", "choose with a cache"),
    ]:
        demo.set(**state)
        expect(demo.seen).to_contain_text(said)
        expect(tried).to_contain_text(suggested)


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """In Jupyter a choice arrives before its result: until then the old tables stay whole."""
    python = WordByWord(step=3, cache=False, language="en")
    # A difference that the page would not compute itself: so it is Python's that is shown.
    python.result = python.result | {"apart": 0.5}
    shown = demo.packed(
        python,
        """(el, { state, heard }) => {
          const text = name => el.querySelector(name).textContent;
          const opened = [text(".mha-sentence"), text(".mha-verdict")];
          state.step = 4;
          heard["change:step"]();
          return [...opened, text(".mha-sentence")];
        }""",
    )
    assert shown == ["the cat sat → on", "✗ The two ways differ.", "the cat sat → on"]


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(tmp_path: Path, dark: bool) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(WordByWord(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            for step, cache in ((1, True), (5, True), (6, False)):
                demo.set(step=step, cache=cache)
                assert_accessible(demo.page, within=".mha")
                assert_fits(demo.page)
        demo.page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert_fits(demo.page, boxes_scroll=True)
