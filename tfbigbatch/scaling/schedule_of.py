"""The schedule of a compiled model's optimizer, made adjustable for DATE."""

from __future__ import annotations

from typing import Any

from tfbigbatch.errors import InputError
from tfbigbatch.instruments.instrument import innermost
from tfbigbatch.schedules.adjustable_warmup import AdjustableSchedule, make_adjustable
from tfbigbatch.schedules.warmup import WarmupSchedule


def adjustable_schedule(model: Any) -> AdjustableSchedule:
    """The adjustable schedule of the optimizer of a compiled model of Keras 2 or 3.

    A `GradualWarmup` is replaced by the adjustable one of the same plan, made in the scope of the model's strategy; the
    training step is traced again, as a trace holds the schedule that it was made with.

    Raises:
      ValueError: the optimizer has another schedule or none, or accumulates by Keras' own means; the schedule has no
        linear warm-up or a peak of 0, or was made adjustable outside the model's strategy.
    """
    optimizer, strategy = innermost(model.optimizer), model.distribute_strategy
    schedule = getattr(optimizer, "_learning_rate", None)
    if not isinstance(schedule, WarmupSchedule):
        raise InputError(
            f"DATE cannot change the learning rate of this {type(optimizer).__name__}: its learning_rate is "
            f"{_described(schedule)}. Give it a schedule with a linear warm-up, such as "
            "learning_rate=recipe.schedule(dataset_size) or tfbigbatch.schedules.build(...)."
        )
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise InputError(
            f"DATE: with gradient_accumulation_steps={optimizer.gradient_accumulation_steps}, Keras' own, the schedule "
            "counts micro-batches. Take LARS or LAMB of tfbigbatch.optimizers with accumulation_steps."
        )
    if schedule.warmup_steps < 1:
        raise InputError("DATE measures during the warm-up, and the schedule has none: set warmup_steps above 0.")
    if not schedule.peak:
        raise InputError("DATE: the schedule's peak learning rate is 0; expected one above 0.")
    if not isinstance(schedule, AdjustableSchedule):
        with strategy.scope():
            schedule = make_adjustable(schedule)
        optimizer._learning_rate = schedule
        model.make_train_function(force=True)
    if not strategy.extended.variable_created_in_scope(schedule.gain):
        raise InputError(
            "DATE: the adjustable schedule was made outside the model's strategy. Call make_adjustable(schedule) "
            "within `with strategy.scope():`, where the optimizer is made."
        )
    return schedule


def _described(schedule: Any) -> str:
    if schedule is None:
        return "not kept as a schedule (a legacy optimizer?)"
    if hasattr(schedule, "numpy"):
        return f"the constant {float(schedule.numpy()):g}"
    return f"a {type(schedule).__name__}"
