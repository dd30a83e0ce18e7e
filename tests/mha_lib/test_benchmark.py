"""The arithmetic by which `benchmarks.attention` judges, and a short run of it."""

import json
import statistics
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from benchmarks import attention, race
from benchmarks.attention_peers import contenders, output_of
from benchmarks.race import Race, interval, is_close, peak_bytes, rounds, slope
from benchmarks.report import Report, wrongness

sizes = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8, unique=True).filter(
    lambda sizes: max(sizes) > 1.5 * min(sizes)
)


@settings(max_examples=40)
@given(sizes, st.floats(-3.0, 3.0), st.floats(1e-3, 1e3))
def test_slope_is_the_power_of_a_power_law(lengths: list[float], power: float, factor: float):
    assert slope(lengths, [factor * n**power for n in lengths]) == pytest.approx(power, abs=1e-6)


@settings(max_examples=40)
@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=50))
def test_interval_holds_the_median(values: list[float]):
    least, most = interval(values)
    assert least <= statistics.median(values) <= most


def test_interval_narrows_with_more_values():
    few, many = ([1.0, 2.0, 3.0] * times for times in (1, 100))
    assert interval(few) == (1.0, 3.0)
    assert interval(many) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("ratios", "close"),
    [
        ([0.90] * 9, False),  # clearly reached
        ([1.07] * 9, True),  # only just missed
        ([1.20] * 9, False),  # clearly missed
        ([0.90, 1.00, 1.10], True),  # too few to know
        ([0.90] * 40 + [1.20] * 40, True),  # too far apart to know
    ],
)
def test_a_race_is_close_when_more_rounds_might_turn_it(ratios: list[float], close: bool):
    assert is_close(ratios, 1.05) is close


def test_a_close_race_lasts_longer():
    assert len(list(rounds(0.0, lambda: True))) == race.MORE * race.LEAST_ROUNDS
    assert len(list(rounds(0.0, lambda: False))) == race.LEAST_ROUNDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, float]]:
    """Give each call the seconds that stand here under its result's text."""
    seconds: dict[str, float] = {}
    monkeypatch.setattr(race, "seconds_of", lambda call, repeats, device: seconds[call()])
    monkeypatch.setattr(race, "calibrated", lambda call, device: 1)
    return seconds


def raced(seconds: dict[str, float], most: dict[str, float]) -> Race:
    """Run a race between contenders of which each returns its own name."""
    calls = {name: (lambda name=name: name) for name in seconds}
    one = Race(calls, "ours", most)
    one.run(0.0)
    return one


def test_ratios_are_taken_round_by_round(clock: dict[str, float]):
    one = Race({}, "ours", {"peer": 1.0})
    # The machine slows down after the peer has left: the median times are equal, the pace not.
    one.times = [{"ours": 1.0, "peer": 2.0}, {"ours": 2.0}, {"ours": 8.0}]
    assert one.seconds("ours") == one.seconds("peer") == 2.0
    assert one.ratio("peer") == 0.5


def test_who_is_clearly_beaten_leaves_after_the_first_round(clock: dict[str, float]):
    clock.update(ours=1.0, good=1.0, slow=3.0)
    one = raced(clock, {"good": 1.05, "slow": 1.05})
    assert len(one.ratios("slow")) == 1
    assert len(one.ratios("good")) > 1
    assert one.ratio("slow") == pytest.approx(1 / 3)


def test_only_those_whose_verdict_is_open_run_on(clock: dict[str, float]):
    clock.update(ours=1.0, near=0.95, far=1.5)
    one = raced(clock, {"near": 1.05, "far": 1.05})
    assert len(one.ratios("far")) == race.LEAST_ROUNDS
    assert len(one.ratios("near")) == race.MORE * race.LEAST_ROUNDS


def test_nobody_always_follows_the_same_one(clock: dict[str, float]):
    clock.update(ours=1.0, a=1.0, b=1.0)
    one = raced(clock, {"a": 1.0, "b": 1.0})  # close, so there are 24 rounds
    orders = [list(each) for each in one.times]
    assert one.was_close
    for name in clock:
        assert {order.index(name) for order in orders} == {0, 1, 2}


def test_a_missed_bound_is_a_failure_that_says_which(capsys: pytest.CaptureFixture[str]):
    report = Report(as_json=False, holds_bounds=True)
    report.tell("row time", (1.0, "ms"), {"one": 1.04, "other": 1.06}, 1.05)
    report.tell("row memory", (1.0, "MB"), {"one": 1.1}, 1.1)
    report.tell("row trace, memory", (1.0, "MB"), {"one": 9.0})
    assert report.failures == ["row time: other 1.060 is above 1.050"]
    with pytest.raises(SystemExit, match="row time: other"):
        report.finish("benchmarks.attention")


def test_a_quick_run_holds_no_bound_but_results_must_be_right():
    report = Report(as_json=True, holds_bounds=False)
    report.tell("row time", (1.0, "ms"), {"one": 9.0}, 1.05)
    report.finish("benchmarks.attention")
    report.fail(wrongness({"a": (torch.ones(2),), "b": (torch.ones(2) * 1.1,)}, right="a"))
    with pytest.raises(SystemExit, match="b is wrong"):
        report.finish("benchmarks.attention")


@pytest.mark.parametrize("other", [torch.zeros(3), torch.ones(2), torch.full((3,), torch.nan)])
def test_results_that_differ_are_wrong(other: Tensor):
    right = (torch.ones(3), torch.ones(3))
    assert wrongness({"a": right, "b": right}, right="a") == ""
    assert wrongness({"a": right, "b": (torch.ones(3), other)}, right="a").startswith("b is wrong")


def test_peak_memory_counts_what_is_held_at_once(device: str):
    x = torch.ones(1024, device=device)

    def three_at_once() -> tuple[Tensor, ...]:
        return (x + 1, x + 2, x + 3)

    def one_after_the_other() -> tuple[Tensor, ...]:
        for _ in range(3):
            y = x.exp()
            del y
        return (x.exp(),)

    peak, results = peak_bytes(three_at_once, device)
    assert 3 * 4096 <= peak < 3 * 4096 + 64  # the numbers 1, 2, 3 are tensors as well
    assert len(results) == 3
    assert peak_bytes(one_after_the_other, device)[0] == 4096


def test_peak_memory_sees_the_buffers_inside_a_kernel(device: str):
    x = torch.randn(64, 1000, device=device)
    peak, (values,) = peak_bytes(lambda: (x.sort(dim=0).values,), device)
    assert peak > values.nbytes


@pytest.mark.parametrize("causal_length", [None, 6])
def test_all_contenders_have_the_same_weights(causal_length: int | None, device: str):
    x = torch.randn(2, 6, 8, device=device)
    results = {
        name: (output_of(each.call(x)),)
        for name, each in contenders(8, 2, causal_length, device).items()
    }
    assert set(results) == {"ours", "trace", "fused", "torch", "torch+w", "textbook"}
    assert wrongness(results, right="textbook") == ""


@pytest.mark.slow
def test_a_quick_run(device: str, capsys: pytest.CaptureFixture[str]):
    threads = torch.get_num_threads()
    try:
        attention.main(["--quick", "--row", "tiny", "--json", "--device", device])
    finally:
        torch.set_num_threads(threads)
    report = json.loads(capsys.readouterr().out)
    assert report["failures"] == []
    assert len(report["results"]) == 3 * 4  # modes, each with time and memory, of ours and a trace
    for line in report["results"]:
        assert all(figure > 0 for figure in line["figures"].values())
