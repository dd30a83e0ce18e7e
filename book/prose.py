"""The chapters' English prose as plain text, which a small model learns to write on from.

`python -m book.prose` writes it to `mha_lib/experiments/prose.txt`. The file is committed and stays
as it is when a chapter is edited: else each edit would train the model anew. Its first line names
the commit whose chapters it was made from.
"""

import re
import subprocess
import sys
from pathlib import Path

from book.places import ROOT

CHAPTERS = "book/en"
FROZEN = ROOT / "mha_lib" / "experiments" / "prose.txt"
# What a sentence may be made of, in small letters.
SENTENCE = re.compile(r"[a-z ,'-]+[.?]")


def sentences(chapter: str) -> list[str]:
    """Return a chapter's plain sentences, in small letters.

    What is no prose is left out, and so are sentences with a number, a formula, a link or a code
    word in them.

    >>> sentences("# Title\\n\\nAttention *looks*. It has 3 heads. Why?")
    ['attention looks.', 'why?']
    """
    chapter = re.sub(r"\A---\n.*?\n---\n", "", chapter, flags=re.S)
    chapter = re.sub(r"^(`{3,}).*?^\1`*\s*$", "", chapter, flags=re.S | re.M)
    chapter = re.sub(r"^\$\$.*?\$\$", "", chapter, flags=re.S | re.M)
    chapter = re.sub(r"^[#|(].*$", "\n", chapter, flags=re.M)
    found = []
    for line in chapter.splitlines():
        plain = re.sub(r"[*]", "", re.sub(r"^- ", "", line.strip())).lower()
        found += [each for each in re.split(r"(?<=[.?:!]) ", plain) if SENTENCE.fullmatch(each)]
    return found


def prose(commit: str) -> str:
    """Return what the file holds: where it is from, then that commit's sentences."""

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
        ).stdout

    files = git("ls-tree", "--name-only", commit, f"{CHAPTERS}/").splitlines()
    texts = [git("show", f"{commit}:{file}") for file in sorted(files) if file.endswith(".md")]
    lines = list(dict.fromkeys(line for text in texts for line in sentences(text)))
    return "\n".join([f"{CHAPTERS} at {commit}, by python -m book.prose", *lines, ""])


def main(arguments: list[str]) -> None:
    """Freeze the chapters of a commit, the newest unless one is named."""
    named = arguments[0] if arguments else "HEAD"
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", f"{named}^{{commit}}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout.strip()
    text = prose(commit)
    Path(FROZEN).write_text(text, "utf-8")
    count = len(text.splitlines()) - 1
    print(f"{FROZEN.relative_to(ROOT)}: {count:,} sentences, {len(text):,} characters")


if __name__ == "__main__":
    main(sys.argv[1:])
