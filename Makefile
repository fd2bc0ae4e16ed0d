# Two commands: `make train` trains the four reference runs on the digits, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# PEP 517 throughout: a dependency of tf-models-official does not build through the older setup.py path.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint constraints.txt

.PHONY: setup train results tune lint test test-slow tpu-check clean

setup: $(VENV)/.installed

$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' || \
	  { echo "tfbigbatch needs Python 3.10 to 3.12; $(PYTHON) is $$($(PYTHON) -V). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo 'Installing the pinned set into $(VENV): about a minute, 2.5 GB on disk'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[test]'
	@touch $@

# The tests alone run other projects' optimizers beside ours.
$(VENV)/.installed-parity: $(VENV)/.installed
	@echo 'Installing the peers of tests/parity'
	$(INSTALL) --editable '.[test,parity]'
	@touch $@

train: setup
	$(BIN)/python tools/compare.py --model_dir=runs/digits

# The README's table: six runs at five seeds, about 5 minutes on 2 cores.
DIGITS := experiments/digits/lstm
results: setup
	$(BIN)/python tools/compare.py --model_dir=runs/results --seeds=0,1,2,3,4 --results=results/digits \
	  --configs=$(DIGITS)_small_batch.py,$(DIGITS)_naive.py,$(DIGITS)_legw.py,$(DIGITS)_lamb.py,$(DIGITS)_nesterov.py,$(DIGITS)_adamw.py

# How its recipes were tuned: 10 rates x 2 warm-ups x 3 seeds each, about half an hour.
tune: setup
	$(MAKE) tune-small_batch RATES=0.025,0.05,0.1,0.15,0.2,0.3,0.4,0.6,0.8,1.6 WARMUPS=0.0625,0.3125
	$(MAKE) tune-lamb RATES=0.005,0.01,0.02,0.04,0.06,0.08,0.12,0.16,0.24,0.32 WARMUPS=1,5
	$(MAKE) tune-nesterov RATES=0.1,0.2,0.4,0.8,1.2,1.6,2.4,3.2,4.8,6.4 WARMUPS=1,5
	$(MAKE) tune-adamw RATES=0.005,0.01,0.02,0.04,0.06,0.08,0.12,0.16,0.24,0.32 WARMUPS=1,5

tune-%: setup
	$(BIN)/python tools/tune.py --config=$(DIGITS)_$*.py --model_dir=runs/tune/$* --seeds=100,101,102 \
	  --learning_rates=$(RATES) --warmup_epochs=$(WARMUPS) --results=results/tuning/$*

# Style, likely bugs and types.
lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A process for each of two cores, each with one thread for its kernels; one that runs out of tests takes some of the
# other's.
test: $(VENV)/.installed-parity
	TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed-parity
	$(BIN)/python -m pytest -m slow

# Training steps compiled for TPU slices. Its first run installs libtpu, which is proprietary: docs/tpu.md.
tpu-check: $(VENV)/.installed-parity
	$(BIN)/python tools/tpu_check.py --install_only
	$(BIN)/python -m pytest -m slow tests/tpu

clean:
	rm -rf $(VENV) build *.egg-info runs
