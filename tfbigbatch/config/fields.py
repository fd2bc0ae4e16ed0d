"""The fields of an experiment, with their defaults and what they mean."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError

_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(seconds?|minutes?|hours?)\s*", re.IGNORECASE)

Config = ml_collections.ConfigDict
"""The config of an experiment, as `new` gives it."""

AUTO = "auto"
"""The faster of float32 and bfloat16 on the devices of the run; `training.precision` chooses."""
PRECISIONS = ("float32", "bfloat16", "float16", AUTO)
"""The values of `mixed_precision`."""

_BATCH: dict[str, Any] = {
    "seed": 0,
    # Examples in one step: per replica x accumulation x replicas.
    "batch_size": 32,
    "accumulation_steps": 1,
    # Logical CPUs of one machine in place of as many devices, where the number of replicas changes the result: Adasum,
    # batch normalisation. 0: the devices that exist.
    "simulated_replicas": 0,
    "duration": "1 epochs",
}

_SCHEDULE: dict[str, Any] = {
    # The recipe as tuned at this batch size, the file's batch_size where it sets none; `rule` scales it to the run's.
    "batch_size": 32,
    "learning_rate": 0.1,
    "warmup_epochs": 0.0,
    # In place of warmup_epochs: steps at the schedule's own batch size, as '3125 steps'.
    "warmup": "",
    "rule": "none",
    # The optimizer's fields are those at this batch size too. moments keep their half-life in examples: none, half_life
    # (beta_2, normuon_beta) or half_life_all (also beta_1, momentum); of `vectors` too. weight_decay: none, or kept: x
    # rate x steps.
    "moments": "none",
    "weight_decay": "none",
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
    # Shape of the warm-up: linear or exponential.
    "warmup_shape": "linear",
}

# The batch grows while the run trains, from batch_size; see docs/batch_ramps.md and `tfbigbatch.BatchRamp`.
RAMP: dict[str, Any] = {
    # none, doubling, seesaw, or growth: the batches that are given.
    "name": "none",
    # The last batch of 'doubling' and 'seesaw', and their factor from each batch to the next.
    "to": 0,
    "factor": 2,
    # Of 'doubling': the duration of all batches but the last, and what each of these has equally many of.
    "over": "",
    "equal": "examples",
    # Of 'growth': (duration, batch size) of each larger batch.
    "growth": (),
    # What the learning rate takes of the larger batch: sqrt, linear or none.
    "rule": "sqrt",
    # Examples of a replica in one pass, at most; 0: those of the first batch. Larger batches accumulate passes.
    "micro_batch_size": 0,
}

# Recovery when the loss or a weight is no longer finite; see docs/reliability.md.
_DIVERGENCE: dict[str, Any] = {
    # How often the run may return to its last good checkpoint and skip the batches since.
    "rollbacks": 0,
    # Multiplies all learning rates at each rollback.
    "rate_factor": 0.5,
}

# Measurements during a run that explain why a large batch loses accuracy; see docs/instruments.md.
_INSTRUMENTS: dict[str, Any] = {
    # Training examples for all instruments but the source 'steps'; a micro-batch must fit in a replica's memory.
    "probe": {"micro_batch_size": 64, "micro_batches": 8},
    # source: 'steps', the gradients of the training's own micro-batches and replicas, or 'probe', a fresh one at each
    # measurement. smoothing: EMA decay applied at each measurement.
    "noise_scale": {"enabled": False, "every": "50 steps", "source": "steps", "smoothing": 0.9},
    "sharpness": {
        "enabled": False,
        "every": "5 epochs",
        "eigenvalues": 3,
        "iterations": 30,
        "trace_samples": 10,
        "radius": 0.05,
    },
    # trust_ratio: LARS, LAMB and a Muon with trust ratios then keep their layer_statistics.
    # spectrum: the ranks of the updates of matrices.
    "layers": {
        "enabled": False,
        "every": "100 steps",
        "histograms": False,
        "spectrum": False,
        "trust_ratio": True,
    },
}

_RUN: dict[str, Any] = {
    "evaluate_every": "1 epochs",
    # Evaluate with statistics of batch normalisation recomputed over 200 training micro-batches, at most an epoch: in
    # few steps the moving averages lag behind the weights, and with use_ema they are of other weights.
    "evaluate_with_fresh_statistics": False,
    # The run ends with the first evaluation in which the task's target metric reaches this; 0.0: never.
    "stop_at_target": 0.0,
    # A duration, or a time, as '5 minutes': at most so much is lost by a kill; see docs/reliability.md.
    "checkpoint_every": "1 epochs",
    "log_every": "10 steps",
    "keep_checkpoints": 2,
    # Also keep the checkpoint with the best target metric, in the run directory's folder `best`.
    "keep_best": True,
    # The whole step as one XLA computation, on one device; on a TPU it always is.
    "jit_compile": False,
    # float32, bfloat16, float16 (with loss scaling), or auto: bfloat16 where the devices have instructions for it, and
    # float32 elsewhere; see training/precision.py. Variables stay float32.
    "mixed_precision": "float32",
    # Phases of one run in their order: each a dictionary of the fields that differ, by dotted names, of those in
    # PHASE_FIELDS: {"duration": "1563 steps", "schedule.learning_rate": 0.004}.
    "phases": (),
    # What --mlperf_log says of the submission.
    "mlperf": {"org": "tfbigbatch", "platform": "unnamed", "division": "closed", "status": "research"},
    # Operations with bitwise repeatable results; without them a resumed run may end in other bits.
    "deterministic": True,
}


def new_config(task: str, *, model: str | None = None) -> ml_collections.ConfigDict:
    """The config of an experiment on `task`, every field at its default; fields cannot be added.

    Durations are strings that name their unit: '40 epochs', '1000 steps', '50000 examples'. `schedule.batch_size`, at
    which the recipe is tuned, follows `batch_size` until it is set, or the file is loaded; overrides, phases and
    `sweeps.scaled` change `batch_size` alone.

    Args:
      task: name of the task.
      model: name of the model, where the task has several.

    Raises:
      ValueError: the task or the model is unknown.
    """
    config = ml_collections.ConfigDict(_defaults(task, model))
    # Times 1 is a reference in one direction; ml_collections' own of that kind cannot be sent to another process.
    config.schedule.batch_size = config.get_ref("batch_size") * 1
    return config.lock()


def _defaults(task: str, model: str | None) -> dict[str, Any]:
    kind = tasks.get(task)
    fields = {
        "task": task,
        # The file that gave this config, with its argument; `load` sets it. See `remembered.py`.
        "experiment": "",
        **_BATCH,
        "schedule": _SCHEDULE,
        "ramp": RAMP,
        "optimizer": {"name": "momentum", "momentum": 0.9},
        "divergence": _DIVERGENCE,
        "instruments": _INSTRUMENTS,
        "model": tasks.model_defaults(task, model),
        "data": dict(kind.data_defaults),
        "evaluation_batch_size": 256,
        # The held-out split that is evaluated: choose a recipe on 'valid' where the task has one.
        "evaluate_on": kind.evaluates_on[0],
        **_RUN,
    }
    return copy.deepcopy(fields)


def seconds_between_saves(config: ml_collections.ConfigDict) -> float | None:
    """The seconds of `checkpoint_every` where it is a time, as '5 minutes'; None for a duration in steps.

    Raises:
      ValueError: the time is 0.
    """
    match = _TIME.fullmatch(str(config.checkpoint_every))
    if not match:
        return None
    if float(match[1]) == 0.0:
        raise InputError(f"checkpoint_every={config.checkpoint_every!r}: expected a time above 0, as '5 minutes'.")
    return float(match[1]) * {"s": 1.0, "m": 60.0, "h": 3600.0}[match[2][0].lower()]


def interval(config: ml_collections.ConfigDict, name: str) -> str:
    """The duration of the field `name`; '0 steps', which is at the end alone, for a `checkpoint_every` in minutes."""
    is_time = name == "checkpoint_every" and seconds_between_saves(config) is not None
    return "0 steps" if is_time else config[name]


def completed(stored: dict[str, Any]) -> dict[str, Any]:
    """A stored plain config with the fields of today: those that it lacks at their defaults, without unknown ones.

    Tables in results/ hold configs for longer than the fields stay the same.
    """
    if stored.get("task") not in tasks.names():
        return stored
    named = stored.get("model", {}).get("name") if tasks.get(stored["task"]).models else None
    # As JSON has them, with lists for tuples. The fields of an optimizer are its own: the default one's do not apply.
    known = json.loads(json.dumps(_defaults(stored["task"], named)))
    return {**_filled(stored, known), "optimizer": stored.get("optimizer", {})}


def _filled(given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _filled(given[name], value)
        if isinstance(value, dict) and isinstance(given.get(name), dict)
        else given.get(name, value)
        for name, value in known.items()
    }


def keras_policy(precision: str) -> str:
    """The name of Keras' policy for a precision that is not AUTO: 'mixed_bfloat16' for 'bfloat16'."""
    return precision if precision == "float32" else f"mixed_{precision}"


def recorded_precision(content: Mapping[str, Any]) -> str:
    """The precision of a run, from the content of its config.json: that of the config, or what AUTO became."""
    wanted = content["config"].get("mixed_precision")
    return str(content.get("mixed_precision", "float32") if wanted == AUTO else wanted)
