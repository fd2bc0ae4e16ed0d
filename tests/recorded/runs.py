"""The logs of short runs of the trainer, recorded; a change of the trainer is held to them.

    python -m tests.recorded.runs [NAME ...]           # compares: equal bits, or where they first differ, and how far
    python -m tests.recorded.runs record [NAME ...]    # replaces the recorded logs

A run's first weights follow from their shapes alone (`draw_weights`), not from a Keras' initializers; masks of dropout
are its own. All runs are of one process; the logs are without what a clock says.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import math
import operator
import os
import sys
import tempfile
import time
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs.json")
REPLICAS = 2
# Above rounding in so few steps.
ROUNDING = 1e-5

# Of a digits run of a second.
_DIGITS = {
    "model.hidden_units": 8,
    "batch_size": 48,
    "duration": "30 steps",
    "evaluate_every": "10 steps",
    "checkpoint_every": "10 steps",
    "log_every": "3 steps",
}
_LEGW = ("digits/lstm_legw.py", _DIGITS)
_LAMB = (
    "digits/lstm_lamb.py",
    {**_DIGITS, "schedule.learning_rate": 0.02, "schedule.batch_size": 48, "schedule.warmup_epochs": 0.1},
)
_PICTURES = {
    "model.image_size": 32,
    "model.width": 8,
    "batch_size": 8,
    "duration": "8 steps",
    "evaluation_batch_size": 8,
    "evaluate_every": "4 steps",
    "checkpoint_every": "4 steps",
    "log_every": "1 steps",
    "schedule.batch_size": 32,
    "schedule.warmup_epochs": 0.0,
    "schedule.warmup": "2 steps",
}
_RESNET = ("tiny_imagenet/resnet_small_batch.py", _PICTURES)
# Before the other fields, `experiment.quick` makes these small.
_QUICK = ("bert/", "multi30k/", "ptb/")
_TEXT = {"log_every": "1 steps"}
_TOO_FAST = {
    "schedule.learning_rate": 1e38,
    "schedule.warmup_epochs": 0.0,
    "schedule.decay": "constant",
    "schedule.rule": "none",
    "optimizer": {"name": "momentum", "momentum": 0.9},
    "divergence.rollbacks": 2,
    "divergence.rate_factor": 1e-39,
}
_PHASES = (
    {"duration": "14 steps", "evaluate_every": "7 steps"},
    {
        "batch_size": 24,
        "accumulation_steps": 2,
        "duration": "10 steps",
        "evaluate_every": "5 steps",
        "schedule.warmup": "3 steps",
        "schedule.warmup_epochs": 0.0,
    },
)


def _changed(run: tuple[str, dict], **fields: Any) -> tuple[str, dict]:
    """A run with other fields, a point of whose names is written as two underscores."""
    return run[0], {**run[1], **{name.replace("__", "."): value for name, value in fields.items()}}


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "legw": _LEGW,
    "lamb": _LAMB,
    "accumulated": _changed(_LEGW, accumulation_steps=2),
    "dropout": _changed(_LAMB, accumulation_steps=2, model__dropout=0.2),
    "ramp": _changed(_LAMB, ramp__name="doubling", ramp__to=192, ramp__over="1 epochs", duration="1.5 epochs"),
    "phases": _changed(_LAMB, phases=_PHASES),
    "averages": _changed(_LEGW, optimizer__use_ema=True, optimizer__ema_momentum=0.75),
    "rows_of_five": _changed(_LAMB, log_every="5 steps", keep_best=False),
    "compiled": _changed(_LAMB, jit_compile=True),
    "target": _changed(_LEGW, stop_at_target=0.2),
    "date": _changed(
        _LAMB,
        date__enabled=True,
        date__micro_batch_size=16,
        date__micro_batches=4,
        schedule__learning_rate=1.0,
        schedule__warmup_epochs=0.3,
        log_every="1 steps",
    ),
    "instruments": _changed(
        _LAMB,
        accumulation_steps=2,
        **{
            f"instruments__{name}__{field}": value
            for name in ("noise_scale", "sharpness", "layers")
            for field, value in (("enabled", True), ("every", "10 steps"))
        },
        instruments__probe__micro_batch_size=16,
        instruments__probe__micro_batches=2,
        instruments__sharpness__iterations=4,
        instruments__sharpness__trace_samples=2,
    ),
    "resumed": _changed(_LAMB, duration="24 steps", checkpoint_every="8 steps"),
    "rollback": _changed(_LEGW, duration="24 steps", log_every="4 steps", **_TOO_FAST),
    "float16": _changed(_LAMB, mixed_precision="float16"),
    "bfloat16": _changed(_LAMB, mixed_precision="bfloat16"),
    "two_replicas": _changed(_LAMB, simulated_replicas=REPLICAS, accumulation_steps=2),
    "sharded": _changed(_LAMB, simulated_replicas=REPLICAS, optimizer__shard_updates=True),
    "local_steps": _changed(_LAMB, simulated_replicas=REPLICAS, optimizer__local_steps={"every": 5}),
    "local_steps_late": _changed(
        _LAMB,
        simulated_replicas=REPLICAS,
        optimizer__local_steps={"every": 5, "outer": "nesterov", "delay": 1},
    ),
    "adasum": _changed(_LAMB, simulated_replicas=REPLICAS, optimizer__adasum={}),
    "resnet": _RESNET,
    "resnet_fresh_statistics": _changed(_RESNET, evaluate_with_fresh_statistics=True),
    "resnet_two_replicas": _changed(_RESNET, simulated_replicas=REPLICAS),
    "language_model": ("ptb/small.py", {**_TEXT, "duration": "24 steps", "model.window": 4}),
    "gnmt": ("multi30k/gnmt_small_batch.py", {**_TEXT, "model.dropout": 0.0}),
    "bert": (
        "bert/tiny.py",
        {
            **_TEXT,
            "model.dropout": 0.0,
            "phases": (
                {"duration": "5 steps"},
                {"duration": "3 steps", "batch_size": 8, "schedule.learning_rate": 1e-3},
            ),
        },
    ),
}
# The runs that stop after these steps, and resume.
STOPS = {"resumed": (3, 11)}


def draw_weights(network: Any) -> None:
    """Draws the weights of a network that are random, by their shape and how many of that shape come before."""
    seen: Counter[tuple[int, ...]] = Counter()
    drawn = []
    for value in network.get_weights():
        # Those that begin constant, as zeros and a forget gate's ones, stay.
        if len(np.unique(value)) > 2:
            random = np.random.default_rng([*value.shape, seen[value.shape]])
            scale = 1 / math.sqrt(math.prod(value.shape[:-1])) if value.ndim > 1 else 0.1
            seen[value.shape] += 1
            value = (scale * random.standard_normal(value.shape)).astype(value.dtype)
        drawn.append(value)
    network.set_weights(drawn)


def config_of(name: str) -> Any:
    """The config of a run."""
    from tfbigbatch import experiment

    file, fields = RUNS[name]
    config = experiment.load(file.removesuffix(".py"))
    if file.startswith(_QUICK):
        experiment.quick(config)
    with config.unlocked():
        for path, value in fields.items():
            *groups, last = path.split(".")
            functools.reduce(operator.getitem, groups, config)[last] = value
    return config


def log_of(name: str) -> dict[str, Any]:
    """Trains; the rows of the run's log and its status, without what a clock says."""
    from tfbigbatch import tasks, train
    from tfbigbatch.runs.run_directory import read_json

    config = config_of(name)
    kind = tasks.get(config.task)
    build = kind.network

    def network(task: Any) -> Any:
        built = build(task)
        draw_weights(built)
        return built

    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(mock.patch.object(kind, "network", network))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        for stop in (*STOPS.get(name, ()), None):
            # Digits are real: scikit-learn has them.
            made_up = config.task != "digits_lstm"
            train.run(config, model_dir=directory, use_fake_data=made_up, stop_after=stop)
        status = read_json(os.path.join(directory, "status.json"))
        with open(os.path.join(directory, "metrics.jsonl"), encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    kept = ("status", "step", "total_steps", "metrics", "best")
    return {
        "rows": [{field: value for field, value in row.items() if "_per_second" not in field} for row in rows],
        "status": {field: status[field] for field in kept if field in status},
    }


def recorded() -> dict[str, Any]:
    """The recorded logs by name of the run."""
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def _scalars(log: dict[str, Any]) -> dict[tuple[int, str, str], Any]:
    """Every scalar by step, split and field, in the order of the log; the status is the last."""
    found: dict[tuple[int, str, str], Any] = {}
    for row in log["rows"]:
        for field, value in row.items():
            found[row["step"], row["split"], field] = value
    for field, value in log["status"].items():
        for part, each in value.items() if isinstance(value, dict) else [("", value)]:
            found[log["status"]["step"], "status", f"{field}.{part}".rstrip(".")] = each
    return found


def _difference(one: Any, other: Any) -> float:
    """The relative difference of two scalars; infinite where one of them is none."""
    if one == other:
        return 0.0
    if not all(isinstance(each, (int, float)) for each in (one, other)):
        return math.inf
    if math.isnan(one) and math.isnan(other):
        return 0.0
    return abs(one - other) / max(abs(one), abs(other))


def compared(before: dict[str, Any], found: dict[str, Any]) -> tuple[float, str]:
    """(The largest relative difference of two logs, what differs, in words)."""
    one, other = _scalars(before), _scalars(found)
    differences = {key: _difference(one.get(key), other.get(key)) for key in {**one, **other}}
    unequal = {key: each for key, each in differences.items() if each}
    if not unequal:
        return 0.0, f"equal bits, {len(one)} scalars"

    def shown(key: tuple[int, str, str]) -> str:
        values = [each.get(key, "nothing") for each in (one, other)]
        return f"step {key[0]}, {key[1]}, {key[2]}: {values[0]} was recorded, {values[1]} found"

    largest = max(unequal, key=unequal.__getitem__)
    lines = [f"{len(unequal)} of {len(one)} scalars differ, at most by {unequal[largest]:.1e} in {shown(largest)}"]
    losses = [each for key, each in unequal.items() if "loss" in key[2] or "cross_entropy" in key[2]]
    lines.append(f"losses differ by {max(losses, default=0.0):.1e} at most")
    for what, least in (("first", 0.0), (f"first by more than {ROUNDING}", ROUNDING)):
        key = min((key for key in unequal if unequal[key] > least), key=lambda key: key[0], default=None)
        if key is not None:
            lines.append(f"{what} in {shown(key)}")
    return unequal[largest], "\n    ".join(lines)


def _write(logs: dict[str, Any]) -> None:
    """One row of a log a line."""
    with open(PATH, "w", encoding="utf-8") as file:
        runs = []
        for name, log in logs.items():
            rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in log["rows"])
            runs.append(f'{json.dumps(name)}: {{"status": {json.dumps(log["status"])}, "rows": [\n{rows}\n]}}')
        file.write("{\n" + ",\n".join(runs) + "\n}\n")


def _start() -> None:
    """The logical CPUs of the runs on several replicas; sums of one thread have one order."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    # The replicas wait for each other.
    tf.config.threading.set_inter_op_parallelism_threads(REPLICAS + 1)


def main(arguments: list[str]) -> int:
    """1 where a run failed, or its log is not the recorded one."""
    records = arguments[:1] == ["record"]
    names = arguments[records:] or list(RUNS)
    unknown = sorted({*names} - {*RUNS})
    if unknown:
        print(f"no run {unknown[0]!r}; expected one of {', '.join(RUNS)}")
        return 2
    _start()
    logs = recorded() if os.path.exists(PATH) else {}
    wrong = 0
    for name in names:
        began = time.monotonic()
        try:
            found = log_of(name)
        except Exception as error:
            wrong += 1
            said = f"failed: {type(error).__name__}: {str(error).strip()[:600]}"
        else:
            if records:
                logs[name], said = found, f"recorded, {len(found['rows'])} rows"
            else:
                difference, said = compared(logs[name], found) if name in logs else (math.inf, "not recorded")
                wrong += difference > 0
        print(f"{name} ({time.monotonic() - began:.0f} s): {said}", flush=True)
    if records:
        _write({name: logs[name] for name in RUNS if name in logs})
    return min(1, wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
