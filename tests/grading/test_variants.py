"""Numbers drawn from a student's id: in the student's Jupyter, in a release, and in grading."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading import check, checks_file, expected, pick
from grading.assignment import AssignmentError, load
from grading.autograde import autograde
from grading.check import CheckFailed
from grading.course import Course
from grading.draws import drawn, key
from grading.grade import NOT_GRADED
from grading.reference import references_of
from grading.release import _same_entry, is_current, release
from grading.variants import ID_FILE, ID_FILE_TEXT, draw, own_id
from tests.grading.drawn_course import OPTIONS, WHO, answers, drawn_cells, drawn_course, switch
from tests.grading.small_course import cell, released_cells, submit

NUMBERS = 2.0  # points of the task that is drawn; the others earn 3, and 2 by hand

pytestmark = pytest.mark.slow  # each course here is released, and some graded


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory, course_secret: Path) -> Course:
    """A course with its release made. Copy it to change it."""
    course = drawn_course(tmp_path_factory.mktemp("drawn"))
    release(course, "tiny", register=False)
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    shutil.copytree(released.root, tmp_path / "course")
    return Course(tmp_path / "course")


@pytest.fixture
def exercise(course: Course, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's folder, with the kernel in it, and no id yet."""
    folder = course.exercises / "tiny"
    monkeypatch.chdir(folder)
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    return folder


def write_id(exercise: Path, text: str) -> None:
    (exercise / ID_FILE).write_text(ID_FILE_TEXT + text + "\n", encoding="utf-8")


def draw_here() -> int:
    return pick("d_model", list(OPTIONS))


# ---------------------------------------------------------------- in a student's Jupyter


@pytest.mark.parametrize("student", WHO)
def test_each_student_gets_numbers_of_their_own(
    exercise: Path, student: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_id(exercise, student)
    assert draw_here() == WHO[student]
    assert capsys.readouterr().out == f"Drawn for the student '{student}' ({ID_FILE}).\n"


def test_a_check_compares_with_the_students_own_numbers(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for student, d_model in WHO.items():
        write_id(exercise, student)
        check("widths", [d_model // 8, d_model // 4])
        for other in {*WHO.values()} - {d_model}:
            with pytest.raises(CheckFailed, match="not all of them are right"):
                check("widths", [other // 8, other // 4])
    assert capsys.readouterr().out == 3 * "✓ widths: right.\n"


def test_without_an_id_it_is_the_first_option_and_said_so(
    exercise: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert draw_here() == OPTIONS[0]
    assert capsys.readouterr().out == (
        f"Nobody's id is known: {ID_FILE} holds no id. So this is the first option, which may not "
        f"be yours. Write your id into {ID_FILE}, and run all cells again.\n"
    )
    check("widths", [OPTIONS[0] // 8, OPTIONS[0] // 4])


def test_the_file_comes_before_jupyterhub(exercise: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTERHUB_USER", "eve")
    assert draw_here() == WHO["eve"]
    write_id(exercise, "ada")
    assert draw_here() == WHO["ada"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"ada", "ada"),
        (b"\xef\xbb\xbfada\r\n", "ada"),
        ("  Nguye\u0302\u0303n \n".encode(), "Nguy\u1ec5n"),
        ("# a remark\n\nada\n".encode("utf-16"), "ada"),
        (b"ada\nben\n", ""),
        (b"\xff", ""),
        (b"a" * 5000, ""),
        (b"", ""),
    ],
)
def test_an_id_is_read_however_it_was_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, found: str
) -> None:
    monkeypatch.delenv("JUPYTERHUB_USER", raising=False)
    assert own_id(tmp_path).place == f"there is no {ID_FILE} beside this notebook"
    (tmp_path / ID_FILE).write_bytes(content)
    assert own_id(tmp_path).id == found


def test_another_pick_than_the_released_one_is_refused(exercise: Path) -> None:
    for name, options in (("width", [1, 2, 3, 4]), ("d_model", [1, 2])):
        with pytest.raises(CheckFailed, match="Put the cell back"):
            pick(name, options)


def test_a_draw_is_fair_and_hangs_on_all_three() -> None:
    students = [f"student-{number}" for number in range(400)]
    drawn = [draw(student, "tiny", "d_model", 4) for student in students]
    assert all(70 < drawn.count(option) < 130 for option in range(4))
    for assignment, name in (("small", "d_model"), ("tiny", "heads")):
        others = [draw(student, assignment, name, 4) for student in students]
        assert sum(map(int.__eq__, drawn, others)) < 150  # 100 are the same by chance


# ---------------------------------------------------------------- the release


def test_one_line_switches_it(released: Course, course: Course, course_secret: Path) -> None:
    folder = course.exercises / "tiny"
    assert {path.name for path in folder.iterdir()} == {"checks.json", ID_FILE, "tiny.ipynb"}
    assert f"open the file `{ID_FILE}`" in (folder / "tiny.ipynb").read_text()
    assert is_current(course, "tiny") == []
    switch(course, False)
    release(course, "tiny", register=False)
    assert {path.name for path in folder.iterdir()} == {"checks.json", "tiny.ipynb"}
    assert ID_FILE not in (folder / "tiny.ipynb").read_text()
    assert "picks" not in json.loads((folder / "checks.json").read_text())


def test_checks_json_has_an_entry_for_each_option(released: Course) -> None:
    checks = checks_file.read(released.exercises / "tiny" / "checks.json")
    assert checks.picks == {"d_model": [str(option) for option in OPTIONS]}
    kinds = {name: one["kind"] for name, one in checks.checks.items()}
    # A number that earns points is looked at for its form alone, which no draw changes.
    assert kinds == {"head width": "form", "widths": "drawn", "weights": "value"}
    hashes = {one["hash"] for one in checks.checks["widths"]["entries"]}
    assert len(hashes) == len(OPTIONS)


def test_a_release_of_another_processor_is_current_too(released: Course) -> None:
    """Arrays may differ in the last digits, and those that a draw chooses from no less."""

    def drawn_entry(number: float, pick: str = "d_model") -> dict[str, Any]:
        made = {"hint": "", "tolerance": None, "earns_points": False, "salt": "5a17"}
        entries = [expected.entry(value, **made) for value in (number, 2.5)]
        return {"kind": "drawn", "pick": pick, "entries": entries}

    assert _same_entry(drawn_entry(1.5), drawn_entry(1.5 + 1e-12))
    assert not _same_entry(drawn_entry(1.5), drawn_entry(1.6))
    assert not _same_entry(drawn_entry(1.5), drawn_entry(1.5, "heads"))
    assert not _same_entry(drawn_entry(1.5), drawn_entry(1.5)["entries"][0])


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["picks"].update(d_model=["768"]),
        lambda content: content["picks"].update(d_model="768"),
        lambda content: content.pop("picks"),
        lambda content: content.update(picks=["d_model"]),
        lambda content: content["checks"]["widths"].update(pick="heads"),
        lambda content: content["checks"]["widths"].update(hint="Divide."),
        lambda content: content["checks"]["widths"]["entries"].pop(),
        lambda content: content["checks"]["widths"]["entries"].insert(0, "form"),
        lambda content: content["checks"]["widths"].update(entries=None),
    ],
)
def test_damaged_draws_in_checks_json_are_refused(
    exercise: Path, change: Callable[[dict[str, Any]], Any]
) -> None:
    path = exercise / "checks.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    for call in (draw_here, lambda: check("widths", [64, 128])):
        with pytest.raises(CheckFailed, match=r"checks\.json is damaged"):
            call()


# ---------------------------------------------------------------- grading


def cells_of(student: str, *own: str) -> list[dict[str, Any]]:
    """Return a student's notebook, with cells of their own in front."""
    sources = {made["id"]: made["source"] for made in released_cells()} | answers(student)
    cells = drawn_cells()
    for made in cells:
        made["source"] = sources.get(made["id"], made["source"])
    return [*(cell(f"own-{i}", "code", source) for i, source in enumerate(own)), *cells]


# Each tries, from inside, to have another id than that of the folder.
TRICKS = {
    "a file": f"open('{ID_FILE}', 'w').write('{{them}}\\n')",
    "the environment": "import os\nos.environ['JUPYTERHUB_USER'] = '{them}'",
    "our own state": "from grading.check import _Grading\n_Grading.draws = {{'d_model': {option}}}",
    "another pick": "import grading\ngrading.pick = lambda name, options: {d_model}",
    "no pick": "import grading.check\ngrading.check.draw = lambda *any: {option}",
}


def test_two_students_are_graded_by_their_own_numbers(course: Course, course_secret: Path) -> None:
    """The copies come from eve; nothing that is in a notebook makes ada eve."""
    submit(course, "ada", cells=cells_of("ada"))
    submit(course, "eve", cells=cells_of("eve"))
    (submit(course, "ben", cells=cells_of("eve")) / ID_FILE).write_text("eve\n")
    option = OPTIONS.index(WHO["eve"])
    thieves = []
    for trick, source in TRICKS.items():
        name = next(  # one whose numbers are not eve's
            name
            for number in range(100)
            if draw(name := f"{trick} {number}", "tiny", "d_model", 4) != option
        )
        own = source.format(them="eve", option=option, d_model=WHO["eve"])
        submit(course, name, cells=cells_of("eve", own))
        thieves.append(name)
    lines = {line.student_id: line for line in autograde(course, "tiny", progress=print)}
    assert lines["ada"].score == lines["eve"].score == 5.0
    assert {name: lines[name].score for name in ("ben", *thieves)} == dict.fromkeys(
        ("ben", *thieves), 5.0 - NUMBERS
    )
    page = (course.autograded / "ada" / "tiny" / "tiny.ipynb").read_text()
    assert f"d_model is {WHO['ada']}" in page


def test_the_solution_runs_once_for_each_draw(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def reference(*arguments: Any) -> int:
        asked.append(arguments[-1]["d_model"])
        return asked[-1]

    monkeypatch.setattr("grading.reference.reference", reference)
    assignment = load(course, "tiny")
    students = ["ada", "ben", "cleo", "dan", "eve"]  # ada, cleo and dan drew the same
    found = references_of(course, assignment, None, students, 2)  # type: ignore[arg-type]
    assert sorted(asked) == [0, 1, 3]
    assert [found[key(drawn(assignment, one))]["tiny"] for one in students] == [3, 0, 3, 3, 1]


def test_where_the_solution_fails_by_some_draws_the_others_are_graded(course: Course) -> None:
    """A release tries each option, and not each with each other."""
    path = course.solutions / "tiny" / "tiny.ipynb"
    fails = f"\\n\\nassert d_model != {WHO['eve']}, 'no such head'"
    path.write_text(path.read_text().replace("d_model)", f"d_model){fails}", 1))
    for student in WHO:
        submit(course, student, cells=cells_of(student))
    lines = {line.student_id: line for line in autograde(course, "tiny", progress=print)}
    assert lines["ada"].score == lines["ben"].score == 5.0
    assert (lines["eve"].status, lines["eve"].score) == (NOT_GRADED, None)
    (reason,) = lines["eve"].reasons
    assert f"'d_model' = {WHO['eve']}: cell 'drawn' raises AssertionError: no such head" in reason
    for student in ("ada", "ben"):
        shutil.rmtree(course.submitted / student)
    with pytest.raises(AssignmentError, match="no such head"):
        autograde(course, "tiny", force=True, progress=print)


@pytest.mark.parametrize(
    ("now", "picks", "said"),
    [
        (True, None, "exercises/tiny was released without variants"),
        (True, {"d_model": ["1", "2"]}, "was released with picks of other names or options"),
        (False, {"d_model": [*map(str, OPTIONS)]}, "exercises/tiny was released with variants"),
    ],
)
def test_switched_without_a_release_it_is_not_graded(
    course: Course, now: bool, picks: dict[str, list[str]] | None, said: str
) -> None:
    switch(course, now)
    checks_file.write(
        course.exercises / "tiny" / "checks.json",
        assignment="tiny",
        salt="5a17",
        checks={},
        picks=picks,
    )
    submit(course, "ada")
    with pytest.raises(AssignmentError, match=re.escape(said)):
        autograde(course, "tiny", progress=print)
    assert not (course.root / "gradebook.db").exists()


def test_nobody_who_has_handed_in_is_drawn_anew(course: Course) -> None:
    submit(course, "ada", cells=cells_of("ada"))
    released = (course.exercises / "tiny" / "checks.json").read_bytes()
    path = course.solutions / "tiny" / "tiny.ipynb"
    text = path.read_text()
    for changed, variants in ((text, False), (text.replace("768, 1024", "1024, 768"), True)):
        path.write_text(changed)
        switch(course, variants)
        with pytest.raises(AssignmentError, match="by which 1 in submitted/ have worked already"):
            release(course, "tiny", register=False)
    assert (course.exercises / "tiny" / "checks.json").read_bytes() == released
    shutil.rmtree(course.submitted / "ada")
    release(course, "tiny", register=False)
    assert (course.exercises / "tiny" / "checks.json").read_bytes() != released


def test_with_variants_nothing_is_graded_without_a_release(course: Course) -> None:
    shutil.rmtree(course.exercises)
    submit(course, "ada")
    with pytest.raises(AssignmentError, match="is not there, so nobody can say"):
        autograde(course, "tiny", progress=print)
