"""The score stepper in Chromium: its page computes what mha_lib does, and can be used."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from mha_lib.widgets import ScoreStepper
from mha_lib.widgets.score_stepper import NUM_KEYS, WIDTHS
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, opened_once, words_in

OPENING = {"d_k": 64, "scale": False, "temperature": 1, "key": 4}


opened = opened_once(ScoreStepper)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.set(**OPENING)
    opened.page.evaluate("document.activeElement.blur()")
    return opened


def slider(demo: DemoPage, name: str) -> Locator:
    return demo.page.get_by_label(name).and_(demo.page.locator("input"))


def test_the_page_computes_what_mha_lib_does(demo: DemoPage) -> None:
    states: list[dict[str, Any]] = [
        {"d_k": d_k, "scale": scale, "temperature": temperature}
        for d_k in WIDTHS
        for scale in (False, True)
        for temperature in (0.25, 0.7, 1.0, 8.0)
    ]
    results = demo.page.evaluate(
        """async states => {
          const { compute } = await mha.load("score_stepper.js");
          const recipe = document.querySelector(".mha-demo").mhaModel.get("recipe");
          return states.map(state => compute({ recipe, ...state }));
        }""",
        states,
    )
    python = ScoreStepper()
    for state, result in zip(states, results, strict=True):
        for name, value in state.items():
            python.set_trait(name, value)
        assert_same(result, python.result)


@pytest.mark.slow
def test_the_table_shows_the_result(demo: DemoPage) -> None:
    for state in (OPENING, {"d_k": 4}, {"scale": True, "temperature": 0.25}, {"d_k": 1024}):
        demo.set(**state)
        result = demo.get("result")
        cells = demo.page.locator("tbody td").all_inner_texts()
        rows = [cells[place : place + 4] for place in range(0, len(cells), 4)]
        assert len(rows) == NUM_KEYS
        for key, (score, scaled, weight, slope) in enumerate(rows):
            assert read(score) == pytest.approx(result["scores"][key], abs=0.0051)
            assert read(scaled) == pytest.approx(result["scaled"][key], abs=0.0051)
            assert read(weight) == pytest.approx(result["weights"][key], abs=0.0051)
            if slope == "< .001":
                assert result["slopes"][key] < 0.001
            else:
                assert read(slope) == pytest.approx(result["slopes"][key], abs=0.00051)


def read(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.slow
def test_it_opens_saturated_and_the_scale_frees_it(tmp_path: Path) -> None:
    with open_demo(ScoreStepper(language="en"), tmp_path, over="http") as demo:
        expect(demo.seen).to_contain_text("Key 5 gets .99, nearly all of the attention")
        expect(demo.seen).to_contain_text("Softmax is saturated")
        demo.page.get_by_label("divide by √d_k").check()
        assert demo.get("scale") is True
        expect(demo.seen).to_contain_text("scores divided by 8")
        expect(demo.seen).to_contain_text("Several keys share the attention")
        expect(demo.seen).not_to_contain_text("saturated")


@pytest.mark.slow
def test_the_keyboard_does_everything(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    width = slider(demo, "width d_k")
    width.focus()
    keyboard.press("ArrowRight")
    assert demo.get("d_k") == 128
    expect(width).to_have_attribute("aria-valuetext", "128")
    keyboard.press("Home")
    assert demo.get("d_k") == WIDTHS[0]
    keyboard.press("End")
    assert demo.get("d_k") == WIDTHS[-1]
    # On to the next control: the scale.
    keyboard.press("Tab")
    keyboard.press("Space")
    assert demo.get("scale") is True
    keyboard.press("Tab")
    expect(slider(demo, "temperature")).to_be_focused()
    keyboard.press("ArrowLeft")
    assert demo.get("temperature") == 0.75
    keyboard.press("Tab")
    keyboard.press("Enter")
    assert demo.get("key") == 0
    expect(demo.page.get_by_role("button", name="key 1")).to_be_focused()
    expect(demo.page.get_by_role("button", name="key 1")).to_have_attribute("aria-pressed", "true")
    expect(demo.page.locator(".mha-worked [aria-live]")).to_contain_text("Key 1 worked out")


@pytest.mark.slow
def test_a_click_on_a_key_works_it_out(demo: DemoPage) -> None:
    demo.set(d_k=4)
    lines = demo.page.locator(".mha-worked li")
    recipe = ScoreStepper().recipe
    for key in range(NUM_KEYS):
        demo.page.get_by_role("button", name=f"key {key + 1}").click()
        products, score = lines.nth(0).inner_text().removeprefix("Score: ").split(" = ")
        factors = [read(number) for number in re.findall(r"−?\d+\.\d", products)]
        pairs = zip(recipe["query"], recipe["keys"][key], strict=True)
        assert factors == [number for pair in list(pairs)[:4] for number in pair]
        assert sum(a * b for a, b in zip(factors[::2], factors[1::2], strict=True)) == (
            pytest.approx(read(score))
        )
    demo.set(d_k=1024)
    expect(lines.nth(0)).to_contain_text("+ 1,020 more products")


@pytest.mark.slow
def test_what_is_worked_out_can_be_redone(demo: DemoPage) -> None:
    """Where it says =, the numbers that stand there give it exactly; where ≈, nearly."""
    for d_k, scale, key in ((4, False, 1), (64, True, 0), (256, True, 3), (1024, False, 2)):
        demo.set(d_k=d_k, scale=scale, key=key)
        texts = demo.page.locator(".mha-worked li").all_inner_texts()
        for pattern, redo in (
            (r"(\S+) ÷ (\S+) (\S) (\S+)$", lambda a, b: a / b),
            (r"(\S+) − \(?([^ )]+)\)? (\S) (\S+), and", lambda a, b: a - b),
            (r"(to) the power (\S+) (\S) (\S+)$", lambda _, b: math.exp(b)),
            (r"(\S+) × \(1 − (\S+)\) (\S) (\S+)$", lambda a, b: a * (1 - b)),
        ):
            (found,) = filter(None, (re.search(pattern, text) for text in texts))
            first, second, sign, shown = found.groups()
            value = redo(0.0 if first == "to" else read(first), read(second))
            if sign == "<":
                assert value < read(shown)
            else:
                assert value == pytest.approx(read(shown), abs=1e-9 if sign == "=" else 0.011)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "said", "tried"),
    [
        ({"d_k": 4}, "Several keys share the attention; key 5", "leave the scale"),
        ({"d_k": 256}, "The weights answer weakly", "tick divide by"),
        ({"d_k": 1024}, "gets over .99", "tick divide by"),
        ({"scale": True}, "Entropy 1.40", "from 4 to 1024"),
        ({"scale": True, "temperature": 8}, "All keys get about the same", "to .25, then to 8"),
        ({"temperature": 8}, "scores divided by 8", "Then tick it"),
    ],
)
def test_what_was_just_seen_and_what_to_try(
    demo: DemoPage, state: dict[str, Any], said: str, tried: str
) -> None:
    demo.set(**state)
    expect(demo.seen).to_contain_text(said)
    expect(demo.page.locator(".mha-try")).to_contain_text(tried)


@pytest.mark.slow
def test_what_was_seen_is_not_read_out_again_unchanged(demo: DemoPage) -> None:
    news = demo.count_news()
    demo.set(key=0)  # what was seen is about the whole row
    assert news() == 0
    demo.set(scale=True)
    assert news() == 1


@pytest.mark.slow
def test_a_temperature_between_two_of_the_sliders_own_is_kept(demo: DemoPage) -> None:
    demo.set(temperature=0.7)
    expect(slider(demo, "temperature")).to_have_attribute("aria-valuetext", "0.7")
    assert demo.get("temperature") == 0.7


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """Jupyter loads one text, and what it shows comes from Python: nothing is computed there."""
    python = ScoreStepper(d_k=16, key=0, language="en")
    shown = demo.packed(
        python,
        """el => [...el.querySelectorAll(".mha-weight")].map(cell =>
          Number(cell.style.getPropertyValue("--mha-weight")))""",
    )
    assert shown == python.result["weights"]


@pytest.mark.usefixtures("dots_for_letters")
@pytest.mark.slow
def test_every_word_on_the_page_is_the_catalogues(tmp_path: Path) -> None:
    """With a catalogue of dots instead of letters, no text of the demo's own is left."""
    with open_demo(ScoreStepper(language="en"), tmp_path) as demo:
        for state in (OPENING, {"scale": True}, {"d_k": 1024, "scale": False}, {"temperature": 8}):
            demo.set(**state)
            assert not words_in(demo)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(tmp_path: Path, dark: bool) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(ScoreStepper(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            assert_accessible(demo.page, within=".mha")
            for d_k in (4, 1024):
                demo.set(d_k=d_k)
                assert_fits(demo.page)
        demo.page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert_fits(demo.page, boxes_scroll=True)
