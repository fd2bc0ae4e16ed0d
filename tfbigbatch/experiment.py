"""Experiment files: the fields that each may set, and how one is read.

An experiment file is Python with a function `get_config()` that returns what `new` or
`variant_of` gave it, with fields changed. It is executed: run only files that you trust.
"""

from __future__ import annotations

import copy
import difflib
import glob
import importlib.util
import inspect
import json
import os
import traceback
import types
from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch import scaling, schedules, tasks
from tfbigbatch.errors import InputError, nearest

# The folder of the experiments that the package ships.
SHIPPED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experiments")
PRECISIONS = ("float32", "bfloat16", "float16")
# What may differ from one phase of a run to another; a name that ends in a dot means all fields in it.
PHASE_FIELDS = (
    "batch_size",
    "accumulation_steps",
    "duration",
    "schedule.",
    "data.",
    "evaluation_batch_size",
    "evaluate_every",
    "checkpoint_every",
    "log_every",
)


def new(task, *, model=None):
    """The fields of an experiment on `task`, at their defaults; fields cannot be added.

    `model` names the model, where the task has several. Durations are strings that name their unit:
    '40 epochs', '1000 steps', '50000 examples'.
    """
    config = ml_collections.ConfigDict(
        {
            "task": task,
            "seed": 0,
            # Examples in one update: per replica x accumulation x replicas.
            "batch_size": 32,
            "accumulation_steps": 1,
            # Logical CPUs of one machine in place of as many devices, where the number of replicas matters to what is
            # computed: Adasum, batch normalisation. 0: the devices that there are.
            "simulated_replicas": 0,
            "duration": "1 epochs",
            # The recipe as tuned at its own batch size; `rule` carries it to `batch_size`.
            "schedule": {
                "batch_size": 32,
                "learning_rate": 0.1,
                "warmup_epochs": 0.0,
                # In place of warmup_epochs where it is known otherwise: updates of its own batch size, as '3125 steps'.
                "warmup": "",
                "rule": "none",
                "decay": "linear",
                # Of the decays that take them; see `schedules.build`.
                "power": 2.0,
                "end": 0.0,
                "start": "0 epochs",
                "factor": 0.1,
                "every": "1 epochs",
                "staircase": True,
                "boundaries": (),
                "remain": 2 / 3,
                "interval": 0.0,
                # Of the warm-up: linear or exponential.
                "rise": "linear",
            },
            "optimizer": {"name": "momentum", "momentum": 0.9},
            # Watches the warm-up, and lowers the peak rate where it must; see docs/date.md.
            "date": {
                "enabled": False,
                # Of training examples; at most the examples of a replica's pass fit in its memory.
                "micro_batch_size": 64,
                "micro_batches": 8,
                # Whether the gradient noise may lower the peak, beside a blow-up.
                "use_noise": True,
                "highest_gain": 1.0,
                "blow_up": 1.5,
                "largest_update": 1.0,
                "safety": 0.5,
            },
            # What to do when the loss or a weight leaves the finite numbers; see docs/reliability.md.
            "divergence": {
                # Times that the run goes back to its last good checkpoint, and leaves out the batches since.
                "rollbacks": 0,
                # Of all rates, at each.
                "rate_factor": 0.5,
            },
            # What tells why and when a large batch loses accuracy, while the run goes on; see docs/instruments.md.
            "instruments": {
                # Of training examples, for all but the source 'steps'; as many as a replica's memory can hold at once.
                "probe": {"micro_batch_size": 64, "micro_batches": 8},
                # source: 'steps', the gradients of the micro-batches and replicas as they pass by, or 'probe', a fresh
                # one at each look. smoothing: the decay of the averages at a look.
                "noise_scale": {"enabled": False, "every": "50 steps", "source": "steps", "smoothing": 0.9},
                "sharpness": {
                    "enabled": False,
                    "every": "5 epochs",
                    "eigenvalues": 3,
                    "iterations": 30,
                    "trace_samples": 10,
                    "radius": 0.05,
                },
                # trust_ratio: LARS and LAMB then keep their layer_statistics.
                "layers": {"enabled": False, "every": "100 steps", "histograms": False, "trust_ratio": True},
                # At the end of the run: from the first weights to the last; surface_points: 0, or an odd number.
                "interpolation": {"enabled": False, "surface_points": 0},
            },
            "model": tasks.model_defaults(task, model),
            # The input pipeline's.
            "data": dict(tasks.get(task).data_defaults),
            "evaluation_batch_size": 256,
            # The held-out set that is measured: choose a recipe on 'valid' where the task has one.
            "evaluate_on": tasks.get(task).evaluates_on[0],
            "evaluate_every": "1 epochs",
            # The run ends with the first evaluation whose metric, the task's target, reaches this; 0.0: never.
            "stop_at_target": 0.0,
            "checkpoint_every": "1 epochs",
            "log_every": "10 steps",
            "keep_checkpoints": 2,
            # Whether training goes on while a checkpoint is written; see docs/reliability.md.
            "asynchronous_saving": False,
            # Histograms of the weights, in TensorBoard, at each evaluation.
            "histograms": False,
            # Updates in one call of the device's loop (Keras' steps_per_execution).
            "steps_per_execution": 1,
            # The whole step as one XLA computation: on one device; a TPU's always is.
            "jit_compile": False,
            # float32, bfloat16 or float16 (with loss scaling); variables stay float32.
            "mixed_precision": "float32",
            # Phases that follow each other in one run: each a dictionary of fields that differ from the config's own,
            # by dotted names, of those in PHASE_FIELDS: {"duration": "1563 steps", "schedule.learning_rate": 0.004}.
            "phases": (),
            # What --mlperf_log says of the submission.
            "mlperf": {
                "org": "tfbigbatch",
                "platform": "unnamed",
                "division": "closed",
                "status": "research",
            },
            # Operations with bitwise repeatable results; a resumed run ends in the same bits only with it.
            "deterministic": True,
        }
    )
    return config.lock()


def variant_of(file: str, base: str) -> ml_collections.ConfigDict:
    """The config of the experiment `base` in the same folder as `file`, to be changed.

    Use: `config = experiment.variant_of(__file__, "lstm_small_batch.py")`; `base` may carry an argument, "lamb.py:1k".
    """
    return load(os.path.join(os.path.dirname(os.path.abspath(file)), base))


def choose(
    config: ml_collections.ConfigDict, variants: Mapping[str, Mapping[str, Any]], name: str
) -> ml_collections.ConfigDict:
    """Sets the fields of one variant of a recipe; for an experiment file with an argument.

    Args:
      config: changed in place.
      variants: for each name that the argument may have, dotted fields and their values.
      name: the argument of the file.

    Raises:
      ValueError: there is no variant of that name.
    """
    if name not in variants:
        raise InputError(f"there is no variant {name!r}. {nearest(name, variants)}")
    for field, value in variants[name].items():
        holder, _, last = field.rpartition(".")
        (config[holder] if holder else config)[last] = value
    return config


def find(experiment: str) -> tuple[str, str | None]:
    """(path, argument) of an experiment or study: a path, or the name of one that the package ships.

    'experiments/bert/lamb.py:32k' is a path with an argument; 'bert/lamb:32k' and 'bert/lamb.py:32k' are the same by
    name. A path that exists is preferred to a name.
    """
    path, colon, argument = experiment.partition(":")
    candidates = [path]
    if not os.path.isabs(path):
        name = path if path.endswith(".py") else f"{path}.py"
        candidates += [os.path.join(SHIPPED, name), os.path.join(SHIPPED, name.removeprefix("experiments/"))]
    found = next((candidate for candidate in candidates if os.path.isfile(candidate)), path)
    return found, argument if colon else None


def shipped() -> list[str]:
    """Names of the experiments that the package ships, with their variants: 'bert/lamb:32k'. Executes their files."""
    names = []
    for path in sorted(glob.glob(os.path.join(SHIPPED, "*", "*.py"))):
        name = os.path.relpath(path, SHIPPED).removesuffix(".py")
        if not os.path.basename(path).startswith("study"):
            variants = getattr(_module(path, "config", ""), "VARIANTS", None)
            names += [f"{name}:{variant}" for variant in variants] if variants else [name]
    return names


def load(experiment: str) -> ml_collections.ConfigDict:
    """The config that an experiment file gives, locked.

    Args:
      experiment: its path or its name, with the file's argument behind a colon; see `find`.

    Raises:
      ValueError: there is no such file, it sets a field that does not exist or with a wrong type, takes no such
        argument, or has no `get_config`.
    """
    config = call(experiment, "get_config", flag="config", example="digits/lstm_legw")
    if not isinstance(config, ml_collections.ConfigDict):
        raise InputError(
            f"--config={experiment}: get_config() returned {type(config).__name__}; expected what experiment.new gave."
        )
    return config.lock()


def tuned_recipe(config, dataset_size):
    """The recipe of a config's schedule, at the batch size that it was tuned at.

    Args:
      dataset_size: examples in an epoch.

    Raises:
      ValueError: the schedule or the duration says something impossible.
    """
    schedule = config.schedule
    if schedule.decay not in schedules.DECAYS:
        raise InputError(f"schedule.decay={schedule.decay!r} is unknown. {nearest(schedule.decay, schedules.DECAYS)}")
    total_steps = schedules.to_steps(
        config.duration, name="duration", batch_size=config.batch_size, dataset_size=dataset_size
    )
    fields = {name: schedule[name] for names in schedules.DECAYS[schedule.decay] for name in names}
    warmup_epochs = schedule.warmup_epochs
    if schedule.warmup:
        if warmup_epochs:
            raise InputError(
                f"schedule.warmup={schedule.warmup!r} and schedule.warmup_epochs={warmup_epochs}: give one of the two."
            )
        warmup_steps = schedules.to_steps(
            schedule.warmup, name="schedule.warmup", batch_size=schedule.batch_size, dataset_size=dataset_size
        )
        warmup_epochs = warmup_steps * schedule.batch_size / dataset_size
    return scaling.Recipe(
        schedule.batch_size,
        schedule.learning_rate,
        warmup_epochs,
        epochs=total_steps * config.batch_size / dataset_size,
        decay={"name": schedule.decay, **fields},
        rise=schedule.rise,
    )


def phases(config):
    """The configs of a run's phases, in their order; one, of the config itself, where it names none.

    Raises:
      ValueError: a phase sets a field that does not exist, may not differ, or with a wrong type.
    """
    found = []
    for number, fields in enumerate(config.phases, 1):
        phase = copy.deepcopy(config)
        phase.phases = ()
        for name, value in fields.items():
            at = f"phases, phase {number}: {name}={value!r}"
            if not any(name == known or known.endswith(".") and name.startswith(known) for known in PHASE_FIELDS):
                raise InputError(f"{at}: the phases of a run may differ in {', '.join(PHASE_FIELDS)} only.")
            unknown = unknown_field(phase, name)
            if unknown:
                raise unknown
            holder, _, last = name.rpartition(".")
            try:
                (phase[holder] if holder else phase)[last] = value
            except TypeError as error:
                raise InputError(f"{at}: {_first_and_last_line(error)}") from None
        found.append(phase)
    return found or [config]


def call(experiment: str, function: str, *, flag: str, example: str) -> Any:
    """What a function of a Python file returns, called with the argument behind the colon where there is one.

    Args:
      experiment: the file's path or name, with its argument; see `find`.
      function: its name.
      flag: the command's flag that named the file, for errors.
      example: a file to suggest in errors.

    Raises:
      ValueError: there is no such file or function, it takes no argument, or it trips over a config's field.
    """
    path, argument = find(experiment)
    module = _module(path, flag, example)
    if not hasattr(module, function):
        raise InputError(f"--{flag}={experiment} has no function {function}(); see experiments/README.md.")
    found = getattr(module, function)
    if argument is not None and not inspect.signature(found).parameters:
        raise InputError(f"--{flag}={experiment}: {os.path.basename(path)} takes no argument; leave :{argument} out.")
    try:
        return found() if argument is None else found(argument)
    except InputError as error:
        if experiment in str(error):
            raise
        raise InputError(f"--{flag}={experiment}: {error}") from None
    except Exception as error:
        raise _of_file(error, path, flag) from None


def execute(experiment: str) -> None:
    """Executes an experiment or study file, for what it registers."""
    _module(find(experiment)[0], "config", "digits/lstm_legw")


def _module(path: str, flag: str, example: str) -> types.ModuleType:
    if not os.path.isfile(path):
        raise InputError(f"--{flag}={path}: no such file. {_suggestion(path, example)}")
    spec = importlib.util.spec_from_file_location("tfbigbatch_experiment", path)
    if spec is None or spec.loader is None:
        raise InputError(f"--{flag}={path} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except InputError:
        raise
    except SyntaxError as error:
        raise InputError(f"--{flag}={path} is not valid Python: {error}.") from None
    except Exception as error:
        raise _of_file(error, path, flag) from None
    return module


def _suggestion(path: str, example: str) -> str:
    """What to give in place of a file that does not exist: the nearest name that the package ships."""
    name = "/".join(path.removesuffix(".py").split("/")[-2:])
    close = difflib.get_close_matches(name, shipped(), 1, 0.7)
    return f"Did you mean {close[0]!r}?" if close else f"Give a file, or a name such as {example}."


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


def override(config, assignments):
    """Sets fields of `config` from texts 'field=value', with a dot before an inner field; types are kept.

    Raises:
      ValueError: a text is of another form, there is no such field, or the value is not of its type.
    """
    for assignment in assignments:
        name, given, text = assignment.partition("=")
        if not given:
            raise InputError(f"--override={assignment}: expected FIELD=VALUE, as batch_size=1024.")
        unknown = unknown_field(config, name)
        if unknown:
            raise unknown
        holder, _, last = name.rpartition(".")
        fields = config[holder] if holder else config
        kind = type(fields[last])
        try:
            fields[last] = _TYPES[kind](text)
        except (KeyError, ValueError):
            raise InputError(
                f"--override={assignment}: {name} is {fields[last]!r}; expected another {kind.__name__}."
            ) from None


_TYPES = {str: str, int: int, float: float, bool: lambda text: {"true": True, "false": False}[text.lower()]}


def completed(stored):
    """A stored plain config with the fields that came into being after it was written, at their defaults."""
    if stored.get("task") not in tasks.names():
        return stored
    # As JSON has them, with lists for tuples. The arguments of an optimizer are its own: those of the default one
    # say nothing of it.
    named = stored.get("model", {}).get("name") if tasks.get(stored["task"]).models else None
    defaults = json.loads(json.dumps(new(stored["task"], model=named).to_dict()))
    del defaults["optimizer"]

    def filled(given, known):
        missing = {name: value for name, value in known.items() if name not in given}
        inner = {
            name: filled(given[name], value)
            for name, value in known.items()
            if isinstance(value, dict) and isinstance(given.get(name), dict)
        }
        return {**given, **missing, **inner}

    return filled(stored, defaults)


def differences(config, other):
    """Lines 'field: a -> b' for each field that differs between two plain nested dictionaries."""
    one, two = flat(config), flat(other)
    missing = "(absent)"
    return [
        f"{name}: {one.get(name, missing)} -> {two.get(name, missing)}"
        for name in sorted({*one, *two})
        if one.get(name, missing) != two.get(name, missing)
    ]


def flat(nested, prefix=""):
    """A plain nested dictionary as one of dotted names to values."""
    found = {}
    for name, value in nested.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return found


def shrink(config):
    """Changes `config` to a run of seconds on fake data: a tiny model of the same structure."""
    smaller = tasks.get(config.task).smoke_model(config.model.to_dict())
    config.model.update({name: value for name, value in smaller.items() if name in config.model})
    config.accumulation_steps = min(config.accumulation_steps, 2)
    config.batch_size = 16 * config.accumulation_steps
    config.schedule.batch_size = config.batch_size
    config.schedule.warmup_epochs = min(config.schedule.warmup_epochs, 0.1)
    config.schedule.warmup = "1 steps" if config.schedule.warmup else ""
    config.schedule.start, config.schedule.every = "3 steps", "1 steps"
    config.schedule.boundaries = tuple(f"{number + 3} steps" for number in range(len(config.schedule.boundaries)))
    config.evaluation_batch_size = 16
    config.steps_per_execution = 2
    config.duration = "8 steps"
    # Two phases of the structure, whatever their durations.
    config.phases = tuple(
        {**{name: "1 steps" for name in fields if name == "schedule.warmup"}, "duration": "4 steps"}
        for fields in config.phases[:2]
    )
    config.evaluate_every = config.checkpoint_every = "4 steps"
    for name in ("noise_scale", "sharpness", "layers"):
        config.instruments[name].every = "4 steps"
    config.log_every = "2 steps"
    return config


def _of_file(error, path, flag):
    """The error for one that the code of a file met, with the line where."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    line = f", line {lines[-1]}" if lines else ""
    return InputError(f"--{flag}={path}{line}: {type(error).__name__}: {_first_and_last_line(error)}")


def _first_and_last_line(error):
    """An ml_collections message without the whole config that it prints in its middle."""
    text = str(error.args[0] if error.args else error).replace("\\n", "\n").strip().strip("'\"")
    lines = text.splitlines() or [type(error).__name__]
    first = lines[0].split(" Other fields present")[0]
    return f"{first} {lines[-1]}" if lines[-1].startswith("Did you mean") else first
