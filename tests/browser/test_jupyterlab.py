"""The demos in a real JupyterLab with a kernel: the page and Python move each other."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.jupyterlab import running_lab, tall_window, wait_for_kernel

CHAPTER = Path(__file__).resolve().parents[2] / "book" / "en" / "multi-head.md"
CELLS = [
    "from mha_lib.widgets import HeadExplorer, ShapeStepper, quiz",
    "explorer = HeadExplorer()\nexplorer",
    "stepper = ShapeStepper()\nstepper",
    'questions = quiz("multi-head")\nquestions',
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a JupyterLab with the demos in a notebook, and the chapter."""
    home = tmp_path_factory.mktemp("lab")
    # Without a kernel's name JupyterLab stops to ask for one.
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    cells = [new_code_cell(cell) for cell in CELLS]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), home / "demos.ipynb")
    shutil.copy(CHAPTER, home)
    with running_lab(home) as address:
        yield address


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Yield a window that shows whole notebooks."""
    with tall_window(browser) as context:
        yield context


@pytest.fixture(scope="module")
def notebook(context: BrowserContext, lab: str) -> Page:
    """Return a notebook whose demo cells have run."""
    page = context.new_page()
    page.goto(f"{lab}/lab/tree/demos.ipynb")
    run_all_cells(page)
    return page


def run_all_cells(page: Page) -> None:
    """Run the cells of the notebook that is opening, and wait for its three demos."""
    wait_for_kernel(page)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    expect(page.locator(".jp-OutputArea .mha")).to_have_count(3, timeout=90_000)


def run_python(page: Page, code: str) -> str:
    """Run code in the notebook's kernel by a cell of its own; return what it prints."""
    page.locator(".jp-Notebook-footer").click()
    cell = page.locator(".jp-CodeCell").last
    cell.locator(".cm-content").click()
    page.keyboard.insert_text(code)
    page.keyboard.press("Control+Enter")
    prompt = cell.locator(".jp-InputArea-prompt")
    expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=60_000)
    return cell.locator(".jp-OutputArea-output").last.inner_text().strip()


@pytest.mark.slow
def test_a_choice_in_the_page_arrives_in_python(notebook: Page) -> None:
    demo = notebook.locator(".mha-heads")
    demo.get_by_role("button", name="3 position").click()
    assert run_python(notebook, "print(explorer.head, explorer.query)") == "2 1"


@pytest.mark.slow
def test_a_value_set_in_python_moves_the_page(notebook: Page) -> None:
    demo = notebook.locator(".mha-heads")
    run_python(notebook, "explorer.head, explorer.query = 0, 3; print('set')")
    expect(demo.get_by_role("button", name="1 syntax")).to_have_attribute("aria-pressed", "true")
    expect(demo.get_by_role("button", name="Nam", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


@pytest.mark.slow
def test_mha_lib_computes_what_the_page_shows(notebook: Page) -> None:
    demo = notebook.locator(".mha-heads")
    row = demo.locator(".mha-weights-row td")
    run_python(notebook, "explorer.gains = [0.0, 8.0, 8.0]; explorer.head = 0; print('set')")
    expect(row).to_have_text([".25"] * 4)
    run_python(notebook, "explorer.gains = [8.0, 8.0, 8.0]; print('set')")
    printed = run_python(
        notebook,
        "import mha_lib.widgets.hand_set as heads\n"
        "x = heads.features(explorer.sentence)[None]\n"
        "row = heads.hand_set_heads()(x, trace=True).weights[0, 0, explorer.query]\n"
        "print(*(f'{weight:.2f}'.removeprefix('0') for weight in row.tolist()))",
    )
    expect(row).to_have_text(printed.split())


@pytest.mark.slow
def test_the_shape_stepper_asks_mha_lib(notebook: Page) -> None:
    demo = notebook.locator(".mha-stepper")
    heads = demo.get_by_label("h heads", exact=True)
    heads.fill("3")
    heads.press("Tab")
    expect(demo).to_contain_text("embed_dim=8 is not divisible by num_heads=3")
    assert run_python(notebook, "print(stepper.h)") == "3"
    run_python(notebook, "stepper.h = 4; print('set')")
    expect(demo).to_contain_text("(3, 4, 5, 2)")


@pytest.mark.slow
def test_the_quiz_answers(notebook: Page) -> None:
    quiz = notebook.locator(".mha-quiz")
    first = quiz.locator("form").first
    first.get_by_role("textbox").fill("64")
    first.get_by_role("button", name="Check").click()
    expect(first).to_contain_text("✓")


@pytest.mark.slow
def test_typing_in_a_demo_is_not_taken_for_jupyterlabs_shortcuts(notebook: Page) -> None:
    cells = notebook.locator(".jp-CodeCell")
    before = cells.count()
    notebook.locator(".mha-heads").get_by_role("button", name="2 meaning").focus()
    notebook.keyboard.press("d")
    notebook.keyboard.press("d")  # outside a demo this deletes the cell
    notebook.locator(".mha-heads").get_by_role("button", name="1 syntax").click()
    expect(cells).to_have_count(before)


@pytest.mark.slow
def test_the_chapter_itself_opens_as_a_notebook_and_runs(context: BrowserContext, lab: str) -> None:
    """As README says: Open With, Notebook."""
    page = context.new_page()
    page.goto(f"{lab}/lab")
    page.get_by_role("tab", name="Launcher").wait_for()
    page.locator(".jp-DirListing-item").filter(has_text=CHAPTER.name).click(button="right")
    page.locator(".lm-Menu-item").filter(has_text="Open With").hover()
    page.get_by_role("menuitem", name="Notebook", exact=True).click()
    run_all_cells(page)
    expect(page.locator(".jp-OutputArea-output").filter(has_text="9,216")).to_have_count(1)
    expect(page.locator(".jp-RenderedText[data-mime-type*=error]")).to_have_count(0)
    page.locator(".mha-heads").get_by_role("button", name="3 position").click()
    expect(page.locator(".mha-heads .mha-weights-row td").first).to_have_text(".66")
