"""The released exercises in a real JupyterLab: checks say what is wrong, and what is right."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from benchmarks.students import MARKER, WRONG, right_answer
from grading.answers import Answer, read_answers
from grading.assignment import Notebook, load
from grading.course import Course
from grading.trials import judging_cells
from tests.browser.jupyterlab import running_lab, tall_window, wait_for_kernel

ROOT = Path(__file__).resolve().parents[2]
EXERCISE = ROOT / "exercises" / "multi-head"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def notebook(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Yield the exercise, opened by a student who has its folder and nothing else."""
    home = tmp_path_factory.mktemp("student")
    shutil.copytree(EXERCISE, home / EXERCISE.name)
    with running_lab(home) as address, tall_window(browser) as window:
        page = window.new_page()
        page.goto(f"{address}/lab/tree/{EXERCISE.name}/{EXERCISE.name}.ipynb")
        wait_for_kernel(page)
        yield page


def code_cell(page: Page, text: str) -> Locator:
    """Return the code cell whose source holds `text`."""
    return page.locator(".jp-CodeCell").filter(
        has=page.locator(".jp-InputArea-editor").filter(has_text=text)
    )


def run(cell: Locator, source: str | None = None) -> str:
    """Run a cell, with new source if it is given; return what it shows."""
    prompt = cell.locator(".jp-InputArea-prompt")
    before = prompt.inner_text()
    cell.locator(".cm-content").click()
    if source is not None:
        cell.page.keyboard.press("Control+a")
        cell.page.keyboard.insert_text(source)
    cell.page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(before)
    expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=60_000)  # torch is imported
    return "\n".join(cell.locator(".jp-OutputArea-output").all_inner_texts())


def test_a_check_says_what_is_wrong_and_then_what_is_right(notebook: Page) -> None:
    run(code_cell(notebook, "from torch import nn"))
    run(code_cell(notebook, "def head_dim"), right_answer("head-dim"))
    answer = code_cell(notebook, "def split_heads")
    check = code_cell(notebook, 'check("split_heads"')

    said = run(check)
    assert "This is not written yet" in said or "NameError" in said
    assert "Hint:" not in said

    run(answer, WRONG["split-heads"])  # the right shape, and tokens mixed up
    said = run(check)
    assert "CheckFailed: split_heads:" in said
    assert "Hint:" in said
    assert "tokens got mixed up" in said
    assert "✓" not in said

    run(answer, right_answer("split-heads"))
    assert run(check).strip() == "✓ split_heads: right."


def test_a_number_that_earns_points_is_checked_for_its_form_only(notebook: Page) -> None:
    check = code_cell(notebook, 'check("d_k of BERT-base"')
    answer = code_cell(notebook, "# d_k_wide = ?")
    run(answer, "# d_k_wide = ?\nd_k_bert, d_k_paper, d_k_wide = 'sixty-four', 64, 80")
    assert "CheckFailed: d_k of BERT-base:" in run(check)
    shown = []
    for number in (63, 64):
        run(answer, f"# d_k_wide = ?\nd_k_bert = d_k_paper = d_k_wide = {number}")
        shown.append(run(check))
    assert shown[0] == shown[1]
    assert shown[0].count("•") == 3
    assert "✓" not in shown[0]


def test_a_check_cannot_be_edited(notebook: Page) -> None:
    check = code_cell(notebook, 'check("merge_heads"')
    before = check.locator(".cm-content").inner_text()
    check.locator(".cm-content").click()
    notebook.keyboard.type("pass")
    assert check.locator(".cm-content").inner_text() == before


def test_the_demo_is_live_and_python_answers(notebook: Page) -> None:
    cell = code_cell(notebook, 'demo("HeadExplorer"')
    run(cell)
    meaning = cell.get_by_role("button", name="2 meaning", exact=True)
    expect(meaning).to_have_attribute("aria-pressed", "false")
    seen = cell.locator(".mha-seen")
    before = seen.inner_text()
    meaning.press("Enter")
    expect(meaning).to_have_attribute("aria-pressed", "true")
    expect(seen).not_to_have_text(before)


def test_hints_are_folded_and_open(notebook: Page) -> None:
    task = notebook.locator(".jp-MarkdownCell").filter(has_text="Write split_heads(x, h)")
    hint = task.locator("details").first
    expect(hint.locator("p")).to_be_hidden()
    hint.locator("summary").click()
    expect(hint.locator("p")).to_be_visible()


def known_mistake(name: str) -> tuple[Notebook, Answer]:
    """Return the first mistake that a visible check knows, and the notebook it is made in."""
    assignment = load(Course(ROOT), name)
    answers = read_answers(Course(ROOT), assignment)
    checks = json.loads((ROOT / "exercises" / name / "checks.json").read_text("utf-8"))["checks"]
    for notebook in assignment.notebooks:
        for cell in notebook.cells:
            for answer in answers:
                if answer.cell == cell.id and answer.says:
                    test = judging_cells(notebook, cell.id)[0]
                    first = next(each for each in notebook.checks if each.cell == test)
                    known = checks[first.name].get("known", [])
                    if answer.says in [one["says"] for one in known]:
                        return notebook, answer
    raise AssertionError(f"no visible check of {name} knows a mistake")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a JupyterLab with all exercises."""
    home = tmp_path_factory.mktemp("all")
    shutil.copytree(ROOT / "exercises", home / "exercises")
    with running_lab(home) as address:
        yield address


@pytest.mark.parametrize("name", Course(ROOT).assignments)
def test_a_student_makes_a_known_mistake_and_mends_it(
    browser: Browser, lab: str, name: str
) -> None:
    notebook, mistake = known_mistake(name)
    test = judging_cells(notebook, mistake.cell)[0]
    code = [cell for cell in notebook.cells if cell.type == "code"]
    right = {cell.id: MARKER.sub("", cell.solution) for cell in code if cell.role == "solution"}
    with tall_window(browser) as window:
        page = window.new_page()
        # A workspace of its own: else the notebooks of earlier tests are there, hidden.
        page.goto(f"{lab}/lab/workspaces/{name}/tree/exercises/{name}/{notebook.id}.ipynb")
        wait_for_kernel(page)
        shown = {cell.id: page.locator(".jp-CodeCell").nth(at) for at, cell in enumerate(code)}
        for cell in code[: [each.id for each in code].index(test)]:
            run(shown[cell.id], right.get(cell.id))
        run(shown[mistake.cell], mistake.source)
        said = run(shown[test])
        assert "CheckFailed" in said
        assert mistake.says in " ".join(said.split())
        run(shown[mistake.cell], right[mistake.cell])
        said = run(shown[test])
        assert "CheckFailed" not in said
        assert said.count("✓") + said.count("•") == sum(
            each.cell == test and not each.hidden for each in notebook.checks
        )
