"""Experiments: Python files with a function `get_config()`, and the configs that it returns.

`get_config` changes fields of what `new_config` or `variant_of` gave it. A file is executed: name only files that you
trust.
"""

from tfbigbatch.config.fields import Config, new_config
from tfbigbatch.config.files import execute, load_config, variant_of
from tfbigbatch.config.overrides import override, set_fields
from tfbigbatch.config.quick import make_quick

__all__ = ["Config", "execute", "load_config", "new_config", "override", "make_quick", "set_fields", "variant_of"]
