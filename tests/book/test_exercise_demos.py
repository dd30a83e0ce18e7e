"""A demo cell on an exercise's page: its demo stands there, and the cell was not run."""

from typing import Any

import pytest
from course_exercises import DEMO_TAG, show_demo
from sphinx.errors import ExtensionError

from grading import notebook

IMPORT = "from grading import demo\n\n"


@pytest.fixture(autouse=True)
def on_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_STATIC", "1")


def cell(source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"metadata": {"tags": [DEMO_TAG]}, "source": lines, "outputs": []}


def test_the_book_and_the_grader_know_demos_by_the_same_tag() -> None:
    assert notebook.DEMO_TAG == DEMO_TAG


def test_its_output_is_the_demo_with_its_inputs_and_its_code_is_folded() -> None:
    made = cell(f'{IMPORT}demo(\n    "HeadExplorer",\n    head=2,\n    gains=[1.0, 2.0, 0.5],\n)')
    show_demo(made, "heads.ipynb")
    (output,) = made["outputs"]
    html = output["data"]["text/html"]
    assert 'data-texts="head_explorer"' in html
    assert '"head": 2' in html
    assert '"gains": [1.0, 2.0, 0.5]' in html
    assert made["metadata"]["tags"] == [DEMO_TAG, "hide-input"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("demo('Nobody')", "Nobody"),
        ("demo('HeadExplorer', query=77)", "query=77 is outside"),
        ("demo('HeadExplorer', colour=1)", "no input 'colour'"),
        ("demo('HeadExplorer', query=len(words))", "shows no demo"),
        ("demo(", "shows no demo"),
        ("words = 3", "shows no demo"),
        ("", "shows no demo"),
    ],
)
def test_what_shows_no_demo_stops_the_build_and_says_why(call: str, said: str) -> None:
    with pytest.raises(ExtensionError, match=r"heads\.ipynb") as refused:
        show_demo(cell(IMPORT + call), "heads.ipynb")
    assert said in str(refused.value)
