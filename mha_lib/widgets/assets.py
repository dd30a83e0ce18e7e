"""The demos' JavaScript, styles and texts, packed for Jupyter and for the built site.

The sources in `js/` are plain ES modules that import each other by relative name.
Neither place can load them so: Jupyter takes one text per widget, and a page opened
from file:// may not load module files at all.

This module imports nothing of mha_lib, so the book's build can load it alone, without torch.
"""

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

_FILES = Path(__file__).parent
_IMPORT = re.compile(r'(from\s*|import\s*)"\./([\w-]+\.js)"')

LANGUAGES = ("en", "vi", "ms")
# What demos share comes before what each has of its own, which may overrule it.
_LOOKS = ("common.css", "heads.css", "score.css")


def source(name: str) -> str:
    """Return a file of `js/` as it is written.

    >>> "export function" in source("ui.js")
    True
    """
    return (_FILES / "js" / name).read_text(encoding="utf-8")


def module_names() -> list[str]:
    """Return the names of the modules in `js/`, which the loader is not.

    >>> "quiz.js" in module_names()
    True
    """
    names = sorted(path.name for path in (_FILES / "js").iterdir())
    return [name for name in names if name.endswith(".js") and name != "loader.js"]


def imports_of(name: str) -> list[str]:
    """Return the names of the modules that a module in `js/` imports, in order.

    >>> imports_of("ui.js")
    []
    """
    return [match[2] for match in _IMPORT.finditer(source(name))]


def modules_of(name: str) -> list[str]:
    """Return a module's name and, before it, those of all that it cannot run without.

    >>> modules_of("heatmap.js")
    ['ui.js', 'heatmap.js']
    """
    needed = [each for imported in imports_of(name) for each in modules_of(imported)]
    return [*dict.fromkeys(needed), name]


@cache
def inlined_module(name: str) -> str:
    """Return a module as one text: its imports become data: addresses (for Jupyter).

    >>> '"./ui.js"' in inlined_module("quiz.js")
    False
    """

    def as_data_url(match: re.Match[str]) -> str:
        encoded = base64.b64encode(inlined_module(match[2]).encode()).decode()
        return f'{match[1]}"data:text/javascript;base64,{encoded}"'

    return _IMPORT.sub(as_data_url, source(name))


@cache
def stylesheet() -> str:
    """Return the demos' one stylesheet: the files of `css/`, joined.

    One for all, since a page's demos share most of it, and a reader loads it once.

    >>> ".mha-quiz" in stylesheet()
    True
    """
    names = {path.name for path in (_FILES / "css").iterdir() if path.name.endswith(".css")}
    ordered = [*_LOOKS, *sorted(names.difference(_LOOKS))]
    return "\n".join((_FILES / "css" / name).read_text(encoding="utf-8") for name in ordered)


@cache
def strings(language: str) -> dict[str, dict[str, str]]:
    """Return the demos' texts in a language: {demo: {key: text}}.

    Raises:
        ValueError: when the course has no such language.

    >>> sorted(strings("en"))[:1]
    ['common']
    """
    return _catalogue("strings", language)


def quiz_names() -> list[str]:
    """Return the names of the course's quizzes.

    >>> "multi-head" in quiz_names()
    True
    """
    return sorted({path.name.split(".")[0] for path in (_FILES / "quizzes").iterdir()})


@cache
def quiz_text(name: str, language: str) -> dict[str, Any]:
    """Return a quiz's questions in a language.

    Raises:
        ValueError: when there is no such quiz, or no such language.
    """
    if name not in quiz_names():
        raise ValueError(f"there is no quiz {name!r}; there are: {', '.join(quiz_names())}")
    return _catalogue("quizzes", language, prefix=f"{name}.")


def texts(names: tuple[str, ...], language: str) -> dict[str, Any]:
    """Return the sections that are asked for: a demo's strings by its name, or a "quiz-NAME".

    Raises:
        ValueError: when there is no such demo or quiz, or no such language.

    >>> list(texts(("quiz", "quiz-multi-head"), "en"))
    ['quiz', 'quiz-multi-head']
    """
    sections: dict[str, Any] = {}
    for name in names:
        if name.startswith("quiz-"):
            sections[name] = quiz_text(name.removeprefix("quiz-"), language)
        elif name in strings(language):
            sections[name] = strings(language)[name]
        else:
            known = ", ".join(strings(language))
            raise ValueError(f"there are no texts for {name!r} in strings/; there are: {known}")
    return sections


def _catalogue(folder: str, language: str, prefix: str = "") -> dict[str, Any]:
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is not one of {', '.join(LANGUAGES)}")
    wanted = _FILES / folder / f"{prefix}{language}.json"
    # An edition that is not translated yet shows English rather than nothing.
    path = wanted if wanted.is_file() else _FILES / folder / f"{prefix}en.json"
    catalogue: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return catalogue


@cache
def real_heads() -> dict[str, Any]:
    """Return what `python -m mha_lib.pretrained export` wrote: models, scores, sentences.

    >>> list(real_heads())
    ['date', 'models', 'meaning', 'pruning']
    """
    path = _FILES / "data" / "real_heads.json"
    held: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return held


def data_files() -> dict[str, Any]:
    """Return the data that demos ask for once they come into view, in parts: {name: data}.

    A part for each model, its scores; and for each of its sentences, MODEL.SENTENCE, the
    weights. So a reader loads what is looked at.

    >>> list(data_files())[:2]
    ['all-MiniLM-L6-v2', 'all-MiniLM-L6-v2.cat-mat']
    """
    parts: dict[str, Any] = {}
    for name, model in real_heads()["models"].items():
        parts[name] = model["measured"]
        for sentence in model["sentences"]:
            parts[f"{name}.{sentence['name']}"] = sentence["weights"]
    return parts


def site_assets() -> dict[str, str]:
    """Return what the built site must serve under `_static/`: {relative path: text}.

    Every module becomes a classic script that registers its source, since file://
    refuses module files; `mha/loader.js` turns them back into modules on demand. What it
    says when a demo does not start comes with it: no other file may have arrived by then.

    >>> "mha/loader.js" in site_assets()
    True
    """
    not_started = {each: strings(each)["common"]["not_started"] for each in LANGUAGES}
    loader = source("loader.js") + _call("addTexts", {"not_started": not_started})
    assets = {"mha/loader.js": loader, "mha/widgets.css": stylesheet()}
    for name in module_names():
        assets[f"mha/{name}"] = _call("register", name, imports_of(name), source(name))
    # A file for each demo: a page asks for the texts of its own.
    for name in (*strings("en"), *(f"quiz-{quiz}" for quiz in quiz_names())):
        for language in LANGUAGES:
            assets[f"mha/{name}.{language}.js"] = _call("addTexts", texts((name,), language))
    for name, data in data_files().items():
        assets[f"mha/data/{name}.js"] = _call("addData", name, data)
    return assets


def _call(function: str, *arguments: object) -> str:
    listed = ", ".join(
        json.dumps(argument, ensure_ascii=False, allow_nan=False) for argument in arguments
    )
    return f"mha.{function}({listed});\n"
