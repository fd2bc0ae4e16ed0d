"""Experiments: Python files with `get_config()`, which returns what `new` or `variant_of` gave it, with fields changed.

A file is executed: name only files that you trust.
"""

from tfbigbatch.experiment.fields import Config, new
from tfbigbatch.experiment.files import execute, load, variant_of
from tfbigbatch.experiment.overrides import override, set_fields
from tfbigbatch.experiment.quick import quick

__all__ = ["Config", "execute", "load", "new", "override", "quick", "set_fields", "variant_of"]
