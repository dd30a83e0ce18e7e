"""Sphinx extension: the built site needs nothing from another host, and little from its own.

It adds the course's own style and scripts, the demos' scripts, and it replaces the
theme's icon script (540 KB compressed) by a font of just the icons that pages show.
"""

import logging
import re
import shutil
from pathlib import Path
from typing import Any

from course_demos import widgets_module
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
# A page, with the folders that it is in.
PAGE = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
# What the page's first demo is made of, as mha_lib/widgets/base.py writes it.
DEMO = re.compile(r'<div class="mha-demo" data-modules="([^"]*)" data-texts="([^"]*)"')
# In the theme's stylesheet: .fa-bars:before,.fa-navicon:before{content:"\f0c9"}
ICON_RULE = re.compile(r'((?:,?\.fa-[\w-]+:{1,2}before)+)\{content:"\\([0-9a-f]+)"\}')
# An icon that a stylesheet shows by itself: its character, or its number.
ICON_IN_CSS = re.compile(r'"(?:([\ue000-\uf8ff])|\\([ef][0-9a-f]{3}))"')


def find_own_files(app: Sphinx, config: Config) -> None:
    """Name our files from the root, since the source folder differs between editions."""
    config.templates_path.insert(0, str(BOOK / "templates"))
    config.html_static_path.append(str(BOOK / "assets"))
    config.bibtex_bibfiles = [str(ROOT / name) for name in config.bibtex_bibfiles]


def allow_parallel_reading(app: Sphinx) -> None:
    """Say of Jupyter Book's numbering of tables of contents that pages may be read in parallel.

    It does not say so itself, and from the sixth page on that is a warning. It works on the
    whole book, after all pages are read.
    """
    numbering = app.extensions.get("sphinx_multitoc_numbering")
    if numbering:
        numbering.parallel_read_safe = True


def check_names(app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
    """Refuse a page whose name the site cannot keep.

    Sphinx writes its search over a page of that name. And a name stands in addresses, in the PDF's
    links and in what a reader's browser keeps, which must be the same everywhere.

    Raises:
        ExtensionError: when there is such a page.
    """
    for name in sorted(env.found_docs):
        if not PAGE.fullmatch(name) or name == "search":
            raise ExtensionError(
                f"the page {name!r} cannot be called so: a name is made of A-Z, a-z, 0-9, - and _, "
                "and 'search' is the search's own. Rename its file, and its line in _toc.yml"
            )


def write_one_by_one(app: Sphinx) -> None:
    """Keep pages from being written in parallel: reading them is what takes time.

    Of more than ten pages Sphinx makes several tasks, and an error in all but the last is lost:
    the build ends well, with those pages missing.
    """
    app.builder.allow_parallel = False


def write_demo_files(app: Sphinx) -> None:
    """Write the demos' scripts and style to _static/mha, and nothing of an earlier build."""
    if app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    shutil.rmtree(static / "mha", ignore_errors=True)
    for name, text in widgets_module("assets").site_assets().items():
        (static / name).parent.mkdir(parents=True, exist_ok=True)
        (static / name).write_text(text, encoding="utf-8")


def add_search_script(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Load search.js on the search page; deferred, so that Sphinx's own scripts come first."""
    if pagename == "search":
        app.add_js_file("search.js", loading_method="defer")


def ask_for_first_demo(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have the first demo's files fetched while the page above it is still being read."""
    if demo := DEMO.search(context.get("body") or ""):
        texts = [f"{name}.{app.config.language}.js" for name in demo[2].split()]
        for name in (*demo[1].split(), *texts):
            address = context["pathto"](f"_static/mha/{name}", True)
            context["metatags"] += f'\n<link rel="preload" as="script" href="{address}"/>'


def keep_used_icons(app: Sphinx, exception: Exception | None) -> None:
    """Cut the theme's icon font and icon rules down to what this site shows."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    static = out / "_static"
    theme_css = static / "styles" / "pydata-sphinx-theme.css"
    rules = theme_css.read_text("utf-8")
    if not ICON_RULE.search(rules):
        raise ExtensionError(f"no icon rules in {theme_css}: has the theme changed its icons?")

    shown = [path.read_text("utf-8") for path in out.rglob("*.html")]
    shown += [path.read_text("utf-8") for path in static.glob("**/*theme.js")]
    names = set(re.findall(r"\bfa-[\w-]+", " ".join(shown)))
    points = set()

    def keep_if_used(rule: re.Match[str]) -> str:
        if names.isdisjoint(re.findall(r"fa-[\w-]+", rule[1])):
            return ""
        points.add(int(rule[2], 16))
        return rule[0]

    rules = ICON_RULE.sub(keep_if_used, rules)
    theme_css.write_text(rules, "utf-8")
    for path in static.glob("styles/*.css"):
        for character, number in ICON_IN_CSS.findall(path.read_text("utf-8")):
            points.add(ord(character) if character else int(number, 16))

    logging.getLogger("fontTools").setLevel(logging.WARNING)  # it tells of every table
    for path in static.glob("vendor/fontawesome/webfonts/*.woff2"):
        # Obfuscated: the licence reserves the font's name for the whole font. Style sheets
        # call it by a name of their own.
        options = subset.Options(flavor="woff2", obfuscate_names=True)
        font = subset.load_font(str(path), options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=points)
        subsetter.subset(font)
        subset.save_font(font, str(path), options)
    # The theme puts these beside its own; no page asks for them.
    shutil.rmtree(static / "locales", ignore_errors=True)
    for pattern in ("scripts/fontawesome.js*", "**/*.ttf", "**/*.map", "*-macros.html"):
        for path in static.glob(pattern):
            path.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("config-inited", find_own_files)
    app.connect("builder-inited", write_one_by_one)
    app.connect("builder-inited", write_demo_files)
    app.connect("env-before-read-docs", check_names)
    app.connect("env-before-read-docs", lambda app, env, docnames: allow_parallel_reading(app))
    app.connect("html-page-context", add_search_script)
    app.connect("html-page-context", ask_for_first_demo)
    # 900: after the theme has written its own last files.
    app.connect("build-finished", keep_used_icons, priority=900)
    app.add_css_file("site.css", priority=900)
    app.add_css_file("mha/widgets.css", priority=901)
    app.add_css_file("print.css", priority=902, media="print")
    # Demos' mount calls stand in the page's body, so their loader comes before it.
    app.add_js_file("mha/loader.js", priority=100)
    app.add_js_file("site.js", priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
