#!/usr/bin/env bash
# Makes a fresh clone ready. `setup.sh` makes .venv with the locked packages;
# `setup.sh tests` also finds or installs what tests need: a browser, bubblewrap.
# Running it again, with the lock unchanged, installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# Debian packages, as root or by sudo without a question; else the one line to type.
apt_install() {
  local run=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      run=(sudo -n)
    else
      die "this needs: sudo apt-get install -y --no-install-recommends $*"
    fi
  fi
  command -v apt-get >/dev/null || die "no apt-get here; install these by your own means: $*"
  say "installing $* (apt-get)"
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.11 python3.12 python3.13 /usr/bin/python3; do
    if command -v "$candidate" >/dev/null && new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  die "Python 3.11 or newer is needed (nbgrader asks for it); found none. Set PYTHON=/path/to/python3.11"
}

make_venv() {
  [ -x .venv/bin/pip ] && .venv/bin/python -c '' 2>/dev/null && return
  local python
  python=$(find_python)
  say "making .venv with $("$python" --version)"
  # Debian ships Python without ensurepip unless python3-venv is there.
  "$python" -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
  rm -rf .venv
  "$python" -m venv .venv
}

install_lock() {
  local wanted stamp=.venv/.installed
  wanted=$(sed '/^\[tool\.ruff\]/q' pyproject.toml | cat requirements.txt - | sha256sum | cut -d' ' -f1)
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && return
  say "installing the locked packages (minutes the first time)"
  .venv/bin/pip install -qq --disable-pip-version-check -r requirements.txt
  echo "$wanted" >"$stamp"
}

# Prints the browser that tests will drive, or nothing.
find_browser() {
  .venv/bin/python - <<'PY'
import os, shutil
from playwright.sync_api import sync_playwright

path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if path is None:
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
print(path if path and os.path.exists(path) else "")
PY
}

install_browser() {
  [ -n "$(find_browser)" ] && return
  say "no browser found; asking Playwright for its own"
  if timeout 300 .venv/bin/playwright install chromium >/dev/null 2>&1 && [ -n "$(find_browser)" ]; then
    return
  fi
  apt_install chromium
  [ -n "$(find_browser)" ] || die "no chromium after apt-get install chromium; put one on PATH"
}

install_bubblewrap() { command -v bwrap >/dev/null || apt_install bubblewrap; }

make_venv
install_lock
if [ "${1:-}" = tests ]; then
  install_browser
  install_bubblewrap
fi
