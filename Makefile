# Everything happens in .venv, which the first target that needs it makes; `make` alone lists the targets.
#
#   make run                                        the embedded models on the sample that the project ships
#   make run DATA=dir                               ... on the real data sets below dir
#   make run DATA=dir DATASETS=hatecheck,neobench   ... on some of them
#   make run STORE=file.db                          ... into another store than the default
#   make test PYTEST_ARGS="-k store -x"             some of the tests

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run run-llm setup serving-env test test-slow test-serving check check-format check-lint check-types check-imports check-shell format \
	benchmarks clean

BIN := .venv/bin
# -P keeps the top-level folders from being importable under their bare names (design/packaging.md).
PYTEST := $(BIN)/python -P -m pytest
# Tests need no annotations of their own; what they do with the package is checked.
TESTS_MAY := --allow-untyped-defs --allow-incomplete-defs --allow-untyped-calls --allow-untyped-decorators \
	--allow-any-generics

ifdef DATA
EXPERIMENT := configs/experiments/embedded.toml
STORE := embedded.db
else
EXPERIMENT := configs/experiments/quickstart.toml
STORE := quickstart.db
endif
# Recipes read these from the environment, so that blanks and quotes in them do no harm.
export DATA DATASETS EXPERIMENT STORE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile
	@sed -n 's/^#  /  e.g./p' Makefile

run: .venv/.ready-run ## ask the embedded models and print the study's tables (DATA=dir: on the real data sets)
	@code=0; \
	$(BIN)/hatevolution run "$$EXPERIMENT" --store "$$STORE" \
		$${DATA:+--data "$$DATA"} $${DATASETS:+--datasets "$$DATASETS"} || code=$$?; \
	[ $$code -le 1 ] || exit $$code; \
	$(BIN)/hatevolution score --store "$$STORE" || code=$$?; \
	printf '\nThe store: %s\n' "$$(realpath -- "$$STORE")"; \
	exit $$code

run-llm: .venv/.ready-run .venv-vllm/.ready ## ask a real small language model, served by vLLM on the CPU
	@code=0; \
	export HATEVOLUTION_VLLM_PYTHON="$(CURDIR)/.venv-vllm/bin/python" HATEVOLUTION_WEIGHTS="$(CURDIR)/.venv-vllm/weights"; \
	$(BIN)/hatevolution run configs/experiments/smollm.toml --store smollm.db || code=$$?; \
	[ $$code -le 1 ] || exit $$code; \
	$(BIN)/hatevolution score --store smollm.db || code=$$?; \
	printf '\nWhat broke the instruction: hatevolution audit --store smollm.db\n'; \
	exit $$code

serving-env: .venv-vllm/.ready ## make .venv-vllm with vLLM for the CPU and a small model (4 GB)

setup: .venv/.ready-dev ## make .venv with everything for development

test: .venv/.ready-dev ## run the tests
	@$(PYTEST) -m "not slow and not serving" $(PYTEST_ARGS)

test-slow: .venv/.ready-dev ## run the tests that take longer
	@$(PYTEST) -m "slow and not serving" $(PYTEST_ARGS)

test-serving: .venv/.ready-dev .venv-vllm/.ready ## run the tests with real servers of models, on the CPU
	@HATEVOLUTION_REQUIRE_SERVING=1 $(PYTEST) -m serving $(PYTEST_ARGS)

check: check-format check-lint check-types check-imports check-shell ## format, lint, types and layers of the code

check-format: .venv/.ready-dev
	@$(BIN)/ruff format --check .

check-lint: .venv/.ready-dev
	@$(BIN)/ruff check .

check-types: .venv/.ready-dev
	@$(BIN)/mypy
	@MYPYPATH=tests/support:benchmarks $(BIN)/mypy --explicit-package-bases $(TESTS_MAY) tests benchmarks

check-imports: .venv/.ready-dev
	@$(BIN)/lint-imports

check-shell:
	@sh -n tools/environment.sh && sh -n tools/serving_environment.sh && bash -n .ci/run

format: .venv/.ready-dev ## format the code and mend what ruff can mend
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

benchmarks: .venv/.ready-dev ## run the benchmarks, one after the other
	@for file in benchmarks/[!_]*.py; do \
		printf '\n== %s\n' "$$file"; $(BIN)/python "$$file" || exit; \
	done

clean: ## remove the environment, builds and caches; stores stay
	@rm -rf .venv .venv-vllm build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment whose Python is gone, or that was moved with its folder, is made anew.
ifneq ($(shell $(BIN)/python -c "" 2>/dev/null && cat .venv/.made-for 2>/dev/null),$(CURDIR))
.PHONY: .venv/.ready-run .venv/.ready-dev
endif

.venv/.ready-run .venv/.ready-dev: .venv/.ready-%: pyproject.toml tools/environment.sh
	@sh tools/environment.sh $*

ifneq ($(shell .venv-vllm/bin/python -c "" 2>/dev/null && cat .venv-vllm/.made-for 2>/dev/null),$(CURDIR))
.PHONY: .venv-vllm/.ready
endif

.venv-vllm/.ready: tools/serving_environment.sh tools/smollm_weights.py
	@sh tools/serving_environment.sh
