"""`python -m mha_lib`: what it prints, what it refuses, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mha_lib import MultiHeadAttention
from mha_lib.__main__ import main
from mha_lib.cost import MODELS, layer_cost, model_cost

ROOT = Path(__file__).parents[2]
LAYER = ["--embed-dim", "12", "--num-heads", "4", "--num-kv-heads", "2", "--head-dim", "5"]


def printed(capsys, *arguments: str) -> str:
    main(arguments)
    out, err = capsys.readouterr()
    assert err == ""
    return out


# --- cost ---


@pytest.mark.parametrize("name", MODELS)
def test_cost_of_a_model(capsys, name):
    out = printed(capsys, "cost", "--model", name)
    assert out.startswith(f"{name}: seq {MODELS[name].positions:,}, batch 1, float32")
    assert model_cost(name).table() in out
    assert MODELS[name].counted in out


def test_options_of_cost_reach_the_count(capsys):
    arguments = ["--model", "gpt3", "--seq", "1000", "--batch", "3", "--dtype", "float16"]
    cost = model_cost("gpt3", seq=1000, batch=3, bytes_per_number=2)
    assert cost.table() in printed(capsys, "cost", *arguments)


def test_cost_of_one_layer(capsys):
    out = printed(capsys, "cost", *LAYER, "--seq", "7")
    assert out.startswith(
        "One layer: embed_dim 12, num_heads 4, seq 7, batch 1, num_kv_heads 2, head_dim 5, float32"
    )
    assert layer_cost(12, 4, num_kv_heads=2, head_dim=5, seq=7).table() in out


@pytest.mark.parametrize("what", [["--model", "gpt3"], [*LAYER, "--seq", "2048"]])
def test_cost_as_json_has_the_numbers_of_the_table(capsys, what):
    found = json.loads(printed(capsys, "cost", *what, "--json"))
    table = printed(capsys, "cost", *what)
    for name in ("parameters", "forward_flops", "training_flops", "score_bytes", "kv_cache_bytes"):
        assert f" {found[name]:,} " in table, name
    assert (found["seq"], found["batch"]) == (2048, 1)
    assert (found["dtype"], found["bytes_per_number"]) == ("float32", 4)


def test_units_and_conventions_stand_under_the_table(capsys):
    out = printed(capsys, "cost", "--model", "gpt3")
    assert "1 kFLOP is 1,000 FLOPs, 1 KiB is 1,024 bytes" in out
    assert "2 for a multiplication and its addition" in out
    assert "all N * N scores, hidden or not" in out


# --- trace ---


def test_trace_prints_the_table_of_a_layer(capsys):
    layer = MultiHeadAttention(12, 4, num_kv_heads=2, head_dim=5)
    table = layer(torch.randn(3, 5, 12), trace=True).table()
    assert printed(capsys, "trace", *LAYER, "--batch", "3") == f"{table}\n"


def test_trace_by_itself_shows_a_layer_whose_sizes_all_differ(capsys):
    layer = MultiHeadAttention(8, 2)
    assert printed(capsys, "trace") == layer(torch.randn(1, 5, 8), trace=True).table() + "\n"


def test_trace_of_what_no_machine_holds(capsys):
    out = printed(capsys, "trace", "--embed-dim", "12288", "--num-heads", "96", "--seq", "1000000")
    assert "(1, 96, 1000000, 1000000)" in out


def test_trace_as_json(capsys):
    layer = MultiHeadAttention(12, 4, num_kv_heads=2, head_dim=5, dtype=torch.float64)
    trace = layer(torch.randn(1, 5, 12, dtype=torch.float64), trace=True)
    steps = json.loads(printed(capsys, "trace", *LAYER, "--dtype", "float64", "--json"))
    assert [step["name"] for step in steps] == list(trace.axes)
    for step in steps:
        tensor = getattr(trace, step["name"])
        assert tuple(step["shape"]) == tuple(tensor.shape)
        assert tuple(step["axes"]) == trace.axes[step["name"]]
        assert step["bytes"] == tensor.nbytes
        assert step["formula"]


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "required: command"),
        ("costs", "invalid choice: 'costs' (choose from 'cost', 'trace')"),
        ("cost --modle gpt3", "unrecognized arguments: --modle gpt3"),
        ("cost --model gpt4", "model='gpt4' is not known; use 'bert-base', "),
        ("cost --model gpt3 --num-heads 2", "gpt3 has its own num_heads; leave out either"),
        ("cost --model gpt3 --seq 4096", "seq=4096 is more than the 2048 positions"),
        ("cost --model gpt3 --seq 0", "--seq: 0 is not a whole number from 1 to"),
        ("cost --model gpt3 --seq many", "--seq: invalid whole_number value: 'many'"),
        (f"cost --embed-dim {10**200}", "is not a whole number from 1 to"),
        ("cost --embed-dim 10 --num-heads 3", "use 1, 2, 5 or 10 heads"),
        ("trace --embed-dim 10 --num-heads 3", "use 1, 2, 5 or 10 heads"),
        ("trace --num-kv-heads 3", "num_heads=2 is not divisible by num_kv_heads=3"),
        ("trace --batch -1", "--batch: -1 is not a whole number from 1 to"),
        ("trace --dtype int8", "invalid choice: 'int8' (choose from 'float16', "),
        (f"trace --seq {10**9} --batch {10**9}", "torch cannot count a tensor of these sizes"),
    ],
)
def test_what_is_refused_says_why(capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split())
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: python -m mha_lib")
    assert message in err.splitlines()[-1]


def test_the_greatest_sizes_are_counted(capsys):
    greatest = ["--embed-dim", "1000000000", "--seq", "1000000000", "--batch", "1000000000"]
    assert " EFLOP" in printed(capsys, "cost", *greatest)


# --- as a process ---


def run(*arguments: str, stdout: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mha_lib", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_as_a_command():
    process = run("trace", "--json", stdout=subprocess.PIPE)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)[-1]["shape"] == [1, 5, 8]


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="needs a system with SIGPIPE")
@pytest.mark.parametrize(
    "arguments", [("cost", "--model", "gpt3"), pytest.param(("--help",), marks=pytest.mark.slow)]
)
def test_a_pipe_that_nobody_reads_ends_without_a_word(arguments):
    process = run(*arguments, stdout=subprocess.PIPE)
    process.stdout.close()  # long before anything is printed
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == -signal.SIGPIPE
