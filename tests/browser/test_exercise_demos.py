"""Each exercise's demo as the book shows it: live, for everybody, and no more than it needs."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pytest
from playwright.sync_api import Page, Response, expect

from mha_lib.widgets import assets
from tests.browser.accessible import assert_accessible
from tests.browser.test_chapters import LOOKS
from tests.browser.test_site import EDITION, EXERCISE, EXERCISES

QUICK = EXERCISE.rsplit("/", 1)[1]


class Deed(NamedTuple):
    """A key pressed on one of a demo's controls, and what the demo holds before and after."""

    role: Literal["button", "radio", "slider"]
    control: str
    key: str
    trait: str
    before: Any
    after: Any


DEEDS = {
    "embeddings": Deed("radio", "horse", "ArrowLeft", "selected", 3, 2),
    "query-key-value": Deed(
        "slider", "query, to the north", "ArrowRight", "query", [0.8, 0.2], [0.8, 0.3]
    ),
    "scaled-dot-product": Deed("slider", "width d_k", "ArrowRight", "d_k", 4, 8),
    "multi-head": Deed("button", "2 meaning", "Enter", "head", 0, 1),
    "masking": Deed("button", "before softmax", "Enter", "when", "after", "before"),
    "capstone": Deed("button", "Next word →", "Enter", "step", 1, 2),
}


def each_exercise(*looks: str) -> pytest.MarkDecorator:
    """Take each exercise in each look; all but one stand among the slow tests."""
    marked = [
        pytest.param(
            name, look, marks=[] if (name, look) == (QUICK, looks[0]) else pytest.mark.slow
        )
        for name in DEEDS
        for look in looks
    ]
    return pytest.mark.parametrize(("name", "look"), marked)


def opened(page: Page, address: str, name: str) -> Page:
    page.goto(f"{address}{EDITION}/exercises/{name}/{name}.html")
    demo = page.locator(".mha-demo")
    expect(demo).to_have_count(1)
    demo.scroll_into_view_if_needed()
    expect(demo).to_have_attribute("data-ready", "", timeout=20_000)
    return page


def held(page: Page, trait: str) -> Any:
    return page.evaluate("trait => document.querySelector('.mha-demo').mhaModel.get(trait)", trait)


def test_every_exercise_has_a_demo_that_is_tried() -> None:
    assert {name.rsplit("/", 1)[1] for name in EXERCISES} == {*DEEDS}


@each_exercise("light", "dark", "phone")
def test_it_starts_and_the_page_is_for_everybody(
    new_page: Callable[..., Page], http_site: str, name: str, look: str
) -> None:
    page = opened(new_page(**LOOKS[look]), http_site, name)
    assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
    assert_accessible(page)


@each_exercise("light")
def test_the_keyboard_does_and_the_demo_answers(
    page: Page, site_address: str, name: str, look: str
) -> None:
    opened(page, site_address, name)
    deed = DEEDS[name]
    demo = page.locator(".mha-demo")
    shown = demo.inner_text()
    assert held(page, deed.trait) == deed.before
    demo.get_by_role(deed.role, name=deed.control, exact=True).press(deed.key)
    assert held(page, deed.trait) == deed.after
    assert demo.inner_text() != shown


@each_exercise("light")
def test_the_page_loads_what_its_demo_needs_and_no_more(
    page: Page, http_site: str, name: str, look: str
) -> None:
    asked: list[str] = []

    def note(answer: Response) -> None:
        _, there, file = answer.url.partition("/_static/mha/")
        if there and file.partition("?")[0].endswith(".js"):
            asked.append(file.partition("?")[0])

    page.on("response", note)
    opened(page, http_site, name)
    page.wait_for_load_state("networkidle")
    demo = page.locator(".mha-demo")
    module = str(demo.get_attribute("data-modules")).split()[-1]
    texts = [f"{each}.{EDITION}.js" for each in str(demo.get_attribute("data-texts")).split()]
    scripts = [file for file in asked if file != "loader.js"]
    assert module in assets.module_names()
    assert sorted(scripts) == sorted([*assets.modules_of(module), *texts])
