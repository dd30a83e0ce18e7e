"""The head explorer in Chromium, as the built site carries it: without a kernel."""

import itertools
import re
from pathlib import Path
from typing import Any, Literal

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import Locator, expect

from mha_lib.widgets import HeadExplorer, hand_set
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, open_demo, opened_once, words_in

# test_chapter.py walks through all of them in `make test`.
pytestmark = pytest.mark.slow

CAT = "The cat sat on the mat"
LOVE = "Tôi yêu Việt Nam"

# What a reader does, one after the other, and the traits that the same deeds set in Python.
DEEDS: list[list[tuple[str, Any]]] = [
    [],
    [("query", 3)],
    [("gains", [3.5, 0.0, 16.0])],
    [("feature", ("feeling", 0.25)), ("feature", ("verb", 0.5))],
    [("sentence", CAT)],
    [("query", 5), ("feature", ("animal", 0.75)), ("gains", [1.0, 12.0, 8.0])],
]


opened = opened_once(HeadExplorer)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    show(opened, LOVE, hand_set.HEADS.index("meaning"), 1)
    opened.page.locator("details").evaluate("details => { details.open = false; }")
    opened.page.emulate_media(
        reduced_motion="no-preference", forced_colors="none", color_scheme="light"
    )
    opened.page.set_viewport_size({"width": 1280, "height": 1000})
    opened.page.evaluate("document.activeElement.blur()")
    return opened


def show(demo: DemoPage, sentence: str, head: int, query: int, **changes: Any) -> None:
    state = {
        "sentence": sentence,
        "features": hand_set.features(sentence).tolist(),
        "gains": list(hand_set.OPENING_GAINS),
        "head": head,
        "query": query,
    }
    demo.set(**state | changes)


def test_every_number_in_the_page_is_mha_libs(demo: DemoPage) -> None:
    python = HeadExplorer(language="en")
    demo.page.locator("summary").click()
    for deeds in DEEDS:
        for deed, value in deeds:
            do_in_page(demo, deed, value)
            do_in_python(python, deed, value)

        result, page = python.result, demo.get("result")
        for stage in ("weights", "contributions", "output"):
            close(page[stage], result[stage])
        maps = demo.page.locator(".mha-heatmap")
        close([drawn_weights(maps.nth(head)) for head in range(3)], result["weights"])
        row = drawn_weights(demo.page.locator(".mha-weights-row"))
        close(row, [result["weights"][python.head][python.query]])
        expect(demo.page.locator(".mha-weights-row tbody td")).to_have_text(
            [f"{weight:.2f}".removeprefix("0") for weight in row[0]]
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


def output_story(demo: DemoPage) -> Locator:
    return demo.page.locator(".mha-scroll:has(.mha-output) + .mha-try")


def test_it_opens_where_yeu_looks_at_viet_nam(tmp_path: Path) -> None:
    with open_demo(HeadExplorer(language="en"), tmp_path, over="http") as demo:
        expect(demo.page.get_by_role("button", name="2 meaning")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(demo.seen).to_contain_text("yêu gives .47 to Việt and .47 to Nam")


def test_arrow_keys_choose_the_query_word_and_keep_the_focus(demo: DemoPage) -> None:
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


def test_heads_can_be_chosen_without_a_mouse(demo: DemoPage) -> None:
    demo.page.get_by_role("button", name="1 syntax").focus()
    demo.page.keyboard.press("Enter")
    assert demo.get("head") == 0
    expect(demo.seen).to_contain_text("in head 1 (syntax), yêu gives .33 to Tôi")


def test_a_change_from_python_moves_the_page(demo: DemoPage) -> None:
    demo.set(head=2, query=3)
    expect(queries(demo).nth(3)).to_have_attribute("aria-pressed", "true")
    expect(demo.page.locator("tr[aria-current] th")).to_have_text(["Nam"] * 3)
    expect(demo.page.locator(".mha-weights-row caption")).to_contain_text("head 3 (position)")


def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """Jupyter loads one text, and what it shows comes from Python: nothing is computed there."""
    python = HeadExplorer(sentence=CAT, query=5, language="en")
    shown = demo.packed(
        python,
        """el => {
          const row = [...el.querySelectorAll(".mha-weights-row .mha-weight")];
          return {
            row: row.map(cell => Number(cell.style.getPropertyValue("--mha-weight"))),
            seen: el.querySelector("[aria-live=polite]").textContent,
          };
        }""",
    )
    assert shown["row"] == python.result["weights"][1][5]
    assert "mat gives .74 to cat" in shown["seen"]


def test_gain_0_makes_a_row_even_and_the_page_says_why(demo: DemoPage) -> None:
    demo.page.locator("summary").click()
    do_in_page(demo, "gains", [8.0, 0.0, 8.0])
    expect(demo.seen).to_contain_text("every word the same weight, .25. The gain is 0")
    demo.page.get_by_role("button", name="Set everything back").click()
    expect(demo.seen).to_contain_text("yêu gives .47 to Việt and .47 to Nam")
    assert demo.get("gains") == list(hand_set.OPENING_GAINS)


SYNTAX, MEANING, POSITION = range(3)


@pytest.mark.parametrize(
    ("sentence", "head", "query", "said"),
    [
        (CAT, MEANING, 0, "The has none of the features that this head reads"),
        (CAT, MEANING, 1, "mat is 4 words away"),
        (LOVE, SYNTAX, 2, "Nam gives the same weights: nothing that this head reads tells the two"),
        (CAT, MEANING, 2, "sat gives .46 to cat and .46 to mat."),
        # Equal weights are named together or not at all.
        (CAT, SYNTAX, 1, "cat gives .84 to sat and .03 to each of the other words."),
        (CAT, POSITION, 0, "The gives .70 to cat and .06 to each of the other words."),
    ],
)
def test_what_was_just_seen(
    demo: DemoPage, sentence: str, head: int, query: int, said: str
) -> None:
    show(demo, sentence, head, query)
    expect(demo.seen).to_contain_text(said)


def test_near_words_are_not_called_far(demo: DemoPage) -> None:
    expect(demo.seen).to_contain_text("yêu gives .47 to Việt and .47 to Nam")  # two words away
    expect(demo.seen).not_to_contain_text("words away")


def test_what_was_seen_is_not_read_out_again_unchanged(demo: DemoPage) -> None:
    news = demo.count_news()
    demo.set(gains=[8.0, 8.0, 7.0])  # head 3 is not in view
    assert news() == 0
    demo.set(query=0)
    assert news() == 1


def test_a_sum_of_rounded_numbers_says_when_it_is_only_near(demo: DemoPage) -> None:
    expect(output_story(demo)).to_contain_text(
        ".66 (syntax) + .94 (meaning) + .32 (position) = 1.92"
    )
    show(demo, LOVE, MEANING, 2)
    expect(output_story(demo)).to_contain_text(
        ".90 (syntax) + .09 (meaning) + .66 (position) ≈ 1.64"
    )


def test_several_words_that_give_the_same_weights_are_all_named(demo: DemoPage) -> None:
    features = hand_set.features(CAT).tolist()
    features[1][: hand_set.HEAD_DIM] = features[0][: hand_set.HEAD_DIM]  # cat, an article
    show(demo, CAT, SYNTAX, 0, features=features)
    expect(demo.seen).to_contain_text("cat and the give the same weights: nothing that this head")


@pytest.mark.parametrize("query", range(6))
@pytest.mark.parametrize("head", range(3))
def test_no_tie_is_split(demo: DemoPage, head: int, query: int) -> None:
    """Whoever has a weight that is named is named too, for any row that the demo can show."""
    show(demo, CAT, head, query)
    words, said = CAT.split(), demo.seen.inner_text()
    shown = demo.page.locator(".mha-weights-row tbody td").all_inner_texts()
    for weight in re.findall(r"(\.\d\d|1\.00) to", said):
        if f"{weight} to each of the other words" in said:
            continue
        equal = [word for word, each in zip(words, shown, strict=True) if each == weight]
        named = re.findall(rf"(?<![\d.]){re.escape(weight)} to (\w+)", said)
        assert sorted(named) == sorted(equal)


def test_the_strongest_features_of_the_output_are_named(demo: DemoPage) -> None:
    expect(output_story(demo)).to_contain_text("strongest feature in the output for yêu is country")
    features = hand_set.features(LOVE)
    features[:, hand_set.MEANING_BLOCK] = 0
    show(demo, LOVE, MEANING, 1, features=features.tolist())
    expect(output_story(demo)).to_have_text(
        "Nothing stands out in the output for yêu: every feature is .00."
    )
    features[:, hand_set.MEANING_BLOCK][:, [0, 3]] = 1
    show(demo, LOVE, MEANING, 1, features=features.tolist())
    expect(output_story(demo)).to_have_text(
        "The strongest features in the output for yêu are person and animal, with 3.00 each."
    )


def test_the_note_names_words_of_the_sentence_in_view(demo: DemoPage) -> None:
    note = demo.page.locator(".mha-note")
    expect(note).not_to_contain_text("At the start")
    do_in_page(demo, "sentence", CAT)
    expect(note).to_contain_text("evenly: The, on, and the.")


def test_the_words_say_their_language_wherever_they_stand(demo: DemoPage) -> None:
    demo.page.locator("summary").click()
    for sentence, language in [(LOVE, "vi"), (CAT, "en")]:
        do_in_page(demo, "sentence", sentence)
        expect(queries(demo)).to_have_text(sentence.split())
        for head, query in itertools.product(range(3), range(4)):
            demo.set(head=head, query=query)
            unsaid = demo.page.locator(".mha").evaluate(
                """(section, [words, language]) => {
                  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT);
                  const unsaid = [];
                  while (walker.nextNode()) {
                    const element = walker.currentNode.parentElement;
                    const found = walker.currentNode.data.match(/\\p{L}+/gu) ?? [];
                    if (!element.closest("option") && found.some(word => words.includes(word))
                        && element.closest("[lang]").lang !== language)
                      unsaid.push(element.outerHTML);
                  }
                  return unsaid;
                }""",
                [sentence.split() if language == "vi" else ["cat", "sat", "mat"], language],
            )
            assert unsaid == []


def test_the_list_of_what_a_head_looks_for_is_whole(demo: DemoPage) -> None:
    demo.page.locator("summary").click()
    places = range(1, hand_set.HEAD_DIM + 1)
    near = {
        f"place {here}": {
            f"place {there}": amount
            for distance, amount in hand_set.WANTED_DISTANCES.items()
            if (there := here + distance) in places
        }
        for here in places
    }
    for head, wanted in enumerate([hand_set.WANTED_ROLES, hand_set.WANTED_MEANINGS, near]):
        demo.set(head=head)
        items = []
        for mine, yours in wanted.items():
            # The most wanted first; of equals, the one that stands first in the vector.
            names = [*hand_set.ROLES, *hand_set.MEANINGS, *near]
            order = sorted(yours, key=lambda name: (-yours[name], names.index(name)))
            listed = [f"{name} ({yours[name]:g})" for name in order]
            last = ", and " if len(listed) > 2 else " and "
            items.append(
                f"{mine} looks for {last.join([', '.join(listed[:-1]), listed[-1]])}"
                if len(listed) > 1
                else f"{mine} looks for {listed[0]}"
            )
        expect(demo.page.locator(".mha-wants li")).to_have_text(items)


@pytest.mark.usefixtures("dots_for_letters")
def test_every_word_on_the_page_is_the_catalogues(tmp_path: Path) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    with open_demo(HeadExplorer(language="en"), tmp_path) as demo:
        for head, query in itertools.product(range(3), range(4)):
            demo.set(head=head, query=query)
            # "and" is from the browser's own way to write lists in the page's language.
            left = words_in(demo) - {*LOVE.split(), *CAT.split(), "and"}
            assert not left


def test_arcs_are_as_wide_as_the_weights(demo: DemoPage) -> None:
    demo.page.emulate_media(reduced_motion="reduce")
    arcs = demo.page.locator(".mha-arc")
    widths = arcs.evaluate_all(
        "paths => paths.map(path => parseFloat(getComputedStyle(path).strokeWidth))"
    )
    weights = demo.get("result")["weights"][1][1]
    total = sum(widths)
    assert total > 10
    assert [width / total for width in widths] == pytest.approx(weights, abs=1e-3)
    moving = arcs.first.evaluate("path => getComputedStyle(path).transitionProperty")
    assert moving == "none"


# The page holds no state that an example could find.
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(scores=st.lists(st.floats(0.01, 1), min_size=2, max_size=8), data=st.data())
def test_arcs_leave_the_word_side_by_side_and_do_not_cross(
    opened: DemoPage, scores: list[float], data: st.DataObject
) -> None:
    query = data.draw(st.integers(0, len(scores) - 1))
    weights = [score / sum(scores) for score in scores]
    feet = opened.page.evaluate(
        "async given => (await mha.load('arcs.js')).feet(...given)", [query, weights]
    )
    # Side by side: each begins where the one before it ends, and together they fill the base.
    edge = -0.5
    for foot, weight in sorted(zip(feet, weights, strict=True)):
        assert foot - weight / 2 == pytest.approx(edge)
        edge += weight
    assert edge == pytest.approx(0.5)
    # An arc is a bow over the ground: two of them cross unless one is inside the other or
    # beside it. The base is at most half as wide as the distance of two words.
    bows = [
        sorted((query + foot / 2, float(word))) for word, foot in enumerate(feet) if word != query
    ]
    for (left, right), (other_left, other_right) in itertools.combinations(bows, 2):
        nested = (left - other_left) * (right - other_right) <= 0
        assert nested or right <= other_left or other_right <= left


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(dark: bool, tmp_path: Path) -> None:
    demo_of_cat = HeadExplorer(sentence=CAT, language="en")
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(demo_of_cat, tmp_path, dark=dark, over="http") as demo:
        demo.page.locator("summary").click()
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page)
            # Nothing is lost in a box either, and the heads stand side by side.
            assert_fits(demo.page)
            heads = demo.page.locator(".mha-buttons button").all()
            assert len({head.bounding_box()["y"] for head in heads}) == 1


def test_large_text_on_a_phone_scrolls_in_its_own_boxes(demo: DemoPage) -> None:
    demo.page.set_viewport_size({"width": 390, "height": 844})
    show(demo, CAT, MEANING, 1)
    demo.page.locator("summary").click()
    demo.page.evaluate("document.documentElement.style.fontSize = '200%'")
    try:
        assert demo.page.evaluate("document.documentElement.scrollWidth") == 390
        cut = demo.page.locator(".mha").evaluate(
            """demo => [...demo.querySelectorAll("button, th, td, label, select")]
              .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 1)
              .map(each => each.outerHTML)"""
        )
        assert cut == []
        # A box that can be scrolled can be reached by keyboard.
        boxes = ".mha-scroll:not(:has(button))"
        demo.page.wait_for_function(
            """boxes => [...document.querySelectorAll(boxes)]
              .every(box => (box.scrollWidth > box.clientWidth) === (box.tabIndex === 0))""",
            arg=boxes,
        )
        assert demo.page.locator(f"{boxes}[tabindex='0']").count() == 4
    finally:
        demo.page.evaluate("document.documentElement.style.fontSize = ''")
    expect(demo.page.locator(".mha-maps .mha-scroll[tabindex]")).to_have_count(0)


# The canvas turns any colour that CSS can write into bytes.
COLOURS = """tables => {
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


@pytest.mark.parametrize("forced", ["none", "active"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_weights_number_stays_readable_at_every_depth(
    demo: DemoPage, theme: str, forced: Literal["none", "active"]
) -> None:
    demo.page.emulate_media(forced_colors=forced, color_scheme="dark")
    demo.page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
    colours = demo.page.locator(".mha-heatmap").evaluate_all(COLOURS)
    demo.page.evaluate("document.documentElement.dataset.theme = 'light'")
    assert len({tuple(paper) for _, paper in colours}) == 3 * 4 + 1
    assert min(contrast(ink, paper) for ink, paper in colours) >= 4.5


def test_forced_colours_take_no_meaning_away(demo: DemoPage) -> None:
    demo.page.emulate_media(forced_colors="active")
    colour = "all => all.map(each => getComputedStyle(each).backgroundColor)"
    swatches = demo.page.locator(".mha-buttons .mha-swatch").evaluate_all(colour)
    bars = demo.page.locator(".mha-output tr:first-child .mha-bar span").evaluate_all(colour)
    assert swatches == bars
    assert len(set(swatches)) == 3
    outline = "each => getComputedStyle(each).outlineStyle"
    heads = demo.page.locator(".mha-buttons button")
    assert [each.evaluate(outline) for each in heads.all()] == ["none", "solid", "none"]
    row = demo.page.locator("tr[aria-current]").first
    assert row.evaluate(outline) == "solid"


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
