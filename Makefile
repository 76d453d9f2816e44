# One Makefile for people and for CI. `make help` lists the targets.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
# Debian packages: what the sandbox needs, and what only tests need.
SANDBOX := slurm-wlm munge gcc libc6-dev openssh-server
TESTS   := debootstrap libslurm-dev strace clustershell postgresql prometheus chromium chromium-driver \
           fonts-dejavu-core
# The torch that tests use. Elsewhere than on a machine with a CPU build at hand this is large:
# `make test TORCH=` goes without, and the tests that need it say that they are skipped.
TORCH   ?= torch==2.13.0
JOBS    ?= 2
INSTALL := bash slurm_integration/sandbox/install-packages.sh

.DEFAULT_GOAL := help
.PHONY: help venv system system-tests torch demo test test-gpu test-faults test-slurm-24 drill storm soak spank fuzz audit lint types contracts format bench bench-all accuracy docs wheel man deb schema clean

help:  ## What can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.done  ## The virtual environment at .venv

$(VENV)/.done: pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here: install it, or say make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

system:  ## Slurm, munge and a C compiler from Debian's packages (root only; nothing if there)
	@$(INSTALL) $(SANDBOX)

system-tests: system
	@$(INSTALL) $(TESTS)

demo: venv system  ## A real Slurm cluster of four simulated H100 nodes meets a lost GPU
	@$(BIN)/python -m slurm_integration.sandbox.demo

torch: venv
	@[ -z "$(TORCH)" ] || $(BIN)/python -c 'import torch' 2>/dev/null || \
	    $(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)'

test: venv torch system-tests  ## Every test, the real-Slurm ones included
	bash tests/tmp-in-memory.sh $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile $(ARGS)

drill: venv  ## Every fault at every stage on every node type (10 min; ARGS=--slurm on real Slurm)
	$(BIN)/flightcheck drill $(ARGS)

storm: venv  ## A thousand prologs fail in one second, a dozen kinds of days (2 min; ARGS='--size 200')
	$(BIN)/python -m slurm_integration.drill.storm $(ARGS)

spank:  ## The SPANK plugin at build/spank/flightcheck.so (SLURM_INCLUDE=folder of slurm/spank.h)
	@$(MAKE) --no-print-directory -C slurm_integration/spank

test-faults: venv torch system  ## Eleven faults of real torch jobs, under srun and torchrun (5 min)
	FLIGHTCHECK_FAULTS=all $(BIN)/pytest -s tests/epilog/hook/test_real_torch_faults.py

test-slurm-24: venv  ## The real-Slurm tests on Debian 13's Slurm 24.11 and Python 3.13 (root, 10 min)
	@$(INSTALL) debootstrap
	bash slurm_integration/sandbox/release/run-tests.sh trixie 3.13 $(CURDIR)/.sandbox/slurm-24 $(ARGS)

test-gpu: venv  ## The tests that need CUDA, beside nccl-tests where it is (FLIGHTCHECK_TORCH=python)
	$(BIN)/pytest -m gpu -s tests/healthcheck/allreduce

soak: venv  ## Ten thousand jobs on one node and a day of health runs: does anything grow? (25 min)
	$(BIN)/python -m benchmarks.soak $(ARGS)

fuzz: venv  ## Look for input that opens a door (FUZZ_SECONDS=600, DOORS="log wire")
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install --quiet \
	    --disable-pip-version-check atheris || echo "atheris does not install here: guided by chance"
	$(BIN)/python tests/fuzz/run.py --seconds $(or $(FUZZ_SECONDS),600) $(DOORS)

audit: venv  ## bandit; what it finds below high is ruff's S rules, which make lint holds
	@$(BIN)/bandit --version >/dev/null 2>&1 || \
	    $(BIN)/pip install --quiet --disable-pip-version-check 'bandit>=1.8'
	$(BIN)/bandit -q -r healthcheck prolog epilog slurm_integration -lll -s B701

lint: venv  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv  ## mypy --strict
	$(BIN)/mypy

contracts: venv  ## Which package may import which
	$(BIN)/lint-imports --no-cache

format: venv  ## Let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: venv system  ## Time and memory of a whole prolog (NHC=path compares with LBNL NHC)
	@rm -rf dist .bench && $(MAKE) --no-print-directory wheel
	@$(PYTHON) -m venv .bench && .bench/bin/pip install --quiet --disable-pip-version-check dist/flightcheck-*.whl
	@.bench/bin/python -m compileall -q .bench/lib
	FLIGHTCHECK_BIN=$(CURDIR)/.bench/bin $(BIN)/python -m benchmarks.prolog
	FLIGHTCHECK_BIN=$(CURDIR)/.bench/bin $(BIN)/python -m benchmarks.epilog

bench-all: bench torch system-tests  ## And the scanner, the fleet, the history and all_reduce (long)
	for one in scan sweep fleet_report history allreduce; do $(BIN)/python -m benchmarks.$$one || exit 1; done

accuracy: venv  ## Score the attribution of failures (FOLDER=path for other labelled logs)
	$(BIN)/python -m benchmarks.accuracy $(FOLDER)

docs: venv  ## Write the reference pages of docs/ anew, from the code
	@$(BIN)/python -m docs.generate

schema: venv  ## Write the JSON schema of the report anew
	$(BIN)/python -m healthcheck.report.schema

wheel: venv  ## The wheel, in dist/
	$(BIN)/python -m build --quiet --wheel --outdir dist .

man: venv  ## The man pages, in dist/man
	@$(BIN)/python -m docs.generate.man dist/man && ls dist/man/*

deb: venv  ## A Debian package with everything inside, in dist/ (no root, no network on the nodes)
	@rm -rf dist && $(MAKE) --no-print-directory wheel && bash contrib/debian/build.sh $(BIN)/python

clean:  ## Remove what make made
	rm -rf $(VENV) .bench dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz
