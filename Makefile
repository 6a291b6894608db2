# What one does with this repository. Every target installs what it lacks, into .venv.
# Needs make, git and a Python of 3.11 or newer; `make PYTHON=/path/to/python` names another one.

BIN := .venv/bin

.PHONY: help test lint format demo recording bench fuzz clean

help:
	@echo 'make demo    watch the main job run in a scratch repository'
	@echo 'make test    the whole suite, with coverage and its bars'
	@echo 'make lint    style, types and the directions of imports'
	@echo 'make format  let the formatter rewrite what it may'
	@echo 'make recording  record the picture of the README anew'
	@echo 'make bench   measure; docs/performance.md says what the figures mean'
	@echo 'make fuzz    look for new counterexamples and kill 1,000 runs, for many minutes'
	@echo 'make clean   remove .venv and everything generated'

# A test that fails by chance is tried again, once in each process, and named: docs/decisions/0070.
SUITE := -n auto --dist worksteal --second-tries=1

test: .venv/installed-dev .venv/wheelhouse
	$(BIN)/python -m pytest $(SUITE) --cov --cov-report= --cov-report=json:.coverage.json
	$(BIN)/python tools/coverage_gates.py .coverage.json

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tools tests
	$(BIN)/lint-imports --no-logo

format: .venv/installed-dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

demo: .venv/installed
	$(BIN)/playbook demo

recording: .venv/installed
	$(BIN)/python tools/record_demo.py docs/demo.svg

bench: .venv/installed-dev
	$(BIN)/python benchmarks

fuzz: .venv/installed-dev
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n auto -m hypothesis --timeout=0
	CRASH_KILLS=1000 $(BIN)/python -m pytest -n auto --timeout=0 tests/test_crash.py
	CLAUDE_KILLS=200 $(BIN)/python -m pytest -n0 --timeout=0 tests/claude -k random_moments

clean:
	rm -rf .venv .coverage* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist

# A name on PATH may be a version manager's stand-in for a Python that is not there, and a
# distribution's Python may lack ensurepip: each is asked, and answers with its real path.
.venv/bin/python:
	@for name in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	  found=$$($$name -c 'import ensurepip, sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null) && break; \
	done; \
	if [ -z "$$found" ]; then echo 'No Python of 3.11 or newer with ensurepip is on PATH.' >&2; exit 1; fi; \
	echo "Making .venv with $$found"; \
	"$$found" -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# What the tests let pre-commit install our hooks from: they themselves have no network. Where it
# cannot be filled those tests are left out, and say so.
.venv/wheelhouse: .venv/bin/python pyproject.toml
	@rm -rf $@ $@-partly
	@if $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir $@-partly . hatchling; \
	then rm -f $@-partly/playbook_supervisor-* && touch $@-partly && mv $@-partly $@; \
	else echo 'The wheelhouse could not be filled.' >&2; fi

.venv/installed-dev: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch .venv/installed $@
