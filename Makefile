# Everything a fresh machine needs: each target creates .venv and installs pinned dependencies.
PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif
STAMP := .venv/.installed

.PHONY: demo test test-slow lint docs serve bench clean

demo: $(STAMP)  ## make, break and solve a fresco; pictures and report in demo/
	$(BIN)/reassembly demo --out demo --force

test: $(STAMP)  ## fast tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: $(STAMP)  ## browser tests, one at a time; then cluster and soak tests, and what the docs tell to type
	$(BIN)/python -m pytest -m slow tests/browser
	$(BIN)/python -m pytest -m slow -n 2 --dist loadfile --ignore=tests/browser --ignore=tests/docs
	$(BIN)/python -m pytest -m slow -n 2 --dist worksteal tests/docs

lint: $(STAMP)  ## formatter, linter, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(STAMP)  ## the documentation, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

serve: $(STAMP)  ## the workbench in a browser, on this machine only, with a painted puzzle
	$(BIN)/reassembly serve --demo

bench: $(STAMP)  ## timings and memory
	$(BIN)/python benchmarks/core.py
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/workbench.py

clean:
	rm -rf .venv site demo build dist

$(STAMP): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	$(BIN)/python -c "from pathlib import Path; Path('$(STAMP)').touch()"
