# `make demo` runs the bundled example, `make test` passes lint and tests; both set up .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXAMPLE := $(firstword $(wildcard examples/*/))
OUT ?= out/demo
SMK := Snakefile pipeline/rules

.PHONY: demo test lint format docs profile clean

demo: $(VENV)/.run
	$(BIN)/leakpath run $(EXAMPLE) --out $(OUT)
	@echo
	@echo "The report: $(abspath $(OUT))/$(notdir $(patsubst %/,%,$(EXAMPLE)))/report.html"

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check $(SMK)
	$(BIN)/snakemake --lint

format: $(VENV)/.dev
	$(BIN)/ruff check --fix --output-format concise .
	$(BIN)/ruff format .
	$(BIN)/snakefmt $(SMK)

# Write the generated pages and schemas anew; the tests fail when they are stale.
docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py --fix

# Where leakpath itself spends its time on the example, a file a stage for https://www.speedscope.app
profile: $(VENV)/.dev
	$(BIN)/python benchmarks/profile_run.py $(EXAMPLE) --out out/profile

clean:
	rm -rf out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leakpath needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml | $(VENV)/bin/python
	@echo "Installing leakpath into $(VENV); this takes a minute or two"
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable ".[dev]"
	@touch $@ $(VENV)/.run
