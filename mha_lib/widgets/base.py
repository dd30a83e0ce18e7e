"""CourseWidget: what every demo of the course has in common.

A demo has inputs (traits that a reader changes) and one `result` (what follows from
them). Whoever can compute fills the result in: Python with mha_lib where there is a
kernel, the ES module's own `compute` on the built site.
"""

import json
import locale
import os
import re
from typing import Any, ClassVar

import anywidget
import traitlets

from mha_lib.widgets import assets


def on_site() -> bool:
    """Return whether cells run for the built site (MHA_STATIC=1), where no kernel will answer."""
    return os.environ.get("MHA_STATIC") == "1"


def reader_language() -> str:
    """Return the reader's language: MHA_LANGUAGE if set, else the locale's, else English.

    >>> reader_language() in assets.LANGUAGES
    True
    """
    wanted = os.environ.get("MHA_LANGUAGE") or locale.getlocale()[0] or "en"
    first = re.split(r"[_.@-]", wanted.lower())[0]
    # Windows names a locale in words: Vietnamese_Vietnam.
    in_words = {"vietnamese": "vi", "malay": "ms"}
    language = in_words.get(first, first)
    return language if language in assets.LANGUAGES else "en"


class CourseWidget(anywidget.AnyWidget):
    """One demo: a subclass names its module, its inputs, and computes its result.

    Subclasses set `module` (a file in `js/`), `inputs` (names of synced traits), where
    needed `constants` (synced traits that the page reads and nobody changes), and define
    `compute`, which returns JSON-ready values. A ValueError that `compute`
    raises is shown to the reader as the demo's message, in mha_lib's own words.

    A demo's texts are the section of `strings/` that is named like its module.

    Inputs that are given to the constructor are set in the order of `inputs`, so that one
    may depend on those before it.

    Raises:
        TypeError: when a name is given that is not one of the demo's inputs.
        ValueError: when `language` is not one of the course's.
    """

    module: ClassVar[str]
    inputs: ClassVar[tuple[str, ...]] = ()
    constants: ClassVar[tuple[str, ...]] = ()

    language = traitlets.Unicode().tag(sync=True)
    texts = traitlets.Dict().tag(sync=True)
    result = traitlets.Dict().tag(sync=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # anywidget derives a class of its own for each widget, with traits in these places.
        if "module" not in vars(cls):
            return
        cls._esm = assets.inlined_module(cls.module)
        cls._css = assets.stylesheet()

    def __init__(
        self,
        *,
        language: str | None = None,
        text_names: tuple[str, ...] = (),
        **inputs: Any,
    ) -> None:
        if unknown := [name for name in inputs if name not in self.inputs]:
            raise TypeError(
                f"{type(self).__name__} has no input {unknown[0]!r}; "
                f"it takes {', '.join((*self.inputs, 'language'))}"
            )
        language = language or reader_language()
        self._text_names = text_names or (self.module.removesuffix(".js"),)
        super().__init__(language=language, texts=assets.texts(self._text_names, language))
        for name in sorted(inputs, key=self.inputs.index):
            self.set_trait(name, inputs[name])
        self._refresh()
        self.observe(self._refresh, names=list(self.inputs))

    def compute(self) -> dict[str, Any]:
        """Return what follows from the inputs, computed by mha_lib."""
        raise NotImplementedError(f"{type(self).__name__} must define compute()")

    def fallback(self) -> str:
        """Return HTML for readers without JavaScript; it must be the same in every edition."""
        return ""

    def _refresh(self, _change: object = None) -> None:
        try:
            self.result = self.compute()
        except ValueError as wrong:
            self.result = {"error": str(wrong)}

    def open(self) -> None:
        """Open the channel to the browser, except where no kernel will be there to answer."""
        if not on_site():
            super().open()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        if not on_site():
            return super()._repr_mimebundle_(**options)
        return {"text/html": self.static_html(), "text/plain": type(self).__name__}

    def static_html(self) -> str:
        """Return the demo as HTML that mounts itself on the built site.

        Raises:
            ValueError: when the demo holds nan or an infinity, which a page cannot read.
        """
        state = {name: getattr(self, name) for name in (*self.constants, *self.inputs, "result")}
        # "</script>" or "<!--<script>" in the data would move the end of the element around it.
        data = self._as_json(state).replace("<", "\\u003c")
        texts = " ".join(self._text_names)
        # All of them, so that the page can ask for them at once and not one after another.
        modules = " ".join(assets.modules_of(self.module))
        return (
            f'<div class="mha-demo" data-modules="{modules}" data-texts="{texts}">'
            f'<script type="application/json">{data}</script>'
            f"<noscript>{self.fallback()}</noscript>"
            "<script>mha.mount(document.currentScript.parentElement)</script></div>"
        )

    def _as_json(self, state: dict[str, Any]) -> str:
        try:
            return json.dumps(state, ensure_ascii=False, allow_nan=False)
        except ValueError as not_finite:
            inputs = ", ".join(f"{name}={state[name]!r}" for name in self.inputs)
            raise ValueError(
                f"{type(self).__name__} holds nan or an infinity, which no page can read; "
                f"give finite numbers: {inputs}"
            ) from not_finite
