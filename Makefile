# Every target installs what it needs into .venv. Requires make, git and Python 3.11 or newer;
# `make PYTHON=/path/to/python` chooses the interpreter.

BIN := .venv/bin
# An installation makes the validator of playbooks out of these: docs/decisions/0266.
VALIDATOR := hatch_build.py playbook_supervisor/project/schemas/written/playbook.json

.PHONY: help test test-core test-long test-agents test-all coverage lint style types directions workflows format demo recording bench fuzz fleet-chaos fleet-soak site clean

help:
	@echo 'make demo       watch the main job run in a scratch repository'
	@echo 'make test       the tests, without the long families: a few minutes'
	@echo 'make test-core  the tests of the core alone, without the fleet, the inbox and the dialects'
	@echo 'make test-long  the long families: the real client, the whole walk, kills, a browser'
	@echo 'make test-agents  all clients of other agents, pinned, against a scripted model'
	@echo 'make coverage   the tests again, measured; keeps the figures, which are to be committed'
	@echo 'make test-all   both, the first measured, with all examples of the property tests'
	@echo 'make lint       style, types, the directions of imports, and workflows'
	@echo 'make format     apply the formatter and the automatic fixes'
	@echo 'make recording  make the animation and the pictures of the documents again'
	@echo 'make bench      run the benchmarks; docs/performance.md explains the figures'
	@echo 'make fuzz       whole families, new counterexamples and 1,000 kills, for many minutes'
	@echo 'make site       make pages of the documents, in site/'
	@echo 'make fleet-chaos  a fleet whose machines, database and remotes fail, for ten minutes'
	@echo 'make fleet-soak   the same with 500 sessions on ten workers, for an hour'
	@echo 'make clean      remove .venv and everything generated'

# Some containers set this; then each of a thousand processes would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

# A failed test is repeated once, at most one in each process: docs/decisions/0070.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal --second-tries=1
# `make test TESTS='not thorough'` runs the long families among the others, as .ci/run does: 0085.
TESTS := not long

test: .venv/installed-dev
	$(PYTEST) -m '$(TESTS)'

test-core: .venv/installed-dev
	$(PYTEST) -m 'not long' --ignore=tests/fleet --ignore=tests/inbox --ignore=tests/dialects

# The long families would add nothing to it. docs/decisions/0269 says when it is due.
coverage: export HYPOTHESIS_PROFILE := full
coverage: .venv/installed-dev
	$(PYTEST) -m 'not long' --cov --cov-report= --cov-report=json:coverage.json
	$(BIN)/python tools/coverage_gates.py coverage.json

test-long: .venv/installed-dev .venv/wheelhouse .venv/spec-kit .venv/newest-client .venv/older-fleet \
  .venv/node-runners .venv/agents
	$(PYTEST) -m 'long and not thorough'

# All pinned clients of other agents; `make test-long` drives the light ones of tests/clients/pins.toml.
# PLAYBOOK_CLIENTS names a folder that several checkouts share: docs/decisions/0306.
test-agents: .venv/installed-dev
	$(BIN)/python tests/clients/installed.py all
	$(PYTEST) tests/clients

test-all:
	$(MAKE) coverage
	$(MAKE) test-long

# `make -j lint` runs these at the same time.
lint: style types directions workflows

style: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-dev
	$(BIN)/mypy playbook_supervisor action tools tests hatch_build.py

directions: .venv/installed-dev
	$(BIN)/lint-imports --no-logo

workflows: .venv/installed-dev
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml docs/examples/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/zizmor --offline --quiet --no-progress action.yml .github docs/examples/*.yml

format: .venv/installed-dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# REPOSITORY_URL is where links to the code lead.
site: export NO_MKDOCS_2_WARNING := 1
site: .venv/mkdocs
	$</bin/mkdocs build --strict --quiet

demo: .venv/installed
	$(BIN)/playbook demo

recording: .venv/installed-dev
	$(BIN)/python tools/record_demo.py docs/demo.svg
	PYTHONPATH=tests:tools $(BIN)/python tools/picture_inbox.py docs

bench: .venv/installed-dev
	$(BIN)/python benchmarks

fuzz: .venv/installed-dev
	$(BIN)/python -m pytest -n auto -m thorough --timeout=0
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n auto -m hypothesis --timeout=0
	CRASH_KILLS=1000 $(BIN)/python -m pytest -n auto --timeout=0 tests/test_crash.py
	CRASH_SHARDS=48 $(BIN)/python -m pytest -n auto --timeout=0 tests/test_crash_loops.py tests/test_crash_trees.py
	CRASH_EVERY=1 $(BIN)/python -m pytest -n auto --timeout=0 tests/test_crash_settings.py \
	  tests/test_crash_branches.py tests/commands/test_discard.py tests/commands/test_init.py \
	  tests/commands/test_init_choices.py -k "kill or crash"
	FLEET_STRIDE=1 $(BIN)/python -m pytest -n auto --timeout=0 tests/fleet/test_crash_points.py
	CLAUDE_KILLS=200 $(BIN)/python -m pytest -n0 --timeout=0 tests/claude -k random_moments

# docs/decisions/0240-steps-and-git-are-the-judges.md explains the variables and the report.
fleet-chaos: export FLEET_MINUTES ?= 10
fleet-chaos: export PLAYBOOK_REQUIRE_POSTGRES := 1
fleet-chaos: .venv/installed-dev
	$(BIN)/python -m pytest -n0 --timeout=0 tests/fleet/test_chaos.py -k for_long

fleet-soak:
	$(MAKE) fleet-chaos FLEET_MINUTES=60 FLEET_SESSIONS=500 FLEET_WORKERS=10

clean:
	rm -rf .venv .coverage* coverage.json .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist site

# A name on PATH may be a version manager's shim for a Python that is not installed, and a
# distribution's Python may lack ensurepip. So each candidate is run, and prints its real path.
.venv/bin/python:
	@for name in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	  found=$$($$name -c 'import ensurepip, sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null) && break; \
	done; \
	if [ -z "$$found" ]; then echo 'No Python of 3.11 or newer with ensurepip is on PATH.' >&2; exit 1; fi; \
	echo "Making .venv with $$found"; \
	"$$found" -m venv .venv

.venv/installed: .venv/bin/python pyproject.toml $(VALIDATOR)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The wheels from which a test lets pre-commit install our hooks, because tests have no network.
# Where they cannot be downloaded, that test is skipped.
.venv/wheelhouse: .venv/bin/python pyproject.toml
	@rm -rf $@ $@-partly
	@if $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir $@-partly . fastjsonschema hatchling; \
	then rm -f $@-partly/playbook_supervisor-* && touch $@-partly && mv $@-partly $@; \
	else echo 'The wheelhouse could not be filled: one test will be skipped.' >&2; fi

# spec-kit, with which a test sets up a newcomer's project: docs/decisions/0131. It has an environment
# of its own, since its dependencies are many. Where it cannot be downloaded, that test is skipped.
.venv/spec-kit: .venv/bin/python Makefile
	@rm -rf $@
	@if $(BIN)/python -m venv $@ && \
	  $@/bin/python -m pip install --quiet --disable-pip-version-check 'specify-cli==1.2.3'; \
	then touch $@; \
	else rm -rf $@; echo 'spec-kit could not be installed: its tests will be skipped.' >&2; fi

# mkdocs has an environment of its own: nothing that we ship or test needs it.
.venv/mkdocs: .venv/bin/python Makefile
	@rm -rf $@
	@$(BIN)/python -m venv $@ && \
	  $@/bin/python -m pip install --quiet --disable-pip-version-check 'mkdocs-material>=9.6,<10' && touch $@

# A newer Claude Code than the pinned one, with which a few scenarios run, too. Its version is in `TESTED`
# of agents/claude.py. Where it cannot be downloaded, they are skipped.
.venv/newest-client: .venv/bin/python Makefile
	@rm -rf $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ \
	  'claude-agent-sdk==0.2.189' \
	|| { rm -rf $@; echo 'The newest Claude Code could not be installed: its tests will be skipped.' >&2; }

# The release before, whose workers a test lets share a database with ours. A shallow clone does not have it,
# and where its packages cannot be downloaded, that test is skipped.
OLDER_FLEET := c9754723
.venv/older-fleet: .venv/bin/python Makefile
	@rm -rf $@ && mkdir -p $@/source
	@git archive --output=$@/source.tar $(OLDER_FLEET) && tar -xf $@/source.tar -C $@/source && \
	  $(BIN)/python -m venv $@ && \
	  $@/bin/python -m pip install --quiet --disable-pip-version-check '$@/source[fleet]' \
	|| { rm -rf $@; echo 'The release before could not be installed: its tests will be skipped.' >&2; }

# vitest and jest, against which proofs are tried. Where they cannot be downloaded, those tests are skipped.
.venv/node-runners: .venv/bin/python Makefile
	@rm -rf $@ && mkdir -p $@
	@npm install --silent --no-audit --no-fund --prefix $@ vitest@4 jest@30 >/dev/null 2>&1 \
	|| { rm -rf $@; echo 'vitest and jest could not be installed: their tests will be skipped.' >&2; }

# The clients of other agents that every long run drives. Where they cannot be downloaded, their tests are skipped.
.venv/agents: .venv/bin/python tests/clients/pins.toml
	@mkdir -p $@ && $(BIN)/python tests/clients/installed.py && touch $@

.venv/installed-dev: .venv/bin/python pyproject.toml $(VALIDATOR)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch .venv/installed $@
