"""The quiz in Chromium, with the keyboard alone too."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mha_lib.widgets import assets, quiz
from tests.browser.accessible import assert_accessible, assert_fits
from tests.browser.demo_page import DemoPage, open_demo, opened_once, write_site

# test_chapter.py walks through all of them in `make test`.
pytestmark = pytest.mark.slow

QUESTIONS: list[dict[str, Any]] = assets.quiz_text("multi-head", "en")["questions"]
RIGHT = {
    each["id"]: each["answer"]
    if each["kind"] == "number"
    else [place for place, choice in enumerate(each["choices"]) if choice.get("right")]
    for each in QUESTIONS
}


opened = opened_once(partial(quiz, "multi-head"))


@pytest.fixture
def demo(opened: DemoPage) -> Iterator[DemoPage]:
    """The demo as it opens: loading it anew is quicker than opening another window."""
    opened.reload()
    yield opened
    assert not opened.problems


def form(page: Page, name: str) -> Locator:
    return page.locator("form").nth(next(i for i, q in enumerate(QUESTIONS) if q["id"] == name))


def verdict(page: Page, name: str) -> Locator:
    return form(page, name).locator(".mha-verdict")


def answer(page: Page, name: str, given: Any) -> None:
    fields = form(page, name).locator("input")
    if isinstance(given, list):
        for place in given:
            fields.nth(place).check()
    else:
        fields.fill(str(given))
    form(page, name).get_by_role("button", name="Check").click()


def without_marks(text: str) -> str:
    return text.replace("`", "").replace("*", "")


def test_every_question_is_a_named_group_with_its_choices_in_order(demo: DemoPage) -> None:
    for number, question in enumerate(QUESTIONS, start=1):
        group = demo.page.get_by_role(
            "group", name=f"{number}. {without_marks(question['question'])}", exact=True
        )
        expect(group).to_have_count(1)
        role = {"one": "radio", "many": "checkbox", "number": "textbox"}[question["kind"]]
        names = [
            f"{'ABCD'[place]} {without_marks(choice['text'])}"
            for place, choice in enumerate(question.get("choices", []))
        ]
        for place, name in enumerate(names or ["Your answer"]):
            expect(group.get_by_role(role).nth(place)).to_have_accessible_name(name)


def test_every_wrong_answer_has_its_own_explanation(demo: DemoPage) -> None:
    page = demo.page
    for question in QUESTIONS:
        name = question["id"]
        if question["kind"] == "number":
            wrong = [(each["value"], each["because"]) for each in question["mistakes"]]
            wrong.append((5, question["wrong"]))
        elif question["kind"] == "one":
            wrong = [
                ([place], choice["because"])
                for place, choice in enumerate(question["choices"])
                if "right" not in choice
            ]
        else:
            continue
        for given, because in wrong:
            answer(page, name, given)
            expect(verdict(page, name)).to_contain_text("✗ Not yet")
            expect(verdict(page, name)).to_contain_text(without_marks(because))
            assert demo.get("result")["marks"][name] is False


def test_right_answers_are_explained_and_counted(demo: DemoPage) -> None:
    page = demo.page
    summary = page.locator(".mha-summary [aria-live]")
    expect(summary).to_have_text("0 of 8 right.")
    for number, question in enumerate(QUESTIONS, start=1):
        name = question["id"]
        answer(page, name, RIGHT[name])
        expect(verdict(page, name)).to_contain_text("✓ Right")
        told = [question["right"]] if "right" in question else []
        told += [choice["because"] for choice in question.get("choices", [])]
        for text in told:
            expect(verdict(page, name)).to_contain_text(without_marks(text))
        expect(summary).to_have_text(f"{number} of 8 right." if number < 8 else "All 8 right.")
    assert demo.get("given") == RIGHT
    assert demo.get("result")["marks"] == dict.fromkeys(RIGHT, True)


def test_several_right_choices_are_not_given_away(demo: DemoPage) -> None:
    page, name = demo.page, "what-w-o-does"
    answer(page, name, [0, 1])
    expect(verdict(page, name)).to_contain_text("A ✓")
    expect(verdict(page, name)).to_contain_text("B ✗")
    expect(verdict(page, name)).to_contain_text("Something true is still missing.")
    expect(verdict(page, name)).not_to_contain_text("C ")
    answer(page, name, [2])
    expect(verdict(page, name)).to_contain_text("✗ Not yet")
    expect(verdict(page, name)).not_to_contain_text("missing")
    form(page, name).locator("input").nth(1).uncheck()
    form(page, name).get_by_role("button", name="Check").click()
    expect(verdict(page, name)).to_contain_text("✓ Right")


def test_a_verdict_leaves_with_the_answer_it_was_about(demo: DemoPage) -> None:
    page, name = demo.page, "head-width-768"
    answer(page, name, 768)
    answer(page, "shape-of-scores", [0])
    form(page, name).locator("input").fill("76")
    expect(verdict(page, name)).to_be_empty()
    assert demo.get("given") == {"shape-of-scores": [0]}
    expect(verdict(page, "shape-of-scores")).to_contain_text("✓ Right")
    expect(page.locator(".mha-summary [aria-live]")).to_have_text("1 of 8 right.")


def test_what_is_no_number_is_answered_and_not_counted(demo: DemoPage) -> None:
    page, name = demo.page, "qkv-weights-768"
    form(page, name).get_by_role("button", name="Check").click()
    expect(verdict(page, name)).to_have_text("Write a number first.")
    answer(page, name, "3 * 768 * 768")
    expect(verdict(page, name)).to_have_text(
        "“3 * 768 * 768” is not a number that can be read here. "
        "Write one number and nothing else, such as 1234567 or 1,234,567."
    )
    answer(page, name, "9" * 400)
    expect(verdict(page, name)).to_contain_text("is not a number that can be read here.")
    width = page.evaluate("document.documentElement.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    form(page, "shape-of-scores").get_by_role("button", name="Check").click()
    expect(verdict(page, "shape-of-scores")).to_have_text("Choose an answer first.")
    assert demo.get("given") == {}


def test_thousands_may_be_grouped(demo: DemoPage) -> None:
    page, name = demo.page, "qkv-weights-768"
    for written in ("1769472", "1,769,472", "1 769 472", "1.769.472", "1_769_472"):
        answer(page, name, written)
        expect(verdict(page, name)).to_contain_text("✓ Right")
        expect(form(page, name).locator("input")).to_have_value(written)


NUMBERS: list[tuple[str, str, float | None]] = [
    ("en", "64", 64),
    ("en", " 64 ", 64),
    ("en", "+64", 64),
    ("en", "-64", -64),
    ("en", "−64", -64),
    ("en", "0.5", 0.5),
    ("en", "1,769,472", 1769472),
    ("en", "1,769,472.25", 1769472.25),
    ("en", "1\u2009769\u2009472", 1769472),
    ("en", "1\u202f769\u202f472", 1769472),
    ("en", "1\u00a0769\u00a0472", 1769472),
    ("en", "1'769'472", 1769472),
    ("en", "1’769’472", 1769472),
    ("en", "1.769.472", 1769472),
    ("en", "1.769", 1.769),
    ("en", "６４", 64),
    ("vi", "1.769.472", 1769472),
    ("vi", "1.769", 1769),
    ("vi", "1,769,472", 1769472),
    ("vi", "0,5", 0.5),
    ("vi", "1.769,5", 1769.5),
    ("ms", "1,769,472", 1769472),
    ("ms", "0.5", 0.5),
    ("en", "", None),
    ("en", "lots", None),
    ("en", "64 heads", None),
    ("en", "3*768", None),
    ("en", "1,76,9", None),
    ("en", "6 4", None),
    ("en", "1,769 472", None),
    ("en", "0,5", None),
    ("en", "64.", 64),
    ("en", "1,769,472.", 1769472),
    ("vi", "64.", 64),
    ("vi", "64,", 64),
    ("en", ".5", 0.5),
    ("en", "-.5", -0.5),
    ("vi", ",5", 0.5),
    ("vi", ".5", None),
    ("en", "64,", None),
    ("en", "64..", None),
    ("en", ".", None),
    ("en", "768²", None),
    ("en", "9" * 400, None),
    ("en", "9" * 300, float("9" * 300)),
    ("en", "--64", None),
    ("en", "0x40", None),
    ("en", "Infinity", None),
    ("en", "1e3", None),
    ("vi", "0.5", None),
]


def test_numbers_are_read_as_each_language_writes_them(demo: DemoPage) -> None:
    read = demo.page.evaluate(
        "async rows => { const { readNumber } = await mha.load('numbers.js');"
        " return rows.map(([language, text]) => readNumber(text, language)); }",
        [[language, text] for language, text, _ in NUMBERS],
    )
    assert read == [number for _, _, number in NUMBERS]


def test_the_whole_quiz_by_keyboard(demo: DemoPage) -> None:
    page = demo.page
    keyboard = page.keyboard
    for question in QUESTIONS:
        name, right = question["id"], RIGHT[question["id"]]
        if question["kind"] == "number":
            keyboard.press("Tab")
            keyboard.type(str(right))
            keyboard.press("Enter")  # sends the answer from the field itself
            keyboard.press("Tab")
        elif question["kind"] == "one":
            keyboard.press("Tab")
            keyboard.press("Space")  # the first choice, then down to the right one
            for _ in range(right[0]):
                keyboard.press("ArrowDown")
            keyboard.press("Tab")
            keyboard.press("Enter")
        else:
            for place in range(len(question["choices"])):
                keyboard.press("Tab")
                if place in right:
                    keyboard.press("Space")
            keyboard.press("Tab")
            keyboard.press("Enter")
        expect(form(page, name).get_by_role("button", name="Check")).to_be_focused()
        expect(verdict(page, name)).to_contain_text("✓ Right")
        hint = form(page, name).locator("details")
        expect(hint.locator("p")).to_be_hidden()
        keyboard.press("Tab")
        keyboard.press("Enter")
        expect(hint.locator("p")).to_have_text(without_marks(question["hint"]))
    expect(page.locator(".mha-summary [aria-live]")).to_have_text("All 8 right.")
    keyboard.press("Tab")
    keyboard.press("Enter")
    expect(form(page, QUESTIONS[0]["id"]).locator("input")).to_be_focused()


def test_starting_again_forgets_everything(demo: DemoPage) -> None:
    page = demo.page
    again = page.get_by_role("button", name="Start again")
    expect(again).to_be_hidden()
    answer(page, "head-width-768", 64)
    answer(page, "shape-of-scores", [1])
    expect(page.get_by_role("button", name="7: not yet right")).to_have_text("7 ✗")
    page.get_by_text("Hint", exact=True).first.click()
    expect(page.locator("details[open]")).to_have_count(1)
    again.click()
    expect(page.locator("details[open]")).to_have_count(0)
    assert demo.get("given") == {}
    expect(page.locator("input:checked")).to_have_count(0)
    expect(form(page, "head-width-768").locator("input")).to_have_value("")
    expect(form(page, "head-width-768").locator("input")).to_be_focused()
    expect(page.get_by_text("✓ Right")).to_have_count(0)
    expect(page.get_by_role("button", name="1: open")).to_have_text("1")


def test_answers_that_python_holds_are_shown(demo: DemoPage) -> None:
    """As when a notebook shows the same quiz a second time."""
    page = demo.page
    demo.set(given={"qkv-weights-768": 589824, "shape-of-scores": [0]})
    expect(form(page, "qkv-weights-768").locator("input")).to_have_value("589,824")
    expect(verdict(page, "qkv-weights-768")).to_contain_text("is one matrix")
    expect(form(page, "shape-of-scores").locator("input").first).to_be_checked()
    demo.set(given={})
    expect(verdict(page, "qkv-weights-768")).to_be_empty()


def test_the_page_marks_as_python_does(demo: DemoPage) -> None:
    widget = quiz("multi-head")
    for question in QUESTIONS:
        answers: list[Any] = [64, 64.0000000001, 65, 1769472, 0]
        if question["kind"] != "number":
            answers = [[0], [1], [2], [3], [0, 2], [1, 3], [0, 1, 2, 3]]
        for each in answers:
            widget.given = {question["id"]: each}
            demo.set(given=widget.given)
            assert demo.get("result") == widget.result


def test_only_the_verdict_that_changed_is_read_out(demo: DemoPage) -> None:
    page = demo.page
    answer(page, "head-width-768", 64)
    news = demo.count_news(".mha-verdict")
    answer(page, "head-width-512", 64)
    assert news() == 0


@pytest.mark.parametrize(("dark", "width"), [(True, 1280), (False, 390)])
def test_it_is_accessible_and_fits(tmp_path: Path, dark: bool, width: int) -> None:
    # Over http, because axe reads the stylesheets, which file:// refuses.
    with open_demo(quiz("multi-head"), tmp_path, dark=dark, width=width, over="http") as demo:
        for name, right in RIGHT.items():
            answer(demo.page, name, right if name != "shape-of-scores" else [1])
        for hint in demo.page.locator("summary").all():
            hint.click()
        assert_accessible(demo.page, within=".mha")
        for size in ("100%", "200%"):
            demo.page.evaluate("size => document.documentElement.style.fontSize = size", size)
            assert_fits(demo.page, boxes_scroll=True)


def test_without_javascript_the_quiz_can_be_read_and_its_answers_unfolded(
    browser: Browser, tmp_path: Path
) -> None:
    write_site(tmp_path, quiz("multi-head").static_html())
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{tmp_path.as_uri()}/index.html")
    paper = page.locator(".mha-paper[lang=en]")
    answers = paper.locator("details", has_text="✓ Right")
    expect(answers).to_have_count(len(QUESTIONS))
    expect(answers.first.locator("p")).to_be_hidden()
    answers.first.locator("summary").click()
    expect(answers.first.locator("p")).to_have_text(without_marks(QUESTIONS[0]["right"]))
    context.close()


def test_without_javascript_a_quiz_speaks_the_pages_language(browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for language, written, shown in (
        ("en", ["en", "vi"], "en"),
        ("vi", ["en", "vi"], "vi"),
        ("vi", ["en", "ms"], "en"),
        ("ms", ["en", "vi", "ms"], "ms"),
    ):
        papers = "".join(f'<div class="mha-paper" lang="{each}">{each}</div>' for each in written)
        page.set_content(
            f'<html lang="{language}"><style>{assets.stylesheet()}</style>'
            f'<div class="mha-demo"><noscript>{papers}</noscript></div>'
        )
        expect(page.locator(".mha-paper:visible")).to_have_text([shown])
    context.close()
