"""Checks of config fields before a device or a folder is touched."""

from __future__ import annotations

import math

import ml_collections

from tfbigbatch import tasks
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.experiment.fields import PRECISIONS, interval
from tfbigbatch.experiment.overrides import flat
from tfbigbatch.experiment.recipe import batch_ramp, phases, scaled_recipe, tuned_recipe
from tfbigbatch.optimizers import registry
from tfbigbatch.schedules import to_steps
from tfbigbatch.utils import arguments

_LARGEST = 2**31 - 1
_LOWEST = {
    "seed": 0,
    "batch_size": 1,
    "schedule.batch_size": 1,
    "accumulation_steps": 1,
    "steps_per_execution": 1,
    "evaluation_batch_size": 1,
}


def check_fields(config: ml_collections.ConfigDict) -> None:
    """Checks the fields that need neither data nor devices.

    Raises:
      ValueError: a field has a value that the trainer or the task cannot use.
    """
    arguments.one_of("mixed_precision", config.mixed_precision, PRECISIONS)
    check_numbers(config)
    arguments.one_of("evaluate_on", config.evaluate_on, tasks.get(config.task).evaluates_on)
    if config.date.enabled and tasks.get(config.task).carries_state:
        raise InputError(
            f"date.enabled: DATE's probe begins anywhere, and the streams of task {config.task} carry state from one "
            "step to the next. Set date.enabled=False."
        )
    model, data = tasks.model_defaults(config.task, config.model.get("name")), tasks.get(config.task).data_defaults
    for section, fields in (("model", model), ("data", data)):
        for name in set(config[section]) - set(fields):
            raise InputError(f"{section}.{name}: task {config.task} has no such field. {nearest(name, fields)}")


def check_numbers(config: ml_collections.ConfigDict) -> None:
    """Checks that numbers are finite, of 32 bits, and not too low.

    Raises:
      ValueError: one is not.
    """
    for name, value in flat(config.to_dict()).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(f"{name}={value}: expected a finite number.")
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise InputError(f"{name}={str(value)[:40]}: expected a number of 32 bits, {_LARGEST:,} at most.")
        if name in _LOWEST and value < _LOWEST[name]:
            raise InputError(f"{name}={value}: expected {_LOWEST[name]} or more.")


def check_plan(config: ml_collections.ConfigDict) -> None:
    """Checks the optimizer, and the durations, batch and recipe of each phase as far as the data's size is known.

    Raises:
      ValueError: the trainer cannot follow them.
    """
    optimizer = config.optimizer.to_dict()
    name = optimizer.pop("name", None)
    if not isinstance(name, str) or name.lower() not in registry.names():
        raise InputError(f"optimizer {name!r} is unknown. {nearest(name, registry.names())}")
    registry.check_fields(name, optimizer)
    size = tasks.get(config.task).training_examples
    for phase in phases(config):
        check_numbers(phase)
        for name in ("duration", "evaluate_every", "checkpoint_every", "log_every"):
            to_steps(interval(phase, name), name=name, batch_size=phase.batch_size, dataset_size=size or 1)
        recipe = scaled_recipe(phase, tuned_recipe(phase, size or _LARGEST))
        if not size:
            continue
        if phase.batch_size > size:
            raise InputError(
                f"batch_size={phase.batch_size} is larger than the training set of {size} examples. Use a "
                "batch_size of at most that."
            )
        ramp = batch_ramp(phase, recipe, size)
        if ramp and not tasks.get(config.task).carries_state:
            ramp.stages(size)
