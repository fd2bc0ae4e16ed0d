"""Experiments: Python files with `get_config()`, which returns what `new` or `variant_of` gave it, with fields changed.

A file is executed: name only files that you trust.
"""

# The names of __all__ are for experiment files and scripts, the others for the package itself.
# ruff: noqa: F401

from tfbigbatch.experiment.fields import (
    AUTO,
    Config,
    completed,
    interval,
    keras_policy,
    new,
    recorded_precision,
    seconds_between_saves,
)
from tfbigbatch.experiment.files import (
    SHIPPED,
    address,
    call,
    callbacks_of,
    copy_of,
    execute,
    find,
    load,
    register_task_of,
    shipped,
    variant_of,
)
from tfbigbatch.experiment.overrides import compared, differences, flat, override, set_fields
from tfbigbatch.experiment.quick import MADE_UP_STEPS, quick
from tfbigbatch.experiment.recipe import batch_ramp, phases, scaled_recipe, tuned_recipe

__all__ = ["Config", "execute", "load", "new", "override", "quick", "set_fields", "shipped", "variant_of"]
