"""The functions of tensors that formulas are written in, on any backend."""

from __future__ import annotations

import functools
import importlib
import types
from typing import Any

_OF_KERAS = ("jax", "jaxlib", "torch")


def of(tensor: Any) -> types.ModuleType:
    """The functions for a tensor: `ops_tensorflow`, or `ops_keras` on JAX and PyTorch.

    Their names are TensorFlow's, whose own functions they are where TensorFlow runs: nothing comes between.
    """
    package = type(tensor).__module__.partition(".")[0]
    return _module("ops_keras" if package in _OF_KERAS else "ops_tensorflow")


@functools.cache
def _module(name: str) -> types.ModuleType:
    return importlib.import_module(f"tfbigbatch.optimizers.{name}")
