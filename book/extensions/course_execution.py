"""Sphinx extension: how chapters are run, and where their outputs are cached.

Jupyter Book reuses a chapter's outputs as long as its code cells are the same. It
cannot see that mha_lib, which the cells call, has changed. So the cache lives in a
folder named by a hash of mha_lib: new library, new folder, cells run again.
The library that is hashed is the one that runs, whichever is installed.

Sphinx likewise keeps what it has read of a page. It cannot see that an extension of ours has
changed, so a setting holds a hash of them: with another one, all pages are read again.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from jupyter_cache import get_cache
from sphinx.application import Sphinx
from sphinx.config import Config

ROOT = Path(__file__).resolve().parents[2]
# These reach the reader through the page, not through a cell's output.
PAGE_ONLY = {".js", ".css", ".pyc"}


def library_hash(library: Path) -> str:
    """Return a short hash of every file in `library` that can change a cell's output."""
    digest = hashlib.sha256()
    for path in sorted(library.rglob("*")):
        if path.is_file() and path.suffix not in PAGE_ONLY:
            digest.update(path.relative_to(library).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def set_code(app: Sphinx, config: Config) -> None:
    """Have every page read again when the extensions have changed: they made what is kept of it.

    mha_lib need not be in it: the cache's path, which changes with it, does the same.
    """
    config.course_code = library_hash(Path(__file__).parent)


def set_cache_path(app: Sphinx, config: Config) -> None:
    """Point myst-nb at the cache that belongs to the library as it is now.

    It is made here: pages are read in parallel, and two that find none would both begin one.
    """
    path = ROOT / "_build" / "executed" / library_hash(ROOT / "mha_lib")
    config.nb_execution_cache_path = str(path)
    get_cache(path).get_cache_limit()  # its first use makes it


def use_this_library(app: Sphinx, config: Config) -> None:
    """Put this folder's mha_lib before an installed one, here and in the kernels."""
    sys.path.insert(0, str(ROOT))
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, others)])


def prepare_kernels(app: Sphinx, config: Config) -> None:
    """Set the environment that kernels inherit."""
    # A widget shows itself as it must on a page without a kernel.
    os.environ["MHA_STATIC"] = "1"
    # Chapters compute with small tensors. On a busy machine torch's threads wait for one another
    # much longer than they compute, and the last digits hang on how many there are.
    os.environ["OMP_NUM_THREADS"] = "1"
    # The author's own IPython settings and start-up files must not change a chapter.
    profile = ROOT / "_build" / "ipython" / "profile_default"
    profile.mkdir(parents=True, exist_ok=True)
    os.environ["IPYTHONDIR"] = str(profile.parent)
    # A kernel's warning on each start, that connections on this machine are not encrypted.
    (profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    # Priority 1: before myst-nb and Sphinx's environment look at the value.
    app.connect("config-inited", set_cache_path, priority=1)
    app.add_config_value("course_code", "", "env", str)
    app.connect("config-inited", set_code, priority=1)
    app.connect("config-inited", use_this_library)
    app.connect("config-inited", prepare_kernels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
