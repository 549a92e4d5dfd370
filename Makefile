# `make demo` and `make test` need only Python 3.11+, make and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_INSTALLED := $(VENV)/.installed-simulation
FLOWER_INSTALLED := $(VENV)/.installed-flower
TEST_INSTALLED := $(VENV)/.installed-test
BENCH_INSTALLED := $(VENV)/.installed-bench
# Each worker starts with a run of whole files, whose tests share what they make; one that is done early takes over some.
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal --durations=20

# Tests start hundreds of processes, and each would compile commonweal anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo federation quick test soak check bench pins clean
help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 20

$(VENV)/.installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "commonweal needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing commonweal[$*] into $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

demo: $(DEMO_INSTALLED) ## run a federation of five banks on built-in data, and report on it
	$(BIN)/commonweal run quickstart --out out/demo --overwrite

federation: $(FLOWER_INSTALLED) ## rehearse a federation on Flower on this machine: TLS, nginx, keys, a process for each member
	$(BIN)/commonweal flower rehearse examples/digits --out out/federation --overwrite

quick: $(TEST_INSTALLED) ## the tests that neither train nor start a process, in two minutes
	COMMONWEAL_TESTS=quick $(PYTEST) -rfE -m "not soak and not slow"

test: check ## lint, types, import rule, and every behaviour once
	$(PYTEST)

soak: $(TEST_INSTALLED) ## what takes long: storms of killed processes, thousands of random examples
	COMMONWEAL_TESTS=soak $(PYTEST) -m "soak or hypothesis"

check: $(TEST_INSTALLED) ## lint, format, types and the import rule
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(BENCH_INSTALLED) ## speed as ratios to a baseline of the same run; errors of the estimators
	@for question in benchmarks/bench_*.py; do echo "== $$question"; $(BIN)/python -m benchmarks.$$(basename $$question .py) || exit 1; done

pins: $(TEST_INSTALLED) ## write the versions installed now into constraints.txt
	@{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed "s/+cpu$$//"; } > constraints.new && mv constraints.new constraints.txt

clean: ## remove what make made
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
