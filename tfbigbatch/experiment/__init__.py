"""Experiments: Python files with `get_config()`, which returns what `new` or `variant_of` gave it, with fields changed.

A file is executed: name only files that you trust.
"""

from tfbigbatch.experiment.changes import compared, differences, flat, unknown_field
from tfbigbatch.experiment.fields import (
    PHASE_FIELDS,
    Config,
    batch_ramp,
    completed,
    interval,
    new,
    phases,
    seconds_between_saves,
    shrink,
    tuned_recipe,
)
from tfbigbatch.experiment.files import SHIPPED, address, call, choose, execute, find, load, shipped, variant_of
from tfbigbatch.experiment.moments import optimizer_to_scale, scaled_recipe
from tfbigbatch.experiment.overrides import override
from tfbigbatch.experiment.precision import AUTO, PRECISIONS, keras_policy, recorded_precision
from tfbigbatch.experiment.quick import quick
from tfbigbatch.experiment.remembered import COPY, callbacks_of, copy_of, register_task_of

__all__ = [
    "AUTO",
    "COPY",
    "PHASE_FIELDS",
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
    "optimizer_to_scale",
    "override",
    "phases",
    "quick",
    "recorded_precision",
    "register_task_of",
    "scaled_recipe",
    "seconds_between_saves",
    "shipped",
    "shrink",
    "tuned_recipe",
    "unknown_field",
    "variant_of",
]
