"""The one pipe: whatever comes out of it, the reader says what it read and never raises."""

import json
import struct
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grading.job import Job, JobCell, Limits
from grading.protocol import MAX_FRAME, MAX_MESSAGES, FrameError, Reader, read_json
from grading.runner import write_frame
from grading.values import Unsupported, encode

JOB = Job((JobCell("a", ""), JobCell("b", "")))
READY, END = {"kind": "ready"}, {"kind": "end"}


def begin(cell):
    return {"kind": "cell", "cell": cell}


def done(cell, state="ok"):
    return {"kind": "done", "cell": cell, "state": state}


def check(cell, name, wire):
    return {"kind": "check", "cell": cell, "name": name, "value": wire}


def output(cell, **content):
    return {"kind": "output", "cell": cell, "output": content}


def stream(cell, text, name="stdout"):
    return output(cell, output_type="stream", name=name, text=text)


def raw(data):
    return struct.pack(">I", len(data)) + data


def read(*frames, job=JOB, limits=Limits(), size=1 << 16):  # noqa: B008
    reader = Reader(job, limits)
    data = b"".join(frame if isinstance(frame, bytes) else write_frame(frame) for frame in frames)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    reader.close()
    return reader


@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_an_honest_run_is_read_whole_however_it_arrives(size):
    reader = read(
        READY,
        begin("a"),
        check("a", "d_k", encode(64)),
        stream("a", "x"),
        stream("a", "y\n"),
        stream("a", "z", "stderr"),
        done("a"),
        begin("b"),
        output("b", output_type="error", ename="E", evalue="v", traceback=["t"]),
        done("b", "error"),
        END,
        size=size,
    )
    run = reader.run("finished")
    assert reader.finished
    assert not reader.flaw
    assert [(m.cell, m.name, m.value) for m in run.messages] == [("a", "d_k", 64)]
    assert [o["text"] for o in run.cells["a"].outputs] == ["xy\n", "z"]
    assert run.cells["b"].state == "error"


def test_only_a_job_that_disturbs_has_its_cells_measured():
    disturbed = replace(JOB, disturb=1)
    measured = [READY, begin("a"), {**done("a"), "milliseconds": 2500}, begin("b")]
    reader = read(*measured, job=disturbed)
    cells = reader.run("died").cells
    assert (cells["a"].seconds, cells["b"].seconds) == (2.5, 0.0)
    assert not read(*measured[:3], job=disturbed).flaw
    assert read(*measured).flaw == "a frame with the wrong fields"
    assert read(READY, begin("a"), done("a"), job=disturbed).flaw == "a frame with the wrong fields"


@pytest.mark.parametrize("time", [-1, "1", None, True, 10**10])
def test_a_time_that_no_cell_takes_is_refused(time):
    frames = READY, begin("a"), {**done("a"), "milliseconds": time}
    assert read(*frames, job=replace(JOB, disturb=1)).flaw == "a time that no cell takes"


def test_cells_that_did_not_end_say_so():
    reader = read(READY, begin("a"))
    assert {id: cell.state for id, cell in reader.run("timed out").cells.items()} == {
        "a": "timed out",
        "b": "not run",
    }
    assert reader.run("died").cells["a"].state == "error"


PNG = {"text/plain": "", "image/png": "AA=="}
FLAWED = {
    "not JSON": raw(b"{]"),
    "not UTF-8": raw(b'{"kind":"\xff"}'),
    "half a character": raw(b'{"kind":"check","cell":"a","name":"\\ud800","value":{"none":null}}'),
    "deep": raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "deep lists": raw(b"[" * 200_000 + b"]" * 200_000),
    "a key twice": raw(b'{"kind":"cell","kind":"end","cell":"a"}'),
    "NaN": raw(b'{"kind":"cell","cell":NaN}'),
    "infinity": raw(b'{"kind":"cell","cell":-Infinity}'),
    "a fraction": raw(b'{"kind":"cell","cell":1e999}'),
    "a huge number": raw(b'{"kind":"cell","cell":' + b"9" * 100_000 + b"}"),
    "millions of parts": raw(b'{"kind":"cell","cell":[' + b"[]," * 3_000_000 + b"[]]}"),
    "empty": struct.pack(">I", 0),
    "too long": struct.pack(">I", MAX_FRAME + 1),
    "four billion": b"\xff" * 4,
    "cut off": write_frame(begin("a"))[:-1],
    "a list": raw(b"[1]"),
    "null": raw(b"null"),
    "no kind": {"cell": "a"},
    "an unknown kind": {"kind": "grade", "points": "100"},
    "a kind that is a list": {"kind": ["cell"], "cell": "a"},
    "ready again": READY,
    "a field too many": {**begin("a"), "extra": 1},
    "a field too few": {"kind": "cell"},
    "the wrong cell": begin("b"),
    "an unknown cell": begin("c"),
    "a cell that is a list": {"kind": "cell", "cell": ["a"]},
    "the end too early": END,
    "a check outside a cell": check("a", "n", encode(1)),
    "an output outside a cell": stream("a", "x"),
    "a cell's end outside a cell": done("a"),
}
INSIDE_A_CELL = {
    "another cell's check": check("b", "n", encode(1)),
    "a cell in a cell": begin("b"),
    "the end in a cell": END,
    "a state of its own": done("a", "full marks"),
    "a state that is a list": done("a", ["ok"]),
    "a name that is a number": check("a", 1, encode(1)),
    "an endless name": check("a", "n" * 301, encode(1)),
    "HTML": output("a", output_type="display_data", data={"text/html": "<b>"}, metadata={}),
    "metadata": output("a", output_type="display_data", data=PNG, metadata={"x": 1}),
    "a picture that is a list": output(
        "a", output_type="display_data", data={"image/png": ["a"]}, metadata={}
    ),
    "a count that is true": output(
        "a", output_type="execute_result", data=PNG, metadata={}, execution_count=True
    ),
    "another stream": stream("a", "x", "stdin"),
    "a stream that is a list": output("a", output_type="stream", name=["stdout"], text="x"),
    "a text that is a list": stream("a", ["x"]),
    "no output": {"kind": "output", "cell": "a", "output": None},
    "another output": output("a", output_type="update_display_data"),
    "an output type that is a list": output("a", output_type=["stream"]),
    "a traceback that is a text": output(
        "a", output_type="error", ename="E", evalue="v", traceback="t"
    ),
    "a traceback of numbers": output("a", output_type="error", ename="E", evalue="", traceback=[1]),
}


@pytest.mark.parametrize("frame", FLAWED.values(), ids=FLAWED)
def test_a_flawed_frame_ends_the_reading_without_an_exception(frame):
    reader = read(READY, frame, begin("a"), done("a"), begin("b"), done("b"), END)
    assert reader.flaw
    assert not reader.finished
    assert reader.run("malformed").messages == ()


@pytest.mark.parametrize("frame", INSIDE_A_CELL.values(), ids=INSIDE_A_CELL)
def test_what_came_before_a_flaw_stands(frame):
    reader = read(READY, begin("a"), check("a", "d_k", encode(64)), frame, done("a"))
    run = reader.run("malformed")
    assert reader.flaw
    assert [message.value for message in run.messages] == [64]
    assert run.cells["a"].state == "error"


def test_nothing_counts_before_the_runner_is_ready():
    assert read(begin("a")).flaw


@pytest.mark.parametrize(
    "wire",
    [None, 1, "x", [], {}, {"int": 1}, {"int": "1", "str": "x"}, {"array": {}}, {"evil": "x"}],
    ids=str,
)
def test_a_value_that_cannot_be_read_is_unsupported_and_costs_nothing_else(wire):
    reader = read(READY, begin("a"), check("a", "n", wire), check("a", "m", encode(2)), done("a"))
    first, second = reader.run("finished").messages
    assert isinstance(first.value, Unsupported)
    assert second.value == 2
    assert not reader.flaw


def test_without_outputs_whatever_comes_as_output_is_left_out():
    job = Job(JOB.cells, outputs=False)
    reader = read(READY, begin("a"), stream("a", "secret"), stream("a", [1]), done("a"), job=job)
    assert not reader.flaw
    assert reader.run("finished").cells["a"].outputs == ()


def test_what_follows_the_last_frame_is_ignored():
    frames = [READY, begin("a"), done("a"), begin("b"), done("b"), END]
    reader = read(*frames, b"garbage" * 1000)
    assert reader.finished
    assert not reader.flaw


def test_bytes_messages_and_outputs_are_counted():
    assert read(READY, begin("a"), stream("a", "x" * 2000), limits=Limits(pipe_bytes=1000)).flaw
    messages = [check("a", "n", encode(1))] * (MAX_MESSAGES + 5)
    reader = read(READY, begin("a"), *messages)
    assert reader.flaw
    assert len(reader.run("malformed").messages) == MAX_MESSAGES
    picture = output("a", output_type="display_data", data=PNG, metadata={})
    assert read(READY, begin("a"), *[picture] * 3000).flaw


def test_memory_stays_bounded_for_the_worst_frame():
    worst = raw(b'{"kind":"cell","cell":[' + b"[]," * ((MAX_FRAME - 100) // 3) + b"[]]}")
    tracemalloc.start()
    reader = read(READY, worst)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert reader.flaw
    assert peak < 12 * MAX_FRAME


def test_a_million_small_pieces_of_text_are_joined_in_linear_time():
    reader = Reader(JOB, Limits())
    reader.feed(write_frame(READY) + write_frame(begin("a")))
    piece = write_frame(stream("a", "x")) * 500
    for _ in range(100):
        reader.feed(piece)
    (joined,) = reader.run("died").cells["a"].outputs
    assert joined["text"] == "x" * 50_000


@given(st.binary(max_size=300))
def test_random_bytes_never_raise(data):
    read(READY, begin("a"), data)
    read(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "cell", "name", "value", "output", "state", "output_type"]),
            inner | st.sampled_from(["a", "cell", "check", "output", "done", "end", "stream"]),
            max_size=5,
        )
    ),
    max_leaves=8,
)


@given(JSON)
@settings(max_examples=300)
def test_random_frames_never_raise(content):
    read(READY, begin("a"), raw(json.dumps(content).encode("utf-8", "surrogatepass")))


@given(JSON)
def test_what_the_runner_writes_is_read_unchanged(content):
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    assert read_json(text.encode("utf-8", "replace")) == json.loads(text.encode("utf-8", "replace"))


@pytest.mark.parametrize("text", ['\\"', "\\\\", '"', "\\ud800 is only a text", "],[{", '\\\\"['])
def test_strings_full_of_syntax_are_only_strings(text):
    frame = json.dumps({"a": text * 50_000}, ensure_ascii=False).encode()
    assert read_json(frame) == {"a": text * 50_000}


def test_half_a_character_is_refused_where_it_is_one():
    with pytest.raises(FrameError):
        read_json(b'{"a":"\\uD83d"}')
    assert read_json('{"a":"😀é"}'.encode()) == {"a": "😀é"}


def test_of_a_check_that_the_job_names_two_messages_are_kept_and_of_others_none():
    job = Job(JOB.cells, checks=frozenset({("a", "one"), ("b", "two")}))
    wire = encode(list(range(100)))
    frames = [READY, begin("a"), *[check("a", "one", wire)] * 5, check("a", "two", wire)]
    frames += [*[check("a", f"n{number}", wire) for number in range(200)], done("a")]
    frames += [begin("b"), check("b", "two", encode(1)), check("b", "one", wire), done("b"), END]
    result = read(*frames, job=job).run("finished")
    assert [(m.cell, m.name) for m in result.messages] == [("a", "one")] * 2 + [("b", "two")]
    assert len(read(*frames).run("finished").messages) == 208  # who names none keeps all


def test_messages_that_are_not_kept_count_against_the_most_there_may_be():
    job = Job(JOB.cells, checks=frozenset())
    wire = encode(1)
    reader = read(READY, begin("a"), *[check("a", "x", wire)] * (MAX_MESSAGES + 1), job=job)
    assert reader.flaw == "more messages than one run may send"
    assert reader.run("malformed").messages == ()
