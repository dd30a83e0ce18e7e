"""What the command does without, and that nothing else misses it."""

import subprocess
import sys

LOOK = """
import sys
from grading.spared import import_nbgrader, spare_grammars
spare_grammars()
import_nbgrader()
import nbformat
from nbgrader.api import Gradebook
print([name for name in sys.modules if name.startswith("nbgrader.server_extensions.")])
print(nbformat.validate(nbformat.v4.new_notebook()))
from nbgrader.server_extensions.formgrader import handlers, load_jupyter_server_extension
print(callable(load_jupyter_server_extension), handlers.__name__)
import_nbgrader()
"""


def test_pages_and_grammars_are_left_out_and_can_still_be_had():
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "[]",
        "None",
        "True nbgrader.server_extensions.formgrader.handlers",
    ], done.stderr
