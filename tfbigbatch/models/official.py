"""tf-models-official, an optional package that needs TensorFlow 2.20."""

from __future__ import annotations

import importlib
import types

from tfbigbatch.errors import missing_extra


def module(name: str) -> types.ModuleType:
    """A module of tf-models-official, such as 'official.nlp.modeling.layers'.

    Raises:
      ValueError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "official":
            raise
        raise missing_extra("tf-models-official", "models", "It needs TensorFlow 2.20.") from None
