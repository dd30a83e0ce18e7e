# The two commands a newcomer needs: `make site` and `make test`.
# Both set up the clone first (scripts/setup.sh); a second run installs nothing.

SHELL := /bin/bash
PY := .venv/bin/python
PORT ?= 8000
SERVE ?= 1

.PHONY: help setup site serve build pdf test test-slow soak lint lock clean

help: ## say what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## make .venv with the locked packages
	@scripts/setup.sh

build: setup ## build every edition into _build/site
	@$(PY) -m book.build

pdf: build ## build, then print the whole course into _build/site/en/attention-course.pdf
	@scripts/setup.sh tests
	@$(PY) -m book.pdf

site: build ## build, then serve on http://localhost:8000 (SERVE=0 builds only; PORT=8001)
ifneq ($(SERVE),0)
	@$(PY) -m book.serve --port $(PORT)
endif

serve: setup ## serve what is built (PORT=8001)
	@$(PY) -m book.serve --port $(PORT)

test: ## set up, build, lint, and run the tests that finish in under 5 minutes
	@scripts/setup.sh tests
	@$(MAKE) --no-print-directory -j 2 build lint
	@$(PY) -m pytest -q -n 2 --dist loadscope -m "not slow"

test-slow: ## the other tests, about half an hour
	@scripts/setup.sh tests
	@$(PY) -m book.build
	@$(PY) -m pytest -q -n 2 --dist loadscope -m slow

soak: ## by hand: grade while processes are killed, the gradebook locked, the disk full
	@scripts/setup.sh tests
	@$(PY) -m tests.grading.soak $(SOAK)

lint: setup ## style and types
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

lock: setup ## compile requirements.txt anew from pyproject.toml's ranges
	@scripts/lock.sh

clean: ## remove everything that was built
	rm -rf _build
