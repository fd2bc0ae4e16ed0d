"""The phases of an experiment, the recipe of each, and the checks before a device or a folder is touched."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any

import ml_collections

from tfbigbatch import schedules, tasks
from tfbigbatch.config.fields import PRECISIONS, RAMP, interval
from tfbigbatch.config.files import message_of
from tfbigbatch.config.overrides import flat, hold_tuned_batch, holder_of
from tfbigbatch.errors import InputError, nearest
from tfbigbatch.optimizers import registry
from tfbigbatch.optimizers.lamb import Vectors
from tfbigbatch.scaling.batch_ramp import BatchRamp
from tfbigbatch.scaling.moments import MOMENTS, WEIGHT_DECAYS, checked_fields
from tfbigbatch.scaling.recipe import RULES, Recipe
from tfbigbatch.schedules.by_name import DECAYS
from tfbigbatch.utils import arguments

# Fields that may differ between the phases of a run; a name that ends in a dot means all fields in it.
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

# The fields of `schedule` that scale an optimizer.
_OF_OPTIMIZER = ("batch_size", "moments", "weight_decay", "rule")

_LARGEST = 2**31 - 1
_COUNTS = ("batch_size", "schedule.batch_size", "accumulation_steps", "evaluation_batch_size")
_LOWEST = {"seed": 0, **dict.fromkeys(_COUNTS, 1)}


def phases(config: ml_collections.ConfigDict) -> list[ml_collections.ConfigDict]:
    """The configs of a run's phases, in their order; for a config without phases, the config itself.

    Raises:
      ValueError: a phase sets a field that does not exist, may not differ, or has another type; there is a batch
        ramp as well; or the optimizer, which is one for the whole run, would be scaled to several batch sizes.
    """
    if config.phases and config.ramp.name != "none":
        raise InputError(
            f"ramp.name={config.ramp.name!r} in a run with phases. Give the batches as phases, or take the ramp alone."
        )
    found = []
    for number, fields in enumerate(config.phases, 1):
        if not isinstance(fields, Mapping):
            raise InputError(f"phases, phase {number}: {fields!r}; expected a dictionary of the fields that differ.")
        phase = copy.deepcopy(config)
        hold_tuned_batch(phase)
        phase.phases = ()
        for name, value in fields.items():
            at = f"phases, phase {number}: {name}={value!r}"
            if not any(name == known or known.endswith(".") and name.startswith(known) for known in PHASE_FIELDS):
                raise InputError(f"{at}: the phases of a run may differ in {', '.join(PHASE_FIELDS)} only.")
            holder, last = holder_of(phase, name)
            try:
                holder[last] = value
            except TypeError as error:
                raise InputError(f"{at}: {message_of(error)}") from None
        found.append(phase)
    scaled = {(each.batch_size, *map(each.schedule.get, _OF_OPTIMIZER)) for each in found or [config]}
    if (config.ramp.name != "none" or len(scaled) > 1) and any(map(_scales_optimizer, found or [config])):
        raise InputError(
            "schedule.moments, schedule.weight_decay: the optimizer of a run keeps its moments and weight decay, and "
            "this run has phases or a ramp of other batches. Leave both 'none', or train each batch in its own run."
        )
    return found or [config]


def tuned_recipe(config: ml_collections.ConfigDict, dataset_size: int) -> Recipe:
    """The recipe of a config's schedule, at the batch size that it was tuned at.

    Args:
      config: of an experiment.
      dataset_size: examples in an epoch.

    Raises:
      ValueError: the schedule or the duration is impossible.
    """
    schedule = config.schedule
    known: dict[str, Any] = {
        "rule": RULES,
        "decay": DECAYS,
        "moments": MOMENTS,
        "weight_decay": WEIGHT_DECAYS,
    }
    for name, names in known.items():
        arguments.one_of(f"schedule.{name}", schedule[name], names)
    total_steps = schedules.to_steps(
        config.duration, name="duration", batch_size=config.batch_size, dataset_size=dataset_size
    )
    fields = {name: schedule[name] for names in DECAYS[schedule.decay] for name in names}
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
    return Recipe(
        schedule.batch_size,
        schedule.learning_rate,
        warmup_epochs,
        epochs=total_steps * config.batch_size / dataset_size,
        decay={"name": schedule.decay, **fields},
        warmup_shape=schedule.warmup_shape,
        optimizer=optimizer_to_scale(config),
    )


def scaled_recipe(config: ml_collections.ConfigDict, tuned: Recipe) -> Recipe:
    """The recipe `tuned`, of `tuned_recipe`, scaled to a config's batch by the rules of its schedule."""
    schedule = config.schedule
    return tuned.at(config.batch_size, schedule.rule, moments=schedule.moments, weight_decay=schedule.weight_decay)


def optimizer_to_scale(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """The optimizer's arguments that `schedule.moments` and `schedule.weight_decay` scale, at `schedule.batch_size`.

    Defaults of the optimizer count: AdamW without a beta_2 in its config has Keras' 0.999.
    """
    if not _scales_optimizer(config):
        return {}
    given = config.optimizer.to_dict()
    name = given.pop("name", None)
    values = {**registry.fields(name), **registry.check_fields(name, given)}
    # Of the step of vectors the whole group: the recipe's arguments replace those of the config.
    group = values.pop("vectors", None)
    vectors = {"vectors": group.config()} if isinstance(group, Vectors) and group.step in ("adam", "lamb") else {}
    values |= flat(vectors)
    if not values.get("use_ema"):
        # Without an average of the weights its decay is unused.
        values.pop("ema_momentum", None)
    wanted = [*MOMENTS.get(config.schedule.moments, ()), *["weight_decay"] * (config.schedule.weight_decay == "kept")]
    # Of a user's optimizer an argument without a default is `inspect.Parameter.empty`.
    numbers = {each: values[each] for each in wanted if isinstance(values.get(each), (int, float))}
    own = {each: value for each, value in numbers.items() if "." not in each}
    checked = checked_fields({**own, **(vectors if len(own) < len(numbers) else {})}, f"optimizer {name!r}")
    return {each: value for each, value in checked.items() if value}


def _scales_optimizer(config: ml_collections.ConfigDict) -> bool:
    return config.schedule.moments != "none" or config.schedule.weight_decay != "none"


def batch_ramp(config: ml_collections.ConfigDict, recipe: Recipe, dataset_size: int) -> BatchRamp | None:
    """The batch ramp of a config; None where the batch stays.

    Args:
      config: of an experiment.
      recipe: of the run, at its first batch.
      dataset_size: examples in an epoch.

    Raises:
      ValueError: a field of the ramp cannot be used or is missing, or there is no ramp that has it.
    """
    fields = config.ramp
    arguments.one_of("ramp.name", fields.name, ("none", "doubling", "seesaw", "growth"))
    if fields.name == "none":
        if fields.to_dict() != RAMP:
            raise InputError("ramp.name='none' with other fields of a ramp. Set it: doubling, seesaw or growth.")
        return None
    needed = "growth" if fields.name == "growth" else "to"
    if not fields[needed]:
        raise InputError(
            f"ramp.{needed} is not set; expected the last batch in ramp.to, or (duration, batch size) of each larger "
            f"batch in ramp.growth, as (('2 epochs', {2 * recipe.batch_size}),)."
        )
    options = {"factor" if fields.name == "doubling" else "cut": fields.factor, "rule": fields.rule}
    try:
        if fields.name == "doubling":
            return BatchRamp.doubling(recipe, fields.to, over=fields.over, equal=fields.equal, **options)
        if fields.name == "seesaw":
            return BatchRamp.seesaw(recipe, fields.to, dataset_size=dataset_size, **options)
        return BatchRamp(recipe, tuple(fields.growth), fields.rule)
    except ValueError as error:
        raise InputError(f"ramp: {error}") from None


def check_fields(config: ml_collections.ConfigDict) -> None:
    """Checks the fields that need neither data nor devices.

    Raises:
      ValueError: a field has a value that the trainer or the task cannot use.
    """
    arguments.one_of("mixed_precision", config.mixed_precision, PRECISIONS)
    check_numbers(config)
    arguments.one_of("evaluate_on", config.evaluate_on, tasks.get(config.task).evaluates_on)
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
    if optimizer.get("accumulation_steps", 1) != 1:
        raise InputError(
            f"optimizer.accumulation_steps={optimizer['accumulation_steps']}: the trainer accumulates itself, with one "
            "exchange of the replicas in a step. Set accumulation_steps instead."
        )
    size = tasks.get(config.task).training_examples
    for phase in phases(config):
        check_numbers(phase)
        for name in ("duration", "evaluate_every", "checkpoint_every", "log_every"):
            schedules.to_steps(interval(phase, name), name=name, batch_size=phase.batch_size, dataset_size=size or 1)
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
