"""What every demo stands on: the packed modules, the texts, and the two ways to show a demo."""

import json
import re
from importlib import resources
from typing import Any

import ipywidgets
import pytest

from mha_lib.widgets import CourseWidget, HeadExplorer, assets, base, site_assets

MODULES = sorted(
    path.name
    for path in (resources.files("mha_lib.widgets") / "js").iterdir()
    if path.name.endswith(".js") and path.name != "loader.js"
)
DEMOS = [module for module in MODULES if "export default" in assets._read("js", module)]


@pytest.mark.parametrize("module", MODULES)
def test_every_import_resolves(module: str) -> None:
    assert set(assets.imports_of(module)) <= set(MODULES)
    source = assets._read("js", module)
    written = re.findall(r"^(?:import|export)\b.*?\bfrom\b.*$", source, flags=re.MULTILINE)
    assert len(written) == len(assets.imports_of(module)), "an import in a form we do not pack"


@pytest.mark.parametrize("module", MODULES)
def test_a_packed_module_needs_no_other_file(module: str) -> None:
    packed = assets.inlined_module(module)
    assert not re.search(r'(from|import)\s*"\.', packed)
    assert packed.count("data:text/javascript;base64,") == len(assets.imports_of(module))


@pytest.mark.parametrize("module", MODULES)
def test_a_site_script_registers_its_source_by_itself(module: str) -> None:
    script = site_assets()[f"mha/{module}"]
    name, imports, source = arguments(script, "register")
    assert (name, imports) == (module, assets.imports_of(module))
    assert source == assets._read("js", module)


def test_the_site_gets_the_texts_of_every_language() -> None:
    packed = site_assets()
    for language in assets.LANGUAGES:
        (texts,) = arguments(packed[f"mha/strings.{language}.js"], "addTexts")
        assert texts == assets.strings(language)


def arguments(script: str, function: str) -> list[Any]:
    """Read a script that is one call with JSON arguments, as the built site loads it."""
    call = re.fullmatch(rf"mha\.{function}\((.*)\);\n", script, flags=re.DOTALL)
    assert call
    found: list[Any] = json.loads(f"[{call[1]}]")
    return found


def test_every_demo_has_a_python_class() -> None:
    classes = {each.module for each in CourseWidget.__subclasses__() if hasattr(each, "module")}
    assert set(DEMOS) <= classes


def test_texts_are_known_in_their_language_only() -> None:
    with pytest.raises(ValueError, match="language='fr' is not one of en, vi, ms"):
        assets.strings("fr")
    with pytest.raises(ValueError, match="there is no quiz 'nothing'"):
        assets.quiz_text("nothing", "en")


@pytest.mark.parametrize("module", DEMOS)
def test_texts_named_in_code_exist(module: str) -> None:
    """Literal keys only; keys made from data are met by the browser tests."""
    texts = assets.strings("en")
    name = module.removesuffix(".js")
    known = texts["common"].keys() | texts.get(name, {}).keys()
    own = [module, *(each for each in assets.imports_of(module) if each != "ui.js")]
    used = {key for each in own for key in re.findall(r'\bt\("(\w+)"', assets._read("js", each))}
    assert used <= known


@pytest.fixture
def on_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MHA_STATIC", "1")


@pytest.mark.usefixtures("on_site")
def test_on_the_site_a_demo_is_html_and_opens_no_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise AssertionError("a channel was opened, but no kernel will answer on it")

    monkeypatch.setattr("ipywidgets.widgets.widget.comm.create_comm", refuse)
    demo = HeadExplorer(language="en")
    assert demo.comm is None
    demo.query = 2
    bundle = demo._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert "mha.mount(document.currentScript.parentElement)" in bundle["text/html"]


def test_in_jupyter_a_demo_is_a_widget() -> None:
    demo = HeadExplorer(language="en")
    bundle = demo._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert "application/vnd.jupyter.widget-view+json" in data
    assert isinstance(demo, ipywidgets.DOMWidget)


@pytest.mark.usefixtures("on_site")
def test_the_state_in_the_page_is_the_demos_own() -> None:
    demo = HeadExplorer(language="en")
    html = demo.static_html()
    data = re.search(r'<script type="application/json">(.*?)</script>', html, flags=re.DOTALL)
    assert data
    state = json.loads(data[1])
    assert state["result"] == demo.result
    assert state["recipe"] == demo.recipe
    assert state["query"] == 1


class Parrot(CourseWidget):
    """A demo that says what it is told, to see what becomes of it."""

    module = "head_explorer.js"
    inputs = ("said",)
    said = base.traitlets.Unicode().tag(sync=True)

    def compute(self) -> dict[str, Any]:
        if self.said == "nothing":
            raise ValueError("said='nothing' says nothing")
        return {"heard": self.said}


@pytest.mark.parametrize("said", ["</script><b>", "<!--<script>", "yêu & “quote”"])
def test_no_text_can_end_the_element_that_carries_it(said: str) -> None:
    html = Parrot(said=said, language="en").static_html()
    # Exactly the two scripts of our own: the data and the call.
    assert len(re.findall(r"</script", html)) == 2
    assert len(re.findall(r"<script", html)) == 2
    data = re.search(r'<script type="application/json">(.*?)</script>', html, flags=re.DOTALL)
    assert data
    assert json.loads(data[1])["said"] == said


def test_what_compute_refuses_is_shown_as_the_demos_message() -> None:
    parrot = Parrot(said="hello", language="en")
    parrot.said = "nothing"
    assert parrot.result == {"error": "said='nothing' says nothing"}
    parrot.said = "hello"
    assert parrot.result == {"heard": "hello"}


def test_the_readers_language(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted, language in [("vi_VN", "vi"), ("ms", "ms"), ("en_GB", "en"), ("fr", "en")]:
        monkeypatch.setenv("MHA_LANGUAGE", wanted)
        assert base.reader_language() == language
