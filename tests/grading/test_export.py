"""Marks leave for Canvas, Moodle and Gradescope as these take them; whoever is not in is named."""

import csv
import io
import shutil
from pathlib import Path

import pytest
from nbgrader.api import Gradebook

from grading.__main__ import main
from grading.assignment import load
from grading.autograde import autograde
from grading.cells import is_harmless, original
from grading.commands.shared import FINE, LOOK, REFUSED
from grading.course import Course
from grading.export import FORMATS, export
from grading.final import Mark, final_marks
from grading.roster import RosterError, read_roster
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import small_course, submit

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Old (77),Tiny (4711),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,7,(read only)
"Nguyễn, An",101,S1,an.nguyen,Lab 1,9,,50
"Binh, =1+1",102,S2,binh,"Lab 1, Lab 2",,,
"Test, Student",103,,3f2a,Lab 1,,,
"""
WORKSHEET = """\
\ufeffIdentifier,Full name,ID number,Email address,Status,Grade,Maximum grade,Grade can be changed,\
Last modified (submission),Last modified (grade),Feedback comments
Participant 5001,Nguyễn An,s1,an.nguyen@uni.example,Submitted,,7.00,Yes,"Sunday, 1 May",-,
Participant 5002,@Binh,s2,binh@uni.example,Submitted,,7.00,Yes,-,-,
"""
GRADEBOOK = """\
First name;Last name;ID number;Institution;Email address;Course total
An;Nguyễn;s1;Uni;an.nguyen@uni.example;-
Binh;=Lê;s2;Uni;binh@uni.example;-
"""
GRADESCOPE = """\
First Name,Last Name,SID,Email,Sections
An,Nguyễn,s1,AN.NGUYEN@uni.example,A
Binh,Lê,s2,binh@uni.example,B
"""
MARKS = [Mark("binh", 6.0, 0.0, 7.0), Mark("an.nguyen", 5.5, 2.0, 7.0)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load(small_course(tmp_path_factory.mktemp("course")), "tiny")


def written(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def roster(folder: Path, text: str, **options):
    path = folder / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return read_roster(path, **options)


def test_canvas_gets_its_own_columns_and_the_number_of_its_assignment(tiny, tmp_path):
    made = export(tiny, MARKS, "canvas", roster=roster(tmp_path, CANVAS))
    assert written(made.text) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Tiny (4711)"],
        ["    Points Possible", "", "", "", "", "7"],
        ["Nguyễn, An", "101", "S1", "an.nguyen", "Lab 1", "3.5"],
        ["Binh, =1+1", "102", "S2", "binh", "Lab 1, Lab 2", "6"],
    ]
    assert made.left_out == {}
    assert made.without_mark == ("Test, Student / 103",)


def test_without_a_roster_our_ids_are_taken_for_logins(tiny):
    made = export(tiny, MARKS, "canvas")
    assert written(made.text)[2:] == [
        ["an.nguyen", "", "", "an.nguyen", "", "3.5"],
        ["binh", "", "", "binh", "", "6"],
    ]


def test_another_maximum_in_the_system_is_refused(tiny, tmp_path):
    other = CANVAS.replace(",10,7,", ",10,100,")
    with pytest.raises(RosterError, match=r"'Tiny \(4711\)' has 100 points, but .* has 7"):
        export(tiny, MARKS, "canvas", roster=roster(tmp_path, other))
    other = WORKSHEET.replace("7.00", "10.00")
    with pytest.raises(RosterError, match=r"has 10\.00 points"):
        export(tiny, MARKS, "moodle", roster=roster(tmp_path, other))


def test_two_columns_that_could_be_meant_are_not_guessed_between(tiny, tmp_path):
    two = roster(tmp_path, CANVAS.replace("Old (77)", "Tiny (77)"))
    with pytest.raises(RosterError, match="--column"):
        export(tiny, MARKS, "canvas", roster=two)
    made = export(tiny, MARKS, "canvas", roster=two, title="Tiny (4711)")
    assert written(made.text)[0][-1] == "Tiny (4711)"


def test_moodles_worksheet_comes_back_as_it_was_with_grades(tiny, tmp_path):
    made = export(tiny, MARKS, "moodle", roster=roster(tmp_path, WORKSHEET))
    head, an, binh = written(made.text)
    assert head == written(WORKSHEET)[0]
    assert an == [
        *("Participant 5001", "Nguyễn An", "s1", "an.nguyen@uni.example", "Submitted", "3.5"),
        *("7.00", "Yes", "Sunday, 1 May", "-", ""),
    ]
    assert binh[:6] == ["Participant 5002", "'@Binh", "s2", "binh@uni.example", "Submitted", "6"]


def test_moodles_grade_import_gets_what_it_maps_people_by(tiny, tmp_path):
    made = export(tiny, MARKS, "moodle", roster=roster(tmp_path, GRADEBOOK))
    assert written(made.text) == [
        ["First name", "Last name", "ID number", "Email address", "Tiny"],
        ["An", "Nguyễn", "s1", "an.nguyen@uni.example", "3.5"],
        ["Binh", "'=Lê", "s2", "binh@uni.example", "6"],
    ]


def test_gradescopes_layout_charges_lateness_once(tiny, tmp_path):
    made = export(tiny, MARKS, "gradescope", roster=roster(tmp_path, GRADESCOPE))
    assert written(made.text) == [
        [
            *("First Name", "Last Name", "SID", "Email", "Sections", "Tiny", "Tiny - Max Points"),
            *("Tiny - Submission Time", "Tiny - Lateness (H:M:S)", "Total Lateness (H:M:S)"),
        ],
        ["An", "Nguyễn", "s1", "AN.NGUYEN@uni.example", "A", "3.5", "7", "", "", ""],
        ["Binh", "Lê", "s2", "binh@uni.example", "B", "6", "7", "", "", ""],
    ]


def test_the_plain_file_opens_in_a_spreadsheet_and_ids_come_back(tiny):
    students = [
        "=cmd|' /C calc'!A0",
        "'=1",
        "+84901234567",
        "\t=1",
        "ｱﾝ",
        "＝1",
        "Nguyễn Văn An",
        "-5",
        "an;=cmd|' /C calc'!A0",
        "an; '=1",
        "an;'t Hooft;@x;-",
    ]
    made = export(tiny, [Mark(student, 5, 0, 7) for student in students], "csv")
    assert made.text.startswith(
        "\ufeffstudent_id,points,late_penalty,score,max_score,handed_in\r\n"
    )
    cells = [row[0] for row in written(made.text)[1:]]
    # Nor is anything computed where semicolons part cells, as in half the world's spreadsheets.
    parts = [part for cell in cells for part in cell.split(";")]
    assert all(is_harmless(part) or part.startswith("'") for part in parts)
    assert [original(cell) for cell in cells] == sorted(students)
    assert "+84901234567" in cells


@pytest.mark.parametrize("format_name", ["canvas", "moodle", "gradescope"])
def test_an_id_that_would_be_computed_is_named_not_broken(tiny, format_name):
    made = export(tiny, [Mark("@an", 5, 0, 7), Mark("binh", 5, 0, 7)], format_name)
    assert [*made.left_out] == ["@an"]
    assert "by hand" in made.left_out["@an"]
    assert "@an" not in made.text
    assert made.count == 1


def test_with_another_way_to_tell_who_it_is_such_an_id_is_made_text(tiny, tmp_path):
    people = roster(tmp_path, CANVAS.replace("S2,binh", "=S2,@binh"))
    made = export(tiny, [Mark("@binh", 5, 0, 7)], "canvas", roster=people)
    assert written(made.text)[2][:4] == ["Binh, =1+1", "102", "'=S2", "'@binh"]


def test_nobody_is_guessed(tiny, tmp_path):
    people = roster(tmp_path, GRADESCOPE + "An,Two,s3,an.nguyen@else.example,A\n")
    marks = [Mark(student, 5, 0, 7) for student in ("an.nguyen", "s2", "binh", "nobody", "S3")]
    made = export(tiny, marks, "gradescope", roster=people)
    assert {student: why.split(" of ")[0] for student, why in made.left_out.items()} == {
        "an.nguyen": "lines 2 and 4",
        "binh": "line 3",
        "nobody": "no row",
        "s2": "line 3",
    }
    assert [row[2] for row in written(made.text)[1:]] == ["s3"]


def test_two_addresses_are_not_one_persons_for_what_stands_before_the_at(tmp_path):
    people = roster(tmp_path, "SID,Email\ns1,an@uni.example\nbinh,b@uni.example\n")
    students = ["an@else.example", "binh@uni.example", "B"]
    found, failed = people.match(students[:2])
    assert {student: person.cells[0] for student, person in found.items()} == {students[1]: "binh"}
    assert [*failed] == students[:1]
    assert people.match(students[2:])[0]["B"].cells[0] == "binh"


def test_the_same_marks_give_the_same_file_in_any_order(tiny):
    for name in FORMATS:
        assert export(tiny, MARKS, name).text == export(tiny, MARKS[::-1], name).text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        ("Name,SID\nBình,1\n".encode("latin-1"), "CSV UTF-8"),
        (b"Surname,Mark\nAn,1\n", "--id COLUMN"),
        (b"Name,SID\nAn,1,2\n", "line 2, has 3 cells"),
        (b'Name,SID\n"An,1\n' + b"x" * 200_000, "is no CSV"),
        (b"x" * 200_000, "line 1, is no CSV"),
    ],
)
def test_a_roster_that_is_none_is_refused_with_a_way_out(tmp_path, content, said):
    path = tmp_path / "roster.csv"
    path.write_bytes(content)
    with pytest.raises(RosterError, match=said):
        read_roster(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_roster_with_any_ends_of_lines_is_read(tmp_path, end):
    path = tmp_path / "roster.csv"
    path.write_bytes(f"Name,SID{end}An,1{end}".encode())
    assert [person.cells for person in read_roster(path).people] == [("An", "1")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_roster_in_another_encoding_or_column_is_read(tmp_path, encoding):
    path = tmp_path / "roster.csv"
    path.write_bytes("Name\tMatric\nNguyễn\tA1\n".encode(encoding))
    found, failed = read_roster(path, "matric").match(["a1"])
    assert found["a1"].cells == ("Nguyễn", "A1")
    assert failed == {}


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    for student in ("an.nguyen", "binh"):
        submit(course, student)
    (course.submitted / "an.nguyen" / "tiny" / "timestamp.txt").write_text("2026-01-02 03:04 UTC")
    use(monkeypatch, ChosenSandbox())
    autograde(course, "tiny", progress=lambda _: None)
    return course


def give(course: Course, student: str, points: float, **changes) -> None:
    """Mark the written answer by hand."""
    with Gradebook(course.database_url) as book:
        grade = book.find_grade("answer", "tiny", "tiny", student)
        grade.manual_score, grade.needs_manual_grade = points, False
        for name, value in changes.items():
            setattr(grade.notebook, name, value)
        book.db.commit()


def test_what_waits_for_a_person_is_said_and_not_exported(course: Course, capsys):
    give(course, "an.nguyen", 1.5)
    path = course.root / "exports" / "tiny-csv.csv"
    assert main(["export", "tiny", "--format", "csv"]) == LOOK
    said = capsys.readouterr().out
    assert "binh: left out: 2 points wait for a person" in said
    assert "Nothing was written: 1 of 2 marks would be left out." in said
    assert not path.exists()
    assert main(["export", "tiny", "--format", "csv", "--partial"]) == LOOK
    assert "binh: left out" in capsys.readouterr().out
    assert path.stat().st_mode & 0o077 == 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {
        "student_id": "an.nguyen",
        "points": "6.5",
        "late_penalty": "0",
        "score": "6.5",
        "max_score": "7",
        "handed_in": "2026-01-02 03:04:00 +0000",
    }


def test_everybody_final_is_exported_to_a_file_of_ones_own(course: Course, tmp_path, capsys):
    for student in ("an.nguyen", "binh"):
        give(course, student, 2)
    file = tmp_path / "canvas.csv"
    (tmp_path / "roster.csv").write_text(CANVAS)
    words = ["--roster", str(tmp_path / "roster.csv"), "--to", str(file)]
    assert main(["export", "tiny", "--format", "canvas", *words]) == FINE
    said = capsys.readouterr().out
    assert "1 row of the roster without a mark: Test, Student / 103\n" in said
    assert said.endswith(f"{file}: 2 marks of tiny, out of 7 points\n")
    assert [row[-1] for row in csv.reader(file.open())] == ["Tiny (4711)", "7", "7", "7"]


def test_a_changed_or_flagged_submission_is_not_final(course: Course, monkeypatch):
    for student in ("an.nguyen", "binh"):
        give(course, student, 2)
    give(course, "binh", 2, flagged=True)
    submit(course, "an.nguyen", {"number": "head_width = 63"})
    submit(course, "cuc")
    marks, waiting = final_marks(course, "tiny")
    assert marks == []
    assert waiting["an.nguyen"].startswith("changed since graded; run")
    assert waiting["binh"].startswith("flagged")
    assert waiting["cuc"] == "waiting; run: python -m grading autograde tiny"


def test_nothing_final_and_nothing_handed_in_write_no_file(course: Course, capsys):
    words = ["export", "tiny", "--format", "csv", "--partial"]
    assert main(words) == LOOK
    assert "2 of 2 marks would be left out. Settle that.\n" in capsys.readouterr().out
    for folder in (course.submitted, course.state, course.autograded):
        shutil.rmtree(folder)
    (course.root / "gradebook.db").unlink()
    for again in (words, ["feedback", "tiny"]):
        assert main(again) == FINE
        assert f"no folder {course.submitted}/*/tiny\n" in capsys.readouterr().out
    assert not (course.root / "exports").exists()


def test_a_bad_roster_is_refused_on_the_command_line(course: Course, capsys):
    words = ["export", "tiny", "--format", "canvas", "--roster"]
    assert main([*words, "nowhere.csv"]) == REFUSED
    assert "nowhere.csv" in capsys.readouterr().err
    Path("moodle.csv").write_text(GRADEBOOK)
    assert main([*words, "moodle.csv"]) == REFUSED
    assert "is no gradebook of Canvas" in capsys.readouterr().err
