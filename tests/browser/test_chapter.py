"""The first chapter as it is built: a reader's walk from demo to demo, the network shut."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from mha_lib import MultiHeadAttention
from mha_lib.widgets import HeadExplorer
from tests.browser.accessible import assert_accessible
from tests.browser.test_site import CHAPTER, PHONE

DESKTOP = {"width": 1280, "height": 900}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"viewport": DESKTOP, "color_scheme": "light"},
    "dark": {"viewport": DESKTOP, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}


@pytest.mark.parametrize(
    "look",
    ["light", *(pytest.param(look, marks=pytest.mark.slow) for look in ("dark", "phone"))],
)
def test_a_walk_through_the_chapter(
    new_page: Callable[..., Page], site_address: str, look: str
) -> None:
    page = new_page(**LOOKS[look])
    page.goto(site_address + CHAPTER)
    expect(page.locator(".mha-demo")).to_have_count(3)
    for demo in page.locator(".mha-demo").all():
        demo.scroll_into_view_if_needed()
        expect(demo).to_have_attribute("data-ready", "", timeout=20_000)
    for name in ("heads", "stepper", "quiz"):
        expect(page.locator(f".mha-{name}")).to_have_count(1)

    explore_heads(page.locator(".mha-heads"))
    step_through_shapes(page.locator(".mha-stepper"))
    answer_questions(page.locator(".mha-quiz"))

    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
    if site_address.startswith("http"):  # the look is the same from files, and axe takes long
        assert_accessible(page, within=".mha-demo")


def explore_heads(demo: Locator) -> None:
    remember_result(demo)
    demo.get_by_role("button", name="3 position").press("Enter")
    demo.get_by_role("button", name="yêu").press("ArrowRight")
    expect(demo.get_by_role("button", name="Việt")).to_be_focused()
    assert (held(demo, "head"), held(demo, "query")) == (2, 2)

    # What Python wrote into the page at build time must not stand for what the page computes.
    assert is_new(demo)
    result, python = held(demo, "result"), HeadExplorer(head=2, query=2).result
    for stage in ("weights", "contributions", "output"):
        torch.testing.assert_close(
            torch.tensor(result[stage], dtype=torch.float64),
            torch.tensor(python[stage], dtype=torch.float64),
            rtol=0,
            atol=1e-6,
        )
    shown = [float(weight) for weight in demo.locator(".mha-weights-row td").all_inner_texts()]
    assert shown == pytest.approx(python["weights"][2][2], abs=0.0051)


def step_through_shapes(demo: Locator) -> None:
    remember_result(demo)
    demo.get_by_role("button", name="split", exact=True).press("ArrowRight")
    expect(demo.locator("[aria-current=step]")).to_have_text("score")
    expect(demo.locator(".mha-seen").first).to_contain_text("(3, 2, 5, 5)")
    assert is_new(demo)

    demo.get_by_label("h heads", exact=True).fill("3")
    with pytest.raises(ValueError, match="is not divisible by") as raised:
        MultiHeadAttention(8, 3)
    expect(demo.locator(".mha-error")).to_have_text(str(raised.value))

    demo.get_by_label("Sizes").select_option("bert")
    expect(demo.locator(".mha-error")).to_have_count(0)
    layer = MultiHeadAttention(768, 12, device="meta")
    projections = {
        "W_Q": layer.q_proj,
        "W_K": layer.k_proj,
        "W_V": layer.v_proj,
        "W_O": layer.out_proj,
    }
    counts = {name: (each.weight.numel(), each.bias.numel()) for name, each in projections.items()}
    counts["all four"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    for name, numbers in counts.items():
        row = demo.get_by_role("row").filter(has=demo.page.get_by_role("rowheader", name=name))
        expect(row.get_by_role("cell")).to_have_text([f"{number:,}" for number in numbers])


def answer_questions(demo: Locator) -> None:
    number, choice = demo.locator("form").first, demo.locator("form").nth(3)
    for typed, verdict in (("768", "✗ Not yet"), ("64", "✓ Right")):
        number.get_by_role("textbox").fill(typed)
        number.get_by_role("textbox").press("Enter")
        expect(number.locator(".mha-verdict")).to_contain_text(verdict)
    for chosen, verdict in (("It grows eightfold", "✗ Not yet"), ("It stays", "✓ Right")):
        choice.get_by_role("radio", name=chosen).press("Space")
        choice.get_by_role("button", name="Check").press("Enter")
        expect(choice.locator(".mha-verdict")).to_contain_text(verdict)
    expect(demo.locator(".mha-summary [aria-live]")).to_have_text("2 of 8 right.")
    assert set(held(demo, "result")["marks"].values()) == {True}


def held(demo: Locator, name: str) -> Any:
    """A trait, as the demo's model holds it."""
    return demo.evaluate("(demo, name) => demo.closest('.mha-demo').mhaModel.get(name)", name)


def remember_result(demo: Locator) -> None:
    demo.evaluate("demo => { demo.built = demo.closest('.mha-demo').mhaModel.get('result'); }")


def is_new(demo: Locator) -> bool:
    same = "demo => demo.built !== demo.closest('.mha-demo').mhaModel.get('result')"
    return bool(demo.evaluate(same))
