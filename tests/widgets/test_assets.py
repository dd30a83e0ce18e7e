"""What every demo stands on: the packed modules, the texts, and the two ways to show a demo."""

import json
import math
import re
from importlib import resources
from typing import Any

import ipywidgets
import pytest

from mha_lib.experiments import grammar
from mha_lib.widgets import (
    CourseWidget,
    HeadExplorer,
    ShapeStepper,
    assets,
    base,
    hand_set,
    picture,
    quiz,
    shape_stepper,
    site_assets,
)

FILES = resources.files("mha_lib.widgets")
MODULES = assets.module_names()
DEMOS = [module for module in MODULES if "export default" in assets.source(module)]


@pytest.mark.parametrize("module", MODULES)
def test_every_import_resolves(module: str) -> None:
    assert set(assets.imports_of(module)) <= set(MODULES)
    source = assets.source(module)
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
    assert source == assets.source(module)


def test_every_source_in_the_folder_is_a_module_or_the_loader() -> None:
    sources = {path.name for path in (FILES / "js").iterdir() if path.name.endswith(".js")}
    assert {*MODULES, "loader.js"} == sources


def test_the_stylesheet_holds_every_sheet_once_what_is_shared_first() -> None:
    sheets = {path.name: path.read_text("utf-8") for path in (FILES / "css").iterdir()}
    written = assets.stylesheet()
    assert all(written.count(sheet) == 1 for sheet in sheets.values())
    assert sum(map(len, sheets.values())) + len(sheets) - 1 == len(written)
    places = {name: written.index(sheet) for name, sheet in sheets.items()}
    assert sorted(places, key=places.__getitem__)[:3] == ["common.css", "heads.css", "score.css"]


def test_the_site_gets_the_texts_of_every_language() -> None:
    packed = site_assets()
    for language in assets.LANGUAGES:
        for demo, written in assets.strings(language).items():
            (texts,) = arguments(packed[f"mha/{demo}.{language}.js"], "addTexts")
            assert texts == {demo: written}


@pytest.mark.parametrize("language", assets.LANGUAGES)
def test_a_language_without_a_translation_yet_shows_english(language: str) -> None:
    def written(folder: str, prefix: str = "") -> Any:
        named = FILES / folder / f"{prefix}{language}.json"
        english = FILES / folder / f"{prefix}en.json"
        return json.loads((named if named.is_file() else english).read_text("utf-8"))

    assert assets.strings(language) == written("strings")
    assert assets.quiz_text("multi-head", language) == written("quizzes", "multi-head.")


def test_the_loader_brings_its_own_texts() -> None:
    loader = site_assets()["mha/loader.js"]
    assert loader.startswith(assets.source("loader.js"))
    (texts,) = arguments(loader.splitlines(keepends=True)[-1], "addTexts")
    assert set(texts["not_started"]) == set(assets.LANGUAGES)


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
    with pytest.raises(ValueError, match="no texts for 'nothing' in strings/; there are: common"):
        assets.texts(("nothing",), "en")


def modules_of(demo: str) -> set[str]:
    """Return a demo's module and all that it imports, but not what every demo shares."""
    found, new = {demo}, {demo}
    while new:
        new = {each for name in new for each in assets.imports_of(name)} - found
        found |= new
    return found - {"ui.js"}


@pytest.mark.parametrize("module", DEMOS)
def test_the_texts_in_the_catalogue_are_those_named_in_code(module: str) -> None:
    sources = [assets.source(each) for each in modules_of(module)]
    texts = assets.strings("en")
    own = texts[module.removesuffix(".js")].keys()
    known = own | texts["common"].keys()

    # t("key"), or t(one ? "key" : "other")
    calls = [call for source in sources for call in re.findall(r"\bt\(([^,()`]*)", source)]
    named = {key for call in calls for key in re.findall(r'"(\w+)"', call)}
    assert named - known == set(), "named in code, but not in the catalogue"

    # Keys that are made from data begin as `head_${...}` does, or stand in the code elsewhere.
    begins = {each for source in sources for each in re.findall(r"`(\w+_)\$\{", source)}
    words = {word for source in sources for word in re.findall(r'"(\w+)"', source)}
    unused = {key for key in own - words if not key.startswith(tuple(begins))}
    assert unused == set(), "in the catalogue, but named nowhere"


MADE_FROM_DATA = {
    "grammar_heads": {"relation": grammar.RELATIONS},
    "head_explorer": {
        "head": hand_set.HEADS,
        "compares": hand_set.HEADS,
        "role": hand_set.ROLES,
        "meaning": hand_set.MEANINGS,
        "gloss": [sentence.language for sentence in hand_set.SENTENCES.values()],
    },
    "patch_attention": {"word": picture.COLOURS},
    "shape_stepper": {
        "step": shape_stepper.STEPS,
        "does": shape_stepper.STEPS,
        "label": ["B", "N", "d_model", "h", "d_k"],
    },
}


@pytest.mark.parametrize("demo", MADE_FROM_DATA)
def test_texts_named_by_data_exist(demo: str) -> None:
    named = {f"{key}_{each}" for key, names in MADE_FROM_DATA[demo].items() for each in names}
    assert named <= assets.strings("en")[demo].keys()


def test_every_common_text_is_used() -> None:
    """Demos have these beside their own; what the loader says is packed with it."""
    used = {key for each in MODULES for key in re.findall(r'\bt\("(\w+)"', assets.source(each))}
    assert assets.strings("en")["common"].keys() <= used | {"not_started"}


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
    said = base.traitlets.Any("").tag(sync=True)

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


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TypeError, match=r"Parrot has no input 'sayd'; it takes said, language$"):
        Parrot(sayd="hello")
    with pytest.raises(TypeError, match="ShapeStepper has no input 'foo'; it takes B, N, d_model"):
        ShapeStepper(foo=1)
    with pytest.raises(TypeError, match="HeadExplorer has no input 'recipe'; it takes sentence, "):
        HeadExplorer(recipe={})
    with pytest.raises(TypeError, match="unexpected keyword argument 'given'"):
        quiz("multi-head", given={})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_know_stops_the_build(number: float) -> None:
    parrot = Parrot(said=number, language="en")
    with pytest.raises(ValueError, match=rf"Parrot holds nan or an infinity.* said={number}"):
        parrot.static_html()


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        ("vi_VN", "vi"),
        ("vi_VN.UTF-8", "vi"),
        ("vi", "vi"),
        ("ms", "ms"),
        ("ms-MY", "ms"),
        ("en_GB", "en"),
        ("fr", "en"),
        ("C", "en"),
        # How Windows names them.
        ("Vietnamese_Vietnam", "vi"),
        ("Vietnamese_Vietnam.1258", "vi"),
        ("Malay_Malaysia", "ms"),
        ("English_United States", "en"),
    ],
)
def test_the_readers_language(monkeypatch: pytest.MonkeyPatch, wanted: str, language: str) -> None:
    monkeypatch.setenv("MHA_LANGUAGE", wanted)
    assert base.reader_language() == language
    monkeypatch.delenv("MHA_LANGUAGE")
    monkeypatch.setattr("locale.getlocale", lambda: (wanted, "UTF-8"))
    assert base.reader_language() == language
