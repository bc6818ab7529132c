# The commands people need; `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
TORCH  := torch==2.13.0
DATA   ?= videos
MODEL  ?= tiny
PAPER  := reconstruction ablation strategies metrics scaling latency generation figures

.PHONY: help setup demo test test-all paper paper-models lint format clean
.DEFAULT_GOAL := help

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Create .venv and install the package with what demo and tests need

# Where no torch is present a pinned CPU-friendly build comes first: a looser request may pull gigabytes of CUDA.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' \
	  || $(BIN)/python -m pip install -q $(TORCH)
	$(BIN)/python -m pip install -q -e '.[dev]'
	@touch $(STAMP)

demo: setup  ## Show what adaptive tokenization does to a clip
	$(BIN)/adaptok demo

test: setup  ## Run the tests
	$(BIN)/python -m pytest -m 'not slow'

test-all: setup  ## Run the slow tests too
	$(BIN)/python -m pytest -o faulthandler_timeout=3600

paper-models: setup  ## Train the models of the paper's tables on DATA into runs/paper; takes hours, goes on where it stopped
	$(BIN)/python benchmarks/paper/models.py --data $(DATA) $(MODELS)

# What compares models takes those of runs/paper, the rest MODEL. Further options: MODELS of the training, COMPARED of what
# compares with CausalTok, GENERATION (such as other data) and FIGURES of these scripts.
# A script whose models are not trained must not keep the others from running; its table then says so.
paper: setup  ## Measure the paper's tables and figures with MODEL and the models in runs/paper, on the videos of DATA
	@for name in $(PAPER); do \
	  case $$name in strategies|latency) more="--model $(MODEL)";; figures) more="--model $(MODEL) $(FIGURES)";; \
	    reconstruction|ablation) more="$(COMPARED)";; generation) more="$(GENERATION)";; *) more=;; esac; \
	  echo "== $$name $$(date +%T)"; \
	  $(BIN)/python benchmarks/paper/$$name.py --data $(DATA) $$more || echo "$$name: not measured"; done
	$(BIN)/python benchmarks/paper/results.py

lint: setup  ## Check format, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup  ## Rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## Remove what setup and tests made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
