"""Experiments: Python files with `get_config()`, which returns what `new` or `variant_of` gave it, with fields changed.

A file is executed: run only files that you trust.
"""

from tfbigbatch.experiment.changes import differences, flat, override, unknown_field
from tfbigbatch.experiment.fields import PHASE_FIELDS, PRECISIONS, Config, completed, new, phases, shrink, tuned_recipe
from tfbigbatch.experiment.files import SHIPPED, call, choose, execute, find, load, shipped, variant_of
from tfbigbatch.experiment.quick import quick

__all__ = [
    "PHASE_FIELDS",
    "PRECISIONS",
    "SHIPPED",
    "Config",
    "call",
    "choose",
    "completed",
    "differences",
    "execute",
    "find",
    "flat",
    "load",
    "new",
    "override",
    "phases",
    "quick",
    "shipped",
    "shrink",
    "tuned_recipe",
    "unknown_field",
    "variant_of",
]
