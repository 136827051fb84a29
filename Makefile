# Two commands do everything on a fresh machine with Python 3.11+, git and make:
#
#   make run     set up .venv and co-train the built-in agents on this CPU
#   make test    set up .venv with the development tools, then check and test everything
#
# Variables: PYTHON (which interpreter makes .venv), VENV (where), ARGS (words handed on to
# `maporl run` or `pytest`).

VENV ?= .venv
ARGS ?=
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check install -c constraints.txt
# Named on the command line, torch is taken in exactly this version and build; as a dependency of
# something else, pip may choose another build of it, several GB larger.
TORCH := $(shell grep '^torch==' constraints.txt)
# Installed first, so that the project is built by the pinned tools and not by the newest ones.
BUILD := hatchling editables

.DEFAULT_GOAL := help
.PHONY: help setup run test lint types format clean
.DELETE_ON_ERROR:

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup: $(VENV)/.dev-stamp  ## Set up .venv with the development tools

run: $(VENV)/.run-stamp  ## Set up .venv, then co-train the built-in agents (ARGS="gsm8k" for others)
	$(BIN)/maporl run $(ARGS)

test: $(VENV)/.dev-stamp  ## Set up .venv, then lint, types and tests (ARGS="-k rewards" for some)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/.dev-stamp  ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev-stamp  ## Check types
	$(BIN)/mypy

format: $(VENV)/.dev-stamp  ## Mend style and formatting in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove .venv, caches and build folders; keeps runs/
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.venv-stamp:
	@test -n "$(PYTHON)" || { \
		echo "make: no Python 3.11 or newer found; install one, or name it: make run PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "make: $(PYTHON) is not Python 3.11 or newer; name one that is: make run PYTHON=/path/to/python3" >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "make: $(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2; \
		exit 1; }
	@echo "make: setting up $(VENV); the first time this takes some minutes"
	"$(PYTHON)" -m venv $(VENV)
	@touch $@

$(VENV)/.run-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(PIP) $(TORCH) $(BUILD)
	$(PIP) --no-build-isolation $(TORCH) -e .
	@touch $@

$(VENV)/.dev-stamp: $(VENV)/.venv-stamp pyproject.toml constraints.txt
	$(PIP) $(TORCH) $(BUILD)
	$(PIP) --no-build-isolation $(TORCH) -e '.[dev,tasks]'
	@touch $(VENV)/.run-stamp $@
