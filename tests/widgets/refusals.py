"""What every demo does with a value that it cannot use."""

from typing import Any

import pytest
from traitlets import TraitError

from mha_lib.widgets import CourseWidget


def assert_refused(widget: type[CourseWidget], name: str, value: Any, message: str) -> None:
    """Set and made with this value, the demo says why not, and stays as it was."""
    demo = widget()
    before = getattr(demo, name)
    with pytest.raises(TraitError) as refused:
        setattr(demo, name, value)
    assert message in str(refused.value)
    assert getattr(demo, name) == before
    with pytest.raises(TraitError):
        widget(**{name: value})
