"""Checks of config fields before a device or a folder is touched."""

from __future__ import annotations

import math

import ml_collections

from tfbigbatch import experiment, tasks
from tfbigbatch.errors import InputError, nearest

_LARGEST = 2**31 - 1


def check_fields(config: ml_collections.ConfigDict) -> None:
    """Checks the fields that need neither data nor devices.

    Raises:
      ValueError: a field has a value that the trainer or the task cannot use.
    """
    if config.mixed_precision not in experiment.PRECISIONS:
        raise InputError(
            f"mixed_precision={config.mixed_precision!r}: expected one of {', '.join(experiment.PRECISIONS)}."
        )
    for name, value in experiment.flat(config.to_dict()).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name}={value}: expected a finite number.")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise InputError(f"{name}={str(value)[:40]}: expected a number of 32 bits, {_LARGEST:,} at most.")
    for name, lowest in (("seed", 0), ("steps_per_execution", 1), ("evaluation_batch_size", 1)):
        if config[name] < lowest:
            raise InputError(f"{name}={config[name]}: expected {lowest} or more.")
    if config.evaluate_on not in tasks.get(config.task).evaluates_on:
        has = ", ".join(tasks.get(config.task).evaluates_on)
        raise InputError(f"evaluate_on={config.evaluate_on!r}: task {config.task} is evaluated on one of {has}.")
    if config.date.enabled and tasks.get(config.task).carries_state:
        raise InputError(
            f"date.enabled: DATE's probe begins anywhere, and the streams of task {config.task} carry state from one "
            "step to the next. Set date.enabled=False."
        )
    known = {
        "model": tasks.model_defaults(config.task, config.model.get("name")),
        "data": tasks.get(config.task).data_defaults,
    }
    for section, fields in known.items():
        for name in set(config[section]) - set(fields):
            raise InputError(f"{section}.{name}: task {config.task} has no such field. {nearest(name, fields)}")
