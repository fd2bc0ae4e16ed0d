"""Experiment files: the fields that each may set, and how one is read.

An experiment file is Python with a function `get_config()` that returns what `new` or
`variant_of` gave it, with fields changed. It is executed: run only files that you trust.
"""

import importlib.util
import os

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError, nearest


def new(task):
    """The fields of an experiment on `task`, at their defaults; fields cannot be added.

    Durations are strings that name their unit: '40 epochs', '1000 steps', '50000 examples'.
    """
    config = ml_collections.ConfigDict(
        {
            "task": task,
            "seed": 0,
            # Examples in one update: per replica x accumulation x replicas.
            "batch_size": 32,
            "accumulation_steps": 1,
            "duration": "1 epochs",
            # The recipe as tuned at its own batch size; `rule` carries it to `batch_size`.
            "schedule": {
                "batch_size": 32,
                "learning_rate": 0.1,
                "warmup_epochs": 0.0,
                "rule": "none",
                "decay": "linear",
                "power": 2.0,
                "end": 0.0,
            },
            "optimizer": {"name": "momentum", "momentum": 0.9},
            "model": dict(tasks.get(task).model_defaults),
            "evaluation_batch_size": 256,
            # The held-out set that is measured: choose a recipe on 'valid' where the task has one.
            "evaluate_on": "test",
            "evaluate_every": "1 epochs",
            "checkpoint_every": "1 epochs",
            "log_every": "10 steps",
            "keep_checkpoints": 2,
            # Histograms of the weights, in TensorBoard, at each evaluation.
            "histograms": False,
            # Updates in one call of the device's loop (Keras' steps_per_execution).
            "steps_per_execution": 1,
            # float32, bfloat16 or float16 (with loss scaling); variables stay float32.
            "mixed_precision": "float32",
            # Operations with bitwise repeatable results; a resumed run ends in the same bits only with it.
            "deterministic": True,
        }
    )
    return config.lock()


def variant_of(file, base):
    """The config of the experiment `base` in the same folder as `file`, to be changed.

    Use: `config = experiment.variant_of(__file__, "lstm_small_batch.py")`.
    """
    return load(os.path.join(os.path.dirname(os.path.abspath(file)), base))


def load(path):
    """The config that an experiment file gives, locked.

    Raises:
      ValueError: there is no such file, it sets a field that does not exist or with a wrong type,
        or it has no `get_config`.
    """
    if not os.path.isfile(path):
        raise InputError(
            f"--config={path}: no such file. Give an experiment file, such as experiments/digits/lstm_legw.py."
        )
    spec = importlib.util.spec_from_file_location("tfbigbatch_experiment", path)
    if spec is None:
        raise InputError(f"--config={path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"--config={path} is not valid Python: {error}.") from None
    if not hasattr(module, "get_config"):
        raise InputError(f"--config={path} has no function get_config(); see experiments/README.md.")
    try:
        config = module.get_config()
    except (AttributeError, KeyError, TypeError) as error:
        raise InputError(f"--config={path}: {_first_and_last_line(error)}") from None
    if not isinstance(config, ml_collections.ConfigDict):
        raise InputError(
            f"--config={path}: get_config() returned {type(config).__name__}; expected what experiment.new gave."
        )
    return config.lock()


def unknown_field(config, path):
    """The error for a dotted `path` that `config` does not have, with the nearest that it has; or None."""
    here, names = config, path.split(".")
    for depth, name in enumerate(names):
        if not isinstance(here, ml_collections.ConfigDict) or name not in here:
            known = list(here.keys()) if isinstance(here, ml_collections.ConfigDict) else []
            inside = f" in {'.'.join(names[:depth])}" if depth else ""
            return InputError(f"--config.{path}: there is no field {name!r}{inside}. {nearest(name, known)}")
        here = here[name]
    return None


def differences(config, other):
    """Lines 'field: a -> b' for each field that differs between two plain nested dictionaries."""
    one, two = dict(_flat(config)), dict(_flat(other))
    missing = "(absent)"
    return [
        f"{name}: {one.get(name, missing)} -> {two.get(name, missing)}"
        for name in sorted({*one, *two})
        if one.get(name, missing) != two.get(name, missing)
    ]


def shrink(config):
    """Changes `config` to a run of seconds on fake data: a tiny model of the same structure."""
    config.model.update({k: v for k, v in tasks.get(config.task).smoke_model.items() if k in config.model})
    config.accumulation_steps = min(config.accumulation_steps, 2)
    config.batch_size = 16 * config.accumulation_steps
    config.schedule.batch_size = config.batch_size
    config.schedule.warmup_epochs = min(config.schedule.warmup_epochs, 0.1)
    config.evaluation_batch_size = 16
    config.steps_per_execution = 2
    config.duration = "8 steps"
    config.evaluate_every = config.checkpoint_every = "4 steps"
    config.log_every = "2 steps"
    return config


def _flat(nested, prefix=""):
    for name, value in nested.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _first_and_last_line(error):
    """An ml_collections message without the whole config that it prints in its middle."""
    text = str(error.args[0] if error.args else error).replace("\\n", "\n").strip().strip("'\"")
    lines = text.splitlines() or [type(error).__name__]
    first = lines[0].split(" Other fields present")[0]
    return f"{first} {lines[-1]}" if lines[-1].startswith("Did you mean") else first
