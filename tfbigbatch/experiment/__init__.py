"""Experiments: Python files with `get_config()`, which returns what `new` or `variant_of` gave it, with fields changed.

A file is executed: name only files that you trust.
"""

from tfbigbatch.experiment.fields import (
    AUTO,
    PRECISIONS,
    Config,
    completed,
    interval,
    keras_policy,
    new,
    recorded_precision,
    seconds_between_saves,
)
from tfbigbatch.experiment.files import SHIPPED, address, call, choose, execute, find, load, shipped, variant_of
from tfbigbatch.experiment.overrides import compared, differences, flat, override, set_fields
from tfbigbatch.experiment.quick import MADE_UP_STEPS, quick
from tfbigbatch.experiment.recipe import batch_ramp, phases, scaled_recipe, tuned_recipe
from tfbigbatch.experiment.remembered import COPY, callbacks_of, copy_of, register_task_of

__all__ = [
    "AUTO",
    "COPY",
    "MADE_UP_STEPS",
    "PRECISIONS",
    "SHIPPED",
    "Config",
    "address",
    "batch_ramp",
    "call",
    "callbacks_of",
    "choose",
    "compared",
    "completed",
    "copy_of",
    "differences",
    "execute",
    "find",
    "flat",
    "interval",
    "keras_policy",
    "load",
    "new",
    "override",
    "phases",
    "quick",
    "recorded_precision",
    "register_task_of",
    "scaled_recipe",
    "seconds_between_saves",
    "set_fields",
    "shipped",
    "tuned_recipe",
    "variant_of",
]
