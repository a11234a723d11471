# Everything sets itself up in .venv: plain venv and pip, no system packages.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q
# A recent pip first: that which comes with Python may take three times as long to find what to install.
SET_UP := $(PYTHON) -m venv .venv && sed -n '/^pip==/,/[^\\]$$/p' requirements.lock >.venv/pip.txt && $(PIP) -r .venv/pip.txt
# Every package is held against its hash, but torch, of which one version has builds for processors and for several GPUs:
# it comes first, by its version alone, as pip finds it for this machine. The project, a folder, has no hash and comes last.
INSTALL = $(PIP) --no-compile --no-deps -c constraints.txt torch && \
	$(BIN)/python tools/requirements.py $(1) >.venv/requirements.txt && \
	$(PIP) --no-compile --require-hashes -c requirements.lock -r .venv/requirements.txt && \
	$(PIP) --no-compile --no-deps --no-build-isolation -e .
# As pip does, on all cores; not what is seldom or never imported: Python compiles that when it is.
SELDOM := /tests/|/testing/_internal/|/transformers/models/(?!auto/)|/pygments/lexers/
SELDOM := $(SELDOM)|/site-packages/(mypy|mypyc|networkx|pip|plotly|pymeeus|setuptools)/
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '$(SELDOM)' .venv/lib
JOBS ?= 2
# PKG: the tests of one package alone, for instance make test PKG=core
PKG ?=
# One thread for each worker, for they share the cores
PYTEST := OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -q
SPREAD := -n $(JOBS) --dist loadfile --no-loadscope-reorder
# Folder for two real models (2 GB), such as .real-models: test-all installs and uses them; none where this is empty
REAL_MODELS ?=
# REAL_ONLY: one of them alone, smollm2 or gemma3-270m
REAL_ONLY ?=
# The tests start many processes, which would compile the package anew where this is set
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-pythons test-slow lint format bench docs clean

.venv/installed: pyproject.toml constraints.txt requirements.lock tools/requirements.py
	$(SET_UP)
	$(call INSTALL,edit report sheets)
	-$(COMPILE)
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt requirements.lock tools/requirements.py
	$(SET_UP)
	$(call INSTALL,dev)
	-$(COMPILE)
	touch $@ .venv/installed

.venv/installed-docs: .venv/installed-dev
	$(call INSTALL,docs)
	touch $@

# The S3 server of the tests of stores: without it they are skipped
.venv-stores/installed: tests/store_server.lock
	$(PYTHON) -m venv .venv-stores
	.venv-stores/bin/python -m pip install --disable-pip-version-check -q --require-hashes -r tests/store_server.lock
	touch $@

demo: .venv/installed  ## probe the bundled model on bundled facts (under two minutes after set-up)
	$(BIN)/anachron demo --out demo-run

test: .venv/installed-dev  ## the tests that run on every change
	$(PYTEST) $(SPREAD) tests/$(PKG)

test-all: .venv/installed-dev  ## what make test leaves out: more families, real models, the trial, other random examples
	@$(MAKE) --no-print-directory .venv-stores/installed || echo "no S3 server: the tests of object stores will be skipped"
	models=; if [ -n "$(REAL_MODELS)" ] && $(BIN)/python tools/real_models.py --install "$(REAL_MODELS)" \
		$(if $(REAL_ONLY),--only $(REAL_ONLY)); then \
		models="$(abspath $(REAL_MODELS))"; fi; ANACHRON_REAL_MODELS="$$models" \
	$(PYTEST) -m '(full or trial or hypothesis) and not slow' --hypothesis-profile full --durations 20 $(SPREAD) \
		tests/$(PKG)

test-pythons:  ## the tests that need no torch, on other versions of Python where they are installed
	tools/test_pythons.sh python3.12 python3.13

# PART: one of pieces that take about equal time, for instance make test-slow PART=1/4
PART ?=
test-slow: .venv/installed-docs  ## the heavier checks; those of export need the extra export-test and are skipped without
	@$(MAKE) --no-print-directory .venv-stores/installed || echo "no S3 server: the tests of object stores will be skipped"
	{ $(call INSTALL,ray); } || echo "no Ray: its tests will be skipped"
	$(PYTEST) -m slow $(if $(PART),--part $(PART))

lint: .venv/installed-dev  ## formatting, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/installed-dev  ## measured claims, as JSON
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/editing.py
	$(BIN)/python benchmarks/analyses.py
	$(BIN)/python benchmarks/page.py
	$(BIN)/python benchmarks/wikidata.py
	$(BIN)/python benchmarks/handing.py
	$(BIN)/python benchmarks/updates.py
	$(BIN)/python benchmarks/whole.py

docs: .venv/installed-docs  ## the site, into site/, after the pages made from the code
	$(BIN)/python tools/make_reference.py
	$(BIN)/python tools/architecture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .venv-stores demo-run site build dist *.egg-info src/*.egg-info
