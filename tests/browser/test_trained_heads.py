"""The demos whose models are trained, in Chromium, as the built site carries them: no kernel."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from mha_lib.experiments.grammar import GrammarModel, train_grammar
from mha_lib.experiments.induction import CopyModel, train_copying
from mha_lib.widgets import CopyHeads, GrammarHeads
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, assert_same, open_demo


@pytest.fixture(scope="module")
def grammar_model() -> GrammarModel:
    return train_grammar(3, steps=250)[0]


@pytest.fixture(scope="module")
def copy_model() -> CopyModel:
    return train_copying(steps=200, every=200)[0]


@pytest.fixture(scope="module")
def grammar_page(
    grammar_model: GrammarModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DemoPage]:
    widget = GrammarHeads(grammar_model, language="en")
    with open_demo(widget, tmp_path_factory.mktemp("grammar")) as demo:
        yield demo


@pytest.fixture(scope="module")
def copy_page(
    copy_model: CopyModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DemoPage]:
    widget = CopyHeads(copy_model, language="en")
    with open_demo(widget, tmp_path_factory.mktemp("copy")) as demo:
        yield demo


def grammar_twin(demo: DemoPage, model: GrammarModel) -> GrammarHeads:
    """The same demo in Python, with the inputs that the page has now."""
    return GrammarHeads(model, **{name: demo.get(name) for name in GrammarHeads.inputs})


def test_each_head_that_is_switched_off_costs_what_python_says(
    grammar_page: DemoPage, grammar_model: GrammarModel
) -> None:
    demo = grammar_page
    for head in range(3):
        button = demo.button(f"Head {head + 1}")
        button.focus()
        demo.page.keyboard.press("Enter")
        expect(button).to_have_attribute("aria-pressed", "false")
        assert demo.get("heads")[head] is False
        assert_same(demo.get("result"), grammar_twin(demo, grammar_model).result)
        expect(demo.seen).to_contain_text(f"Without head {head + 1}")
        wrong = demo.page.locator(".mha-answers [data-right=false]")
        expected = grammar_twin(demo, grammar_model).result
        places, guesses = (expected[name][demo.get("query")] for name in ("places", "guesses"))
        words = demo.get("words")
        assert wrong.count() == sum(words[p] != g for p, g in zip(places, guesses, strict=True))
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")


def test_a_sentence_can_be_composed(grammar_page: DemoPage, grammar_model: GrammarModel) -> None:
    demo = grammar_page
    words, markers, query = (demo.get(name) for name in ("words", "markers", "query"))
    demo.button("Move the word →").click()
    assert demo.get("query") == query + 1
    assert demo.get("words")[query + 1] == words[query]
    assert demo.get("markers")[query] == markers[query + 1]
    assert_same(demo.get("result"), grammar_twin(demo, grammar_model).result)
    demo.button("Another word of its class").click()
    changed = demo.get("words")[query + 1]
    assert changed != words[query]
    assert changed // 4 == words[query] // 4
    assert_same(demo.get("result"), grammar_twin(demo, grammar_model).result)
    demo.button("Another sentence").click()
    assert demo.get("words") != words
    assert_same(demo.get("result"), grammar_twin(demo, grammar_model).result)
    demo.page.locator(".mha-tokens button").nth(demo.get("query")).focus()
    demo.page.keyboard.press("Home")
    assert demo.get("query") == 0
    expect(demo.page.locator(".mha-answers")).to_contain_text("nothing stands before")


def test_a_pattern_of_one_s_own_is_read_as_python_reads_it(
    copy_page: DemoPage, copy_model: CopyModel
) -> None:
    demo = copy_page
    field = demo.page.get_by_label("Your pattern")
    for pattern in ("cafebad", "XWVUTSRQPO", "AAB"):
        field.fill(pattern)
        demo.page.keyboard.press("Enter")
        assert demo.get("pattern") == pattern.upper()
        twin = CopyHeads(copy_model, pattern=pattern)
        assert_same(demo.get("result"), twin.result)
        shown = demo.page.locator(".mha-guesses tbody tr").nth(1).locator("td")
        assert shown.all_text_contents() == [twin._name(guess) for guess in twin.result["guesses"]]
    field.fill("zz top")
    demo.button("Read it twice").click()
    expect(demo.page.get_by_role("alert")).to_have_text("Give 3 to 10 letters from A to X.")
    assert demo.get("pattern") == "AAB"
    demo.button("Another pattern").click()
    expect(demo.page.get_by_role("alert")).to_have_text("")
    assert_same(demo.get("result"), CopyHeads(copy_model, pattern=demo.get("pattern")).result)


def test_the_arrow_keys_go_from_letter_to_letter(copy_page: DemoPage) -> None:
    demo = copy_page
    demo.page.get_by_label("Your pattern").fill("QKFMBT")
    demo.page.keyboard.press("Enter")
    here = demo.get("query")
    demo.page.locator(".mha-guesses button[aria-pressed=true]").focus()
    demo.page.keyboard.press("ArrowLeft")
    assert demo.get("query") == here - 1
    demo.page.keyboard.press("Home")
    expect(demo.seen).to_contain_text("In the first round")
    demo.page.keyboard.press("End")
    assert demo.get("query") == 12


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(1200, False, id="1200-light"),
        pytest.param(390, True, id="390-dark"),
        pytest.param(1200, True, id="1200-dark", marks=pytest.mark.slow),
        pytest.param(390, False, id="390-light", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("which", ["grammar", "copy"])
def test_they_are_accessible_and_fit(
    which: str,
    dark: bool,
    width: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    model = request.getfixturevalue(f"{which}_model")
    widget = (GrammarHeads if which == "grammar" else CopyHeads)(model, language="en")
    with open_demo(widget, tmp_path, dark=dark, width=width) as demo:
        if which == "grammar":
            demo.button("Head 2").click()
        assert_accessible(demo.page)
        # A phone is narrower than 13 letters: those tables scroll in their boxes.
        assert_fits(demo.page, boxes_scroll=width == 390)
