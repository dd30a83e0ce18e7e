"""The head explorer in Chromium, as the built site carries it: without a kernel."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, expect

from mha_lib import hand_set
from mha_lib.widgets import HeadExplorer, assets
from tests.browser.demo_page import DemoPage, open_demo

CAT = "The cat sat on the mat"
LOVE = "Tôi yêu Việt Nam"

# What a reader does, and the traits that the same deed sets in Python.
DEEDS: dict[str, list[tuple[str, Any]]] = {
    "opening": [],
    "another query word": [("query", 3)],
    "the other sentence": [("sentence", CAT)],
    "gains": [("gains", [3.5, 0.0, 16.0])],
    "features": [("feature", ("feeling", 0.25)), ("feature", ("verb", 0.5))],
    "features of the cat": [
        ("sentence", CAT),
        ("query", 5),
        ("feature", ("animal", 0.75)),
        ("gains", [1.0, 12.0, 8.0]),
    ],
}


@pytest.mark.parametrize("deeds", DEEDS.values(), ids=DEEDS)
def test_every_number_in_the_page_is_mha_libs(deeds: list, tmp_path: Path) -> None:
    python = HeadExplorer(language="en")
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        demo.page.locator("summary").click()
        for deed, value in deeds:
            do_in_page(demo, deed, value)
            do_in_python(python, deed, value)
        # The result is the page's own from here on, even where no deed made it compute.
        demo.set(head=demo.get("head"))

        result, page = python.result, demo.get("result")
        for stage in ("weights", "contributions", "output"):
            close(page[stage], result[stage])
        maps = demo.page.locator(".mha-heatmap")
        close([drawn_weights(maps.nth(head)) for head in range(3)], result["weights"])
        row = drawn_weights(demo.page.locator(".mha-weights-row"))
        close(row, [result["weights"][python.head][python.query]])
        expect(demo.page.locator(".mha-weights-row tbody td")).to_have_text(
            [f"{weight:.2f}".lstrip("0") for weight in row[0]]
        )
        assert_output_table(demo, result, python.query)


def assert_output_table(demo: DemoPage, result: dict, query: int) -> None:
    rows = demo.page.locator(".mha-output tbody tr")
    meanings = range(hand_set.MEANING_BLOCK.start, hand_set.MEANING_BLOCK.stop)
    for line, feature in enumerate(meanings):
        shares = [head[query][feature] for head in result["contributions"]]
        numbers = [*shares, result["output"][query][feature]]
        expected = [f"{number:.2f}" for number in numbers]
        shown = [f"{float(text):.2f}" for text in rows.nth(line).locator("td").all_inner_texts()]
        assert shown == expected
        assert abs(sum(shares) - numbers[-1]) < 1e-12


def do_in_page(demo: DemoPage, deed: str, value: object) -> None:
    page = demo.page
    if deed == "sentence":
        page.get_by_label("Sentence", exact=True).select_option(value)
    elif deed == "query":
        queries(demo).nth(value).click()
    elif deed == "gains":
        for number, gain in enumerate(value, start=1):
            page.get_by_label(f"Head {number}:").and_(page.locator("input")).fill(f"{gain:g}")
    elif deed == "feature":
        name, number = value
        page.get_by_label(name, exact=True).and_(page.locator("input")).fill(str(number))


def do_in_python(python: HeadExplorer, deed: str, value: object) -> None:
    if deed == "feature":
        name, number = value
        features = [list(row) for row in python.features]
        features[python.query][(hand_set.ROLES + hand_set.MEANINGS).index(name)] = number
        python.features = features
    else:
        python.set_trait(deed, value)


def drawn_weights(table: Locator) -> list[list[float]]:
    """The weights that the cells' colours are made of, in full precision."""
    return table.evaluate(
        """table => [...table.querySelectorAll("tbody tr")].map(row =>
          [...row.querySelectorAll(".mha-weight")].map(cell =>
            Number(cell.style.getPropertyValue("--mha-weight"))))"""
    )


def close(one: list, other: list) -> None:
    torch.testing.assert_close(
        torch.tensor(one, dtype=torch.float64),
        torch.tensor(other, dtype=torch.float64),
        atol=1e-6,
        rtol=0,
    )


def queries(demo: DemoPage) -> Locator:
    return demo.page.get_by_role("toolbar", name="Query word").get_by_role("button")


def seen(demo: DemoPage) -> Locator:
    return demo.page.locator("[aria-live=polite]")


@pytest.mark.parametrize("over", ["file", "http"])
def test_it_opens_where_yeu_looks_at_viet_nam(over: str, tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path, over=over) as demo:
        expect(demo.page.get_by_role("button", name="2 meaning")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(seen(demo)).to_contain_text("yêu gives .47 to Việt and .47 to Nam")


def test_arrow_keys_choose_the_query_word_and_keep_the_focus(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        words = queries(demo)
        words.nth(1).focus()
        for key, word in [
            ("ArrowRight", 2),
            ("End", 3),
            ("ArrowRight", 3),
            ("ArrowLeft", 2),
            ("Home", 0),
            ("ArrowLeft", 0),
        ]:
            demo.page.keyboard.press(key)
            expect(words.nth(word)).to_be_focused()
            expect(words.nth(word)).to_have_attribute("aria-pressed", "true")
            assert demo.get("query") == word
        # One word is a stop of the Tab key: Shift+Tab leaves to the heads, Tab comes back.
        demo.page.keyboard.press("Shift+Tab")
        expect(demo.page.get_by_role("button", name="3 position")).to_be_focused()
        demo.page.keyboard.press("Tab")
        expect(words.nth(0)).to_be_focused()


def test_heads_can_be_chosen_without_a_mouse(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        demo.page.get_by_role("button", name="1 syntax").focus()
        demo.page.keyboard.press("Enter")
        assert demo.get("head") == 0
        expect(seen(demo)).to_contain_text("in head 1 (syntax), yêu gives .33 to Tôi")


def test_a_change_from_python_moves_the_page(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        demo.set(head=2, query=3)
        expect(queries(demo).nth(3)).to_have_attribute("aria-pressed", "true")
        expect(demo.page.locator("tr[aria-current] th")).to_have_text(["Nam"] * 3)
        expect(demo.page.locator(".mha-weights-row caption")).to_contain_text("head 3 (position)")


def test_the_module_packed_for_jupyter_draws_pythons_result(tmp_path: Path) -> None:
    """Jupyter loads one text, and what it shows comes from Python: nothing is computed there."""
    python = HeadExplorer(sentence=CAT, query=5, language="en")
    state = {name: getattr(python, name) for name in (*python.constants, *python.inputs)}
    state |= {"result": python.result, "texts": python.texts, "language": "en"}
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        demo.page.evaluate(
            """async ([source, state]) => {
              const blob = new Blob([source], { type: "text/javascript" });
              const module = await import(URL.createObjectURL(blob));
              const model = { get: name => state[name], on() {}, off() {} };
              document.querySelector("main").innerHTML = '<div id="cell"></div>';
              module.default.render({ model, el: document.querySelector("#cell") });
            }""",
            [assets.inlined_module("head_explorer.js"), state],
        )
        row = drawn_weights(demo.page.locator("#cell .mha-weights-row"))
        assert row == [python.result["weights"][1][5]]
        expect(seen(demo)).to_contain_text("mat gives .74 to cat")


def test_gain_0_makes_a_row_even_and_the_page_says_why(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        demo.page.locator("summary").click()
        do_in_page(demo, "gains", [8.0, 0.0, 8.0])
        expect(seen(demo)).to_contain_text("every word the same weight, .25. The gain is 0")
        demo.page.get_by_role("button", name="Set everything back").click()
        expect(seen(demo)).to_contain_text("yêu gives .47 to Việt and .47 to Nam")
        assert demo.get("gains") == list(hand_set.OPENING_GAINS)


def test_words_without_a_meaning_are_said_to_look_for_nothing(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(sentence=CAT, query=0, language="en"), tmp_path) as demo:
        expect(seen(demo)).to_contain_text("The has none of the features that this head reads")


def test_a_far_link_and_a_twin_are_noticed(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(sentence=CAT, query=1, language="en"), tmp_path) as demo:
        expect(seen(demo)).to_contain_text("mat is 4 words away")
        demo.set(head=0, query=0)
        expect(seen(demo)).to_contain_text("the gives the same weights")


def test_the_sentence_says_its_language(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        expect(queries(demo).first).to_have_attribute("lang", "vi")
        do_in_page(demo, "sentence", CAT)
        expect(queries(demo).first).to_have_attribute("lang", "en")
        expect(queries(demo)).to_have_text(CAT.split())


def test_every_word_on_the_page_is_the_catalogues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    dotted = {
        demo: {key: re.sub(r"\{\w+\}|\w", _dot, text) for key, text in texts.items()}
        for demo, texts in assets.strings("en").items()
    }
    monkeypatch.setattr(assets, "strings", lambda language: dotted)
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        for head, query in itertools.product(range(3), range(4)):
            demo.set(head=head, query=query)
            text = demo.page.locator(".mha").evaluate(
                """section => {
                  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
                  const found = [];
                  while (walker.nextNode()) found.push(walker.currentNode.data);
                  return found.join("\\n");
                }"""
            )
            # "and" is from the browser's own way to write lists in the page's language.
            left = set(re.findall(r"[^\W\d]+", text)) - {*LOVE.split(), *CAT.split(), "and"}
            assert not left


def _dot(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith("{") else "·"


def test_arcs_are_as_wide_as_the_weights(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path, reduced_motion=True) as demo:
        widths = demo.page.locator(".mha-arc").evaluate_all(
            "paths => paths.map(path => parseFloat(getComputedStyle(path).strokeWidth))"
        )
        weights = demo.get("result")["weights"][1][1]
        total = sum(widths)
        assert total > 10
        assert [width / total for width in widths] == pytest.approx(weights, abs=1e-3)
        moving = demo.page.locator(".mha-arc").first.evaluate(
            "path => getComputedStyle(path).transitionProperty"
        )
        assert moving == "none"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_bars_a_reader(dark: bool, width: int, tmp_path: Path) -> None:
    demo_of_cat = HeadExplorer(sentence=CAT, language="en")
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(demo_of_cat, tmp_path, dark=dark, width=width, over="http") as demo:
        demo.page.locator("summary").click()
        found = Axe().run(demo.page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert not serious, [(each["id"], each["nodes"][0]["html"]) for each in serious]
        assert demo.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_weights_number_stays_readable_at_every_depth(dark: bool, tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path, dark=dark) as demo:
        colours = demo.page.locator(".mha-heatmap").evaluate_all(
            """tables => {
              const options = { willReadFrequently: true };
              const canvas = new OffscreenCanvas(1, 1).getContext("2d", options);
              const asBytes = colour => {
                canvas.fillStyle = colour;
                canvas.fillRect(0, 0, 1, 1);
                return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
              };
              return tables.flatMap(table => [0, 0.25, 0.5, 0.75, 1].map(weight => {
                const cell = table.querySelector(".mha-weight");
                cell.style.setProperty("--mha-weight", weight);
                const style = getComputedStyle(cell);
                return [style.color, style.backgroundColor].map(asBytes);
              }));
            }"""
        )
        assert len({tuple(paper) for _, paper in colours}) == 3 * 4 + 1
        assert min(contrast(ink, paper) for ink, paper in colours) >= 4.5


def contrast(one: list[int], other: list[int]) -> float:
    """Contrast of two sRGB colours as WCAG 2 defines it."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: list[int]) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (channel / 255 for channel in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
