# Every target creates the environment it needs; only Python >= 3.11 and make are required.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FLOOR_VENV ?= .venv-floor
DIST_VENV ?= .venv-dist
# Two worker processes use both cores; more BLAS threads in each would oversubscribe them.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST_FLAGS := -n 2 --dist loadgroup
# What depends on the versions of the dependencies: every estimator and basis, tables, clusters, other array libraries.
FLOOR_TESTS := sklearn forward ridge local_ridge thresholding evidence prefilter online search losses recipe \
	basis anova smooth missing levels table tables predictor dask array_api plots cli

FUZZ ?= --seconds 60
ASV ?= run --quick --python=same

.PHONY: help demo test test-all test-floor coverage fuzz chaos mutate load audit lint types docs wheel bench asv clean

help:
	@echo "make demo        fit, predict, export and report on a data set of scikit-learn"
	@echo "make test        run the fast tests, under four minutes on two cores"
	@echo "make test-all    run every test, also those marked slow and exhaustive"
	@echo "make test-floor  run what depends on versions on the oldest supported scikit-learn, SciPy and NumPy"
	@echo "make coverage    run all but the exhaustive tests and list the branches that they do not reach, in htmlcov"
	@echo "make fuzz        fit random problems for a minute; FUZZ='--seconds 600 --start 5000' resumes a longer run"
	@echo "make chaos       kill commands and Dask workers at random moments; every file must stay whole"
	@echo "make mutate      load 20,000 altered model files; make load  threads, loops and memory"
	@echo "make audit       pip check, and a search for known vulnerabilities of the dependencies"
	@echo "make lint types  ruff and import-linter, mypy"
	@echo "make docs        build the documentation in docs/_build/html and run every example"
	@echo "make wheel       build wheel and sdist in dist, install and use each in a fresh environment"
	@echo "make bench       run every benchmark, one JSON object per line"
	@echo "make asv         time the engine and the automatic estimators; ASV='continuous main' compares with main"

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "termwise needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[cli,plots,test]'
	touch $@

$(FLOOR_VENV)/.ready: pyproject.toml Makefile
	$(PYTHON) -m venv $(FLOOR_VENV)
	$(FLOOR_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(FLOOR_VENV)/bin/python -m pip install --quiet --editable '.[cli,plots,test]' 'numpy==2.0.*' 'scipy==1.14.*' 'scikit-learn==1.7.*' 'pandas==2.2.*' 'polars==1.17.*' 'dask==2025.4.*' 'distributed==2025.4.*'
	touch $@

$(VENV)/.dev-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

demo: $(VENV)/.ready
	$(BIN)/termwise demo

test: $(VENV)/.ready
	$(PYTEST) $(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not slow and not exhaustive" $(ARGS)

test-all: $(VENV)/.ready
	$(PYTEST) $(BIN)/python -m pytest $(PYTEST_FLAGS) $(ARGS)

test-floor: $(FLOOR_VENV)/.ready
	$(PYTEST) $(FLOOR_VENV)/bin/python -m pytest $(PYTEST_FLAGS) -m "not exhaustive" $(FLOOR_TESTS:%=tests/test_%.py) $(ARGS)

coverage: $(VENV)/.dev-ready
	$(BIN)/coverage erase
	$(PYTEST) $(BIN)/coverage run -m pytest $(PYTEST_FLAGS) -m "not exhaustive" $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report

fuzz: $(VENV)/.ready
	$(PYTEST) $(BIN)/python tests/reliability/fuzz.py $(FUZZ)

chaos: $(VENV)/.ready
	$(PYTEST) $(BIN)/python tests/reliability/chaos.py $(CHAOS)
	$(PYTEST) $(BIN)/python tests/reliability/chaos_dask.py $(CHAOS_DASK)

mutate: $(VENV)/.ready
	$(PYTEST) $(BIN)/python tests/reliability/mutate.py $(MUTATE)

load: $(VENV)/.ready
	$(PYTEST) $(BIN)/python tests/reliability/load.py $(LOAD)

audit: $(VENV)/.ready
	$(BIN)/python tests/reliability/audit.py

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.ready
	$(BIN)/mypy

docs: $(VENV)/.docs-ready
	$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html

wheel:
	rm -rf dist $(DIST_VENV)
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip install --quiet --upgrade pip build
	$(DIST_VENV)/bin/python -m build
	$(DIST_VENV)/bin/python tools/check_distributions.py

asv: $(VENV)/.dev-ready
	$(BIN)/asv machine --yes
	$(BIN)/asv $(ASV)

bench: $(VENV)/.ready
	$(BIN)/termwise bench all

clean:
	rm -rf $(VENV) $(FLOOR_VENV) $(DIST_VENV) .asv .coverage* htmlcov .tox .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist docs/_build docs/gallery docs/reference
