# The commands people need; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
TORCH  := torch==2.13.0

.PHONY: help setup demo test test-all lint format clean
.DEFAULT_GOAL := help

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Create .venv and install the package with what demo and tests need

# Where no torch is present a pinned CPU-friendly build comes first: a looser request may pull gigabytes of CUDA.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' \
	  || $(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $(STAMP)

demo: setup  ## Show what adaptive tokenization does to a clip
	@$(BIN)/adaptok weights --fetch lpips-alex >/dev/null 2>&1 || echo "LPIPS cannot be fetched: no true scores this time"
	$(BIN)/adaptok demo

test: setup  ## Run the tests
	$(BIN)/python -m pytest -m 'not slow'

test-all: setup  ## Run the slow tests too
	$(BIN)/python -m pytest -o faulthandler_timeout=3600

lint: setup  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup  ## Rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## Remove what setup and tests made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
