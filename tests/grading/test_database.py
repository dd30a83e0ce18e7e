"""The gradebook's address: nbgrader's own setting, and never shown with its password."""

import pytest

from grading.course import Course
from grading.database import GradebookError, read, shown

SECRET = "the-password"
SERVER = f"postgresql://grader:{SECRET}@db.example:5432/course"


@pytest.mark.parametrize(
    "lines",
    [
        f"c.CourseDirectory.db_url = {SERVER!r}",
        f"import os\nc.CourseDirectory.db_url = os.environ.get('NOT_SET', {SERVER!r})",
        f"c.CourseDirectory.db_url = 'sqlite:///old.db'\nc.CourseDirectory.db_url = {SERVER!r}",
        f"c.CourseDirectory.db_url = {SERVER!r}\nimport no_such_module",
    ],
    ids=["written", "looked up", "the last one", "what follows is not run"],
)
def test_the_address_is_nbgraders_own_setting(tmp_path, lines):
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\n{lines}\n")
    assert Course(tmp_path).database_url == SERVER


def test_without_the_setting_it_is_nbgraders_own_default(tmp_path):
    default = f"sqlite:///{tmp_path}/gradebook.db"
    assert Course(tmp_path).database_url == default
    (tmp_path / "nbgrader_config.py").write_text("c = get_config()\nc.Exchange.root = '/x'\n")
    assert Course(tmp_path).database_url == default


def test_a_changed_setting_is_seen(tmp_path):
    settings = tmp_path / "nbgrader_config.py"
    for address in ("sqlite:////a.db", "sqlite:////another.db"):
        settings.write_text(f"c = get_config()\nc.CourseDirectory.db_url = {address!r}\n")
        assert Course(tmp_path).database_url == address


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (f"raise ValueError({SECRET!r})\nc.CourseDirectory.db_url = ''", "ValueError"),
        (f"c.CourseDirectory.db_url = {SERVER!r} (", "SyntaxError"),
        (f"c.CourseDirectory.db_url = 'mysql://a:{SECRET}@b/c'", "has to begin with one of sqlite"),
        ("c.CourseDirectory.db_url = 7", "has to begin with one of sqlite:///"),
    ],
)
def test_a_setting_that_gives_no_address_is_refused_without_its_text(tmp_path, lines, said):
    (tmp_path / "nbgrader_config.py").write_text(f"c = get_config()\n{lines}\n")
    with pytest.raises(GradebookError, match=said) as refused:
        _ = Course(tmp_path).database_url
    assert SECRET not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_no_password_is_shown():
    for address in (SERVER, f"postgresql://db.example/course?user=a&password={SECRET}"):
        assert SECRET not in shown(address)
        assert "db.example" in shown(address)


def test_a_missing_driver_is_named_with_the_way_out(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(GradebookError, match=r"pip install 'psycopg\[binary\]'") as refused:
        read(SERVER + "-without-a-driver", "select 1")
    assert SECRET not in str(refused.value)
