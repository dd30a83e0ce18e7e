"""The Python side of LetterWriter, the model behind it, and where its text comes from."""

import re
import subprocess

import pytest
import torch
import traitlets

from book import prose
from mha_lib.blocks import traced
from mha_lib.experiments import writing
from mha_lib.models import Decoder
from mha_lib.widgets import LetterWriter


@pytest.fixture(scope="module")
def model() -> Decoder:
    return writing.train_writer(steps=30)[0]


def test_the_text_is_what_the_command_makes_of_the_chapters_it_names() -> None:
    frozen = prose.FROZEN.read_text("utf-8")
    named = re.fullmatch(
        r"book/en at ([0-9a-f]{40}), by python -m book.prose", frozen.split("\n")[0]
    )
    assert named
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{named[1]}^{{commit}}"], cwd=prose.ROOT, capture_output=True
    )
    if known.returncode:
        pytest.skip("a shallow clone, or none, does not have that commit's chapters")
    assert prose.prose(named[1]) == frozen


def test_most_sentences_still_stand_in_the_chapters() -> None:
    chapters = (prose.ROOT / prose.CHAPTERS).glob("*.md")
    now = {each for path in chapters for each in prose.sentences(path.read_text("utf-8"))}
    _, *frozen = prose.FROZEN.read_text("utf-8").splitlines()
    kept = sum(sentence in now for sentence in frozen) / len(frozen)
    assert kept > 0.6, "the chapters have moved on: freeze them anew by `python -m book.prose`"


def test_what_is_no_plain_sentence_is_left_out() -> None:
    chapter = """---
kernelspec: python
---
# A title is none.

One sentence. Two, it's *well*-known! Is it? A {doc}`link` is none. Nor is $x$ one. Nor 3.

```{note}
Not this.
```

- **An item:** a sentence after it.

| Not | this. |
"""
    assert prose.sentences(chapter) == ["one sentence.", "is it?", "a sentence after it."]


def test_every_letter_of_the_text_is_known_and_none_is_both_learned_and_held_out() -> None:
    known, held_out = writing.load()
    assert len(known) > 30_000
    assert len(held_out) == pytest.approx(len(known) / 9, abs=2)
    text = writing.written(torch.cat([known, held_out]))
    assert text.split(". ")[0] == prose.FROZEN.read_text("utf-8").splitlines()[1][:-1]
    with pytest.raises(ValueError, match="knows no 'é'"):
        writing.spelled("café")


def test_with_and_without_a_cache_it_writes_the_same(model: Decoder) -> None:
    start = writing.spelled("each word ")[None]
    texts = [
        model.generate(
            start, 30, temperature=0.6, generator=torch.Generator().manual_seed(0), cached=cached
        )
        for cached in (True, False)
    ]
    assert torch.equal(*texts)


def test_it_tells_what_the_model_says(model: Decoder) -> None:
    demo = LetterWriter(model, text="Each word looks", query=8)
    assert (demo.result["text"], demo.result["query"]) == ("each word looks", 8)
    with torch.no_grad(), traced(model) as traces:
        chances = model(writing.spelled("each word looks")[None]).softmax(dim=-1)[0, 8]
    # Rounding to 8 bits is all that lies between the model and the page.
    torch.testing.assert_close(torch.tensor(demo.result["chances"]), chances, atol=6e-2, rtol=0)
    for mine, trace in zip(demo.result["weights"], traces.values(), strict=True):
        row = trace.weights[0, :, 8, :9]
        torch.testing.assert_close(torch.tensor(mine), row, atol=6e-2, rtol=0)


def test_a_query_beyond_the_text_is_the_last_letter(model: Decoder) -> None:
    demo = LetterWriter(model, text="word")
    assert demo.result["query"] == 3
    assert demo.fallback().count("<tr>") == 8


@pytest.mark.parametrize(
    "wrong", [{"text": ""}, {"text": "é"}, {"text": "a" * 49}, {"layer": 2}, {"head": 4}], ids=str
)
def test_other_values_are_refused(model: Decoder, wrong: dict[str, object]) -> None:
    with pytest.raises(traitlets.TraitError):
        LetterWriter(model, **wrong)
