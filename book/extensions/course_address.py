"""Sphinx extension: where the course lies on the internet, in two settings of _config.yml.

Both are empty until that is known, and then nothing on a page names an address that is not there.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
# On GitHub a repository has one owner, elsewhere there are groups in groups. With ".git" at its
# end it is an address for git alone: pages in it have none like that.
REPOSITORY = re.compile(
    r"https://(github\.com(/[\w.-]+){2}|(?!github\.com/)[\w.-]+(/[\w.-]+){2,})(?<!\.git)"
)
SITE = re.compile(r"https?://[\w.:-]+(/[\w.~-]+)*/")
BRANCH = "main"


def check_addresses(app: Sphinx, config: Config) -> None:
    """Refuse an address that would make broken links.

    Raises:
        ConfigError: when an address is neither empty nor of the form that links are made of.
    """
    repository, site = config.course_repository, config.course_site
    if repository and not REPOSITORY.fullmatch(str(repository)):
        raise ConfigError(
            f"course_repository: {repository!r} in _config.yml is not the address of a "
            "repository, as https://github.com/OWNER/NAME; leave it empty if there is none"
        )
    if site and not SITE.fullmatch(str(site)):
        raise ConfigError(
            f"course_site: {site!r} in _config.yml is not the address of a site with a slash at "
            "its end, as https://OWNER.github.io/NAME/; leave it empty if there is none"
        )


def of_source(repository: str, path: str) -> str:
    """Return where a repository's file is shown, or the repository where its host is not known.

    >>> of_source("https://github.com/a/b", "book/en/index.md")
    'https://github.com/a/b/blob/main/book/en/index.md'
    """
    host = urlsplit(repository).hostname or ""
    if host.endswith("github.com"):
        return f"{repository}/blob/{BRANCH}/{path}"
    if "gitlab" in host:
        return f"{repository}/-/blob/{BRANCH}/{path}"
    return repository


def source_path(env: BuildEnvironment, docname: str) -> str:
    """Return a page's source, counted from the repository's root."""
    path = Path(env.doc2path(docname)).relative_to(ROOT)
    # An exercise is laid into the book at each build, by course_exercises.py.
    return "/".join(path.parts[2:] if "exercises" in path.parts else path.parts)


def of_page(env: BuildEnvironment, docname: str) -> str:
    """Return the address of a page: on the site, else its source, else an empty text."""
    config = env.config
    if config.course_site:
        return f"{config.course_site}{config.language}/{docname}.html"
    if config.course_repository:
        return of_source(config.course_repository, source_path(env, docname))
    return ""


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("course_repository", "", "html", str)
    app.add_config_value("course_site", "", "html", str)
    app.connect("config-inited", check_addresses)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
