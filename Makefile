# Begin with `make tune`, which carries a recipe to 16 times its batch; `make train` trains the four reference runs on
# the digits, `make test` passes the tests.
PYTHON ?= python3
# The line of TensorFlow, 2.20 or 2.21: each has its pinned set, and its own environment.
TENSORFLOW ?= 2.20
VENV ?= .venv$(if $(filter-out 2.20,$(TENSORFLOW)),-$(TENSORFLOW))
BIN := $(VENV)/bin
PINS := requirements/tensorflow-$(TENSORFLOW).txt
PIP := python -m pip install --quiet --disable-pip-version-check
# Every file is checked against its hash before anything of it runs.
VERIFIED := $(PIP) --require-hashes --no-deps --no-build-isolation --requirement
VERSION_OF := -c 'import sys; print("Python %d.%d" % sys.version_info[:2])'

.DEFAULT_GOAL := tune
.PHONY: tune setup lock python train results pages trials lint test test-slow test-nightly fuzz docs notebooks wheel tpu-check audit clean

setup: $(VENV)/.installed

# An environment that is there keeps its Python: another one that was asked for is an error.
python:
ifneq ($(origin PYTHON),file)
	@test ! -x $(BIN)/python || test "$$($(BIN)/python $(VERSION_OF))" = "$$($(PYTHON) $(VERSION_OF))" || \
	  { echo "$(VENV) has $$($(BIN)/python $(VERSION_OF)), not $$($(PYTHON) $(VERSION_OF)). Take another folder: make $(MAKECMDGOALS) PYTHON=$(PYTHON) VENV=.venv-$(notdir $(PYTHON))" >&2; exit 1; }
endif

requirements/tensorflow-%.txt:
	@echo "TENSORFLOW=$* has no pinned set; expected 2.20 or 2.21" >&2; exit 1

$(VENV)/.installed: pyproject.toml requirements/build.txt $(PINS) | python
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "tfbigbatch needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) -V). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo 'Installing the pinned set, checked by its hashes, into $(VENV): two minutes, 3 GB on disk'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(VERIFIED) requirements/build.txt
	$(BIN)/$(VERIFIED) $(PINS)
	$(BIN)/$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# What renews and audits the pins, in an environment of its own.
TOOLS := .venv-tools
$(TOOLS)/.installed: requirements/tools.txt
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/$(VERIFIED) $<
	@touch $@

# The pins and their hashes, as the package index states them; UPGRADE=--upgrade for the newest versions.
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --no-header $(UPGRADE) --output-file
lock: $(TOOLS)/.installed
	$(COMPILE) requirements/tensorflow-2.20.txt pyproject.toml --extra all --extra jax > /dev/null
	echo 'tensorflow>=2.21' | $(COMPILE) requirements/tensorflow-2.21.txt pyproject.toml - --extra test --extra jax --extra docs > /dev/null
	printf 'setuptools>=77,<81\nsetuptools-scm<10\nwheel\n' | $(COMPILE) requirements/build.txt - > /dev/null
	printf 'pip-audit\nuv\n' | $(COMPILE) requirements/tools.txt - > /dev/null

# Known vulnerabilities of the pins, from the public OSV data. Needs a network.
audit: $(TOOLS)/.installed
	for pins in requirements/*.txt; do \
	  $(TOOLS)/bin/pip-audit --disable-pip --require-hashes --vulnerability-service=osv --requirement=$$pins || exit 1; done

DIGITS := digits/lstm

# A recipe carried from batch 32 to 512 for the price of three runs: about a minute on 2 cores.
tune: setup
	$(BIN)/tfbigbatch tune --config=$(DIGITS)_small_batch --config.batch_size=512 --budget=3 --model_dir=runs/tune

FOUR := $(DIGITS)_small_batch,$(DIGITS)_naive,$(DIGITS)_legw,$(DIGITS)_lamb
train: setup
	$(BIN)/tfbigbatch sweep --config=$(FOUR) --model_dir=runs/digits

# The digits' table: six runs at five seeds, about 5 minutes on 2 cores.
results: setup
	$(BIN)/tfbigbatch sweep --config=$(FOUR),$(DIGITS)_nesterov,$(DIGITS)_adamw --model_dir=runs/results \
	  --seeds=0,1,2,3,4 --results=results/digits

# The tables and pictures of README.md and docs/, from the files of results/.
pages: setup
	$(BIN)/python -m tools.pages

# How its recipes were tuned by hand: 10 rates x 2 warm-ups x 3 seeds each, about half an hour.
trials: setup
	$(MAKE) trials-small_batch RATES=0.025,0.05,0.1,0.15,0.2,0.3,0.4,0.6,0.8,1.6 WARMUPS=0.0625,0.3125
	$(MAKE) trials-lamb RATES=0.005,0.01,0.02,0.04,0.06,0.08,0.12,0.16,0.24,0.32 WARMUPS=1,5
	$(MAKE) trials-nesterov RATES=0.1,0.2,0.4,0.8,1.2,1.6,2.4,3.2,4.8,6.4 WARMUPS=1,5
	$(MAKE) trials-adamw RATES=0.005,0.01,0.02,0.04,0.06,0.08,0.12,0.16,0.24,0.32 WARMUPS=1,5

trials-%: setup
	$(BIN)/tfbigbatch sweep --config=$(DIGITS)_$* --model_dir=runs/trials/$* --seeds=100,101,102 \
	  --grid.schedule.learning_rate=$(RATES) --grid.schedule.warmup_epochs=$(WARMUPS) --results=results/tuning/$*

# Style, likely bugs and types.
lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, in build/site. Offline; a warning is an error.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file docs/site/mkdocs.yml

# The notebooks of examples/, executed and stored with their output.
notebooks: $(VENV)/.installed
	$(BIN)/python examples/execute_notebooks.py

# The source distribution and the wheel, in dist/. The wheel is installed in a fresh environment, where its command has
# to work; that environment is removed again.
wheel: $(VENV)/.installed
	rm -rf dist build/fresh && mkdir -p build
	$(BIN)/python -m build --no-isolation --outdir dist . > build/wheel.log 2>&1 || { tail -30 build/wheel.log; exit 1; }
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/$(VERIFIED) requirements/build.txt
	build/fresh/bin/$(VERIFIED) $(PINS)
	build/fresh/bin/$(PIP) --no-deps dist/*.whl
	cd build/fresh && bin/tfbigbatch --version && bin/tfbigbatch --help > /dev/null && bin/python -c \
	  'import tfbigbatch; assert tfbigbatch.__file__.startswith("$(CURDIR)/build/fresh/"); tfbigbatch.LAMB'
	rm -rf build/fresh
	@ls dist

# A process for each of two cores, each with one thread for its kernels; one that runs out of tests takes some of the
# other's. Bytecode is kept whatever the environment says: the tests start a hundred processes that import the package.
test: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow

# Damaged files, this many.
CASES ?= 100000
fuzz: $(VENV)/.installed
	FUZZ_CASES=$(CASES) $(BIN)/python -m pytest -q -m "slow or not slow" tests/fuzz

# The optimizers on Keras as it will be, by all their tests: keras-nightly in place of keras, in an environment of its own.
NIGHTLY := .venv-nightly
test-nightly:
	$(MAKE) $(NIGHTLY)/.installed TENSORFLOW=2.21 VENV=$(NIGHTLY)
	$(NIGHTLY)/bin/python -m pip uninstall --quiet --yes keras keras-nightly
	$(NIGHTLY)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --pre --no-deps keras-nightly
	$(NIGHTLY)/bin/python -c 'import keras; print("Keras", keras.__version__)'
	TF_NUM_INTRAOP_THREADS=1 $(NIGHTLY)/bin/python -m pytest -m "slow or not slow" -n 2 --dist worksteal \
	  tests/optimizers tests/parity tests/utils

# Training steps compiled for TPU slices. Its first run installs libtpu, which is proprietary: docs/tpu.md.
tpu-check: $(VENV)/.installed
	@test -n "$(ACCEPT_LIBTPU_TERMS)" || { echo "It installs libtpu, Google's proprietary compiler: https://cloud.google.com/terms. If you accept the terms: make tpu-check ACCEPT_LIBTPU_TERMS=1" >&2; exit 1; }
	$(BIN)/python -m tfbigbatch.tpu.environments | sh -e
	$(BIN)/python -m pytest -m slow tests/tpu

clean:
	rm -rf $(VENV) $(TOOLS) $(NIGHTLY) build dist *.egg-info runs
