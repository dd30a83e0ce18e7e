"""Sphinx extension: shows in the table of contents what the reader has answered in the quizzes.

The page's side is assets/progress.js. Here is what it cannot know: the quizzes of the chapters
that are not open, and a version of each question, so that an answer is not shown with a question
that has become another one.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from course_demos import widgets_module
from course_strings import strings
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

ASKED = ("kind", "question", "answer")
CHOSEN = ("text", "right")


def version(question: dict[str, Any]) -> str:
    """Return a name for what a question asks and what is right; hints and reasons may change."""
    asked = [question.get(name) for name in ASKED]
    chosen = [[choice.get(name) for name in CHOSEN] for choice in question.get("choices", [])]
    written = json.dumps([asked, chosen], ensure_ascii=False)
    return hashlib.sha256(written.encode()).hexdigest()[:8]


def quizzes_script(language: str) -> str:
    """Return quizzes.js: {quiz: {question: version}}, and what progress.js says."""
    assets = widgets_module("assets")
    # Of the English text in every edition, since editions share the reader's answers.
    versions = {
        name: {each["id"]: version(each) for each in assets.quiz_text(name, "en")["questions"]}
        for name in assets.quiz_names()
    }
    data = {"versions": versions, "words": strings(language, "progress")}
    return f"window.courseQuizzes = {json.dumps(data, ensure_ascii=False)};\n"


def check_quizzes(app: Sphinx) -> None:
    """Refuse a quiz's file that breaks the rules. A reader's Jupyter does not check them again.

    Raises:
        ExtensionError: when there is such a file; all its flaws are named.
    """
    assets = widgets_module("assets")
    for name in assets.quiz_names():
        for language in assets.LANGUAGES:
            flaws = widgets_module("quiz_rules").problems(assets.quiz_text(name, language))
            if flaws:
                raise ExtensionError(
                    f"the quiz {name!r} (mha_lib/widgets/quizzes, {language}) has flaws:\n"
                    + "\n".join(flaws)
                )


def write_quizzes(app: Sphinx) -> None:
    """Write quizzes.js where pages load it from."""
    if app.builder.format != "html":
        return
    script = Path(app.outdir) / "_static" / "quizzes.js"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(quizzes_script(app.config.language), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("builder-inited", check_quizzes)
    app.connect("builder-inited", write_quizzes)
    # Before the page's body, where quizzes start.
    app.add_js_file("quizzes.js", priority=901)
    app.add_js_file("progress.js", priority=902)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
