"""What heads learn, over several seeds: `python -m benchmarks.heads`.

It trains the small models of the book, most of them for longer than its pages do, and prints the
tables: one head against three on the made-up language with equal parameters; what each head looks
at, and what is lost without it; the same without the scale; heads that copy, in one layer and in
two; a Vision Transformer on digits; a decoder on the course's own prose. The command fails when a
claim of a chapter does not hold with its margin. One thread; some minutes.

`--cells` prints instead what each cell that trains costs when a page is built.
"""

import argparse
import sys
from collections.abc import Callable
from statistics import mean

import torch

from benchmarks.training_cells import print_cells
from mha_lib.experiments import digits, writing
from mha_lib.experiments.grammar import (
    RELATIONS,
    GrammarModel,
    accuracy,
    attention_mass,
    train_grammar,
)
from mha_lib.experiments.induction import head_scores, train_copying

SEEDS = 5
# What the chapter rests on.
ADVANTAGE = 0.25  # of three heads over one, in accuracy
LOST = 0.4  # by the relation whose head is taken away, at least
KEPT = 0.7  # what the others still have, in the worst of five seeds
INDUCTION = 0.6  # the score that two layers reach, within so many seconds
SECONDS = 60
ONE_LAYER = 0.1  # what a single layer stays under
DIGITS = 0.85  # of the digits held out, by every seed; at chance it is 0.1
OVER_PAIRS = 0.15  # what a decoder gains over who knows the last letter alone
TABLES = ("heads", "copy", "scale", "digits", "writing")
WIDTHS = (16, 64, 256)  # d_k, with and without the scale
SCALED = 0.99  # what the widest heads reach with the scale in 200 steps
UNSCALED = 0.05  # what they stay behind without it, in the mean


def compare_heads(seeds: int, steps: int) -> list[str]:
    """One head against three: accuracy, seconds; return what does not hold."""
    reached = {}
    flaws = []
    print(f"one head against three, {steps} steps, {seeds} seeds")
    print("h  parameters  accuracy mean  worst   best  CPU s")
    for h in (1, 3):
        runs, seconds = [], []
        for seed in range(seeds):
            model, way = train_grammar(h, seed=seed, steps=steps)
            runs.append(mean(accuracy(model)))
            seconds.append(way.cpu_seconds)
            if h > 1:
                flaws += _ablate(model, seed)
        reached[h] = runs
        count = sum(p.numel() for p in model.parameters())
        print(
            f"{h}  {count:10,}  {mean(runs):13.3f}  {min(runs):.3f}  {max(runs):.3f}  "
            f"{mean(seconds):5.1f}"
        )
    if min(reached[3]) < max(reached[1]) + ADVANTAGE:
        flaws.append(f"three heads are not {ADVANTAGE} above one: {reached}")
    return flaws


def _ablate(model: GrammarModel, seed: int) -> list[str]:
    """Take each head away in turn; return what does not hold."""
    masses = attention_mass(model)
    flaws = []
    for head, mass in enumerate(masses):
        keep = torch.arange(len(masses)) != head  # (h,)
        left = accuracy(model, head_mask=keep)
        job = max(range(len(RELATIONS)), key=mass.__getitem__)
        print(
            f"   seed {seed}, head {head + 1}: mass "
            + " ".join(f"{each:.2f}" for each in mass)
            + f" ({RELATIONS[job]}); without it "
            + " ".join(f"{each:.2f}" for each in left)
        )
        others = [each for relation, each in enumerate(left) if relation != job]
        if left[job] > 1 - LOST or min(others) < KEPT:
            flaws.append(f"seed {seed}: without head {head + 1} accuracies are {left}")
    return flaws


def leave_out_scale(seeds: int, widths: tuple[int, ...] = WIDTHS) -> list[str]:
    """Train with and without dividing by sqrt(d_k); return what does not hold.

    Queries and keys start with variance 1. The last column is the usual start, where they are
    smaller; it is told without a bound.
    """
    print(f"three heads of width d_k, 200 steps, {seeds} seeds: accuracy, worst - best")
    print(" d_k         scaled       unscaled  unscaled, usual start  CPU s of a run")
    reached: dict[tuple[int, bool], list[float]] = {}
    for d_k in widths:
        cells, seconds = [], 0.0
        for scaled, unit_variance in ((True, True), (False, True), (False, False)):
            runs = []
            for seed in range(seeds):
                model, way = train_grammar(
                    3,
                    seed=seed,
                    steps=200,
                    head_dim=d_k,
                    scaled=scaled,
                    unit_variance=unit_variance,
                )
                runs.append(mean(accuracy(model, scaled=scaled)))
                seconds += way.cpu_seconds / seeds / 3
            if unit_variance:
                reached[d_k, scaled] = runs
            cells.append(f"{min(runs):.3f} - {max(runs):.3f}")
        print(f"{d_k:4}  {cells[0]}  {cells[1]}  {cells[2]:>21}  {seconds:14.1f}")
    widest = widths[-1]
    with_it, without = reached[widest, True], reached[widest, False]
    flaws = [] if min(with_it) >= SCALED else [f"d_k={widest} with the scale: {with_it}"]
    if mean(without) > mean(with_it) - UNSCALED:
        flaws.append(f"d_k={widest} without the scale: {without}")
    return flaws


def copy(seeds: int) -> list[str]:
    """Heads that copy, in one layer and in two; return what does not hold."""
    flaws = []
    print(f"heads that copy, {seeds} seeds")
    print("layers  seed  induction  one back  accuracy  step  CPU s")
    for layers in (2, 1):
        for seed in range(seeds):
            model, way = train_copying(layers, seed=seed)
            scores = head_scores(model)
            best, back = max(scores.induction[-1]), max(scores.previous[0])
            step = next((p.step for p in way.curve if p.scores[0] > INDUCTION), None)
            print(
                f"{layers:6}  {seed:4}  {best:9.2f}  {back:8.2f}  {scores.accuracy:8.2f}  "
                f"{step or '-':>4}  {way.cpu_seconds:5.1f}"
            )
            if layers == 2 and (best < INDUCTION or way.cpu_seconds > SECONDS):
                flaws.append(f"two layers, seed {seed}: {best:.2f} in {way.cpu_seconds:.0f} s")
            if layers == 1 and best > ONE_LAYER:
                flaws.append(f"one layer, seed {seed}: {best:.2f}")
    return flaws


def read_digits(seeds: int) -> list[str]:
    """A Vision Transformer on digits: accuracy on those held out; return what does not hold."""
    print(f"digits, 400 steps, {seeds} seeds: accuracy on those held out")
    print("seed  accuracy  CPU s")
    flaws = []
    for seed in range(seeds):
        model, way = digits.train_digits(seed=seed)
        reached = digits.accuracy(model)
        print(f"{seed:4}  {reached:8.3f}  {way.cpu_seconds:5.1f}")
        if reached < DIGITS:
            flaws.append(f"digits, seed {seed}: {reached:.3f}")
    return flaws


def write(seeds: int) -> list[str]:
    """A decoder on the course's prose: letters foretold; return what does not hold."""
    pairs = writing.pair_accuracy()
    print(f"writing, 400 steps, {seeds} seeds: letters foretold in the text held out")
    print(f"by the last letter alone: {pairs:.3f}")
    print("seed  accuracy  CPU s  and so it writes")
    flaws = []
    start = writing.spelled("attention lets each ")[None]  # (1, N)
    for seed in range(seeds):
        model, way = writing.train_writer(seed=seed)
        reached = writing.accuracy(model)
        draws = torch.Generator().manual_seed(0)
        text = writing.written(model.generate(start, 40, temperature=0.6, generator=draws)[0])
        print(f"{seed:4}  {reached:8.3f}  {way.cpu_seconds:5.1f}  {text}")
        if reached < pairs + OVER_PAIRS:
            flaws.append(f"writing, seed {seed}: {reached:.3f}, by pairs {pairs:.3f}")
    return flaws


def main(arguments: list[str] | None = None) -> None:
    """Train, print, and exit non-zero when a claim does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.heads",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many (default {SEEDS})")
    parser.add_argument("--steps", type=int, default=800, help="of the made-up language")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="these tables")
    parser.add_argument("--cells", action="store_true", help="what the pages' cells cost instead")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.steps < 100:
        parser.error("give 1 seed or more, and 100 steps or more")
    torch.set_num_threads(1)
    if options.cells:
        return print_cells()
    seeds = options.seeds
    tables: dict[str, Callable[[], list[str]]] = {
        "heads": lambda: compare_heads(seeds, options.steps),
        "copy": lambda: copy(seeds),
        "scale": lambda: leave_out_scale(seeds),
        "digits": lambda: read_digits(seeds),
        "writing": lambda: write(seeds),
    }
    flaws = [flaw for name in options.only for flaw in tables[name]()]
    if flaws:
        sys.exit("benchmarks.heads:\n" + "\n".join(flaws))


if __name__ == "__main__":
    main()
