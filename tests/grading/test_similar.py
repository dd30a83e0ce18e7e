"""Near-identical work is found under a disguise that leaves the code alone; honest work is not."""

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from grading.__main__ import main
from grading.assignment import load
from grading.autograde import autograde
from grading.commands.shared import FINE, REFUSED
from grading.course import Course
from grading.fingerprints import RUN, WINDOW, fingerprints, tokens
from grading.similar import similar
from tests.grading.outcomes import ChosenSandbox, registered_course, set_secret, use
from tests.grading.small_course import (
    FUNCTION_SOLUTION,
    NUMBER_SOLUTION,
    cell,
    document,
    released_cells,
    small_course,
    submit,
)

OWN = """\
import numpy as np


def weights(scores):
    largest = scores.max(axis=-1)[..., None]
    raised = np.exp(scores - largest)
    for row in range(raised.shape[0]):
        total = sum(raised[row])
        if total > 0:
            raised[row] = [value / total for value in raised[row]]
    return raised
"""
DISGUISED = '''\
import numpy   as xp
# All of this is mine!
def weights( s ):
    """Return
    the weights."""
    m = s.max( axis = - 1 )[ ..., None ]   # the top

    e = xp.exp(s-m)
    for i in range(e.shape[0]) :
        z = sum(e[i])
        if z > 0.0:
            e[i] = [v / z
                    for v in e[i]]
    return e
'''
OTHER = """\
import numpy as np


def weights(scores):
    def one(line):
        powers = np.power(np.e, line - np.amax(line))
        return powers * (1.0 / np.add.reduce(powers))

    return np.stack([one(line) for line in np.asarray(scores, dtype=float)], axis=0)
"""
BROKEN = "def weights(scores:\n    return '''no end\n\t\\"


def test_tokens_forget_what_a_disguise_changes():
    assert tokens(OWN) == tokens(DISGUISED)
    assert tokens(OWN) != tokens(OTHER)
    assert tokens("x = '''a # b'''  # c") == ["n", "=", "s"]
    assert tokens("f('a' \\\n  'b')\n'alone'\n'kept' + x") == [
        *("n", "(", "s", "s", ")", "s", "+", "n"),
    ]
    assert tokens("f(\n'a',\n'b'\n)") == ["n", "(", "s", ",", "s", ")"]
    assert tokens("0x1f + 1_000.5e3 - .5j") == ["0", "+", "0", "-", "0"]
    assert tokens("a.softmax(b)")[2] == "softmax"
    assert tokens("giá_trị = 1") == ["n", "=", "0"]


@pytest.mark.parametrize(
    "source",
    ["", BROKEN, "'", '"""', "\\", "\0", "%%html\n<script>", "!pip install x", "([{" * 999],
)
def test_any_text_can_be_read(source):
    assert fingerprints(tokens(source)).dtype == "uint64"


def test_reading_takes_as_long_as_the_text():
    for source in ("'" * 100_000, '"""' * 50_000, "\\" * 100_000, "a" * 100_000, "ab'" * 50_000):
        tokens(source)


@pytest.mark.parametrize("before", range(WINDOW))
def test_a_long_enough_run_is_found_wherever_it_stands(before):
    dice = random.Random(0)
    words = [str(dice.random()) for _ in range(500)]
    run = words[: RUN + WINDOW - 1]
    one = fingerprints([*words[100 : 100 + before], *run, *words[200:300]])
    other = fingerprints([*words[300:400], *run])
    assert set(one.tolist()) & set(other.tolist())
    assert not set(one.tolist()) & set(fingerprints([*words[300:400], *run[: RUN - 1]]).tolist())


@pytest.fixture
def course(tmp_path, tmp_path_factory, monkeypatch):
    set_secret(monkeypatch, tmp_path)
    course = registered_course(tmp_path_factory, tmp_path / "course")
    (course.root / "nbgrader_config.py").write_text("")
    monkeypatch.chdir(course.root)
    use(monkeypatch, ChosenSandbox())
    return course


def solution(source: str) -> str:
    return "\n".join(line for line in source.splitlines() if "###" not in line)


def test_copies_are_found_and_nobody_else(course: Course, capsys):
    submit(course, "an", {"function": OWN, "number": "head_width = 64"})
    cells = released_cells()
    for made in cells:
        made["source"] = {"function": DISGUISED, "number": "w = 12 * 64"}.get(
            made["id"], made["source"]
        )
    submit(course, "binh", cells=cells[::-1])
    submit(course, "cuc", {"function": OTHER})
    # The same scratch work beside other answers, and the solution word for word.
    scratch = cell("scratch", "code", OWN.replace("weights", "scratch"))
    for student, source in (("dung", OTHER.replace("e, line", "e, 1 * line")), ("em", BROKEN)):
        cells = [*released_cells(), scratch]
        cells[3]["source"] = source
        submit(course, student, cells=cells)
    copied = {"function": solution(FUNCTION_SOLUTION), "number": solution(NUMBER_SOLUTION)}
    for student in ("giang", "hoa"):
        submit(course, student, copied)
    autograde(course, "tiny", progress=lambda _: None)
    damaged = course.autograded / "hoa" / "tiny" / "tiny.ipynb"
    damaged.write_text("[1]")
    assert main(["similar", "tiny"]) == FINE
    said = capsys.readouterr().out
    assert said.startswith("100 %  an and binh: function\n")
    assert " %  cuc and dung: function\n" in said
    assert "4 submissions of tiny compared: 2 pairs listed\n" in said
    assert "2 submissions hold too little of their own to compare: em, giang\n" in said
    assert "cannot be read; grade them again: hoa\n" in said
    assert "no proof" in said
    assert main(["similar", "tiny", "--json"]) == FINE
    read = json.loads(capsys.readouterr().out)
    assert [(pair["first"], pair["second"]) for pair in read["pairs"]] == [
        ("an", "binh"),
        ("cuc", "dung"),
    ]
    assert "no proof" in read["note"]
    assert main(["similar", "tiny", "--least", "100", "--most", "0"]) == FINE
    assert capsys.readouterr().out.startswith("... and 1 pair more")


def test_the_same_but_for_names_is_said(course: Course, capsys):
    for student, source in (("an", OWN), ("binh", DISGUISED)):
        submit(course, student, {"function": source})
    autograde(course, "tiny", progress=lambda _: None)
    main(["similar", "tiny"])
    assert "function; the same but for names" in capsys.readouterr().out


def test_ids_and_shares_are_checked(course: Course, capsys):
    submit(course, "an\x1b[2J", {"function": OWN})
    submit(course, "binh", {"function": OWN})
    autograde(course, "tiny", progress=lambda _: None)
    main(["similar", "tiny"])
    assert "\x1b" not in capsys.readouterr().out
    assert main(["similar", "nope"]) == REFUSED
    for option, number in (("--least", "0"), ("--least", "half"), ("--most", "-1")):
        with pytest.raises(SystemExit):
            main(["similar", "tiny", option, number])
        assert f"{number!r} is no " in capsys.readouterr().err


def a_program(dice: random.Random) -> str:
    """Return code that nobody else writes, of the length of an exercise's."""
    lines = ["import numpy as np", "def weights(scores):"]
    for number in range(60):
        call = dice.choice(["exp", "sum", "max", "where", "stack", "einsum", "matmul", "sqrt"])
        sign = dice.choice("+-*/@%")
        other = dice.choice(["len(a)", "[a, b]", "a[b]", "(a, -b)", "a if b else c", "{a: b}"])
        form = dice.choice(["{0} = np.{1}({2}) {3} b", "for {0} in {2}: b {3}= np.{1}(a)"])
        lines.append("    " + form.format(f"v{number}", call, other, sign))
    return "\n".join([*lines, "    return scores"])


def hand_in_many(course: Course, count: int, copies: dict[int, int]) -> None:
    """Lay graded notebooks, as grading would; ``copies`` says who copied from whom."""
    programs = [a_program(random.Random(number)) for number in range(count)]
    for one, other in copies.items():
        programs[one] = programs[other].replace("scores", "s").replace("v1", "other1")
    for number, source in enumerate(programs):
        cells = [cell("function", "code", source, solution=True)]
        path = course.autograded / f"s{number:04}" / "tiny" / "tiny.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document(cells)), encoding="utf-8")


@pytest.mark.slow
def test_many_take_memory_by_their_number_and_the_copies_are_found(tmp_path: Path):
    copies = {7: 3, 239: 0, 150: 149, 200: 199, 201: 199}
    peaks = {}
    for count in (60, 240):
        course = small_course(tmp_path / str(count))
        assignment = load(course, "tiny")
        here = {one: other for one, other in copies.items() if one < count}
        hand_in_many(course, count, here)
        tracemalloc.start()
        found = similar(course, assignment)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        listed = {(pair.first, pair.second) for pair in found.pairs}
        expected = {(f"s{other:04}", f"s{one:04}") for one, other in here.items()}
        if count == 240:
            expected.add(("s0200", "s0201"))
        assert listed == expected
        assert found.compared == count
    assert peaks[240] < 5 * peaks[60]
