"""Functional models that Keras serializes as the call that built them: their layers are of this package."""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import tf_keras

from tfbigbatch.errors import InputError

# The functions that a file may name, and their modules. Nothing else is called when a file is loaded.
BUILDERS = {
    **dict.fromkeys(("pretrainer", "classifier", "chooser", "span_finder"), "tfbigbatch.models.bert"),
    "gnmt": "tfbigbatch.models.gnmt",
    "alexnet": "tfbigbatch.models.alexnet",
}


@tf_keras.saving.register_keras_serializable(package="tfbigbatch")
class RebuiltModel(tf_keras.Model):
    """A functional model with the name and arguments of the function that built it.

    Args:
      inputs, outputs: of the functional model.
      builder: name of the function, one of BUILDERS.
      arguments: of the function, JSON values.
      name: of the model.
    """

    def __init__(self, inputs: Any, outputs: Any, *, builder: str, arguments: Mapping[str, Any], name: str) -> None:
        super().__init__(inputs, outputs, name=name)
        policy = tf_keras.mixed_precision.global_policy().name
        # Recomputation is a way to train, and no part of the model.
        kept = {name: value for name, value in arguments.items() if name != "recompute"}
        # Text: Keras tracks a dictionary as a part of the checkpoint.
        self._call = json.dumps({"builder": builder, "arguments": kept, "policy": policy})

    @property
    def built_by(self) -> tuple[str, dict[str, Any]]:
        """The name of the function, and its arguments."""
        call = json.loads(self._call)
        return call["builder"], call["arguments"]

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self._call)
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> tf_keras.Model:
        builder = config["builder"]
        if builder not in BUILDERS:
            raise InputError(f"the file names the builder {builder!r}; expected one of {', '.join(BUILDERS)}.")
        with policy(config["policy"]):
            return getattr(importlib.import_module(BUILDERS[builder]), builder)(**config["arguments"])


@contextlib.contextmanager
def policy(name: str) -> Iterator[None]:
    """A context with another global precision policy of tf_keras."""
    before = tf_keras.mixed_precision.global_policy()
    tf_keras.mixed_precision.set_global_policy(name)
    try:
        yield
    finally:
        tf_keras.mixed_precision.set_global_policy(before)
