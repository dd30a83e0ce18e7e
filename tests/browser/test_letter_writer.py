"""LetterWriter in Chromium, as the built site carries it: no kernel."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mha_lib.experiments.writing import make_writer, train_writer
from mha_lib.models import Decoder
from mha_lib.widgets import LetterWriter
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo


@pytest.fixture(scope="module")
def model() -> Decoder:
    return train_writer(steps=40)[0]


@pytest.fixture(scope="module")
def demo(model: Decoder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPage]:
    with open_demo(LetterWriter(model, language="en"), tmp_path_factory.mktemp("writer")) as opened:
        yield opened


def twin(demo: DemoPage, model: Decoder) -> LetterWriter:
    """The same demo in Python, with the inputs that the page has now."""
    return LetterWriter(model, **{name: demo.get(name) for name in LetterWriter.inputs})


def test_it_writes_the_letter_that_python_thinks_likeliest(demo: DemoPage, model: Decoder) -> None:
    field = demo.page.get_by_label("Your beginning")
    field.fill("Why does it, then")
    demo.page.keyboard.press("Enter")
    for _ in range(3):
        before = twin(demo, model).result
        assert_same(demo.get("result"), before)
        demo.button("Write the likeliest letter").click()
        chances = before["chances"]
        letter = demo.get("recipe")["alphabet"][chances.index(max(chances))]
        assert demo.get("text") == before["text"] + letter
    expect(demo.page.locator(".mha-letters button[aria-pressed=true]")).to_have_count(1)


def test_it_draws_letters_until_the_line_is_full(demo: DemoPage, model: Decoder) -> None:
    demo.button("Begin again").click()
    assert demo.get("text") == "attention lets each "
    demo.page.locator(".mha-letters button").nth(3).click()  # writing goes on at the end
    for length in (30, 40, 48):
        demo.button("Draw 10 letters").click()
        expect(demo.page.locator(".mha-letters button")).to_have_count(length)
        assert_same(demo.get("result"), twin(demo, model).result)
    expect(demo.button("Draw 10 letters")).to_have_attribute("aria-disabled", "true")


def test_letters_are_drawn_by_their_chances(demo: DemoPage) -> None:
    drawn = demo.page.evaluate(
        """async () => {
          const { drawn } = await mha.load("letter_writer.js");
          return [0, .19, .21, .7, .99].map((number) => drawn([.2, .3, .5], 1, number));
        }"""
    )
    assert drawn == [0, 0, 1, 2, 2]


def test_the_arrow_keys_go_from_letter_to_letter(demo: DemoPage, model: Decoder) -> None:
    demo.page.get_by_label("Your beginning").fill("the word")
    demo.page.keyboard.press("Enter")
    demo.button("1.2").click()
    demo.page.locator(".mha-letters button[aria-pressed=true]").focus()
    demo.page.keyboard.press("ArrowLeft")
    demo.page.keyboard.press("ArrowLeft")
    assert (demo.get("query"), demo.get("layer"), demo.get("head")) == (5, 0, 1)
    assert_same(demo.get("result"), twin(demo, model).result)
    expect(demo.seen).to_contain_text("From o, head 1.2 looks most at")
    expect(demo.page.locator(".mha-letters [data-later]")).to_have_count(2)


def test_other_letters_are_refused(demo: DemoPage) -> None:
    before = demo.get("text")
    demo.page.get_by_label("Your beginning").fill("naïve")
    demo.button("Read it").click()
    expect(demo.page.get_by_role("alert")).to_contain_text("Give 1 to 48 letters")
    assert demo.get("text") == before
    demo.button("Begin again").click()
    expect(demo.page.get_by_role("alert")).to_have_text("")


def test_it_is_light_enough() -> None:
    html = LetterWriter(make_writer(), language="en").static_html()
    assert len(gzip.compress(html.encode())) < 60_000


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(390, True, id="390-dark"),
        pytest.param(1200, False, id="1200-light", marks=pytest.mark.slow),
    ],
)
def test_it_is_accessible_and_fits(dark: bool, width: int, model: Decoder, tmp_path: Path) -> None:
    with open_demo(LetterWriter(model, language="en"), tmp_path, dark=dark, width=width) as demo:
        assert_accessible(demo.page)
        assert_fits(demo.page)
