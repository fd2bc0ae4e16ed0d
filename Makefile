# Two commands: `make train` trains the four reference runs on the digits, `make test` passes the tests.
PYTHON ?= python3
# The line of TensorFlow, 2.20 or 2.21: each has its pinned set, and its own environment.
TENSORFLOW ?= 2.20
VENV ?= .venv$(if $(filter-out 2.20,$(TENSORFLOW)),-$(TENSORFLOW))
BIN := $(VENV)/bin
CONSTRAINTS := constraints$(if $(filter-out 2.20,$(TENSORFLOW)),-$(TENSORFLOW)).txt
# tf-models-official and tensorflow-addons work with TensorFlow 2.20 alone.
PEERS := $(if $(filter 2.20,$(TENSORFLOW)),parity,jax)
# PEP 517 throughout: a dependency of tf-models-official does not build through the older setup.py path.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 --constraint $(CONSTRAINTS)
VERSION_OF := -c 'import sys; print("Python %d.%d" % sys.version_info[:2])'

.PHONY: setup setup-hashed lock python train results pages tune lint test test-slow test-nightly fuzz docs notebooks wheel tpu-check audit clean

# The same pins with hashes.
HASHED := $(subst constraints,requirements-hashed,$(CONSTRAINTS))
VERIFIED := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation

setup: $(VENV)/.installed

# An environment that is there keeps its Python: another one that was asked for is an error.
python:
ifneq ($(origin PYTHON),file)
	@test ! -x $(BIN)/python || test "$$($(BIN)/python $(VERSION_OF))" = "$$($(PYTHON) $(VERSION_OF))" || \
	  { echo "$(VENV) has $$($(BIN)/python $(VERSION_OF)), not $$($(PYTHON) $(VERSION_OF)). Take another folder: make $(MAKECMDGOALS) PYTHON=$(PYTHON) VENV=.venv-$(notdir $(PYTHON))" >&2; exit 1; }
endif

constraints-%.txt:
	@echo "TENSORFLOW=$* has no pinned set; expected 2.20 or 2.21" >&2; exit 1

define SUPPORTED_PYTHON
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "tfbigbatch needs Python 3.11 to 3.13; $(PYTHON) is $$($(PYTHON) -V). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
endef

$(VENV)/.installed: setup.cfg pyproject.toml $(CONSTRAINTS) | python
	$(SUPPORTED_PYTHON)
	@echo 'Installing the pinned set into $(VENV): about a minute, 2.5 GB on disk'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[test]'
	@touch $@

# The tests alone run other projects' optimizers beside ours.
$(VENV)/.installed-parity: $(VENV)/.installed | python
	@echo 'Installing the peers of tests/parity'
	$(INSTALL) --editable '.[test,$(PEERS)]'
	@touch $@

# Every file is checked against its hash before anything of it runs. The whole set, so that `make test` and `make docs`
# take this environment as it is.
setup-hashed: $(HASHED) | python
	$(SUPPORTED_PYTHON)
	@echo 'Installing the pinned set, checked by its hashes, into $(VENV): 3 GB on disk'
	$(PYTHON) -m venv $(VENV)
	$(VERIFIED) --requirement requirements-hashed-build.txt
	$(VERIFIED) --requirement $(HASHED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.installed $(VENV)/.installed-parity $(VENV)/.installed-docs

# The hashes, as the package index states them.
SETS := constraints.txt constraints-2.21.txt constraints-build.txt constraints-audit.txt
lock: $(VENV)/.installed
	$(BIN)/python tools/lock.py $(SETS)

train: setup
	$(BIN)/python tools/compare.py --model_dir=runs/digits

# The digits' table: six runs at five seeds, about 5 minutes on 2 cores.
DIGITS := experiments/digits/lstm
results: setup
	$(BIN)/python tools/compare.py --model_dir=runs/results --seeds=0,1,2,3,4 --results=results/digits \
	  --configs=$(DIGITS)_small_batch.py,$(DIGITS)_naive.py,$(DIGITS)_legw.py,$(DIGITS)_lamb.py,$(DIGITS)_nesterov.py,$(DIGITS)_adamw.py

# The tables and pictures of README.md and docs/, from the files of results/.
pages: setup
	$(BIN)/python -m tools.pages

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

# The documentation site, in build/site. Offline once its packages are installed; a warning is an error. They read the
# package's source and import nothing of it: an environment of their own, 0.2 GB, or the one of setup-hashed.
DOCS := $(if $(wildcard $(VENV)/.installed-docs),$(VENV),.venv-docs)
.venv-docs/.installed-docs: setup.cfg constraints.txt
	$(SUPPORTED_PYTHON)
	@echo 'Installing the packages of the documentation site into .venv-docs: 0.2 GB on disk'
	$(PYTHON) -m venv .venv-docs
	$(PYTHON) -c 'import configparser; setup = configparser.ConfigParser(); setup.read("setup.cfg"); print(setup["options.extras_require"]["docs"])' > .venv-docs/requirements.txt
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement .venv-docs/requirements.txt
	@touch $@

docs: $(DOCS)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

# The notebooks of examples/, executed and stored with their output.
notebooks: $(VENV)/.installed
	$(BIN)/python examples/execute_notebooks.py

# The source distribution and the wheel, in dist/. The wheel is installed in a fresh environment, where its command has
# to work; that environment is removed again.
wheel: $(VENV)/.installed
	rm -rf dist build/fresh && mkdir -p build
	$(BIN)/python -m build --no-isolation --outdir dist . > build/wheel.log 2>&1 || { tail -30 build/wheel.log; exit 1; }
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS) dist/*.whl
	cd build/fresh && bin/tfbigbatch --version && bin/tfbigbatch --help > /dev/null && bin/python -c \
	  'import tfbigbatch; assert tfbigbatch.__file__.startswith("$(CURDIR)/build/fresh/"); tfbigbatch.LAMB'
	rm -rf build/fresh
	@ls dist

# A process for each of two cores, each with one thread for its kernels; one that runs out of tests takes some of the
# other's. Bytecode is kept whatever the environment says: the tests start a hundred processes that import the package.
test: $(VENV)/.installed-parity
	PYTHONDONTWRITEBYTECODE= TF_NUM_INTRAOP_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed-parity
	$(BIN)/python -m pytest -m slow

# Damaged files, in parts of some seconds; the same command goes on where one before it ended after MINUTES.
CASES ?= 100000
MINUTES ?= 60
fuzz: $(VENV)/.installed-parity
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/fuzz --fuzz_cases=$(CASES) --fuzz_minutes=$(MINUTES) \
	  --fuzz_results=results/reliability/fuzz

# The optimizers on Keras as it will be, by all their tests: keras-nightly in place of keras, in an environment of its own.
NIGHTLY := .venv-nightly
test-nightly:
	$(MAKE) $(NIGHTLY)/.installed-parity TENSORFLOW=2.21 VENV=$(NIGHTLY)
	$(NIGHTLY)/bin/python -m pip uninstall --quiet --yes keras keras-nightly
	$(NIGHTLY)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --pre --no-deps keras-nightly
	$(NIGHTLY)/bin/python -c 'import keras; print("Keras", keras.__version__)'
	TF_NUM_INTRAOP_THREADS=1 $(NIGHTLY)/bin/python -m pytest -m "slow or not slow" -n 2 --dist worksteal \
	  tests/optimizers tests/parity tests/utils

# Training steps compiled for TPU slices. Its first run installs libtpu, which is proprietary: docs/tpu.md.
tpu-check: $(VENV)/.installed-parity
	$(BIN)/python tools/tpu_check.py --install_only
	$(BIN)/python -m pytest -m slow tests/tpu

# Known vulnerabilities of the pinned sets, by pip-audit in an environment of its own. Needs a network; ends with 2 where
# a pin could not be looked up.
AUDIT := .venv-audit
$(AUDIT)/.installed: requirements-hashed-audit.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement $<
	@touch $@

audit: $(AUDIT)/.installed
	$(AUDIT)/bin/python tools/audit.py $(SETS)

clean:
	rm -rf $(VENV) .venv-docs $(AUDIT) $(NIGHTLY) build dist *.egg-info runs
