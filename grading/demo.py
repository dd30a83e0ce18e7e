"""What a demo cell calls: `demo("NAME", input=value)` shows something live beside a task.

Nothing rests on it: it earns no points and is not run while a submission is graded. Which demos
there are is the library's own business; here a name is only looked up in it.
"""

from importlib import import_module
from typing import Any

from grading.check import is_grading

LIBRARY = "mha_lib.widgets"
NO_DEMO = (
    'No demo here: {why}. To see it, run `pip install ".[widgets]"` in the course\'s folder, and '
    "restart the kernel. The exercise works without it."
)


def demo(name: str, **inputs: Any) -> Any:
    """Return a live demo, which Jupyter shows where the cell ends with it.

    Where it cannot be shown it prints one line and raises nothing.
    """
    if is_grading():
        return None  # a student's copy of the cell must not cost their work any time
    try:
        return getattr(import_module(LIBRARY), name)(**inputs)
    except ImportError:
        why = "mha_lib or anywidget is not installed"
    except Exception as error:  # The installed library is another than the exercise's.
        why = f"the installed mha_lib refuses it ({' '.join(str(error).split())})"
    print(NO_DEMO.format(why=why))
    return None
