"""What a reader has answered: kept in the browser, shown in the table of contents, cleared."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from mha_lib.widgets import assets
from tests.browser.accessible import assert_accessible
from tests.browser.test_site import EDITION, PHONE

KEY = "attention-course.progress.1"
STORED = f"localStorage.getItem({KEY!r})"
RESULT = "quiz => quiz.mhaModel.get('result')"
FIRST, SECOND = "multi-head", "masking"
REFUSED = """for (const storage of ["localStorage", "sessionStorage"]) {
  const get = () => { throw new DOMException("refused", "SecurityError"); };
  Object.defineProperty(window, storage, { get, configurable: true });
}"""
FULL = """Storage.prototype.setItem = () => {
  throw new DOMException("full", "QuotaExceededError");
};"""
NEARLY_FULL = """{
  const setItem = Storage.prototype.setItem;
  Storage.prototype.setItem = function (name, text) {
    if (text.length > 20) throw new DOMException("full", "QuotaExceededError");
    setItem.call(this, name, text);
  };
}"""


def questions(chapter: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = assets.quiz_text(chapter, "en")["questions"]
    return found


def open_chapter(page: Page, address: str, chapter: str) -> Locator:
    """Open a chapter and return its quiz, once it is there."""
    page.goto(f"{address}{EDITION}/{chapter}.html")
    quiz = page.locator('.mha-demo[data-modules$=" quiz.js"]')
    quiz.scroll_into_view_if_needed()  # it starts before those above it
    expect(quiz).to_have_attribute("data-ready", "", timeout=20_000)
    return quiz


def form(quiz: Locator, chapter: str, place: int) -> Locator:
    assert quiz.locator("form").count() == len(questions(chapter))
    return quiz.locator("form").nth(place)


def answer(quiz: Locator, chapter: str, place: int, right: bool = True) -> None:
    """Answer a chapter's question, and have it checked."""
    question, asked = questions(chapter)[place], form(quiz, chapter, place)
    if question["kind"] == "number":
        asked.locator("input").fill(str(question["answer"] + (0 if right else 1)))
    else:
        for field, choice in zip(asked.locator("input").all(), question["choices"], strict=True):
            if bool(choice.get("right")) is right:
                field.check()
                if question["kind"] == "one":
                    break
    asked.get_by_role("button", name="Check").click()
    expect(asked.locator(".mha-verdict")).to_contain_text("✓ Right" if right else "✗ Not yet")


def in_contents(page: Page, chapter: str) -> Locator:
    """Return what stands beside a chapter in the side bar."""
    title = {"multi-head": "Multi-head attention", "masking": "Masking"}[chapter]
    link = page.locator(".bd-sidebar-primary .toctree-l1 > a", has_text=title)
    return link.locator(".course-progress")


def clear_button(page: Page) -> Locator:
    return page.get_by_role("button", name="Clear my progress")


def stored(page: Page) -> Any:
    text = page.evaluate(STORED)
    return None if text is None else json.loads(text)


def store(page: Page, value: str) -> None:
    page.evaluate(f"value => localStorage.setItem({KEY!r}, value)", value)


def test_an_answer_is_counted_kept_and_cleared(page: Page, site: Path) -> None:
    address = f"{site.as_uri()}/"
    quiz = open_chapter(page, address, SECOND)
    expect(clear_button(page)).to_be_hidden()
    answer(quiz, SECOND, 0)
    expect(in_contents(page, SECOND)).to_contain_text(f"1 of {len(questions(SECOND))}")
    quiz = open_chapter(page, address, SECOND)
    expect(form(quiz, SECOND, 0).locator(".mha-verdict")).to_contain_text("✓ Right")
    clear_button(page).click()
    expect(form(quiz, SECOND, 0).locator(".mha-verdict")).to_be_empty()
    assert stored(page) is None


@pytest.mark.slow
def test_two_chapters_are_counted_and_read_out(page: Page, site_address: str) -> None:
    quiz = open_chapter(page, site_address, FIRST)
    total = len(questions(FIRST))
    for place in range(total):
        answer(quiz, FIRST, place)
    seen = in_contents(page, FIRST).locator("[aria-hidden]")
    expect(seen).to_have_text(f"✓ {total} of {total}")
    link = page.get_by_role("link", name=f"Multi-head attention all {total} questions right")
    expect(link.first).to_be_attached()
    quiz = open_chapter(page, site_address, SECOND)
    expect(in_contents(page, SECOND)).to_be_empty()
    answer(quiz, SECOND, 0)
    answer(quiz, SECOND, 1, right=False)
    expect(in_contents(page, FIRST).locator("[aria-hidden]")).to_have_text(f"✓ {total} of {total}")
    others = len(questions(SECOND))
    expect(in_contents(page, SECOND).locator("[aria-hidden]")).to_have_text(f"1 of {others}")
    # The exercise stands under the chapter, at an address that ends like the chapter's.
    expect(page.locator(".bd-sidebar-primary .toctree-l2 .course-progress")).to_have_count(0)
    expect(clear_button(page)).to_have_text(f"Clear my progress: {total + 2} answers in 2 chapters")
    page.goto(f"{site_address}{EDITION}/exercises/multi-head/multi-head.html")
    expect(in_contents(page, FIRST)).to_contain_text(f"✓ {total} of {total}")
    page.goto(f"{site_address}{EDITION}/index.html")  # where the page's own list says it as well
    marks = page.locator(".course-progress", has_text=f"1 of {others} questions right")
    expect(marks).to_have_count(2)


@pytest.mark.slow
def test_every_kind_of_answer_is_there_again(page: Page, site_address: str) -> None:
    quiz = open_chapter(page, site_address, FIRST)
    kinds = [question["kind"] for question in questions(FIRST)]
    places = [kinds.index(kind) for kind in ("one", "many", "number")]
    for place, right in zip(places, (False, True, True), strict=True):
        answer(quiz, FIRST, place, right=right)
    before = quiz.evaluate(RESULT)
    quiz = open_chapter(page, site_address, FIRST)
    assert quiz.evaluate(RESULT) == before
    for place, right in zip(places, (False, True, True), strict=True):
        verdict = form(quiz, FIRST, place).locator(".mha-verdict")
        expect(verdict).to_contain_text("✓ Right" if right else "✗ Not yet")
    expect(quiz.locator("input:checked")).to_have_count(
        1 + sum(bool(each.get("right")) for each in questions(FIRST)[places[1]]["choices"])
    )
    expect(form(quiz, FIRST, places[2]).locator("input")).not_to_have_value("")


@pytest.mark.slow
def test_an_answer_that_is_being_changed_counts_no_more(page: Page, http_site: str) -> None:
    quiz = open_chapter(page, http_site, FIRST)
    number = [question["kind"] for question in questions(FIRST)].index("number")
    answer(quiz, FIRST, number)
    field = form(quiz, FIRST, number).locator("input")
    field.fill("12")
    expect(field).to_have_value("12")
    expect(in_contents(page, FIRST)).to_be_empty()
    assert stored(page) is None


@pytest.mark.slow
def test_one_click_clears_all_and_says_what(page: Page, http_site: str) -> None:
    quiz = open_chapter(page, http_site, SECOND)
    answer(quiz, SECOND, 0)
    quiz = open_chapter(page, http_site, FIRST)
    answer(quiz, FIRST, 0)
    answer(quiz, FIRST, 1, right=False)
    button = clear_button(page)
    expect(button).to_have_text("Clear my progress: 3 answers in 2 chapters")
    button.focus()
    page.keyboard.press("Enter")
    said = page.get_by_role("status").filter(has_text="Cleared")
    expect(said).to_have_text("Cleared: 3 answers in 2 chapters.")
    expect(said).to_be_focused()
    expect(button).to_be_hidden()
    expect(page.locator(".course-progress:not(:empty)")).to_have_count(0)
    expect(quiz.locator("input:checked")).to_have_count(0)
    expect(quiz.locator(".mha-summary")).to_contain_text("0 of")
    assert stored(page) is None
    quiz = open_chapter(page, http_site, SECOND)
    expect(quiz.locator("input:checked")).to_have_count(0)
    answer(quiz, SECOND, 0)  # and it begins anew
    expect(button).to_have_text("Clear my progress: 1 answer in 1 chapter")


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble", [REFUSED, FULL, NEARLY_FULL], ids=["refused", "full", "nearly-full"]
)
def test_without_storage_the_quiz_works_and_nothing_is_said(
    page: Page, site_address: str, trouble: str
) -> None:
    page.add_init_script(trouble)
    quiz = open_chapter(page, site_address, FIRST)
    answer(quiz, FIRST, 0)
    answer(quiz, FIRST, 1)
    # It lives as long as the page.
    expect(in_contents(page, FIRST)).to_contain_text("2 of")
    clear_button(page).click()
    expect(in_contents(page, FIRST)).to_be_empty()
    expect(quiz.locator("input:checked")).to_have_count(0)
    quiz = open_chapter(page, site_address, FIRST)
    expect(quiz.locator(".mha-summary")).to_contain_text("0 of")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.slow
def test_what_was_kept_before_storage_was_full_is_shown_and_can_be_cleared(
    new_page: Callable[..., Page], http_site: str
) -> None:
    page = new_page()
    quiz = open_chapter(page, http_site, SECOND)
    answer(quiz, SECOND, 0)
    page.add_init_script(FULL)
    page.goto(f"{http_site}{EDITION}/index.html")
    expect(in_contents(page, SECOND)).to_contain_text("1 of")
    clear_button(page).click()
    page.reload()
    expect(page.locator(".course-progress:not(:empty)")).to_have_count(0)


@pytest.mark.slow
def test_an_answer_to_a_question_that_has_changed_is_not_shown(page: Page, http_site: str) -> None:
    quiz = open_chapter(page, http_site, FIRST)
    answer(quiz, FIRST, 0)
    answer(quiz, FIRST, 1)
    kept = stored(page)
    kept[FIRST][questions(FIRST)[0]["id"]]["version"] = "00000000"
    kept[FIRST]["a-question-of-old"] = {"version": "00000000", "given": [0], "right": True}
    kept["a-chapter-of-old"] = kept[FIRST]
    store(page, json.dumps(kept))
    page.goto(f"{http_site}{EDITION}/index.html")
    expect(in_contents(page, FIRST)).to_contain_text("1 of")
    expect(clear_button(page)).to_contain_text("1 answer in 1 chapter")
    quiz = open_chapter(page, http_site, FIRST)
    expect(form(quiz, FIRST, 0).locator(".mha-verdict")).to_be_empty()
    expect(form(quiz, FIRST, 1).locator(".mha-verdict")).to_contain_text("✓ Right")


BROKEN = [
    "",
    "{",
    "null",
    "7",
    "[]",
    '"text"',
    "[" * 100_000,
    '{"multi-head": null}',
    '{"multi-head": []}',
    '{"__proto__": {"multi-head": {}}, "constructor": 1}',
    "x" * 300_000,
]


@pytest.mark.slow
def test_what_is_broken_in_storage_is_no_answer(page: Page, http_site: str) -> None:
    page.goto(f"{http_site}{EDITION}/index.html")
    for value in BROKEN:
        store(page, value)
        page.reload()
        expect(page.locator(".course-progress").first).to_be_attached()
        expect(page.locator(".course-progress:not(:empty)")).to_have_count(0)
        expect(clear_button(page)).to_be_hidden()
    quiz = open_chapter(page, http_site, FIRST)
    expect(quiz.locator(".mha-summary")).to_contain_text("0 of")
    answer(quiz, FIRST, 0)
    assert list(stored(page)) == [FIRST]


HOSTILE: list[Any] = [
    None,
    True,
    "0",
    "<img src=x onerror=alert(1)>",
    -1,
    [],
    ["0"],
    [0.5],
    [-1],
    [99],
    [1, 0],
    [0, 0],
    [None],
    [{"toString": 1}],
    {"length": 1, "0": 0},
    {"__proto__": [0]},
    list(range(500)),
]


@pytest.mark.slow
def test_no_stored_answer_can_be_one_that_the_question_cannot_have(
    page: Page, http_site: str
) -> None:
    open_chapter(page, http_site, FIRST)
    versions = page.evaluate("courseQuizzes.versions")[FIRST]
    for shift in (0, 5, 10):
        entries = {}
        for place, question in enumerate(questions(FIRST)):
            given = HOSTILE[(place + shift) % len(HOSTILE)]
            if question["kind"] == "number" and given == -1:
                given = "1"
            entries[question["id"]] = {
                "version": versions[question["id"]],
                "given": given,
                "right": True,
                "__proto__": {"polluted": True},
            }
        store(page, json.dumps({FIRST: entries}))
        quiz = open_chapter(page, http_site, FIRST)
        expect(quiz.locator(".mha-summary")).to_contain_text("0 of")
        expect(in_contents(page, FIRST)).to_be_empty()
        assert stored(page) is None
        assert page.evaluate("({}).polluted === undefined")


@pytest.mark.slow
def test_a_wrong_answer_stored_as_right_is_put_right(page: Page, http_site: str) -> None:
    quiz = open_chapter(page, http_site, FIRST)
    answer(quiz, FIRST, 0, right=False)
    kept = stored(page)
    kept[FIRST][questions(FIRST)[0]["id"]]["right"] = True
    store(page, json.dumps(kept))
    open_chapter(page, http_site, FIRST)
    expect(in_contents(page, FIRST)).to_contain_text("0 of")


@pytest.mark.slow
def test_two_windows_tell_each_other(page: Page, http_site: str) -> None:
    context: BrowserContext = page.context
    quiz = open_chapter(page, http_site, FIRST)
    other = context.new_page()
    mirrored = open_chapter(other, http_site, FIRST)
    answer(quiz, FIRST, 0)
    answer(mirrored, FIRST, 1)
    for window, shown in ((page, quiz), (other, mirrored)):
        expect(in_contents(window, FIRST)).to_contain_text("2 of")
        expect(shown.locator(".mha-summary")).to_contain_text("2 of")
    clear_button(other).click()
    expect(quiz.locator("input:checked")).to_have_count(0)
    expect(in_contents(page, FIRST)).to_be_empty()


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_progress_is_for_everybody(
    new_page: Callable[..., Page], http_site: str, look: str
) -> None:
    page = new_page(
        viewport=PHONE if look == "phone" else {"width": 1280, "height": 900},
        color_scheme="dark" if look == "dark" else "light",
    )
    quiz = open_chapter(page, http_site, SECOND)
    answer(quiz, SECOND, 0)
    if look == "phone":
        page.locator(".primary-toggle").click()
    expect(clear_button(page)).to_be_visible()
    sidebar = page.locator(".bd-sidebar-primary:visible, #pst-primary-sidebar-modal:visible").first
    assert sidebar.evaluate("bar => bar.scrollWidth <= bar.clientWidth")
    assert_accessible(page, within=".bd-links")
    assert_accessible(page, within=".course-progress-panel")
