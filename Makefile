# Two commands: `make train` trains the four reference runs on the digits, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# TensorFlow's own chatter at start-up; errors still show.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: setup train results test test-slow clean

setup: $(VENV)/.installed

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' || \
	  { echo "tfbigbatch needs Python 3.10 to 3.12; $(PYTHON) is $$($(PYTHON) -V). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo 'Installing the pinned set into $(VENV): about a minute, 2.5 GB on disk'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	@touch $@

train: setup
	$(BIN)/python tools/compare.py --model_dir=runs/digits

results: setup
	$(BIN)/python tools/compare.py --model_dir=runs/digits_seeds --seeds=0,1,2,3,4 --results=docs/results/digits \
	  --configs=experiments/digits/lstm_small_batch.py,experiments/digits/lstm_naive.py,experiments/digits/lstm_legw.py,experiments/digits/lstm_lamb.py,experiments/digits/lstm_nesterov.py,experiments/digits/lstm_adamw.py

test: setup
	$(BIN)/python -m pytest

test-slow: setup
	$(BIN)/python -m pytest -m slow

clean:
	rm -rf $(VENV) build *.egg-info runs
