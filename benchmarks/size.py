"""How large mha_lib is, without demos, experiments and pretrained: `python -m benchmarks.size`.

A library that one can learn from must stay short enough to read. Counted are statements, as
Python parses them, docstrings left out: a long call or message is one statement, however many
lines it takes. Beside them stand the lines that hold code. The command fails when there are more
than MOST statements.
"""

import ast
import sys
import tokenize
from io import StringIO
from pathlib import Path

import mha_lib

MOST = 2_000
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def statements(source: str) -> int:
    """Count the statements of a program, docstrings left out.

    >>> statements('def f(x):\\n    "Say it."\\n    return (\\n        x\\n    )')
    2
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(not is_text(node) for node in nodes)


def code_lines(source: str) -> int:
    """Count the lines that hold code, docstrings and comments left out.

    >>> code_lines('def f(x):\\n    "Say it."\\n\\n    return (\\n        x  # the same\\n    )')
    4
    """
    texts = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and is_text(node)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    return len({token.start[0] for token in tokens if token.type not in NO_CODE} - texts)


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is nothing but a text, as a docstring is."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def main() -> None:
    """Count, print, and exit non-zero when the library has grown too large."""
    root = Path(mha_lib.__file__).parent
    whole = lines = 0
    print("statements  lines  file")
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("widgets/", "experiments/", "pretrained/")):
            continue
        source = path.read_text("utf-8")
        own, own_lines = statements(source), code_lines(source)
        whole, lines = whole + own, lines + own_lines
        print(f"{own:10}  {own_lines:5}  {name}")
    print(f"{whole:10}  {lines:5}  all; aim at most {MOST:,} statements")
    if whole > MOST:
        sys.exit(f"benchmarks.size: {whole - MOST} statements too many")


if __name__ == "__main__":
    main()
