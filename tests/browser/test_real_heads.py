"""The head browser in Chromium, as the built site carries it: no kernel, data when in view."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Route, expect

from mha_lib.pretrained import LayerTrace, Reading
from mha_lib.widgets import RealHeads
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo, written


def for_the_site() -> RealHeads:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MHA_STATIC", "1")
        return RealHeads(language="en")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoPage]:
    with open_demo(for_the_site(), tmp_path_factory.mktemp("real")) as demo:
        expect(demo.seen).to_contain_text("yêu")
        yield demo


def twin(demo: DemoPage) -> RealHeads:
    """The same demo in Python, with the inputs that the page has now."""
    return RealHeads(language="en", **{name: demo.get(name) for name in RealHeads.inputs})


def test_it_opens_on_what_the_page_tells_and_counts_as_python_does(opened: DemoPage) -> None:
    expect(opened.seen).to_contain_text("In head 7.11, yêu looks most at Tôi (.71).")
    for change in ({"words_only": True}, {"layer": 2, "head": 5}, {"words_only": False}):
        opened.set(**change)
        python = twin(opened).result
        assert_same(opened.get("result"), python)
        row = opened.page.locator(".mha-heatmap tr[aria-current] td").all_text_contents()
        query = opened.get("query") - opened.get("words_only")  # <s> is left out before it
        assert row == [written(weight) for weight in python["shown"][query]]


def test_another_model_and_sentence_are_loaded_when_chosen(opened: DemoPage) -> None:
    opened.page.get_by_label("Model", exact=True).select_option("all-MiniLM-L6-v2")
    expect(opened.page.locator(".mha-thumbs button")).to_have_count(72)
    expect(opened.seen).to_contain_text("In head 0.2")
    assert_same(opened.get("result"), twin(opened).result)
    opened.page.get_by_label("Sentence", exact=True).select_option(
        label="The boy said that he liked the movie."
    )
    expect(opened.page.locator(".mha-queries")).to_contain_text("movie")
    assert_same(opened.get("result"), twin(opened).result)
    scores = opened.page.locator(".mha-scores")
    scores.get_by_role("button", name="1.3").click()
    assert (opened.get("layer"), opened.get("head")) == (1, 3)
    expect(scores.get_by_role("button", name="1.3")).to_be_focused()
    cells = scores.locator("tr", has_text="pronoun").locator("td").all_text_contents()
    score = twin(opened).result["relations"]["pronoun"]
    distance, share = score["offset"]
    assert cells == [
        "–",
        written(score["heads"][1][3]),
        f"1.3: {written(score['heads'][1][3])}",
        written(score["chance"]),
        written(score["untrained"]),
        f"−{-distance}: {written(share)}",
    ]
    opened.page.get_by_label("Model", exact=True).select_option("multilingual-e5-small")
    expect(opened.page.locator(".mha-thumbs button")).to_have_count(144)


def test_special_tokens_are_left_out_and_it_is_said(opened: DemoPage) -> None:
    opened.set(sentence=6, layer=7, head=11, query=2, words_only=False)
    box = opened.page.get_by_label("without special tokens")
    box.focus()
    opened.page.keyboard.press("Space")
    expect(opened.seen).to_contain_text("are left out, and the .85 that stays is drawn as if")
    assert opened.page.locator(".mha-queries button").all_text_contents() == [
        "Tôi",
        "yêu",
        "Việt",
        "Nam",
    ]
    opened.page.keyboard.press("Space")
    expect(opened.seen).to_contain_text("get .15 of its weight")


def test_the_pictures_are_the_weights(opened: DemoPage) -> None:
    opened.set(sentence=6, layer=0, head=7, query=2, words_only=False)
    python = twin(opened).result["shown"]
    inks = (
        opened.page.locator(".mha-thumbs button")
        .nth(7)
        .locator("canvas")
        .evaluate(
            """async canvas => {
          await new Promise(requestAnimationFrame);  // they are drawn a frame later
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return [canvas.width, ...data.filter((_, i) => i % 4 === 3)];
        }"""
        )
    )
    assert inks == [6, *(round(weight * 255) for row in python for weight in row)]


def test_the_keyboard_goes_from_head_to_head_and_from_token_to_token(opened: DemoPage) -> None:
    opened.set(sentence=6, layer=7, head=11, query=2, words_only=False)
    keyboard = opened.page.keyboard
    opened.button("Head 7.11").focus()
    keyboard.press("ArrowUp")
    keyboard.press("ArrowLeft")
    assert (opened.get("layer"), opened.get("head")) == (6, 10)
    expect(opened.button("Head 6.10")).to_be_focused()
    expect(opened.button("Head 6.10")).to_have_attribute("aria-pressed", "true")
    assert opened.page.locator(".mha-thumbs button[tabindex='0']").count() == 1
    keyboard.press("Home")
    assert (opened.get("layer"), opened.get("head")) == (0, 0)
    keyboard.press("ArrowUp")  # there is none above
    assert (opened.get("layer"), opened.get("head")) == (0, 0)
    opened.page.locator(".mha-queries button[aria-pressed=true]").focus()
    news = opened.count_news()
    keyboard.press("ArrowRight")
    assert opened.get("query") == 3
    expect(opened.seen).to_contain_text("Việt looks")
    assert news() == 1


def test_the_weights_are_asked_for_only_in_view(tmp_path: Path) -> None:
    widget = for_the_site()
    html = widget.static_html()
    widget.static_html = lambda: f'<div style="height: 4000px"></div>{html}'  # type: ignore[method-assign]
    with open_demo(widget, tmp_path) as demo:
        loaded = "document.querySelectorAll('script[src*=\"/data/\"]').length"
        demo.page.wait_for_timeout(300)
        assert demo.page.evaluate(loaded) == 0
        expect(demo.page.get_by_role("status")).to_have_text("The weights are being loaded.")
        demo.page.evaluate("scrollTo(0, 3800)")
        expect(demo.seen).to_contain_text("yêu")
        assert demo.page.evaluate(loaded) == 2  # the model's scores, and one sentence


def test_paper_shows_the_weights_of_a_demo_that_nobody_scrolled_to(tmp_path: Path) -> None:
    widget = for_the_site()
    html = widget.static_html()
    print_now = "<script>dispatchEvent(new Event('beforeprint'))</script>"
    far = f'<div style="height: 4000px"></div>{html}{print_now}'
    widget.static_html = lambda: far  # type: ignore[method-assign]
    with open_demo(widget, tmp_path) as demo:
        # A demo that is ready is printed as it is: its weights must be there by then.
        assert demo.page.locator(".mha-thumbs button").count() == 144


@pytest.mark.slow
def test_weights_that_do_not_come_can_be_asked_for_again(tmp_path: Path) -> None:
    with open_demo(for_the_site(), tmp_path, over="http") as demo:
        expect(demo.seen).to_contain_text("yêu")
        demo.page.route("**/data/*kopi.js", lambda route: route.abort())
        sentence = demo.page.get_by_label("Sentence", exact=True)
        sentence.select_option("10")
        expect(demo.page.get_by_role("status")).to_contain_text("could not be loaded")
        expect(demo.page.locator(".mha-thumbs")).to_be_hidden()
        demo.page.unroute("**/data/*kopi.js")
        sentence.select_option("6")
        sentence.select_option("10")
        expect(demo.seen).to_contain_text("minum")
        demo.problems.clear()


@pytest.mark.slow
def test_pictures_of_the_sentence_before_are_not_to_be_used(tmp_path: Path) -> None:
    """They may offer heads that the next model, whose weights are on their way, does not have."""
    with open_demo(for_the_site(), tmp_path, over="http") as demo:
        expect(demo.seen).to_contain_text("yêu")
        held: list[Route] = []
        demo.page.route("**/data/**", lambda route: held.append(route))
        demo.page.get_by_label("Model", exact=True).select_option("all-MiniLM-L6-v2")
        expect(demo.page.get_by_role("status")).to_contain_text("being loaded")
        expect(demo.page.locator(".mha-thumbs")).to_have_count(1)
        demo.page.locator(".mha-thumbs button").last.evaluate("button => button.click()")
        demo.page.locator(".mha-queries button").last.evaluate("button => button.click()")
        assert (demo.get("layer"), demo.get("head"), demo.get("query")) == (0, 2, 2)
        assert demo.page.locator(".mha-heads [inert] .mha-thumbs").count() == 1
        for route in held:
            route.continue_()
        expect(demo.page.locator(".mha-thumbs button")).to_have_count(72)
        assert demo.page.locator("[inert]").count() == 0


def test_in_jupyter_it_draws_what_python_computed(opened: DemoPage) -> None:
    python = RealHeads(language="en", sentence=0, layer=0, head=2, query=3)
    found = opened.packed(
        python,
        """el => [el.querySelector(".mha-seen").textContent,
          [...el.querySelectorAll(".mha-weights-row td")].map(cell => cell.textContent)]""",
    )
    assert "In head 0.2, sat looks most at cat" in found[0]
    assert found[1] == [written(weight) for weight in python.result["shown"][3]]


def test_in_jupyter_a_reading_of_one_s_own_is_drawn_without_scores(opened: DemoPage) -> None:
    weights = torch.tensor([[[[0.25, 0.75], [0.5, 0.5]]]])  # (B, h, N, N), of one head
    x = torch.zeros(1, 2, 4)  # (B, N, d_model)
    layers = (LayerTrace(x, weights, x),)
    own = Reading("mine", "a *b*", ("a", "*b*"), ("a", "*b*"), (False, False), (0, 1), layers)
    found = opened.packed(
        RealHeads(own, language="en"),
        """el => [".mha-seen", ".mha-scores caption", ".mha-scores tbody"].map(
          part => el.querySelector(part).textContent)""",
    )
    assert found == [
        "In head 0.0, a looks most at *b* (.75).",
        "Head 0.0 in this sentence",
        "the token before.50–––––the token after.75–––––itself.38–––––",
    ]


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1200, False, id="1200-light", marks=pytest.mark.slow),
        pytest.param(390, True, id="390-dark"),
        pytest.param(1200, True, id="1200-dark", marks=pytest.mark.slow),
        pytest.param(390, False, id="390-light", marks=pytest.mark.slow),
    ],
)
def test_it_is_accessible_and_fits(width: int, dark: bool, tmp_path: Path) -> None:
    with open_demo(for_the_site(), tmp_path, dark=dark, width=width) as demo:
        expect(demo.seen).to_contain_text("yêu")
        assert_accessible(demo.page)
        assert_fits(demo.page, boxes_scroll=width == 390)
