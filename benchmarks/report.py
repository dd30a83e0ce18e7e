"""Whether results are equal, what was measured, and which bounds were missed.

No measurement itself: `benchmarks.attention` uses it, and of it `benchmarks.site` the Report.
"""

import json
import sys
from collections.abc import Mapping

import torch
from torch import Tensor

from benchmarks.race import Race


def wrongness(results: Mapping[str, tuple[Tensor, ...]], right: str) -> str:
    """Say whose results are not those of `right`; "" where all are.

    >>> wrongness({"a": (torch.ones(1),), "b": (torch.zeros(1),)}, right="a")
    'b is wrong: its result 1 of 1 differs from that of a by 1.0'
    """
    for name, result in results.items():
        for number, (one, other) in enumerate(zip(result, results[right], strict=True), 1):
            if one.shape != other.shape:
                return f"{name} is wrong: shape {tuple(one.shape)}, of {right} {tuple(other.shape)}"
            if not torch.allclose(one, other, rtol=1e-4, atol=1e-5):
                by = (one - other).abs().max().item()
                return (
                    f"{name} is wrong: its result {number} of {len(result)} differs from that of "
                    f"{right} by {by:.2}"
                )
    return ""


def in_bytes(size: float) -> tuple[float, str]:
    """Write a number of bytes with a unit that suits it.

    >>> in_bytes(1280), in_bytes(31_460_000)
    ((1.28, 'kB'), (31.46, 'MB'))
    """
    return (size / 1e6, "MB") if size >= 1e6 else (size / 1e3, "kB")


class Report:
    """What was measured, told as it comes, and what failed.

    >>> report = Report(as_json=False, holds_bounds=True)
    >>> report.tell("time", (1.5, "ms"), {"one": 1.0, "other": 1.2}, most=1.1)  # doctest: +ELLIPSIS
      time ... 1.5 ms  one 1.000 ...
      FAILED: time: other 1.200 is above 1.100
    """

    def __init__(self, as_json: bool, holds_bounds: bool) -> None:
        self.as_json = as_json
        self.holds_bounds = holds_bounds
        self.lines: list[dict[str, object]] = []
        self.failures: list[str] = []

    def say(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            print(text, flush=True)

    def fail(self, text: str) -> None:
        """Note a failure."""
        self.failures.append(text)
        self.say(f"  FAILED: {text}")

    def tell(
        self,
        what: str,
        value: tuple[float, str],
        figures: dict[str, float],
        most: float | None = None,
        note: str = "",
    ) -> None:
        """Tell our value and figures, such as ratios to peers, that may be `most` at most.

        The greatest decides: among ratios, that is the one to the best peer.
        """
        self.lines.append(
            {"what": what, "value": value, "figures": figures, "most": most, "note": note}
        )
        texts = "".join(f"  {f'{name} {figure:.3f}':14}" for name, figure in figures.items())
        bound = "" if most is None else f"at most {most:.3f}"
        self.say(f"  {what:37}{value[0]:>8.4g} {value[1]}{texts:64}  {bound:13}  {note}".rstrip())
        worst = max(figures, key=lambda name: figures[name])
        if self.holds_bounds and most is not None and figures[worst] > most:
            self.fail(f"{what}: {worst} {figures[worst]:.3f} is above {most:.3f}")

    def tell_race(self, what: str, race: Race) -> None:
        """Tell our time and the ratios to the peers, those with the same bound together."""
        note = f"{len(race.times)} rounds{', was close' if race.was_close else ''}"
        ms = 1000 * race.seconds(race.ours)
        for most in sorted(set(race.most.values())):
            ratios = {name: race.ratio(name) for name in race.most if race.most[name] == most}
            self.tell(what, (ms, "ms"), ratios, most, note)

    def finish(self, command: str, **about: str) -> None:
        """Print what is to be read by a program, and exit non-zero after a failure."""
        if self.as_json:
            print(json.dumps({**about, "results": self.lines, "failures": self.failures}, indent=1))
        if self.failures:
            sys.exit(f"{command}: failed:\n  " + "\n  ".join(self.failures))
