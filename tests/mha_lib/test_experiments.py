"""The small models that are trained for the chapter on heads that learn."""

import sys
from pathlib import Path

import pytest
import torch

from benchmarks import heads, training_cells
from mha_lib.experiments import grammar, induction
from mha_lib.experiments.grammar import GrammarModel, train_grammar
from mha_lib.experiments.induction import CopyModel, train_copying
from mha_lib.experiments.training import Point, Way, train


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_sentences_ask_for_the_words_that_the_rules_name() -> None:
    sentences = grammar.draw(50, generator())
    for words, markers, places in zip(*(each.tolist() for each in sentences), strict=True):
        assert sorted(markers) == list(range(8))
        kinds = [word // grammar.MEMBERS for word in words]
        assert len(set(words)) == 8
        for i, (previous, partner, governor) in enumerate(places):
            assert previous == max(i - 1, 0)
            assert partner != i
            assert kinds[partner] == kinds[i]
            role, clause = grammar.ROLES[markers[i] % 4], markers[i] // 4
            wanted = "subject" if role == "verb" else "verb"
            assert grammar.ROLES[markers[governor] % 4] == wanted
            assert markers[governor] // 4 == clause
    answers = sentences.answers()
    assert torch.equal(answers[:, 1:, 0], sentences.words[:, :-1])


@pytest.mark.parametrize(
    ("words", "markers", "message"),
    [
        ([0, 1, 4, 5], [0, 1, 2, 3], "8 tokens"),
        ([0, 1, 4, 5, 8, 9, 12, 13], [0, 0, 2, 3, 4, 5, 6, 7], "stands once"),
        ([0, 1, 2, 5, 8, 9, 12, 13], list(range(8)), "one partner"),
    ],
)
def test_what_is_no_sentence_is_refused(words: list[int], markers: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grammar.relate(torch.tensor([words]), torch.tensor([markers]))


@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6])
def test_every_number_of_heads_has_the_same_parameters(num_heads: int) -> None:
    assert sum(p.numel() for p in GrammarModel(num_heads).parameters()) == 16_608


def test_without_heads_a_word_knows_nothing_of_the_others() -> None:
    model = GrammarModel(3).eval()
    sentences = grammar.draw(1, generator())
    other = sentences.words.clone()
    other[0, 1:] = (other[0, 1:] + 8) % 32
    off = torch.zeros(3, dtype=torch.bool)
    logits = [model(words, sentences.markers, head_mask=off) for words in (sentences.words, other)]
    assert torch.equal(logits[0][0, 0], logits[1][0, 0])
    seeing = [model(words, sentences.markers) for words in (sentences.words, other)]
    assert not torch.allclose(seeing[0][0, 0], seeing[1][0, 0])


def test_without_the_scale_scores_are_as_many_times_larger() -> None:
    model = GrammarModel(3).eval()
    sentences = grammar.draw(2, generator())
    with torch.no_grad():
        unscaled = model(sentences.words, sentences.markers, scaled=False)
        model.attention.q_proj.weight *= model.attention.head_dim**0.5
        model.attention.q_proj.bias *= model.attention.head_dim**0.5
        torch.testing.assert_close(unscaled, model(sentences.words, sentences.markers))


def test_queries_and_keys_can_start_with_variance_1_however_wide() -> None:
    spreads = []
    for unit_variance in (True, False):
        torch.manual_seed(0)
        model = GrammarModel(3, head_dim=256, unit_variance=unit_variance)
        sentences = grammar.draw(64, generator())
        with torch.no_grad():
            steps = model.trace(sentences.words, sentences.markers)
        spreads.append((float(steps.q.std()), float(steps.k.std())))
    assert spreads[0] == pytest.approx((1.0, 1.0), abs=0.1)
    assert spreads[1] == pytest.approx((3**-0.5, 3**-0.5), abs=0.1)  # the usual start


def test_patterns_repeat_and_say_from_where_they_can_be_known() -> None:
    repeats = induction.draw(40, generator())
    assert repeats.periods.min() >= induction.SHORTEST
    assert repeats.periods.max() <= induction.LONGEST
    told = repeats.told()
    for tokens, period, known in zip(*(each.tolist() for each in (*repeats, told)), strict=True):
        letters = tokens[1:]
        assert tokens[0] == induction.START
        assert letters[period:] == letters[:-period]
        # Logits at place t say token t + 1, a letter whose forerunner has stood there before.
        assert known == [place > period for place in range(len(letters))]


def test_a_given_period_has_no_letter_twice() -> None:
    for pattern in induction.draw(20, generator(), period=9).tokens[:, 1:10].tolist():
        assert len(set(pattern)) == 9


def test_a_perfect_copier_scores_one_and_one_at_a_fixed_distance_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = CopyModel(num_layers=1)
    seen: dict[str, torch.Tensor] = {}

    class Trace:
        """Weights of a head that finds the letter after the last same one, and of a fixed one."""

        @property
        def weights(self) -> torch.Tensor:
            tokens = seen["tokens"]
            B, N = tokens.shape
            period = int((tokens[0, 2:] == tokens[0, 1]).nonzero()[0]) + 1
            weights = torch.zeros(B, 2, N, N)
            for place in range(N):
                weights[:, 0, place, max(place - period + 1, 0)] = 1.0
                weights[:, 1, place, max(place - 7 + 1, 0)] = 1.0
            return weights

    class Traced:
        def __init__(self, _: object) -> None:
            self.traces = {"layers.0": Trace()}

        def __enter__(self) -> dict[str, Trace]:
            return self.traces

        def __exit__(self, *_: object) -> None:
            return None

    def forward(tokens: torch.Tensor) -> torch.Tensor:
        seen["tokens"] = tokens
        return torch.zeros(*tokens.shape, induction.LETTERS)

    monkeypatch.setattr(model, "forward", forward)
    monkeypatch.setattr(induction, "traced", Traced)
    finds, fixed = induction.head_scores(model, count=4).induction[0]
    assert finds == pytest.approx(1.0)
    assert fixed == pytest.approx(0.0)
    assert induction.head_scores(model, count=4, periods=(7,)).induction[0][1] == pytest.approx(1.0)


@pytest.mark.parametrize("run", [train_grammar, train_copying], ids=["grammar", "copying"])
def test_training_follows_its_seed_and_leaves_torch_s_own_alone(run: object) -> None:
    before = torch.get_rng_state()
    models = [run(2, seed=seed, steps=3)[0] for seed in (0, 0, 1)]  # type: ignore[operator]
    assert torch.equal(before, torch.get_rng_state())
    states = [torch.cat([p.flatten() for p in model.parameters()]) for model in models]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


def test_training_computes_with_one_thread_and_gives_the_others_back() -> None:
    threads = torch.get_num_threads()
    seen: list[int] = []
    try:
        torch.set_num_threads(2)
        train_grammar(2, steps=1, progress=lambda *_: seen.append(torch.get_num_threads()))
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(threads)


def test_progress_is_told_and_the_learning_rate_rises_and_falls() -> None:
    layer = torch.nn.Linear(1, 1)
    told: list[tuple[int, int]] = []
    way = train(
        layer,
        lambda: layer(torch.ones(1, 1)).sum(),
        lambda: (0.0,),
        steps=20,
        learning_rate=0.1,
        warm_up=10,
        decay=True,
        every=10,
        progress=lambda done, steps: told.append((done, steps)),
    )
    assert told == [(step, 20) for step in range(1, 21)]
    assert [point.step for point in way.curve] == [10, 20]
    assert way.cpu_seconds > 0


@pytest.mark.parametrize(("terminal", "static", "shown"), [(True, "0", True), (True, "1", False)])
def test_who_waits_sees_a_bar_and_the_book_does_not(
    terminal: bool,
    static: str,
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MHA_STATIC", static)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    train_grammar(2, steps=2)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert ("training" in printed.err) == shown


def test_a_pipe_gets_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    train_grammar(2, steps=2)
    assert capsys.readouterr() == ("", "")


def test_the_first_step_that_reached_a_score_is_known() -> None:
    way = Way([Point(10, (0.2, 0.4)), Point(20, (0.9, 0.9))], 1.0)
    assert way.reached(0.3) == 10
    assert way.reached(0.5) == 20
    assert way.reached(0.95) is None


def test_the_cost_of_each_cell_that_trains_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter = """# Trained

```{code-cell} python
:tags: [hide-input]

from mha_lib.experiments.grammar import train_grammar
```

```{code-cell} python
model, way = train_grammar(2, steps=2)
print("not this")
```

```{code-cell} python
raise SystemExit("what comes after the last training is not run")
```
"""
    (tmp_path / "trained.md").write_text(chapter, "utf-8")
    (tmp_path / "other.md").write_text("# None\n", "utf-8")
    monkeypatch.setattr(training_cells, "CHAPTERS", tmp_path)
    monkeypatch.setenv("MHA_STATIC", "0")
    heads.main(["--cells"])
    _, cell, total = capsys.readouterr().out.splitlines()
    assert cell.endswith("trained: model, way = train_grammar(2, steps=2)")
    assert total.endswith("all of them")
    assert float(cell.split()[0]) == float(total.split()[0])


@pytest.mark.slow
def test_three_heads_learn_what_one_cannot_and_each_has_its_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert heads.compare_heads(seeds=1, steps=400) == []
    assert "16,608" in capsys.readouterr().out


def test_two_layers_copy_and_one_does_not() -> None:
    assert heads.copy(seeds=1) == []


def test_heads_that_only_look_some_way_back_score_nothing() -> None:
    """A single layer spreads its weight over where the letter may stand: 1/7, and no induction."""
    model, _ = train_copying(1, steps=100, every=100)
    assert max(abs(score) for score in induction.head_scores(model).induction[0]) < 0.05


@pytest.mark.slow
def test_wide_heads_stay_behind_without_the_scale() -> None:
    assert heads.leave_out_scale(seeds=1, widths=(256,)) == []


@pytest.mark.slow
def test_a_small_vision_transformer_reads_digits_and_a_small_decoder_foretells_letters() -> None:
    assert heads.read_digits(seeds=1) == []
    assert heads.write(seeds=1) == []


@pytest.mark.slow
def test_the_claims_hold_for_every_seed() -> None:
    heads.main(["--only", "heads", "copy"])
