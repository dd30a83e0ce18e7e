"""What the build is spared changes nothing of what it makes."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pybtex.plugin
import pytest
from course_demos import widgets_module
from course_exercises import pack

from book.places import BOOK
from book.spared import look_up_styles_once
from mha_lib.widgets import site_assets

NEEDS_NO_LIBRARY = """
import sys
from course_demos import widgets_module
from course_progress import check_quizzes, quizzes_script
check_quizzes(None), quizzes_script("en"), widgets_module("assets").site_assets()
print(sorted({"torch", "numpy", "ipywidgets", "mha_lib"} & set(sys.modules)))
"""


def test_the_demos_files_are_packed_without_the_library() -> None:
    said = subprocess.run(
        [sys.executable, "-c", NEEDS_NO_LIBRARY],
        env=os.environ | {"PYTHONPATH": str(BOOK / "extensions")},
        capture_output=True,
        text=True,
    )
    assert said.stdout == "[]\n", said.stderr
    assert widgets_module("assets").site_assets() == site_assets()


def test_a_style_is_found_without_a_search_for_each_use(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = pybtex.plugin.find_plugin("pybtex.style.formatting", "plain")
    monkeypatch.setattr(pybtex.plugin, "entry_points", entry_points)
    look_up_styles_once()
    assert pybtex.plugin.entry_points is not entry_points
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("searched"))
    assert pybtex.plugin.find_plugin("pybtex.style.formatting", "plain") is plain
    with pytest.raises(pybtex.plugin.PluginNotFound, match="no-such-style"):
        pybtex.plugin.find_plugin("pybtex.style.formatting", "no-such-style")


def test_an_exercise_is_packed_again_only_when_it_has_changed(tmp_path: Path) -> None:
    # Sphinx reads the page anew that offers a newer archive.
    folder, archive = tmp_path / "one", tmp_path / "one.zip"
    folder.mkdir()
    (folder / "checks.json").write_text("{}")
    pack(folder, archive)
    os.utime(archive, (0, 0))
    pack(folder, archive)
    assert archive.stat().st_mtime == 0
    (folder / "checks.json").write_text("[]")
    pack(folder, archive)
    assert archive.stat().st_mtime > 0
