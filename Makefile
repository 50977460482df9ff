# Two commands from a fresh clone: `make demo` and `make test`. Both keep their environment in .venv.
PYTHON ?= python3
BIN := .venv/bin
BUILT_FROM := pyproject.toml setup.py $(wildcard src/m3dphormer/attention/csrc/*)

.PHONY: demo test test-slow clean

demo: .venv/installed
	$(BIN)/m3dphormer train digits --seeds 3 --set epochs=100

test: .venv/installed-dev
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -m "not slow"

test-slow: .venv/installed-dev
	$(BIN)/pytest -m slow

clean:
	rm -rf .venv build src/*.egg-info

.venv/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "m3dphormer needs Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 2; }
	$(PYTHON) -m venv .venv
	touch $@

# torch first, at the pinned version: left to itself, pip may bring gigabytes of CUDA.
.venv/torch: .venv/created constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	touch $@

.venv/installed: .venv/torch $(BUILT_FROM)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/torch $(BUILT_FROM)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch .venv/installed $@
