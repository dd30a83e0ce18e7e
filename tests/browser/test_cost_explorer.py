"""The cost explorer in Chromium, as the built site carries it: without a kernel."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from mha_lib.cost import MODELS, Cost
from mha_lib.widgets import CostExplorer
from mha_lib.widgets.cost_explorer import BATCHES, LENGTHS, SEES
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, open_demo, opened_once

OPENING = {"model": "gpt3", "seq": 2048, "batch": 1, "num_kv_heads": 96, "sees": None}
FLOPS = ("projections", "products", "feed_forward", "ends")
# The lengths of the slider, and some that lie between, with as many odd factors as possible.
ALL_LENGTHS = (*LENGTHS, 17, 197, 2047, 131071)


opened = opened_once(CostExplorer)


@pytest.fixture
def demo(opened: DemoPage) -> DemoPage:
    """The demo as it opens: one page serves all tests, each sets everything back."""
    opened.page.evaluate("document.activeElement.blur()")
    opened.set(**OPENING)
    return opened


def row(demo: DemoPage, part: str) -> list[str]:
    return demo.page.locator(f"[data-part={part}] td").all_inner_texts()


def said(number: int, kind: str) -> str:
    """A number as mha_lib's own table rounds it."""
    line = Cost(0, number if kind == "flops" else 0, 0, number if kind == "bytes" else 0, 0)
    label = "  projections" if kind == "flops" else "score bytes"
    [found] = [each for each in line.table().splitlines() if each.startswith(label)]
    return " ".join(found.split()[-2:])


def as_counted(value: Any) -> Any:
    """What a page counted. Above 2 ** 53 its text, 40532396646334460, stands for ...464."""
    if isinstance(value, dict):
        return {name: as_counted(each) for name, each in value.items()}
    if isinstance(value, list):
        return [as_counted(each) for each in value]
    return float(value) if isinstance(value, int) else value


def assert_shows(demo: DemoPage, python: CostExplorer) -> None:
    result = python.result
    assert as_counted(demo.get("result")) == result
    now, doubled = result["now"], result["doubled"]
    for part, number in now.items():
        if number == 0:
            continue
        cells = row(demo, part)
        assert cells[0] == said(number, "flops" if part in FLOPS else "bytes"), part
        assert float(cells[2].removeprefix("×\u00a0")) == pytest.approx(
            doubled[part] / number, abs=0.0051
        )
    total = sum(now[part] for part in FLOPS)
    assert row(demo, "together")[:2] == [said(total, "flops"), "100%"]
    assert row(demo, "weight_bytes")[0] == said(result["weight_bytes"], "bytes")


def test_it_opens_at_gpt3_and_follows_every_control(demo: DemoPage) -> None:
    python = CostExplorer()
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("GPT-3 reads N = 2,048 tokens")
    expect(demo.seen).to_contain_text("The products are 3% of that")
    expect(demo.seen).to_contain_text("the products × 4, the projections × 2")
    slider = demo.page.get_by_label("Tokens N")
    slider.focus()
    while demo.get("seq") < 24576:
        demo.page.keyboard.press("ArrowRight")
    python.seq = 24576
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("exactly as much as the projections")
    demo.page.get_by_label("Key heads").select_option("8")
    python.num_kv_heads = 8
    demo.page.get_by_label("Sequences").select_option("64")
    python.batch = 64
    assert_shows(demo, python)
    demo.page.get_by_label("Each token sees").select_option("1024")
    python.sees = 1024
    assert_shows(demo, python)
    expect(demo.seen).to_contain_text("never catch up")
    demo.page.get_by_label("Model").select_option("bert-base")
    python.model = "bert-base"
    assert demo.get("num_kv_heads") == python.num_kv_heads == 12
    assert_shows(demo, python)
    expect(demo.page.locator("[data-part=kv_cache_bytes]")).to_have_count(0)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_the_page_counts_exactly_what_mha_lib_does(demo: DemoPage, model: str) -> None:
    heads = MODELS[model].num_heads
    states = [
        {"model": model, "num_kv_heads": kv, "seq": seq, "batch": batch, "sees": sees}
        for kv in (heads, 1, *([8] if heads == 96 else []))
        for seq in ALL_LENGTHS
        for batch in (BATCHES[0], BATCHES[-1])
        for sees in SEES
    ]
    pages = demo.page.evaluate(
        """async ([states, recipe]) => {
          const { compute } = await mha.load("cost_explorer.js");
          return states.map(state => {
            const { curve, ...rest } = compute({ ...state, recipe });
            return rest;
          });
        }""",
        [states, CostExplorer().recipe],
    )
    python = CostExplorer()
    for state, page in zip(states, pages, strict=True):
        with python.hold_trait_notifications():
            python.model = model
            for name, value in state.items():
                setattr(python, name, value)
        if python.num_kv_heads != state["num_kv_heads"]:
            python.num_kv_heads = state["num_kv_heads"]  # another model took all its heads
        result = {name: value for name, value in python.result.items() if name != "curve"}
        assert as_counted(page) == result, state


@pytest.mark.slow
def test_all_can_be_done_by_keyboard(demo: DemoPage) -> None:
    keyboard = demo.page.keyboard
    model = demo.page.get_by_label("Model")
    model.focus()
    keyboard.press("ArrowUp")
    assert (demo.get("model"), demo.get("num_kv_heads")) == ("gpt2-xl", 25)
    expect(model).to_be_focused()
    keyboard.press("Tab")
    keyboard.press("ArrowDown")
    assert demo.get("num_kv_heads") == 5
    keyboard.press("Tab")
    keyboard.press("ArrowDown")
    assert demo.get("sees") == 256
    keyboard.press("Tab")
    keyboard.press("ArrowDown")
    assert demo.get("batch") == 2
    keyboard.press("Tab")
    keyboard.press("Home")
    slider = demo.page.get_by_label("Tokens N")
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", "16")
    keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "131,072")
    assert demo.get("seq") == 131072


@pytest.mark.slow
def test_the_picture_is_drawn_and_said_in_words(demo: DemoPage) -> None:
    picture = demo.page.get_by_role("img")
    expect(picture).to_have_attribute("aria-label", re.compile("the same at 24,576 tokens"))
    curve = CostExplorer().result["curve"]
    ends = [said(curve["products"][place], "flops") for place in (0, -1)]
    label = picture.get_attribute("aria-label")
    assert f"the products from {ends[0]} to {ends[1]}." in label

    def slope(part: str) -> float:
        points = picture.locator(f".mha-line-{part}").get_attribute("points").split()
        (x0, y0), (x1, y1) = ([float(n) for n in points[i].split(",")] for i in (0, -1))
        return (y0 - y1) / (x1 - x0)

    # On this paper a square is twice as steep.
    assert slope("products") == pytest.approx(2 * slope("projections"), rel=0.01)
    assert slope("feed_forward") == pytest.approx(slope("projections"), rel=0.01)
    expect(picture.locator("circle")).to_have_count(1)
    demo.set(sees=256)
    expect(picture.locator("circle")).to_have_count(0)
    expect(picture).to_have_attribute("aria-label", re.compile("stay below the projections"))


@pytest.mark.slow
def test_what_is_suggested_can_be_done(demo: DemoPage) -> None:
    tried = demo.page.locator(".mha-try")
    for state, text in [
        ({}, "move N to the right"),
        ({"seq": 24576}, "see only 1,024 tokens"),
        ({"sees": 1024}, "choose 8 or fewer key heads"),
        ({"sees": None, "num_kv_heads": 8}, "take 64 sequences at once"),
        ({"batch": 64}, "choose another model"),
        ({"model": "vit-b-16", "num_kv_heads": 12, "sees": 256}, "choose a GPT"),
    ]:
        demo.set(**state)
        expect(tried).to_contain_text(text)
    demo.set(**{**OPENING, "batch": 64})
    expect(demo.seen).to_contain_text("more than the weights")
    demo.set(num_kv_heads=8)
    expect(demo.seen).not_to_contain_text("more than the weights")
    # Where a window ends at the crossing, the two stay equal beyond it.
    demo.set(model="gpt2-small", num_kv_heads=4, sees=1024, seq=8192)
    expect(demo.seen).to_contain_text("exactly as much as the projections")


@pytest.mark.slow
def test_the_module_packed_for_jupyter_draws_pythons_result(demo: DemoPage) -> None:
    """In Jupyter the choice arrives before its result: until then the old table stays whole."""
    python = CostExplorer(model="gpt2-small", language="en")
    shown = demo.packed(
        python,
        """(el, { state, heard }) => {
          const text = () => el.querySelector(".mha-seen").textContent;
          const opened = text();
          Object.assign(state, { model: "gpt3", num_kv_heads: 96 });
          heard["change:model"]();
          return [opened, text()];
        }""",
    )
    assert shown[0] == shown[1]
    assert shown[0].startswith("GPT-2 small")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_bars_a_reader(tmp_path: Path, dark: bool) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(CostExplorer(language="en"), tmp_path, dark=dark, over="http") as demo:
        for width in (1280, 390):
            demo.page.set_viewport_size({"width": width, "height": 1000})
            for state in ({}, {"seq": 131072, "batch": 64}, {"model": "vit-b-16", "sees": 256}):
                demo.set(**OPENING)
                demo.set(**state, **({"num_kv_heads": 12} if "model" in state else {}))
                assert_accessible(demo.page, within=".mha")
                assert_fits(demo.page)
        demo.page.evaluate("document.documentElement.style.fontSize = '200%'")
        assert_fits(demo.page, boxes_scroll=True)
