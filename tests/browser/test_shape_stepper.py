"""The shape stepper in Chromium: its page computes what mha_lib does, and can be used."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

from book.places import BOOK
from mha_lib import MultiHeadAttention
from mha_lib.widgets import ShapeStepper
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, open_demo, opened_once

# test_chapter.py walks through all of them in `make test`.
pytestmark = pytest.mark.slow

SIZES = ("B", "N", "d_model", "h")
DIFFERENT = {"B": 3, "N": 5, "d_model": 8, "h": 2}


opened = opened_once(ShapeStepper)


@pytest.fixture
def demo(opened: DemoPage) -> Iterator[DemoPage]:
    """The demo as it opens: loading it anew is quicker than opening another window."""
    opened.reload()
    yield opened
    assert not opened.problems


def compute_in_page(demo: DemoPage, states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = demo.page.evaluate(
        "async states => { const { compute } = await mha.load('shape_stepper.js');"
        " return states.map(compute); }",
        states,
    )
    return results


def steps_in_page(demo: DemoPage) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = demo.page.evaluate(
        "async () => (await mha.load('shape_steps.js')).STEPS"
    )
    return steps


def presets_in_page(demo: DemoPage) -> dict[str, dict[str, int]]:
    presets: dict[str, dict[str, int]] = demo.page.evaluate(
        "async () => (await mha.load('shape_steps.js')).PRESETS"
    )
    return presets


def test_the_page_computes_what_mha_lib_does(demo: DemoPage) -> None:
    chance = random.Random(2)
    states: list[dict[str, Any]] = [
        {"B": 2, "N": 4, "d_model": d_model, "h": h} for d_model in range(1, 25) for h in range(27)
    ]
    for _ in range(60):
        h, d_k = chance.randint(1, 100), chance.randint(1, 150)
        states.append(
            {"B": chance.randint(1, 64), "N": chance.randint(1, 5000), "d_model": h * d_k, "h": h}
        )
        states.append({name: chance.choice([0, -3, 2.5, None, 1_000_001, 6]) for name in SIZES})
    states += presets_in_page(demo).values()
    states += [
        {"B": 1, "N": 1_000_000, "d_model": 1_000_000, "h": 1_000_000},
        {"B": 1, "N": 1_000_000, "d_model": 4096, "h": 4096},
        {"B": 1, "N": 4, "d_model": 999_983, "h": 4},
    ]
    for state, result in zip(states, compute_in_page(demo, states), strict=True):
        assert result == ShapeStepper(**state).result, state


def test_the_code_shown_runs_and_has_the_shapes_shown(demo: DemoPage) -> None:
    """Every line of every step, run in order with torch, and every stage's axes."""
    sizes = {**DIFFERENT, "d_k": 4}
    names: dict[str, Any] = {**DIFFERENT, "x": torch.randn(3, 5, 8)}
    exec(chapters_class(), names)
    names["self"] = names["MultiHeadAttention"](d_model=8, h=2)
    for step in steps_in_page(demo):
        for line in step["code"]:
            assert as_the_chapter_has_it(line) in chapters_class()
            code, comment = line.split("  # ")
            exec(code, names)
            made = names[code.split(" = ")[0]]
            assert str(tuple(made.shape)) == comment_in_numbers(comment, sizes), line
        last = step["way"][-1]
        assert list(names[last["name"]].shape) == [sizes[axis] for axis in last["axes"]]
    assert torch.allclose(names["output"], names["self"](names["x"]), atol=1e-6)


def chapters_class() -> str:
    """The code cell of the chapter that defines its MultiHeadAttention."""
    chapter = (BOOK / "en" / "multi-head.md").read_text("utf-8")
    cells = re.findall(r"^```\{code-cell\} python\n(.*?)^```$", chapter, re.DOTALL | re.MULTILINE)
    (cell,) = [cell for cell in cells if "class MultiHeadAttention" in cell]
    return cell


def as_the_chapter_has_it(line: str) -> str:
    """A line of the stepper, where the chapter puts it into a function of its own or returns it."""
    for ours, chapters in (
        (r"^x  # ", "def forward(self, x):  # "),
        (r"^([qkv]) = self.\1_proj\(x\)  # .*", r"\1 = self.split_heads(self.\1_proj(x))"),
        (r"^([qkv]) = \1.view", "x = x.view"),
        (r"^([qkv]) = \1.transpose", "return x.transpose"),
        (r"^output = ", "return "),
    ):
        line = re.sub(ours, chapters, line)
    return line


def comment_in_numbers(comment: str, sizes: dict[str, int]) -> str:
    return re.sub(r"\w+", lambda match: str(sizes[match[0]]), comment)


def test_it_opens_at_the_split_with_sizes_that_all_differ(demo: DemoPage) -> None:
    expect(demo.page.locator("[aria-current=step]")).to_have_text("split")
    assert {name: demo.get(name) for name in SIZES} == DIFFERENT
    expect(demo.page.locator(".mha-careful")).to_be_empty()


def test_a_trap_is_said_from_the_step_on_where_it_can_deceive(demo: DemoPage) -> None:
    page = demo.page
    page.get_by_label("Sizes").select_option("small")
    careful = page.locator(".mha-careful")
    page.get_by_role("button", name="project", exact=True).click()
    expect(careful).to_be_empty()
    for step in ("split", "score"):
        page.get_by_role("button", name=step, exact=True).click()
        expect(careful).to_contain_text("B = h = 2")
        expect(careful).not_to_contain_text("N = d_k")
    page.get_by_role("button", name="combine", exact=True).click()
    expect(careful).to_contain_text("N = d_k = 4")
    expect(careful).to_contain_text("both (2, 2, 4, 4)")
    page.get_by_label("Sizes").select_option("different")
    expect(careful).to_be_empty()


def test_the_warning_is_computed(demo: DemoPage) -> None:
    cases: list[tuple[dict[str, int], list[str]]] = [
        ({"B": 3, "N": 4, "d_model": 8, "h": 2}, ["N = d_k"]),
        ({"B": 2, "N": 5, "d_model": 8, "h": 2}, ["B = h"]),
        ({"B": 3, "N": 2, "d_model": 8, "h": 2}, ["N = h"]),
        ({"B": 2, "N": 2, "d_model": 4, "h": 2}, ["N = d_k", "B = h", "N = h"]),
        (DIFFERENT, []),
    ]
    for sizes, said in cases:
        demo.set(**sizes, step="output")  # the last step: every tensor there is has been made
        text = demo.page.locator(".mha-careful").inner_text()
        assert [trap for trap in ("N = d_k", "B = h", "N = h") if trap in text] == said


def test_every_step_by_keyboard(demo: DemoPage) -> None:
    demo.set(**DIFFERENT)
    page = demo.page
    current = page.locator("[aria-current=step]")
    current.focus()
    # Or JupyterLab would take plain keys: "dd" on a button in an output deletes the cell.
    expect(current).to_have_attribute("data-lm-suppress-shortcuts", "true")
    page.keyboard.press("Home")
    for step in steps_in_page(demo):
        expect(current).to_be_focused()
        assert demo.get("step") == step["id"]
        sizes = {**DIFFERENT, "d_k": 4}
        shape = "(" + ", ".join(str(sizes[axis]) for axis in step["way"][-1]["axes"]) + ")"
        expect(page.locator(".mha-seen").first).to_contain_text(shape)
        expect(page.locator("pre")).to_have_text("\n".join(step["code"]))
        page.keyboard.press("ArrowRight")
    assert demo.get("step") == "output"
    page.keyboard.press("ArrowLeft")
    assert demo.get("step") == "merge"

    following = page.get_by_role("button", name="Next")
    following.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    assert demo.get("step") == "output"
    expect(following).to_be_focused()
    expect(following).to_have_attribute("aria-disabled", "true")


def test_the_browsers_own_shortcuts_are_left_alone(demo: DemoPage) -> None:
    page = demo.page
    page.evaluate(
        """() => {
          window.taken = [];
          addEventListener("keydown", (event) => {
            if (event.defaultPrevented) window.taken.push(event.key);
            event.preventDefault();  // or Alt+ArrowLeft would leave the page
          });
        }"""
    )
    page.locator("[aria-current=step]").focus()
    for held in ("Control", "Alt", "Meta"):
        for key in ("ArrowLeft", "ArrowRight", "Home", "End"):
            page.keyboard.press(f"{held}+{key}")
    assert page.evaluate("window.taken") == []
    assert demo.get("step") == "split"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.taken") == ["ArrowRight"]


def test_presets_that_have_no_model_say_their_sizes(demo: DemoPage) -> None:
    presets = presets_in_page(demo)
    for name, title in (("small", "Small"), ("different", "All sizes different")):
        sizes = ", ".join(f"{size}={presets[name][size]}" for size in SIZES)
        expect(demo.page.locator(f"option[value={name}]")).to_have_text(f"{title}: {sizes}")


def test_mha_lib_speaks_when_h_does_not_divide_d_model(demo: DemoPage) -> None:
    page = demo.page
    page.get_by_label("d_model numbers").fill("10")
    page.get_by_label("h heads", exact=True).fill("3")
    with pytest.raises(ValueError, match="divisible") as raised:
        MultiHeadAttention(10, 3)
    expect(page.locator(".mha-error")).to_have_text(str(raised.value))
    expect(page.get_by_label("d_model numbers")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("table")).to_be_hidden()
    page.get_by_label("h heads", exact=True).fill("5")
    expect(page.locator(".mha-error")).to_have_count(0)
    expect(page.locator("table")).to_be_visible()


def test_a_size_that_cannot_be_is_answered(demo: DemoPage) -> None:
    complaint = "N must be a whole number from 1 to 1,000,000."
    field = demo.page.get_by_label("N tokens")
    for typed in ("", "0", "-2", "2.5", "1000001"):
        field.fill(typed)
        expect(demo.page.locator(".mha-error")).to_have_text(complaint)
        expect(field).to_have_value(typed)
        expect(field).to_have_accessible_description(complaint)
        field.fill("4")
        expect(demo.page.locator(".mha-error")).to_have_count(0)


def test_changing_h_is_seen_to_leave_every_count_the_same(demo: DemoPage) -> None:
    page = demo.page
    page.get_by_label("Sizes").select_option("bert")
    table = page.locator("table").inner_text()
    for count in ("589,824", "1,769,472", "2,304", "2,359,296", "3,072"):
        assert count in table
    page.get_by_label("h heads", exact=True).fill("1")
    seen = page.locator(".mha-parameters [aria-live]")
    expect(seen).to_contain_text("h went from 12 to 1, and d_k from 64 to 768")
    expect(seen).to_contain_text("leaves every count the same: 2,359,296 weights and 3,072 biases")
    assert page.locator("table").inner_text() == table
    expect(page.get_by_label("Sizes")).to_have_value("own")


def test_gpt3s_scores_are_large(demo: DemoPage) -> None:
    demo.page.get_by_label("Sizes").select_option("gpt3")
    demo.set(step="score")
    expect(demo.page.locator(".mha-panel")).to_contain_text("402,653,184 numbers: 1.5 GiB")
    expect(demo.page.locator("svg")).to_have_count(0)


def test_the_drawing_keeps_each_number_with_its_head(demo: DemoPage) -> None:
    """After `view`, row i of every token's matrix is head i's; after `transpose`, matrix i is."""
    demo.set(**DIFFERENT)
    fills = demo.page.evaluate(
        """() => [...document.querySelectorAll('.mha-tensor')].map(tensor =>
          [...tensor.querySelectorAll('svg')].map(svg =>
            [...svg.querySelectorAll('.mha-cell')].map(cell => cell.style.fill)))"""
    )
    one, two = "var(--mha-head-0)", "var(--mha-head-1)"
    row = [one] * 4 + [two] * 4
    before, viewed, split = fills
    assert before == [row * 5]
    assert viewed == [row] * 5
    assert split == [[one] * 20, [two] * 20]


def test_a_live_region_is_not_read_out_again_unchanged(demo: DemoPage) -> None:
    demo.set(B=2, N=4, step="combine")
    news = demo.count_news(".mha-careful")
    demo.set(step="merge")
    assert news() == 0
    demo.set(N=5)
    assert news() == 1


def test_nothing_vanishes_in_forced_colours(demo: DemoPage) -> None:
    page = demo.page
    page.emulate_media(forced_colors="active", color_scheme="dark")
    style = "(element, name) => getComputedStyle(element)[name]"
    current = page.locator("[aria-current=step]")
    assert current.evaluate(style, "outlineStyle") == "solid"
    other = page.locator(".mha-steps button:not([aria-current])").first
    assert other.evaluate(style, "outlineStyle") == "none"
    ink = page.locator("pre").evaluate(style, "color")
    first = page.locator(".mha-first").first
    assert first.evaluate(style, "stroke") == ink
    assert page.locator("pre").evaluate(style, "borderStyle") == "solid"
    page.emulate_media(forced_colors="none", color_scheme="light")


@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390)])
def test_it_is_accessible_and_fits(tmp_path: Path, dark: bool, width: int) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(ShapeStepper(), tmp_path, dark=dark, width=width, over="http") as demo:
        presets = presets_in_page(demo)
        for state in ({"step": "split"}, presets["gpt3"], {"h": 7}):
            demo.set(**state)
            assert_accessible(demo.page, within=".mha")
        steps = [{"step": step["id"]} for step in steps_in_page(demo)]
        for size in ("100%", "200%"):
            demo.page.evaluate("size => document.documentElement.style.fontSize = size", size)
            for state in (presets["different"], *steps, presets["gpt3"], *steps, {"h": 7}):
                demo.set(**state)
                assert_fits(demo.page, boxes_scroll=True)
